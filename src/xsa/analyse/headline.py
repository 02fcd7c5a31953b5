"""The few numbers that a single result is known by, for people who look at it alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Number:
    """A measured number; `interval` holds 95 % of what another draw of items would have given, where that is known."""

    name: str
    value: float | int | bool
    unit: str = ""
    interval: tuple[float, float] | None = None


def headline(folder: Path, stage: str) -> list[Number]:
    """What a stage measured, from the files of its result in `folder`; empty where it measures nothing or a file is gone."""
    read = _BY_STAGE.get(stage)
    try:
        return read(Path(folder)) if read else []
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return []


def _json(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def _trained(folder: Path) -> list[Number]:
    import pyarrow.parquet as pq

    losses = pq.read_table(folder / "log.parquet", columns=["step", "loss"])
    looks = pq.read_table(folder / "validation.parquet", columns=["bpb"])["bpb"].to_pylist()
    found = [Number("loss of the last step", losses["loss"][-1].as_py(), "nats per token")]
    return found + ([Number("validation, last look", looks[-1], "bits per byte")] if looks else [])


def _bpb(folder: Path) -> list[Number]:
    told = _json(folder, "bpb.json")
    found = [Number("bits per byte", told["bpb"])]
    if "unigram_bpb" in told:
        found.append(Number("of the unigram model", told["unigram_bpb"], "bits per byte"))
    return found


def _suite(name: str, title: str):
    def read(folder: Path) -> list[Number]:
        told = _json(folder, f"{name}.json")
        interval = told.get("interval")
        scores = [Number(title, told[name], "centred accuracy", tuple(interval) if interval else None)]
        return scores + [
            Number(task, score["accuracy"], f"accuracy, {score['items']} items")
            for task, score in told["tasks"].items()
        ]

    return read


def _attention(folder: Path) -> list[Number]:
    return [Number(name, value) for name, value in _json(folder, "attention.json")["means"].items()]


def _overhead(folder: Path) -> list[Number]:
    told = _json(folder, "overhead.json")
    return [
        Number(f"{phase}, {mode}", found["ratio"], "× the baseline's time", tuple(found["interval"]))
        for mode, phases in told["ratio"].items()
        for phase, found in phases.items()
    ]


def _equivalence(folder: Path) -> list[Number]:
    told = _json(folder, "equivalence.json")
    return [Number(name, value) for name, value in told.items() if isinstance(value, int | float)]


_BY_STAGE = {
    "pretrain": _trained,
    "finetune": _trained,
    "bpb": _bpb,
    "core": _suite("core", "CORE"),
    "chatcore": _suite("chatcore", "ChatCORE"),
    "attention": _attention,
    "overhead": _overhead,
    "equivalence": _equivalence,
}
