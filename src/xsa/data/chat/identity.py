"""Conversations about who the model is: JSONL, each line a list of messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xsa.data.chat.items import Conversation
from xsa.data.chat.reading import LineRows, messages


def conversations(folder: Path) -> LineRows[Conversation]:
    """The conversations of `identity/identity_conversations.jsonl`."""
    return LineRows(folder / "identity" / "identity_conversations.jsonl", _conversation)


def _conversation(value: Any, index: int) -> Conversation:
    return {"messages": messages(value)}
