"""SmolTalk for small models (HuggingFaceTB/smol-smoltalk): general conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xsa.data.chat.items import Conversation
from xsa.data.chat.reading import ParquetRows, messages


def conversations(folder: Path, split: str = "train") -> ParquetRows[Conversation]:
    """The conversations of `train` or `test`, as published."""
    return ParquetRows(folder / "smoltalk" / f"{split}.parquet", ("messages",), _conversation)


def _conversation(row: dict[str, Any], index: int) -> Conversation:
    return {"messages": messages(row["messages"])}
