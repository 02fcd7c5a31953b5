"""Tasks in CORE's form about the made-up world: the three kinds, with 0, 3 and 10 worked examples.

They ask what the prose tells, partly in wordings that it never uses. The two-step task at the end is meant to stay
hard for a small model, as some of CORE's do for large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random
from typing import Any, NamedTuple

from xsa.data.world import facts, lessons, lexicon, stories
from xsa.data.world import letters as correspondence
from xsa.data.world.lexicon import a
from xsa.data.world.world import World

Item = dict[str, Any]
Drawn = tuple[Hashable, Item]  # what makes the item different from the others, and the item


def people_cloze(world: World, rng: Random) -> Drawn:
    """Facts about people, as sentences in new wordings with four endings."""
    of, kind = facts.draw_fact(rng, world, facts.PERSON_KINDS)
    wording = rng.choice(facts.HELD_OUT[kind])
    drawn, gold = facts.choices(rng, world, of, kind)
    query = wording.format(**facts.person_fields(world, of))
    return (of.name, wording), {"query": query, "choices": drawn, "gold": gold}


def places_cloze(world: World, rng: Random) -> Drawn:
    """Facts about villages, as sentences in new wordings with four endings."""
    of, kind = facts.draw_fact(rng, world, facts.PLACE_KINDS)
    drawn, gold = facts.choices(rng, world, of, kind)
    query = rng.choice(facts.HELD_OUT[kind]).format(**facts.place_fields(of))
    return (of.name, kind), {"query": query, "choices": drawn, "gold": gold}


def questions(world: World, rng: Random) -> Drawn:
    """Questions about people and villages with four short answers."""
    of, kind = facts.draw_fact(rng, world)
    drawn, gold = facts.choices(rng, world, of, kind)
    query = f"Question: {facts.question(rng, world, of, kind)}"
    return (of.name, kind), {"query": query, "choices": drawn, "gold": gold}


def trades(world: World, rng: Random) -> Drawn:
    """What crafts and animals are like, as sentences with four endings."""
    craft, animal = rng.choice(world.crafts), rng.choice(world.animals)
    query, truth, pool = rng.choice(
        (
            (f"In the hands of {a(craft.name)} you see the", craft.tool, [one.tool for one in world.crafts]),
            (f"At the market the {craft.name} sells", craft.product, [one.product for one in world.crafts]),
            (f"From morning to night the {craft.name} works", craft.place, [one.place for one in world.crafts]),
            (f"Every evening the {animal.kind} eats", animal.food, [one.food for one in world.animals]),
            (f"When it is happy the {animal.kind}", animal.sound, [one.sound for one in world.animals]),
            (f"At night you find the {animal.kind}", animal.bed, [one.bed for one in world.animals]),
        )
    )
    drawn = [truth, *rng.sample([one for one in pool if one != truth], 3)]
    rng.shuffle(drawn)
    return query, {"query": query, "choices": drawn, "gold": drawn.index(truth)}


def endings(world: World, rng: Random) -> Drawn:
    """The start of a small story with four ways to go on, of which one keeps to what was said."""
    person, place = rng.choice(world.people), rng.choice(world.places)
    crafts = [person.craft, *rng.sample([one for one in world.crafts if one is not person.craft], 3)]
    rng.shuffle(crafts)
    query = (
        f"It was a fine day in {place.name}. {person.name} the {person.craft.name} got up early "
        f"and was soon {person.craft.place}. There {person.they}"
    )
    choices = [f"worked with the {one.tool} until it was dark." for one in crafts]
    return (person.name, place.name), {"query": query, "choices": choices, "gold": crafts.index(person.craft)}


def reasons(world: World, rng: Random) -> Drawn:
    """Someone does something to another because one of the two …: who?"""
    first, second = stories.two_people(world, rng)
    start, who, reason = stories.deed(world, rng, first, second, rng.random() < 0.5)
    options = [f"{start} because {one.name}" for one in (first, second)]
    item = {"context_options": options, "continuation": f"{reason}.", "gold": int(who == second.name)}
    return (start, reason), item


def which_of_two(world: World, rng: Random) -> Drawn:
    """Which of two people a sentence is true of."""
    kind = rng.choice(("home", "craft", "colour", "animal", "fruit"))
    first = rng.choice(world.people)
    second = rng.choice(
        [one for one in world.people if facts.answer(world, one, kind) != facts.answer(world, first, kind)]
    )
    gold = rng.randrange(2)
    fields = facts.person_fields(world, (first, second)[gold])
    said = {
        "home": "lives in {home}.",
        "craft": "is {a_craft}.",
        "colour": "likes the colour {colour} best.",
        "animal": "keeps {a_animal}.",
        "fruit": "likes to eat {fruit}.",
    }[kind].format(**fields)
    options = [f"There are {first.name} and {second.name}. Of the two, {one.name}" for one in (first, second)]
    return (first.name, second.name, kind), {"context_options": options, "continuation": said, "gold": gold}


def sums(world: World, rng: Random) -> Drawn:
    """Sums and differences of small numbers."""
    x, y = rng.randint(1, lexicon.LARGEST), rng.randint(1, lexicon.LARGEST)
    context, result = (f"{x} + {y} =", x + y) if rng.random() < 0.7 else (f"{x + y} - {y} =", x)
    return context, {"context": context, "continuation": str(result)}


def letters(world: World, rng: Random) -> Drawn:
    """A letter whose last words only its first sentence tells."""
    body, words, _ = correspondence.letter_body(world, rng, rng.randint(3, 6))
    return body, {"context": body, "continuation": words}


def spellings(world: World, rng: Random) -> Drawn:
    """Words, letter by letter."""
    word = rng.choice(lexicon.SPELLING)
    context = rng.choice((f"The word {word} is spelled", f"In school the word {word} is spelled"))
    return word, {"context": context, "continuation": lessons.hyphened(word)}


def friends(world: World, rng: Random) -> Drawn:
    """Two steps: something about somebody's best friend, who is not named. The person's own is among the endings."""
    person = rng.choice(world.people)
    friend = world.person(person.friend)
    kind, wording = rng.choice(
        (
            ("home", "The best friend of {name} lives in"),
            ("colour", "The best friend of {name} likes the colour"),
            ("fruit", "The best friend of {name} likes to eat"),
        )
    )
    truth, own = facts.answer(world, friend, kind), facts.answer(world, person, kind)
    drawn = list(dict.fromkeys((truth, own)))
    others = [one for one in facts.possible_answers(world, kind) if one not in drawn]
    drawn += rng.sample(others, 4 - len(drawn))
    rng.shuffle(drawn)
    item = {"query": wording.format(name=person.name), "choices": drawn, "gold": drawn.index(truth)}
    return (person.name, kind), item


class Task(NamedTuple):
    """One task of the bundle. `baseline` is the accuracy of a guess, in percent."""

    label: str
    draw: Callable[[World, Random], Drawn]
    kind: str
    shots: int
    baseline: int
    category: str
    delimiter: str | None = None

    @property
    def uri(self) -> str:
        return f"{self.category.replace(' ', '_')}/{self.label}.jsonl"


TASKS = (
    Task("people", people_cloze, "multiple_choice", 0, 25, "world knowledge"),
    Task("places", places_cloze, "multiple_choice", 3, 25, "world knowledge"),
    Task("questions", questions, "multiple_choice", 10, 25, "world knowledge", "\nAnswer: "),
    Task("trades", trades, "multiple_choice", 10, 25, "commonsense reasoning"),
    Task("endings", endings, "multiple_choice", 0, 25, "language understanding"),
    Task("reasons", reasons, "schema", 0, 50, "language understanding"),
    Task("which_of_two", which_of_two, "schema", 3, 50, "world knowledge"),
    Task("sums", sums, "language_modeling", 10, 0, "symbolic problem solving"),
    Task("letters", letters, "language_modeling", 0, 0, "reading comprehension"),
    Task("spellings", spellings, "language_modeling", 3, 0, "symbolic problem solving"),
    Task("friends", friends, "multiple_choice", 3, 25, "commonsense reasoning"),
)


def draw_items(task: Task, world: World, rng: Random, count: int) -> list[Item]:
    """`count` different items of a task, or as many as the world has."""
    items: dict[Hashable, Item] = {}
    for _ in range(50 * count):
        key, item = task.draw(world, rng)
        items.setdefault(key, item)
        if len(items) == count:
            break
    return list(items.values())
