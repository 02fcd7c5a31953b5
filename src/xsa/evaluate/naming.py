"""What an aggregate was taken from, in words: two numbers of one name are only compared when these agree."""

from __future__ import annotations

from collections.abc import Collection, Mapping

CHECKPOINTS = {"pretrain": "base", "finetune": "chat"}


def named_source(
    stage: str, max_per_task: int | None, smaller: Mapping | Collection, asked: Collection, known: Collection
) -> dict[str, str]:
    """checkpoint: base or chat. tasks and items: full, or how much was left out. taken: when.

    stage: the one that made the checkpoint. smaller: tasks whose sets have fewer items than published. asked, known: the
    tasks asked, and all of the table or bundle.
    """
    tasks = "full" if len(asked) == len(known) else f"{len(asked)} of {len(known)}"
    items = "full" if max_per_task is None else f"limited to {max_per_task} a task"
    if smaller:
        items += f", {len(smaller)} {'set' if len(smaller) == 1 else 'sets'} smaller than published"
    return {
        "checkpoint": CHECKPOINTS[stage],
        "tasks": tasks,
        "items": items,
        "taken": "in a run of its own, on the finished checkpoint",
    }
