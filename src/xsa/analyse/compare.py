"""Every arm held against its baseline: the change of each metric and of each task, with both intervals and a verdict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from xsa.analyse.arms import Comparison, Grid
from xsa.analyse.metrics import METRICS, Metric
from xsa.analyse.results import Results
from xsa.analyse.statistics import Interval, at_rounding, paired_items, paired_rows, paired_t, pooled_sd, verdict

# A change of a centred score is told in percent from this baseline on.
CENTRED_FROM = 0.05
SUITES = {"core": "core.json", "chatcore": "chatcore.json"}


def metric_rows(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """One row per shape, arm and metric: means over the paired seeds, change, intervals, seed noise and verdict.

    `relative_percent` is the change in percent of the baseline's mean, None where that is too near zero; `seed_sd` is the standard deviation of a
    seed, pooled over the two arms; `difference_sd` that of the paired differences `seed_deltas`, which the interval over
    seeds rests on; `item_note` says why there is no interval over items where one was to be had.
    """
    return [
        row
        for metric in METRICS
        for comparison in grid.comparisons
        if (row := _metric_row(results, comparison, metric)) is not None
    ]


def _metric_row(results: Results, comparison: Comparison, metric: Metric) -> dict[str, Any] | None:
    pairs = {}
    for seed in comparison.seeds:
        pair = [metric.value(results, arm.cells[seed]) for arm in (comparison.baseline, comparison.arm)]
        if None not in pair:
            pairs[seed] = pair
    if not pairs:
        return None
    baseline, arm = (np.array([pair[side] for pair in pairs.values()]) for side in (0, 1))
    delta = float((arm - baseline).mean())
    seeds = paired_t(arm - baseline)
    items, count, note = _items(results, comparison, tuple(pairs), metric)
    sd, _ = pooled_sd([baseline, arm])
    # right-or-wrong items have no rounding: there only the same answers to every item are no difference
    same_answers = metric.id not in SUITES or (items is not None and items.lo == items.hi == 0)
    rounding = same_answers and at_rounding(arm - baseline, float(baseline.mean()))
    return {
        "shape": comparison.arm.shape,
        "arm": comparison.arm.label,
        "baseline_arm": comparison.baseline.label,
        "metric": metric.id,
        "name": metric.name,
        "unit": metric.unit,
        "source": metric.told_source(results, comparison.arm.cells[next(iter(pairs))]),
        "better": metric.better,
        "baseline_mean": float(baseline.mean()),
        "arm_mean": float(arm.mean()),
        "delta": delta,
        "relative_percent": _relative(metric, delta, float(baseline.mean())),
        "seed_lo": _side(seeds, "lo"),
        "seed_hi": _side(seeds, "hi"),
        "item_lo": _side(items, "lo"),
        "item_hi": _side(items, "hi"),
        "item_note": note,
        "n_seeds": len(pairs),
        "seeds": list(pairs),
        "seed_deltas": [float(difference) for difference in arm - baseline],
        "n_items": count,
        "seed_sd": sd,
        "difference_sd": float((arm - baseline).std(ddof=1)) if len(pairs) > 1 else None,
        "verdict": verdict(seeds, items, rounding),
    }


def _relative(metric: Metric, delta: float, baseline: float) -> float | None:
    """The change in percent. A centred score near zero or below has no percentage worth reading."""
    least = CENTRED_FROM if metric.id in SUITES else 0.0
    return 100 * delta / baseline if baseline > least else None


def _side(interval: Interval | None, side: str) -> float | None:
    return None if interval is None else float(getattr(interval, side))


def _items(
    results: Results, comparison: Comparison, seeds: tuple[int, ...], metric: Metric
) -> tuple[Interval | None, int | None, str]:
    """Interval over items or rows, how many there are, and why there is none."""
    if metric.id == "bpb":
        return _row_interval(results, comparison, seeds)
    if metric.id not in SUITES:
        return None, None, "this metric has no items"
    tasks, note = task_differences(results, comparison, seeds, metric.id)
    if not tasks:
        return None, None, note
    differences = [task["differences"] for task in tasks.values()]
    interval = paired_items(differences, [task["baseline"] for task in tasks.values()])
    return interval, sum(len(array) for array in differences), ""


def _row_interval(
    results: Results, comparison: Comparison, seeds: tuple[int, ...]
) -> tuple[Interval | None, int | None, str]:
    nats, bytes_ = [], None
    for seed in seeds:
        pair = [
            results.parquet(arm.cells[seed], "bpb", "rows.parquet").set_index("row").sort_index()
            for arm in (comparison.baseline, comparison.arm)
        ]
        bytes_ = pair[0]["bytes"] if bytes_ is None else bytes_
        if not all(rows["bytes"].equals(bytes_) for rows in pair):
            return None, None, "the two arms were not measured on the same validation rows"
        nats.append((pair[1]["nats"] - pair[0]["nats"]).to_numpy())
    interval = paired_rows(np.mean(nats, axis=0) / math.log(2), bytes_.to_numpy(dtype=np.float64))
    return interval, len(bytes_), "" if interval else "one row has no spread"


def task_differences(
    results: Results, comparison: Comparison, seeds: tuple[int, ...], suite: str
) -> tuple[dict[str, dict[str, Any]], str]:
    """Per task of a suite: `baseline` (by chance), `differences` and both arms' correctness item by item, over seeds.

    Empty, with the reason, where the two arms did not answer the same items.
    """
    tasks: dict[str, dict[str, Any]] = {}
    per_seed = [
        [_answers(results, arm.cells[seed], suite) for arm in (comparison.baseline, comparison.arm)] for seed in seeds
    ]
    first = per_seed[0][0]
    if any(not first["correct"].index.equals(answers["correct"].index) for pair in per_seed for answers in pair):
        return {}, "the two arms did not answer the same items"
    if any(not first["gold"].equals(answers["gold"]) for pair in per_seed for answers in pair):
        return {}, "the two arms' items have different right answers"
    chance = results.json(comparison.baseline.cells[seeds[0]], suite, SUITES[suite])["tasks"]
    scores = [[answers["correct"] for answers in pair] for pair in per_seed]
    for task in chance:
        if task not in first["correct"].index.get_level_values("task"):
            return {}, f"task {task} has no items"
        baseline_SI, arm_SI = (np.stack([pair[side].loc[task].to_numpy() for pair in scores]) for side in (0, 1))
        tasks[task] = {
            "baseline": float(chance[task]["baseline"]),
            "kind": chance[task]["kind"],
            "baseline_SI": baseline_SI,
            "arm_SI": arm_SI,
            "differences": (arm_SI - baseline_SI).mean(axis=0),
        }
    return tasks, ""


def _answers(results: Results, cell, suite: str) -> pd.DataFrame:
    """Correctness (0 or 1) and right answer, by task and item, in order."""
    items = results.parquet(cell, suite, "items.parquet")
    frame = items[["task", "item", "gold"]].assign(correct=items["correct"].astype(np.float64))
    return frame.set_index(["task", "item"]).sort_index()


def task_rows(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """One row per comparison, suite and task: accuracies, change, intervals and verdict, as `metric_rows`."""
    rows = []
    for suite, file in SUITES.items():
        for comparison in grid.comparisons:
            arms = (comparison.baseline, comparison.arm)
            seeds = tuple(
                seed
                for seed in comparison.seeds
                if all(results.json(arm.cells[seed], suite, file) is not None for arm in arms)
            )
            tasks = task_differences(results, comparison, seeds, suite)[0] if seeds else {}
            rows += [_task_row(comparison, suite, name, task, seeds) for name, task in tasks.items()]
    return rows


def _task_row(comparison: Comparison, suite: str, name: str, task: dict[str, Any], seeds: tuple) -> dict[str, Any]:
    over_seeds = paired_t((task["arm_SI"] - task["baseline_SI"]).mean(axis=1))
    over_items = paired_items([task["differences"]], [0.0])
    return {
        "shape": comparison.arm.shape,
        "arm": comparison.arm.label,
        "suite": suite,
        "task": name,
        "kind": task["kind"],
        "chance": task["baseline"],
        "items": len(task["differences"]),
        "baseline_accuracy": float(task["baseline_SI"].mean()),
        "arm_accuracy": float(task["arm_SI"].mean()),
        "delta": float(task["differences"].mean()),
        "seed_lo": _side(over_seeds, "lo"),
        "seed_hi": _side(over_seeds, "hi"),
        "item_lo": _side(over_items, "lo"),
        "item_hi": _side(over_items, "hi"),
        "n_seeds": len(seeds),
        "verdict": verdict(over_seeds, over_items, bool((task["arm_SI"] == task["baseline_SI"]).all())),
    }
