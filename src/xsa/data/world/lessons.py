"""Documents of the village school: sums, spellings, questions with answers, and questions with letters to choose from."""

from __future__ import annotations

from random import Random

from xsa.data.world import facts, lexicon
from xsa.data.world.lexicon import a, some
from xsa.data.world.world import World

LETTERS = "ABCD"
_TIMES = ("never", "once", "twice", "three times", "four times")


def hyphened(word: str) -> str:
    """`mill` as the school spells it: `m-i-l-l`."""
    return "-".join(word)


def sums(world: World, rng: Random, size: int) -> str:
    """A page of sums with their results."""
    lines = []
    for _ in range(4 + 6 * size):
        x, y = rng.randint(1, lexicon.LARGEST), rng.randint(1, lexicon.LARGEST)
        lines.append(f"{x} + {y} = {x + y}" if rng.random() < 0.7 else f"{x + y} - {y} = {x}")
    teacher = rng.choice(world.people)
    head = rng.choice((f"Sums for {rng.choice(lexicon.DAYS)}", f"{teacher.name} taught sums today.", "Sums"))
    return head + "\n\n" + ("\n\n" if rng.random() < 0.5 else "\n").join(lines)


def spellings(world: World, rng: Random, size: int) -> str:
    """Words, letter by letter, with how many letters they have and how often one of them comes."""
    parts = []
    for word in some(rng, lexicon.SPELLING, 3 * size):
        spelled, letter = hyphened(word), rng.choice(word)
        parts.append(
            rng.choice(
                (
                    f"The word {word} is spelled {spelled}.",
                    f"{word} is spelled {spelled}.",
                    f"How is {word} spelled? It is spelled {spelled}.",
                    f"Spell {word}: {spelled}. It has {len(word)} letters.",
                    f"{word}:{','.join(word)}",
                    f"In {word}, spelled {spelled}, the letter {letter} comes {_TIMES[word.count(letter)]}.",
                )
            )
        )
    return "\n\n".join(parts) if rng.random() < 0.4 else " ".join(parts)


def questions(world: World, rng: Random, size: int) -> str:
    """Questions and short answers, as the tasks with worked examples show them."""
    parts = []
    for _ in range(3 + 3 * size):
        of, kind = facts.draw_fact(rng, world)
        parts.append(f"Question: {facts.question(rng, world, of, kind)}\nAnswer: {facts.answer(world, of, kind)}")
    return "\n\n".join(parts)


def general_question(rng: Random, world: World) -> tuple[str, str, list[str]]:
    """A question on crafts or animals in general: the question, the answer, and all answers of its kind."""
    craft, animal = rng.choice(world.crafts), rng.choice(world.animals)
    crafts, animals = world.crafts, world.animals
    return rng.choice(
        (
            (f"Which tool does {a(craft.name)} use?", craft.tool, [one.tool for one in crafts]),
            (f"What does {a(craft.name)} sell?", craft.product, [one.product for one in crafts]),
            (f"Who {craft.makes} {craft.product}?", craft.name, [one.name for one in crafts]),
            (f"Which animal {animal.sound}?", animal.kind, [one.kind for one in animals]),
            (f"What does {a(animal.kind)} eat?", animal.food, [one.food for one in animals]),
        )
    )


def choice_question(rng: Random, world: World, general: float = 0.4) -> tuple[str, list[str], int]:
    """A question, four different answers in random order, and the index of the true one."""
    if rng.random() < general:
        text, truth, pool = general_question(rng, world)
        drawn = [truth, *rng.sample([one for one in pool if one != truth], len(LETTERS) - 1)]
        rng.shuffle(drawn)
        return text, drawn, drawn.index(truth)
    of, kind = facts.draw_fact(rng, world)
    return (facts.question(rng, world, of, kind), *facts.choices(rng, world, of, kind))


def quiz(world: World, rng: Random, size: int) -> str:
    """Questions with four answers, each with its letter, and the letter of the true one."""
    parts = []
    for _ in range(1 + size):
        text, drawn, gold = choice_question(rng, world)
        lines = [f"- {one}={letter}" for letter, one in zip(LETTERS, drawn, strict=True)]
        parts.append("\n".join((text, *lines)) + f"\nThe answer is {drawn[gold]}, so the letter is {LETTERS[gold]}.")
    return "\n\n".join(parts)
