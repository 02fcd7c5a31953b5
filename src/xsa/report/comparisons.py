"""The tables of changes, shape by shape, as the page shows them."""

from __future__ import annotations

from typing import Any

from xsa.report.answer import INSIDE, OUTSIDE, ROUNDING, improved
from xsa.report.whisker import scale_of, whisker

MAIN = ("bpb", "core", "chatcore")
BESIDE = ("last_bpb", "train_loss")
MECHANISM = ("cos_y_v", "cos_y_v_centred", "diagonal")
SUITES = {"core": "Base CORE", "chatcore": "ChatCORE"}


def verdict_class(row: dict[str, Any]) -> str:
    """The class that colours a verdict; its words say the same."""
    if row["verdict"] == OUTSIDE:
        return {True: "better", False: "worse", None: "outside"}[improved(row)]
    return "inside" if row["verdict"] in (INSIDE, ROUNDING) else "unknown"


def verdict_words(row: dict[str, Any]) -> str:
    """The verdict, with the direction where it is more than noise and one direction is better."""
    if "baseline_accuracy" in row and row["baseline_accuracy"] == row["arm_accuracy"] == 0:
        return "no item solved"
    if row["verdict"] == OUTSIDE and improved(row) is not None:
        return f"{row['verdict']}, {'better' if improved(row) else 'worse'}"
    return row["verdict"]


def metric_tables(summary: dict[str, Any], metrics: tuple[str, ...]) -> list[dict[str, Any]]:
    """A table a shape: its metrics in the order of `metrics`, each with the rows of its arms."""
    rows = [row for row in summary["metrics"] if row["metric"] in metrics]
    scales = {metric: scale_of([row for row in rows if row["metric"] == metric]) for metric in metrics}
    tables = []
    for shape in summary["shapes"]:
        mine = [row for row in rows if row["shape"] == shape]
        groups = []
        for metric in metrics:
            group = [_shown(row, scales[metric]) for row in mine if row["metric"] == metric]
            if group:
                groups.append({"first": group[0], "rows": group})
        if groups:
            baselines = {row["baseline_arm"] for row in mine}
            tables.append(
                {
                    "shape": shape,
                    "groups": groups,
                    "several": len({row["arm"] for row in mine}) > 1,
                    "arm": mine[0]["arm"],
                    "baseline": baselines.pop() if len(baselines) == 1 else None,
                    "seeds": sorted({row["n_seeds"] for row in mine}),
                }
            )
    return tables


def task_tables(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """A table a suite, shape and arm: every task's accuracies and change."""
    tables: dict[tuple[str, str, str], list] = {}
    for suite in SUITES:
        rows = [row for row in summary["tasks"] if row["suite"] == suite]
        scale = scale_of(rows)
        for row in rows:
            shown = _shown(row | {"better": "higher"}, scale)
            tables.setdefault((suite, row["shape"], row["arm"]), []).append(shown)
    return [
        {"suite": suite, "name": SUITES[suite], "shape": shape, "arm": arm, "rows": rows}
        for (suite, shape, arm), rows in tables.items()
    ]


def _shown(row: dict[str, Any], scale: float) -> dict[str, Any]:
    adopted = row.get("adopted")
    sides = ["baseline", "arm"] if adopted == "both" else [adopted] if adopted else []
    return row | {
        "adopted": sides,
        "whisker": whisker(row, scale),
        "class": verdict_class(row),
        "words": verdict_words(row),
    }
