"""HumanEval (openai/openai_humaneval): functions to be completed, graded by running their tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xsa.data.chat.items import GeneratedItem, asked
from xsa.data.chat.reading import ParquetRows, text

COLUMNS = ("task_id", "prompt", "canonical_solution", "test", "entry_point")


def items(folder: Path) -> ParquetRows[GeneratedItem]:
    """The test items; the user's message is the published prompt itself."""
    return ParquetRows(folder / "humaneval" / "test.parquet", COLUMNS, _item)


def _item(row: dict[str, Any], index: int) -> GeneratedItem:
    program = {name: text(row, name) for name in ("prompt", "canonical_solution", "test", "entry_point")}
    return GeneratedItem(
        text(row, "task_id"), asked(program["prompt"]), program["entry_point"], "program", program=program
    )
