"""MMLU (cais/mmlu): four-choice questions on 57 subjects; `test` is asked, `auxiliary_train` is learned from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xsa.data.chat.items import CategoricalItem, Conversation, asked, multiple_choice
from xsa.data.chat.reading import BadRowError, ParquetRows, text, texts

COLUMNS = ("question", "choices", "answer")
LETTERS = ("A", "B", "C", "D")


def items(folder: Path) -> ParquetRows[CategoricalItem]:
    """The test items."""
    return ParquetRows(folder / "mmlu" / "test.parquet", COLUMNS, _item)


def conversations(folder: Path, split: str = "train") -> ParquetRows[Conversation]:
    """Questions with the letter of their answer: `auxiliary_train`, or the test rows for `split="test"`."""
    path = folder / "mmlu" / "test.parquet" if split == "test" else train_file(folder)
    # The hub has this split twice: flat in the folder `all`, and inside a struct called `train` in its own.
    return ParquetRows(path, COLUMNS, _conversation, unnest="train")


def train_file(folder: Path) -> Path:
    """`auxiliary_train.parquet`, or the partial `auxiliary_train_standin.parquet` where only that is there."""
    published = folder / "mmlu" / "auxiliary_train.parquet"
    partial = folder / "mmlu" / "auxiliary_train_standin.parquet"
    return partial if partial.exists() and not published.exists() else published


def _item(row: dict[str, Any], index: int) -> CategoricalItem:
    question, letter = _question(row)
    return CategoricalItem(f"mmlu/{index}", asked(question), LETTERS, letter)


def _conversation(row: dict[str, Any], index: int) -> Conversation:
    return asked(*_question(row))


def _question(row: dict[str, Any]) -> tuple[str, str]:
    choices, answer = texts(row["choices"], "choices", 4), row["answer"]
    if len(choices) != 4:
        raise BadRowError(f"field 'choices' must have 4 texts, it has {len(choices)}")
    if not isinstance(answer, int) or not 0 <= answer < 4:
        raise BadRowError(f"field 'answer' must be a number from 0 to 3, it is {answer!r}")
    return multiple_choice(text(row, "question"), LETTERS, choices), LETTERS[answer]
