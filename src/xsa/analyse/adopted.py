"""Adopted checkpoints: which cells hold one, and which numbers rest on it."""

from __future__ import annotations

from typing import Any

from xsa.analyse.arms import Arm, Grid
from xsa.analyse.metrics import METRICS
from xsa.analyse.results import Results
from xsa.store.adopt import ADOPTED

# What a checkpoint feeds, by the stage whose place it took.
FEEDS = {
    "pretrain": ("pretrain", "bpb", "core", "attention", "finetune", "chatcore"),
    "finetune": ("finetune", "chatcore"),
}
_STAGE = {metric.id: metric.stage for metric in METRICS}


def adopted_cells(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """One entry a cell and stage whose checkpoint was adopted: where from, what differs, and why it may stand there."""
    found = []
    for cell in grid.cells:
        for stage in FEEDS:
            entry = (results.record(cell, stage) or {}).get(ADOPTED)
            if entry:
                told = {name: entry.get(name) for name in ("from", "differences", "why", "at")}
                found.append(
                    {"cell": cell.name, "shape": cell.shape, "stage": stage, "result": cell.results[stage]} | told
                )
    return found


def mark(found: dict[str, list], grid: Grid, adopted: list[dict[str, Any]]) -> None:
    """Give every row of `found` that rests on an adopted checkpoint an entry `adopted`.

    Of a cell's row it is the stages that are fed; of a comparison's row, which of its two arms: `arm`, `baseline` or `both`;
    of others `arm`. Rows stay as they are where nothing was adopted.
    """
    if not adopted:
        return
    fed = {(entry["cell"], stage) for entry in adopted for stage in FEEDS[entry["stage"]]}
    for row in found["cells"]:
        row["adopted"] = [stage for stage in FEEDS["pretrain"] if (row["cell"], stage) in fed]
    arms = {(arm.shape, arm.label): arm for arm in grid.arms}
    baselines = {(one.arm.shape, one.arm.label): one.baseline for one in grid.comparisons}

    def rests(arm: Arm | None, stage: str) -> bool:
        return arm is not None and any((cell.name, stage) in fed for cell in arm.cells.values())

    for name, stage_of in (
        ("metrics", lambda row: _STAGE[row["metric"]]),
        ("tasks", lambda row: row["suite"]),
        ("layers", lambda row: "attention"),
        ("validation", lambda row: "pretrain"),
    ):
        for row in found[name]:
            place, stage = (row["shape"], row["arm"]), stage_of(row)
            sides = [rests(arms.get(place), stage)]
            if name in ("metrics", "tasks"):
                sides.append(rests(baselines.get(place), stage))
            row["adopted"] = {(True, True): "both", (False, True): "baseline"}.get(
                tuple(sides), "arm" if sides[0] else ""
            )
