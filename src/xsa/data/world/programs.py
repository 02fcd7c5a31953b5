"""Small Python functions to be written, in HumanEval's form, with solutions that pass their tests."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from xsa.data.world import lexicon
from xsa.data.world.world import World


class Program(NamedTuple):
    """A function: its name, argument, what it returns in words and as an expression, and arguments to test it with."""

    name: str
    argument: str
    returns: str
    expression: str
    solve: Callable[[Any], Any]
    tests: tuple[Any, ...]

    @property
    def prompt(self) -> str:
        """The signature and the docstring, with one worked example."""
        example = self.tests[0]
        return (
            f'def {self.name}({self.argument}):\n    """ Return {self.returns}.\n'
            f'    >>> {self.name}({example!r})\n    {self.solve(example)!r}\n    """\n'
        )

    @property
    def solution(self) -> str:
        """The body, as it follows the prompt."""
        return f"    return {self.expression}\n"

    @property
    def test(self) -> str:
        """A function `check` that asserts what the solution gives."""
        lines = [f"    assert candidate({one!r}) == {self.solve(one)!r}\n" for one in self.tests]
        return "def check(candidate):\n" + "".join(lines)


def draw_program(world: World, rng: Random) -> Program:
    """A function about numbers, baskets, words or villages of the world."""
    return rng.choice((_number, _number, _baskets, _word, _village))(world, rng)


def _number(world: World, rng: Random) -> Program:
    k, fruit = rng.randint(2, 9), rng.choice(world.fruits)
    tests = tuple(rng.sample(range(10, 30), 4))
    return rng.choice(
        (
            Program(f"more_{fruit}", "n", f"n plus {k}", f"n + {k}", lambda n: n + k, tests),
            Program(f"fewer_{fruit}", "n", f"n minus {k}", f"n - {k}", lambda n: n - k, tests),
            Program(f"baskets_of_{fruit}", "n", f"n times {k}", f"n * {k}", lambda n: n * k, tests),
        )
    )


def _baskets(world: World, rng: Random) -> Program:
    fruit = rng.choice(world.fruits)
    tests = tuple([rng.randint(1, 9) for _ in range(rng.randint(2, 4))] for _ in range(3))
    returns, expression, solve = rng.choice(
        (
            ("the sum of baskets", "sum(baskets)", sum),
            ("the largest of baskets", "max(baskets)", max),
            ("the smallest of baskets", "min(baskets)", min),
            ("how many baskets there are", "len(baskets)", len),
            ("the baskets in order", "sorted(baskets)", sorted),
        )
    )
    return Program(f"{expression.split('(')[0]}_{fruit}", "baskets", returns, expression, solve, tests)


def _word(world: World, rng: Random) -> Program:
    tests = tuple(rng.sample(lexicon.SPELLING, 4))
    letter = rng.choice(tests[0])
    return rng.choice(
        (
            Program(f"count_{letter}", "word", f"how often {letter} is in word", f"word.count('{letter}')",
                    lambda word: word.count(letter), tests),
            Program(f"begins_{letter}", "word", f"whether word begins with {letter}", f"word.startswith('{letter}')",
                    lambda word: word.startswith(letter), tests),
            Program(f"ends_{letter}", "word", f"whether word ends with {letter}", f"word.endswith('{letter}')",
                    lambda word: word.endswith(letter), tests),
        )
    )  # fmt: skip


def _village(world: World, rng: Random) -> Program:
    person = rng.choice(world.people)
    tests = tuple(rng.sample([place.name for place in world.places], 4))
    return Program(
        f"lives_{person.name.lower()}",
        "village",
        f"whether village is {person.home}",
        f"village == '{person.home}'",
        lambda village: village == person.home,
        tests,
    )
