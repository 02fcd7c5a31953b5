"""Short pieces between the stories: recipes, counting songs, notices on the village board, weather."""

from __future__ import annotations

from random import Random

from xsa.data.world import lexicon
from xsa.data.world.lexicon import a, some
from xsa.data.world.world import World

_DISHES = ("soup", "cake", "pie", "jam", "tea", "bread")
_STEPS = (
    "Wash the {fruit} and cut them small.",
    "Put the {fruit} into a large pot.",
    "Add {n} spoons of honey.",
    "Stir until it is smooth.",
    "Let it cook until the bell rings.",
    "Leave it in the oven while you feed the {animal}.",
    "Let it cool beside an open window.",
)


def recipes(world: World, rng: Random, size: int) -> str:
    """How someone makes a dish of their favourite fruit."""
    parts = []
    for cook in some(rng, world.people, size):
        dish, count = rng.choice(_DISHES), rng.randint(2, 9)
        steps = [step for step in _STEPS if rng.random() < 0.6] or [_STEPS[1]]
        text = " ".join(steps).format(fruit=cook.fruit, n=rng.randint(2, 9), animal=cook.animal.kind)
        parts.append(
            f"How {cook.name} makes {dish} of {cook.fruit}: take {count} {cook.fruit}. {text} "
            f"It is enough for {count} people, and {cook.friend} always asks for more."
        )
    return "\n\n".join(parts)


def songs(world: World, rng: Random, size: int) -> str:
    """A counting song that grows by a line a verse, so that each verse is told by the one before."""
    first = rng.randint(1, 5)
    things = [f"for the {craft.name} with {craft.product}" for craft in some(rng, world.crafts, min(1 + size, 6))]
    verses = []
    for end in range(1, len(things) + 1):
        verses.append(
            "\n".join(f"{first + i} {things[i]}," for i in reversed(range(end)))
            + f"\nand home to {rng.choice(world.places).name}."
        )
    return "\n\n".join(verses)


def notices(world: World, rng: Random, size: int) -> str:
    """Notices on the board of a village: lost, found, for sale, wanted."""
    place = rng.choice(world.places)
    parts = [f"On the board at the {place.landmark} in {place.name}:"]
    for person in some(rng, world.people, 1 + size):
        thing = f"{rng.choice(world.colours)} {rng.choice(lexicon.KEEPSAKES)}"
        parts.append(
            rng.choice(
                (
                    f"Lost: {a(thing)}. If you find the {thing}, bring it to {person.name} in {person.home}.",
                    f"Found: {a(thing)}. Whose is the {thing}? Ask {person.name} the {person.craft.name}.",
                    f"For sale: {rng.randint(2, 9)} loads of {person.craft.product}. Ask for {person.name} {person.craft.place}.",
                    f"Wanted: {a(rng.choice(world.animals).kind)} as a friend for {person.pet}, the {person.animal.kind} of {person.name}.",
                    f"The fair of {place.name} will be held in {place.season}. Bring {place.fruit}!",
                )
            )
        )
    return "\n\n".join(parts)


def weather(world: World, rng: Random, size: int) -> str:
    """A week of weather in a village, and what people did about it."""
    place, start = rng.choice(world.places), rng.randrange(7)
    said = [f"The weather in {place.name}:"]
    for i in range(min(7, 2 + size)):
        person, sky = rng.choice(world.people), rng.choice(lexicon.WEATHER)
        said.append(
            f"{lexicon.DAYS[(start + i) % 7]} brought {sky}, "
            + rng.choice(
                (
                    f"and {person.name} stayed {person.craft.place}.",
                    f"so {person.name} put on {person.their} {person.colour} coat.",
                    f"which {person.pet} the {person.animal.kind} of {person.name} did not like.",
                    f"and still {person.name} walked home to {person.home}.",
                )
            )
        )
    return " ".join(said)
