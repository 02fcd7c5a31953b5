"""Documents that say what the world is: people, villages, crafts, animals, roads, riddles."""

from __future__ import annotations

from random import Random

from xsa.data.world import facts
from xsa.data.world.lexicon import a, listed, some
from xsa.data.world.world import Person, World

_TITLES = (
    "Our neighbours",
    "People of {valley}",
    "Who is who in {valley}",
    "A few words about friends",
    "From the village book",
)
_CLOSINGS = (
    "That is all there is to say, and it is enough.",
    "Everyone in the village will tell you the same.",
    "So it is written in the book of {valley}.",
    "Few people are as happy as that.",
    "It has been so for a long time.",
)


def portrait(world: World, rng: Random, person: Person) -> str:
    """A paragraph about one person: several facts in random order, the name first and then now and again."""
    kinds = rng.sample(facts.PERSON_KINDS, rng.randint(3, len(facts.PERSON_KINDS)))
    said = [facts.say(world, rng, person, kind, i == 0 or rng.random() < 0.4) for i, kind in enumerate(kinds)]
    if rng.random() < 0.3:
        said.append(rng.choice(_CLOSINGS).format(valley=world.valley))
    return " ".join(said)


def people(world: World, rng: Random, size: int) -> str:
    """Portraits of `size` people, sometimes under a title."""
    parts = [portrait(world, rng, person) for person in some(rng, world.people, size)]
    if rng.random() < 0.3:
        parts.insert(0, rng.choice(_TITLES).format(valley=world.valley))
    return "\n\n".join(parts)


def villages(world: World, rng: Random, size: int) -> str:
    """A guide to `size` villages: what they are known for, and who lives there."""
    parts = []
    for place in some(rng, world.places, size):
        kinds = rng.sample(facts.PLACE_KINDS, rng.randint(3, len(facts.PLACE_KINDS)))
        said = [facts.say_place(rng, place, kind) for kind in kinds]
        for person in (person for person in world.people if person.home == place.name):
            said.append(
                rng.choice(
                    (
                        f"{person.name} the {person.craft.name} lives here.",
                        f"{person.name} lives in {place.name} and is {a(person.craft.name)}.",
                        f"{person.craft.place.capitalize()} you will meet {person.name} the {person.craft.name}.",
                    )
                )
            )
        parts.append(" ".join(said))
    return "\n\n".join(parts)


def crafts(world: World, rng: Random, size: int) -> str:
    """What the crafts are: tool, product, place of work, and who has learnt them."""
    parts = []
    for craft in some(rng, world.crafts, size + 1):
        said = [
            rng.choice(
                (
                    f"{a(craft.name).capitalize()} works with the {craft.tool}.",
                    f"The tool of {a(craft.name)} is the {craft.tool}.",
                    f"No {craft.name} can do without the {craft.tool}.",
                )
            ),
            rng.choice(
                (
                    f"{a(craft.name).capitalize()} {craft.makes} {craft.product}.",
                    f"With the {craft.tool} the {craft.name} {craft.makes} {craft.product}.",
                    f"The {craft.name} sells {craft.product} at the market.",
                )
            ),
            rng.choice(
                (
                    f"You will find the {craft.name} {craft.place}.",
                    f"The {craft.name} spends the day {craft.place}.",
                    f"{craft.place.capitalize()} works the {craft.name}.",
                )
            ),
        ]
        rng.shuffle(said)
        masters = [person.name for person in world.people if person.craft is craft]
        if masters:
            said.append(f"In {world.valley} {listed(masters)} {'is' if len(masters) == 1 else 'are'} known for it.")
        parts.append(" ".join(said))
    return "\n\n".join(parts)


def animals(world: World, rng: Random, size: int) -> str:
    """An almanac of animals: the sound, the food, the bed, and whose they are."""
    parts = []
    for animal in some(rng, world.animals, size + 1):
        kind = animal.kind
        said = [
            rng.choice((f"A {kind} {animal.sound}.", f"When it is glad, the {kind} {animal.sound}.")),
            rng.choice(
                (
                    f"The {kind} eats {animal.food}.",
                    f"Give {animal.food} to {a(kind)}.",
                    f"A {kind} likes {animal.food} best.",
                )
            ),
            rng.choice((f"It sleeps {animal.bed}.", f"At night the {kind} sleeps {animal.bed}.")),
        ]
        for person in world.people:
            if person.animal is animal and rng.random() < 0.7:
                said.append(facts.say(world, rng, person, rng.choice(("animal", "pet")), True))
        parts.append(" ".join(said))
    return "\n\n".join(parts)


def roads(world: World, rng: Random, size: int) -> str:
    """A walk along the road that joins all villages in a ring."""
    place = rng.choice(world.places)
    walker = rng.choice(world.people)
    said = [
        rng.choice(
            (
                f"{walker.name} set out from {place.name} on foot.",
                f"The walk begins in {place.name}, at the {place.landmark}.",
                f"Early in the day {walker.name} left {place.name}.",
            )
        )
    ]
    for _ in range(min(2 + 2 * size, len(world.places))):
        following = world.place(place.next)
        said.append(
            rng.choice(
                (
                    f"The road from {place.name} leads to {following.name}.",
                    f"After {place.name} comes {following.name}, with its {following.doors} doors.",
                    f"Beyond {place.name} the road goes on to {following.name}, where the {following.landmark} stands.",
                    f"From {place.name} it is an hour to {following.name}, known for {following.fruit}.",
                )
            )
        )
        place = following
    said.append(f"Tired but content, {walker.name} rested in {place.name}.")
    return " ".join(said)


def riddles(world: World, rng: Random, size: int) -> str:
    """Riddles whose answer is a person: three facts, then the name."""
    parts = []
    for person in some(rng, world.people, size):
        given = rng.sample(
            (
                f"I live in {person.home}.",
                f"I am {a(person.craft.name)}.",
                f"My favourite colour is {person.colour}.",
                f"I keep {a(person.animal.kind)}.",
                f"I like to eat {person.fruit}.",
                f"My best friend is {person.friend}.",
            ),
            4,
        )
        parts.append(
            " ".join(given) + rng.choice((" Who am I? I am ", " What is my name? My name is ")) + person.name + "."
        )
    return "\n\n".join(parts)
