"""ARC (allenai/ai2_arc): grade-school science questions with three to five choices; `arc_easy` and `arc_challenge`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xsa.data.chat.items import CategoricalItem, asked, multiple_choice
from xsa.data.chat.reading import BadRowError, ParquetRows, text, texts

COLUMNS = ("id", "question", "choices", "answerKey")


def items(folder: Path, name: str) -> ParquetRows[CategoricalItem]:
    """The test items of `arc_easy` or `arc_challenge`. Letters are the row's own labels, sometimes 1 to 4."""
    return ParquetRows(folder / name / "test.parquet", COLUMNS, _item)


def _item(row: dict[str, Any], index: int) -> CategoricalItem:
    choices = row["choices"]
    if not isinstance(choices, dict):
        raise BadRowError(f"field 'choices' must have text and label, it is {repr(choices)[:60]}")
    answers = texts(choices.get("text"), "choices.text", 2)
    letters = tuple(texts(choices.get("label"), "choices.label", 2))
    gold = text(row, "answerKey")
    if len(answers) != len(letters):
        raise BadRowError(f"{len(answers)} choices have {len(letters)} labels")
    if gold not in letters:
        raise BadRowError(f"the answer {gold!r} is none of the labels {', '.join(letters)}")
    question = multiple_choice(text(row, "question"), letters, answers)
    return CategoricalItem(text(row, "id"), asked(question), letters, gold)
