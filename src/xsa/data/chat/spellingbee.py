"""Two generated sets over a list of English words: how often a letter is in a word, and how a word is spelled.

After nanochat's SpellingBee and SimpleSpelling: the answer spells the word letter by letter, counts, and has Python
check the count. Item i is a function of i and the word list alone, so every cell of a study is asked the same.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from pathlib import Path

from xsa.data.chat.items import Conversation, GeneratedItem, asked
from xsa.data.chat.reading import read_text
from xsa.store.errors import UserError

# Test items come from seeds that no training item has.
TEST_SEED = 10_000_000

_QUESTIONS = (
    "How many {letter} are in the word {word}",
    "How many {letter} are there in {word}",
    "How often does {letter} occur in {word}",
    "Count the {letter} in {word}",
    "What is the number of {letter} in {word}",
    "How many times is the letter {letter} in {word}",
    "In the word {word}, how many {letter} do you see",
    "Can you count the letter {letter} in {word}",
    "Tell me how many {letter} the word {word} has",
    "{word}: how many {letter}",
    "Please say how many times {letter} appears in {word}",
    "I want to know how many {letter} are in {word}",
)
_QUOTES = ("", "'", '"')


class Generated(Sequence):
    """`size` items made by `make(index)` when they are asked for."""

    def __init__(self, size: int, make: Callable[[int], object]):
        self._size, self._make = size, make

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int):
        if not 0 <= index < self._size:
            raise IndexError(index)
        return self._make(index)


def words(folder: Path) -> list[str]:
    """The words of `spellingbee/words_alpha.txt`, one a line, lower-case letters only (UserError names the line)."""
    path = folder / "spellingbee" / "words_alpha.txt"
    found = [line.strip() for line in read_text(path).split("\n")]
    for number, word in enumerate(found, 1):
        if word and not (word.isascii() and word.isalpha()):
            raise UserError(f"{path}:{number}: {word!r} is no word of letters a to z; take the line out")
    found = [word.lower() for word in found if word]
    if not found:
        raise UserError(f"{path} has no words; bring the published list, one word a line")
    return found


def items(folder: Path, size: int) -> Sequence[GeneratedItem]:
    """`size` test items of SpellingBee, graded by the number after `#### `."""
    known = words(folder)

    def make(index: int) -> GeneratedItem:
        question, _, gold = _counting(known, TEST_SEED + index)
        return GeneratedItem(f"spellingbee/{index}", asked(question), gold, "number")

    return Generated(size, make)


def conversations(folder: Path, size: int, split: str = "train") -> Sequence[Conversation]:
    """`size` conversations that count a letter."""
    known, first = words(folder), TEST_SEED if split == "test" else 0
    return Generated(size, lambda index: asked(*_counting(known, first + index)[:2]))


def spelling(folder: Path, size: int, split: str = "train") -> Sequence[Conversation]:
    """`size` conversations that spell a word."""
    known, first = words(folder), TEST_SEED if split == "test" else 0

    def make(index: int) -> Conversation:
        word = random.Random(first + index).choice(known)
        return asked(f"Spell the word: {word}", f"{word}:{','.join(word)}")

    return Generated(size, make)


def _counting(known: list[str], seed: int) -> tuple[str, list[dict[str, str]], str]:
    """Question, answer in parts, and count, for one seed."""
    rng = random.Random(seed)
    word = rng.choice(known)
    letter = rng.choice(word) if rng.random() < 0.9 else rng.choice(string.ascii_lowercase)
    question = rng.choice(_QUESTIONS)
    around_letter, around_word = rng.choice(_QUOTES), rng.choice(_QUOTES)
    question = question.format(
        letter=f"{around_letter}{letter}{around_letter}", word=f"{around_word}{word}{around_word}"
    )
    if rng.random() < 0.3:
        question = question.lower()
    if rng.random() < 0.5:
        question += "?"
    count, lines = 0, []
    for place, here in enumerate(word, 1):
        count += here == letter
        lines.append(f"{place}:{here}" + (f" found, {count} so far" if here == letter else ""))
    parts = [
        {"type": "text", "text": f"I spell the word first.\n\n{word}:{','.join(word)}\n\n"},
        {"type": "text", "text": f"Now I go through it and count {letter}:\n" + "\n".join(lines) + "\n\n"},
        {"type": "text", "text": f"I count {count}. Python can check that.\n\n"},
        {"type": "python", "text": f"'{word}'.count('{letter}')"},
        {"type": "python_output", "text": str(count)},
        {"type": "text", "text": f"\n\nPython finds {count}, so this is my answer:\n\n#### {count}"},
    ]
    return question, parts, str(count)
