"""GSM8K (openai/gsm8k, main): grade-school arithmetic in words; the published calculator notes become tool calls."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from xsa.data.chat.items import Conversation, GeneratedItem, asked, final_answer
from xsa.data.chat.reading import BadRowError, ParquetRows, text

COLUMNS = ("question", "answer")
_NOTE = re.compile(r"<<([^<>]+)>>")


def items(folder: Path) -> ParquetRows[GeneratedItem]:
    """The test items; the right number stands after `#### `."""
    return ParquetRows(folder / "gsm8k" / "test.parquet", COLUMNS, _item)


def conversations(folder: Path, split: str = "train") -> ParquetRows[Conversation]:
    """Questions with their worked answers, `<<expression=result>>` as a Python call and its output."""
    return ParquetRows(folder / "gsm8k" / f"{split}.parquet", COLUMNS, _conversation)


def _item(row: dict[str, Any], index: int) -> GeneratedItem:
    return GeneratedItem(f"gsm8k/{index}", asked(text(row, "question")), _gold(row), "number")


def _conversation(row: dict[str, Any], index: int) -> Conversation:
    _gold(row)
    return asked(text(row, "question"), parts(text(row, "answer")))


def _gold(row: dict[str, Any]) -> str:
    gold = final_answer(text(row, "answer"))
    if gold is None:
        raise BadRowError("field 'answer' has no number after '#### '")
    return gold


def parts(answer: str) -> list[dict[str, str]]:
    """The answer as message parts: text, and for each note a `python` part and its `python_output`."""
    found = []
    # re.split with one group alternates text and note.
    for number, piece in enumerate(_NOTE.split(answer)):
        if number % 2 == 0:
            if piece:
                found.append({"type": "text", "text": piece})
            continue
        expression, _, result = piece.rpartition("=")
        found.append({"type": "python", "text": expression if expression else result})
        found.append({"type": "python_output", "text": result if expression else ""})
    return found
