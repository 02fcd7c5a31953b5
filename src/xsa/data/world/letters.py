"""Letters and diaries. What a letter's first sentence tells, its last one asks to remember.

What is told is drawn for the one letter alone, so that it can only be known by looking back.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from xsa.data.world import facts, lexicon
from xsa.data.world.world import World


def _asides(world: World, rng: Random, count: int, without: tuple[str, ...]) -> list[str]:
    """Sentences that a letter or a diary may hold anywhere, about people other than those it is between."""
    others = [person for person in world.people if person.name not in without]
    said = []
    for _ in range(count):
        person, place = rng.choice(others), rng.choice(world.places)
        said.append(
            rng.choice(
                (
                    f"We had {rng.choice(lexicon.WEATHER)} on {rng.choice(lexicon.DAYS)}.",
                    f"On {rng.choice(lexicon.DAYS)} I met {person.name} at the {place.landmark} in {place.name}.",
                    f"{person.name} sends you {rng.randint(2, 9)} {rng.choice(world.fruits)}.",
                    f"The fair in {place.name} was a good one.",
                    f"I ate too many {person.fruit} with {person.name}.",
                    f"{person.name} came by with {person.pet} the {person.animal.kind}.",
                    f"I have not seen {person.name} since {rng.choice(lexicon.SEASONS)}.",
                    f"I have put the {rng.choice(lexicon.KEEPSAKES)} {rng.choice(lexicon.HIDING)}.",
                    f"You asked about {person.name}: all is well {person.craft.place}.",
                    facts.say(world, rng, person, rng.choice(facts.PERSON_KINDS), True),
                    facts.say_place(rng, place, rng.choice(facts.PLACE_KINDS)),
                )
            )
        )
    return said


class Matter(NamedTuple):
    """A thing that only one letter knows: how it is told, how it comes up again, and the words that are then due."""

    told: str
    meanwhile: str
    again: str
    words: str


def matter(world: World, rng: Random) -> Matter:
    """Something new to tell: a boat, an animal, a colour, a loss."""
    keepsake, animal = rng.choice(lexicon.KEEPSAKES), rng.choice(world.animals).kind
    colour, name, boat = rng.choice(world.colours), rng.choice(lexicon.STRANGERS), rng.choice(lexicon.BOATS)
    lost = f"{colour} {keepsake}"
    return rng.choice(
        (
            Matter(
                f"I have bought a boat, and it is called the {boat}.",
                f"There is no better boat than the {boat}.",
                "When you come to see the boat, remember that it is called the",
                boat,
            ),
            Matter(
                f"There is a new {animal} here called {name}.",
                f"{name} is the best {animal} that I know.",
                f"Come soon and see the new {animal}, which is called",
                name,
            ),
            Matter(
                f"I have painted the gate {colour}.",
                f"Everyone likes the gate now that it is {colour}.",
                "You will know my house by the gate, which I have painted",
                colour,
            ),
            Matter(
                f"I have lost a {lost}.",
                f"Without my {lost} I am sad.",
                "If you find what I have lost, send it back. It is a",
                lost,
            ),
        )
    )


def letter_body(world: World, rng: Random, asides: int) -> tuple[str, str, str]:
    """A letter up to the words that answer its first sentence, those words, and the writer's name."""
    writer = rng.choice(world.people)
    news = matter(world, rng)
    middle = _asides(world, rng, asides, (writer.name, writer.friend))
    if rng.random() < 0.5:
        middle.insert(rng.randint(0, len(middle)), news.meanwhile)
    return f"Dear {writer.friend},\n\n{news.told} {' '.join(middle)} {news.again}", news.words, writer.name


def letters(world: World, rng: Random, size: int) -> str:
    """Letters from people to their best friends. What its first sentence tells, the last one asks to remember."""
    parts = []
    for _ in range(1 + size // 4):
        body, words, writer = letter_body(world, rng, rng.randint(1, min(7, 1 + size)))
        parts.append(f"{body} {words}.\n\n{rng.choice(('Your friend', 'With love', 'Yours'))},\n{writer}")
    return "\n\n".join(parts)


def diary(world: World, rng: Random, size: int) -> str:
    """The diary of one person, a few days of it."""
    writer, start = rng.choice(world.people), rng.randrange(7)
    parts = [f"From the diary of {writer.name} the {writer.craft.name}, {writer.home}"]
    for i in range(1 + size):
        day = lexicon.DAYS[(start + i) % 7]
        work = rng.choice(
            (
                f"Worked with the {writer.craft.tool} until noon.",
                f"Spent the day {writer.craft.place}.",
                f"Sold {rng.randint(2, 9)} loads of {writer.craft.product}.",
                f"{writer.pet} the {writer.animal.kind} would not eat.",
                f"A letter came from {writer.friend}.",
            )
        )
        parts.append(
            f"{day}. {rng.choice(lexicon.WEATHER).capitalize()}. {work} "
            + " ".join(_asides(world, rng, 2, (writer.name,)))
        )
    return "\n\n".join(parts)
