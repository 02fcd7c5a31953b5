"""The chat tasks by name, as ChatCORE asks them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xsa.data.chat import arc, gsm8k, humaneval, mmlu, spellingbee
from xsa.data.chat.items import CategoricalItem, GeneratedItem


def chat_items(task: str, folder: Path, spellingbee_items: int = 256) -> Sequence[CategoricalItem | GeneratedItem]:
    """The items of a task in published order; `folder` is the result of the stage `chatsets`."""
    if task in ("arc_easy", "arc_challenge"):
        return arc.items(folder, task)
    if task == "spellingbee":
        return spellingbee.items(folder, spellingbee_items)
    return {"mmlu": mmlu, "gsm8k": gsm8k, "humaneval": humaneval}[task].items(folder)
