"""Documents in which something happens: kindnesses, strangers, lost animals, working days, market days, talk.

Much in them is drawn for the one text alone (the name of a stranger, a lost thing, a price) and comes back later, where
it can only be known by looking back.
"""

from __future__ import annotations

from random import Random

from xsa.data.world import facts, lexicon
from xsa.data.world.lexicon import a, some
from xsa.data.world.world import Person, World

# What a giver does, why the giver would, and why the other would want it.
DEEDS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("gave some {fruit} to", ("had too many", "had a full basket"), ("was hungry", "had none left")),
    ("lent the {tool} to", ("had two of them", "did not need it that day"), ("had lost one", "had broken one")),
    ("asked the way of", ("was lost", "had never been there"), ("knew every road", "had a map")),
    ("waited a long time for", ("had come early", "had nothing else to do"), ("was late", "walked slowly")),
    ("carried the bags of", ("was strong", "liked to help"), ("was tired", "had a bad knee")),
    ("told a joke to", ("knew many jokes", "wanted to hear a laugh"), ("looked sad", "was in a bad mood")),
)


def two_people(world: World, rng: Random) -> tuple[Person, Person]:
    first, second = rng.sample(world.people, 2)
    return first, second


def deed(world: World, rng: Random, first: Person, second: Person, giver: bool) -> tuple[str, str, str]:
    """Someone does something to another because one of the two …: the start, whose reason it is, and the reason."""
    action, of_giver, of_other = rng.choice(DEEDS)
    start = f"{first.name} {action.format(fruit=rng.choice(world.fruits), tool=first.craft.tool)} {second.name}"
    return start, (first if giver else second).name, rng.choice(of_giver if giver else of_other)


def gifts(world: World, rng: Random, size: int) -> str:
    """Small kindnesses between neighbours, each with the reason, and whose reason it was."""
    place = rng.choice(world.places)
    said = [
        rng.choice(
            (
                f"It was {a(rng.choice(lexicon.DAY_KINDS))} day in {place.name}.",
                f"People in {place.name} are kind to each other.",
                f"This is what happened in {place.name} on {rng.choice(lexicon.DAYS)}.",
            )
        )
    ]
    for _ in range(3 * size):
        first, second = two_people(world, rng)
        start, who, reason = deed(world, rng, first, second, rng.random() < 0.5)
        said.append(f"{start} because {who} {reason}.")
    return " ".join(said)


def strangers(world: World, rng: Random, size: int) -> str:
    """A stranger with a new name comes to a village, meets people, and goes on."""
    name, place = rng.choice(lexicon.STRANGERS), rng.choice(world.places)
    keepsake, colour = rng.choice(lexicon.KEEPSAKES), rng.choice(world.colours)
    said = [
        rng.choice(
            (
                f"One day in {rng.choice(lexicon.SEASONS)} a stranger came to {place.name}.",
                f"A stranger stood at the {place.landmark} of {place.name} one morning.",
                f"It was a {rng.choice(lexicon.DAY_KINDS)} day when a stranger walked into {place.name}.",
            )
        ),
        rng.choice(
            (
                f"The name of the stranger was {name}, and {name} carried a {colour} {keepsake}.",
                f'"My name is {name}," said the stranger, "and this is my {colour} {keepsake}."',
            )
        ),
    ]
    for person in some(rng, world.people, 1 + 2 * size):
        said.append(
            rng.choice(
                (
                    f'"Who are you?" asked {person.name} the {person.craft.name}. "I am {name}," said the stranger.',
                    f'{person.name} gave {name} some {person.fruit}, and {name} said, "Thank you, {person.name}."',
                    f"{name} showed the {colour} {keepsake} to {person.name}, who had never seen such a {keepsake}.",
                    f"{person.name} asked {name} to stay, but {name} only smiled at {person.pet} the {person.animal.kind}.",
                    f"{name} told {person.name} of far lands where every {person.animal.kind} is {rng.choice(world.colours)}.",
                    f"For an hour {name} sat with {person.name} and said nothing at all.",
                    f"Then {name} watched {person.name} work with the {person.craft.tool} {person.craft.place}.",
                )
            )
        )
    said.append(f"In the evening {name} went on to {place.next}.")
    if rng.random() < 0.7:
        said.append(f"Only the {colour} {keepsake} was left behind, and people still call it the {keepsake} of {name}.")
    return " ".join(said)


def lost(world: World, rng: Random, size: int) -> str:
    """Someone's animal is lost, looked for and found."""
    person = rng.choice(world.people)
    animal, pet = person.animal, person.pet
    said = [
        rng.choice(
            (
                f"One morning {person.name} could not find {pet} the {animal.kind}.",
                f"{pet} the {animal.kind} was gone, and {person.name} did not know where.",
                f"Where was {pet}? {person.name} had looked for the {animal.kind} since dawn.",
            )
        ),
        f"{pet} was not {animal.bed}, where {pet} always slept.",
    ]
    for helper in some(rng, [one for one in world.people if one is not person], size):
        said.append(
            rng.choice(
                (
                    f"{person.name} asked {helper.name} the {helper.craft.name}, but {helper.name} had only seen {a(helper.animal.kind)}.",
                    f"{helper.name} put down the {helper.craft.tool} and looked {rng.choice(lexicon.HIDING)}.",
                    f'"I have not seen {pet}," said {helper.name}, "but I will help you, {person.name}."',
                    f"{helper.name} looked all over {helper.home}, and came back with nothing but {helper.fruit}.",
                )
            )
        )
    spot = rng.choice(world.places)
    said.append(
        f"At last, at the {spot.landmark} in {spot.name}, {person.name} heard something. What {animal.sound} like that? It was {pet}!"
    )
    said.append(f"{person.name} gave {animal.food} to {pet}, and the {animal.kind} went home to {person.home}.")
    return " ".join(said)


def workdays(world: World, rng: Random, size: int) -> str:
    """How people spend a working day, from getting up to what they have sold."""
    parts = []
    for person in some(rng, world.people, 1 + size // 2):
        craft, they = person.craft, person.they
        parts.append(
            " ".join(
                (
                    rng.choice(
                        (
                            f"{person.name} the {craft.name} got up early.",
                            f"Before the sun was up, {person.name} the {craft.name} was awake.",
                            f"{rng.choice(lexicon.DAYS)} is a long day for {person.name} the {craft.name}.",
                        )
                    ),
                    rng.choice(
                        (
                            f"Soon {they} was {craft.place} and worked with the {craft.tool}.",
                            f"All morning {they} worked with the {craft.tool} {craft.place}.",
                            f"{person.pet} the {person.animal.kind} watched as {they} worked with the {craft.tool}.",
                        )
                    ),
                    rng.choice(
                        (
                            f"By noon {they} had sold {rng.randint(2, 9)} loads of {craft.product}.",
                            f"In the evening {they} went home to {person.home} and ate {person.fruit}.",
                            f"{person.friend} came to buy {craft.product}, and they talked until dark.",
                        )
                    ),
                )
            )
        )
    return "\n\n".join(parts)


def market(world: World, rng: Random, size: int) -> str:
    """A market day, where everything is counted."""
    place = rng.choice(world.places)
    said = [
        rng.choice(
            (
                f"It was market day in {place.name}.",
                f"On {rng.choice(lexicon.DAYS)} there is a market at the {place.landmark} in {place.name}.",
                f"Everyone in {place.name} had come to buy and to sell.",
            )
        )
    ]
    for _ in range(2 * size):
        person, fruit, wares = rng.choice(world.people), rng.choice(world.fruits), rng.choice(world.people).craft
        x, y = rng.randint(1, lexicon.LARGEST), rng.randint(1, lexicon.LARGEST)
        said.append(
            rng.choice(
                (
                    f"{person.name} bought {x} {fruit} and then {y} more, which made {x + y} {fruit}.",
                    f"{person.name} had {x + y} {fruit} and gave away {x}, so {y} were left.",
                    f"At the stall of the {wares.name} there was {wares.product} for {x} coins. {person.name} paid {x} coins.",
                    f"{person.name} put {x} {fruit} and {y} {fruit} in the basket. There were {x + y} {fruit} in it.",
                )
            )
        )
    return " ".join(said)


def talk(world: World, rng: Random, size: int) -> str:
    """Two people talk about others, in turns."""
    first, second = two_people(world, rng)
    said = [f'"Good day, {second.name}," said {first.name}.', f'"Good day, {first.name}," said {second.name}.']
    for i in range(2 * size):
        asker, teller = (first, second) if i % 2 == 0 else (second, first)
        of, kind = facts.draw_fact(rng, world)
        said.append(
            f'"{facts.question(rng, world, of, kind)}" asked {asker.name}. '
            f'"The answer is {facts.answer(world, of, kind)}," said {teller.name}.'
        )
    said.append(f'"Come and see me in {first.home}," said {first.name}, and they parted.')
    return "\n".join(said)
