"""Documents in which something happens: letters, gifts, strangers, lost animals, market days, talk, diaries.

Much in them is drawn for the one text alone (a name, a hiding place, a price), said early and asked for late, so that
it can only be known by looking back.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

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
    said = [f"It was {a(rng.choice(lexicon.DAY_KINDS))} day in {place.name}."]
    for _ in range(3 * size):
        first, second = two_people(world, rng)
        start, who, reason = deed(world, rng, first, second, rng.random() < 0.5)
        said.append(f"{start} because {who} {reason}.")
    return " ".join(said)


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


def strangers(world: World, rng: Random, size: int) -> str:
    """A stranger with a new name comes to a village, meets people, and goes on."""
    name, place = rng.choice(lexicon.STRANGERS), rng.choice(world.places)
    keepsake, colour = rng.choice(lexicon.KEEPSAKES), rng.choice(world.colours)
    said = [
        f"One day in {rng.choice(lexicon.SEASONS)} a stranger came to {place.name}.",
        f"The name of the stranger was {name}, and {name} carried a {colour} {keepsake}.",
    ]
    for person in some(rng, world.people, 1 + 2 * size):
        said.append(
            rng.choice(
                (
                    f'"Who are you?" asked {person.name} the {person.craft.name}. "I am {name}," said the stranger.',
                    f'{person.name} gave {name} some {person.fruit}, and {name} said, "Thank you, {person.name}."',
                    f"{name} showed the {colour} {keepsake} to {person.name}, who had never seen such a {keepsake}.",
                    f"{person.name} asked {name} to stay, but {name} only smiled at {person.pet} the {person.animal.kind}.",
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
        f"One morning {person.name} could not find {pet} the {animal.kind}.",
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
    said = [f"It was market day in {place.name}."]
    for _ in range(2 * size):
        person, fruit, wares = rng.choice(world.people), rng.choice(world.fruits), rng.choice(world.people).craft
        x, y = rng.randint(1, 9), rng.randint(1, 9)
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
