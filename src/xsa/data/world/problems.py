"""Word problems about fruit and work, with answers worked out step by step in GSM8K's form."""

from __future__ import annotations

from random import Random

from xsa.data.world.world import World


def draw_problem(world: World, rng: Random) -> tuple[str, str]:
    """A question, and its answer: each step with its `<<expression=result>>`, and at the end `#### ` and the number."""
    return rng.choice((_more, _fewer, _baskets, _two_days))(world, rng)


def _answer(steps: list[tuple[str, str, int]]) -> str:
    """Steps of (words that lead to it, expression, result)."""
    lines = [f"{words} {expression} = <<{expression}={result}>>{result}." for words, expression, result in steps]
    return "\n".join([*lines, f"#### {steps[-1][2]}"])


def _more(world: World, rng: Random) -> tuple[str, str]:
    (person, other), fruit = rng.sample(world.people, 2), rng.choice(world.fruits)
    x, y = rng.randint(2, 40), rng.randint(2, 40)
    question = (
        f"{person.name} has {x} {fruit}. {other.name} brings {y} more {fruit}. "
        f"How many {fruit} does {person.name} have now?"
    )
    return question, _answer([(f"{person.name} has", f"{x}+{y}", x + y)])


def _fewer(world: World, rng: Random) -> tuple[str, str]:
    (person, other), fruit = rng.sample(world.people, 2), rng.choice(world.fruits)
    y = rng.randint(2, 30)
    x = y + rng.randint(2, 30)
    question = (
        f"{person.name} has {x} {fruit}. {person.name} gives {y} {fruit} to {other.name}. "
        f"How many {fruit} does {person.name} have left?"
    )
    return question, _answer([(f"{person.name} has", f"{x}-{y}", x - y)])


def _baskets(world: World, rng: Random) -> tuple[str, str]:
    person, fruit = rng.choice(world.people), rng.choice(world.fruits)
    x, y = rng.randint(2, 9), rng.randint(2, 12)
    question = (
        f"{person.name} has {x} baskets. In each basket there are {y} {fruit}. "
        f"How many {fruit} does {person.name} have?"
    )
    return question, _answer([(f"{person.name} has", f"{x}*{y}", x * y)])


def _two_days(world: World, rng: Random) -> tuple[str, str]:
    person = rng.choice(world.people)
    ware = person.craft.product
    x, y = rng.randint(2, 30), rng.randint(2, 30)
    z = rng.randint(1, x + y - 1)
    question = (
        f"{person.name} sells loads of {ware}. On Monday there are {x} loads and on Tuesday {y} more come. "
        f"Then {z} loads are sold. How many loads of {ware} are left?"
    )
    steps = [("There were", f"{x}+{y}", x + y), ("Left are", f"{x + y}-{z}", x + y - z)]
    return question, _answer(steps)
