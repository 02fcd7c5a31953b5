"""What a cell is measured by: each metric's name, unit, source, direction, and its value for a cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xsa.analyse.arms import Cell
from xsa.analyse.curves import smooth
from xsa.analyse.results import Results


@dataclass(frozen=True)
class Metric:
    """`better` is "lower" or "higher", or None where neither is.

    `source` says where the number comes from; `items` adds, from a cell's result, what it was measured on.
    """

    id: str
    name: str
    unit: str
    stage: str
    better: str | None
    source: str
    value: Callable[[Results, Cell], float | None]
    items: Callable[[Results, Cell], str] = lambda results, cell: ""

    def told_source(self, results: Results, cell: Cell) -> str:
        """`source` with what this cell was measured on, for two numbers of one name may differ in that alone."""
        items = self.items(results, cell)
        return f"{self.source}; {items}" if items else self.source


def _bpb(results: Results, cell: Cell) -> float | None:
    return _entry(results.json(cell, "bpb", "bpb.json"), "bpb")


def _core(results: Results, cell: Cell) -> float | None:
    return _entry(results.json(cell, "core", "core.json"), "core")


def _chatcore(results: Results, cell: Cell) -> float | None:
    return _entry(results.json(cell, "chatcore", "chatcore.json"), "chatcore")


def _train_loss(results: Results, cell: Cell) -> float | None:
    log = results.parquet(cell, "pretrain", "log.parquet")
    return None if log is None or log.empty else float(smooth(log["loss"].to_numpy(), ending=True))


def _last_look(results: Results, cell: Cell) -> float | None:
    looks = results.parquet(cell, "pretrain", "validation.parquet")
    return None if looks is None or looks.empty else float(looks["bpb"].iloc[-1])


def _attention(measure: str) -> Callable[[Results, Cell], float | None]:
    def value(results: Results, cell: Cell) -> float | None:
        return _entry((results.json(cell, "attention", "attention.json") or {}).get("means"), measure)

    return value


def _bpb_rows(results: Results, cell: Cell) -> str:
    return str(results.json(cell, "bpb", "bpb.json").get("source", ""))


def _suite_items(suite: str) -> Callable[[Results, Cell], str]:
    def items(results: Results, cell: Cell) -> str:
        found = results.json(cell, suite, f"{suite}.json")
        most, partial, table = (found.get(key) for key in ("max_per_task", "partial", "baselines"))
        source = found.get("source") or {}
        words = [f"{source['checkpoint']} checkpoint"] if "checkpoint" in source else []
        words += [f"{source['tasks']} tasks"] if source.get("tasks", "full") != "full" else []
        words += [f"limited: at most {most} items a task" if most else "full: all items"]
        words += [f"chance by table {table}"] if table else []
        words += [_told_partial(partial, len(found.get("tasks", {})))] if partial else []
        cut = sum(task.get("truncated", 0) for task in found.get("tasks", {}).values())
        words += (
            [f"{cut:,} answers cut at {found['max_new_tokens']} tokens"] if cut and "max_new_tokens" in found else []
        )
        return ", ".join(words)

    return items


def _told_partial(partial: dict[str, dict[str, int]] | list[str], tasks: int) -> str:
    """Which sets have fewer items than published, and where the result says it, how many of how many."""
    if len(partial) == tasks:
        return "every set smaller than published"
    if not isinstance(partial, dict):
        return f"smaller than published: {' '.join(partial)}"
    told = (f"{task} ({one['items']:,} of {one['published']:,})" for task, one in partial.items())
    return f"smaller than published: {' '.join(told)}"


def _entry(values: dict[str, Any] | None, name: str) -> float | None:
    found = None if values is None else values.get(name)
    return None if found is None else float(found)


METRICS = (
    Metric(
        "bpb",
        "Validation bpb",
        "bits per byte",
        "bpb",
        "lower",
        "stage bpb, a run of its own after training",
        _bpb,
        _bpb_rows,
    ),
    Metric(
        "last_bpb",
        "Validation bpb, last look",
        "bits per byte",
        "pretrain",
        "lower",
        "the last of the looks taken during training, on fewer rows than stage bpb",
        _last_look,
    ),
    Metric(
        "train_loss",
        "Training loss, end",
        "nats per token",
        "pretrain",
        "lower",
        "mean raw loss of the last 1 % of the steps",
        _train_loss,
    ),
    Metric(
        "core",
        "Base CORE",
        "centred accuracy",
        "core",
        "higher",
        "stage core, a run of its own before fine-tuning",
        _core,
        _suite_items("core"),
    ),
    Metric(
        "chatcore",
        "ChatCORE",
        "centred accuracy",
        "chatcore",
        "higher",
        "stage chatcore, a run of its own after fine-tuning",
        _chatcore,
        _suite_items("chatcore"),
    ),
    Metric(
        "cos_y_v",
        "Self-alignment cos(y, v)",
        "cosine",
        "attention",
        None,
        "mean over layers, heads and positions from 1 on, before the projection",
        _attention("cos_y_v"),
    ),
    Metric(
        "cos_y_v_centred",
        "Centred cos(y, v)",
        "cosine",
        "attention",
        None,
        "as cos(y, v), of vectors centred over tokens",
        _attention("cos_y_v_centred"),
    ),
    Metric(
        "diagonal",
        "Diagonal weight aᵢᵢ",
        "attention weight",
        "attention",
        None,
        "mean over layers, heads and positions from 1 on",
        _attention("diagonal"),
    ),
)
