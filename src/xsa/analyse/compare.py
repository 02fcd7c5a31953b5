"""Every arm held against its baseline: the change of each metric and of each task, with both intervals and a verdict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from xsa.analyse.arms import Comparison, Grid
from xsa.analyse.mcnemar import holm, mcnemar
from xsa.analyse.metrics import METRICS, Metric
from xsa.analyse.results import Results
from xsa.analyse.statistics import (
    INSIDE,
    OUTSIDE,
    UNKNOWN,
    Interval,
    at_rounding,
    bootstrap_mean,
    mean_error,
    paired_items,
    paired_rows,
    paired_t,
    pooled_sd,
    seeds_needed,
    smallest_seen,
    verdict,
)
from xsa.analyse.variance import Noise, noise_of_items, noise_of_rows

# A change of a centred score is told in percent from this baseline on.
CENTRED_FROM = 0.05
LEVEL = 0.05  # of the tests of tasks, after Holm's correction
SUITES = {"core": "core.json", "chatcore": "chatcore.json"}


def metric_rows(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """One row per shape, arm and metric: means over the paired seeds, change, intervals, seed noise and verdict.

    `relative_percent` is the change in percent of the baseline's mean, None where that is too near zero; `seed_sd` is the standard deviation of a
    seed, pooled over the two arms; `difference_sd` that of the paired differences `seed_deltas`, which the interval over
    seeds rests on; `item_note` says why there is no interval over items where one was to be had.

    `seed_se`, `item_se` and `total_se` are standard errors of the change by other seeds, other items, and both; `total_lo`, `total_hi` the
    interval over both (`xsa.analyse.variance`); `bootstrap_lo`, `bootstrap_hi` the one by resampling seeds, from ten on.
    `smallest_seen` is the true change that so many seeds show in four studies of five, `seeds_needed` how many it takes to
    show one as large as this so often, None where no number up to a thousand does. Whatever is not known is None.
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
    deltas = arm - baseline
    delta, seeds = float(deltas.mean()), paired_t(deltas)
    items, noise, count, note = _items(results, comparison, tuple(pairs), metric)
    together = None if noise is None else noise.interval(delta)
    # right-or-wrong items have no rounding: there only the same answers to every item are no difference
    same_answers = metric.id not in SUITES or (items is not None and items.lo == items.hi == 0)
    rounding = same_answers and at_rounding(deltas, float(baseline.mean()))
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
        **_sides("seed", seeds),
        **_sides("item", items),
        **_sides("total", together),
        **_sides("bootstrap", bootstrap_mean(deltas)),
        "item_note": note,
        "n_seeds": len(pairs),
        "seeds": list(pairs),
        "seed_deltas": [float(difference) for difference in deltas],
        "n_items": count,
        "seed_sd": pooled_sd([baseline, arm])[0],
        **_noise(deltas, noise, rounding),
        "verdict": verdict(seeds, items, rounding, together),
    }


def _noise(deltas: np.ndarray, noise: Noise | None, rounding: bool) -> dict[str, Any]:
    """The two sources of noise apart and together, and what numbers of seeds can show."""
    several = len(deltas) > 1
    sd = float(deltas.std(ddof=1)) if several else None
    told = {
        "difference_sd": sd,
        "seed_se": mean_error(deltas) if several else None,
        "item_se": noise.item_error if noise else None,
        "total_se": noise.error if noise else None,
        "seeds_needed": None,
        "smallest_seen": None,
    }
    if not sd or rounding:
        return told
    fixed = noise.fixed_error if noise else 0.0
    return told | {
        "seeds_needed": seeds_needed(float(deltas.mean()), sd, fixed),
        "smallest_seen": smallest_seen(sd, len(deltas), fixed),
    }


def _sides(name: str, interval: Interval | None) -> dict[str, float | None]:
    """Both ends of an interval under `name_lo` and `name_hi`; None where there is none."""
    return {f"{name}_{side}": None if interval is None else float(getattr(interval, side)) for side in ("lo", "hi")}


def _relative(metric: Metric, delta: float, baseline: float) -> float | None:
    """The change in percent. A centred score near zero or below has no percentage worth reading."""
    least = CENTRED_FROM if metric.id in SUITES else 0.0
    return 100 * delta / baseline if baseline > least else None


def _items(
    results: Results, comparison: Comparison, seeds: tuple[int, ...], metric: Metric
) -> tuple[Interval | None, Noise | None, int | None, str]:
    """Interval over items or rows, the noise of both sources, how many items there are, and why there is no interval."""
    if metric.id == "bpb":
        return _row_interval(results, comparison, seeds)
    if metric.id not in SUITES:
        return None, None, None, "this metric has no items"
    tasks, note = task_differences(results, comparison, seeds, metric.id)
    if not tasks:
        return None, None, None, note
    differences = [task["arm_SI"] - task["baseline_SI"] for task in tasks.values()]
    baselines = [task["baseline"] for task in tasks.values()]
    interval = paired_items([d_SI.mean(axis=0) for d_SI in differences], baselines)
    return interval, noise_of_items(differences, baselines), sum(d_SI.shape[1] for d_SI in differences), ""


def _row_interval(
    results: Results, comparison: Comparison, seeds: tuple[int, ...]
) -> tuple[Interval | None, Noise | None, int | None, str]:
    nats, bytes_ = [], None
    for seed in seeds:
        pair = [
            results.parquet(arm.cells[seed], "bpb", "rows.parquet").set_index("row").sort_index()
            for arm in (comparison.baseline, comparison.arm)
        ]
        bytes_ = pair[0]["bytes"] if bytes_ is None else bytes_
        if not all(rows["bytes"].equals(bytes_) for rows in pair):
            return None, None, None, "the two arms were not measured on the same validation rows"
        nats.append((pair[1]["nats"] - pair[0]["nats"]).to_numpy())
    bits_SR, bytes_R = np.stack(nats) / math.log(2), bytes_.to_numpy(dtype=np.float64)
    if len(bytes_R) < 2:
        return None, None, len(bytes_R), "one row has no spread"
    return paired_rows(bits_SR.mean(axis=0), bytes_R), noise_of_rows(bits_SR, bytes_R), len(bytes_R), ""


def task_differences(
    results: Results, comparison: Comparison, seeds: tuple[int, ...], suite: str
) -> tuple[dict[str, dict[str, Any]], str]:
    """Per task of a suite: `baseline` (by chance) and both arms' correctness, seeds by items.

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
        }
    return tasks, ""


def _answers(results: Results, cell, suite: str) -> pd.DataFrame:
    """Correctness (0 or 1) and right answer, by task and item, in order."""
    items = results.parquet(cell, suite, "items.parquet")
    frame = items[["task", "item", "gold"]].assign(correct=items["correct"].astype(np.float64))
    return frame.set_index(["task", "item"]).sort_index()


def task_rows(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """One row per comparison, suite and task: accuracies, change, intervals as `metric_rows`, tests and verdict.

    `arm_only` and `baseline_only` count answers, over items and seeds, that one arm alone had right. `mcnemar_p` is exact, and
    `holm_p` corrected for the suite's tasks; a change is outside noise where the latter is below LEVEL and the interval over
    seeds excludes zero. The interval over items is that of the task by itself.
    """
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
            p = [mcnemar((task["arm_SI"] - task["baseline_SI"]).sum(axis=0)) for task in tasks.values()]
            for (name, task), one, corrected in zip(tasks.items(), p, holm(p), strict=True):
                tested = {"mcnemar_p": one, "holm_p": corrected}
                rows.append(_task_row(comparison, suite, name, task, seeds, tested))
    return rows


def _task_row(
    comparison: Comparison, suite: str, name: str, task: dict[str, Any], seeds: tuple, tested: dict[str, float]
) -> dict[str, Any]:
    d_SI = task["arm_SI"] - task["baseline_SI"]
    over_seeds = paired_t(d_SI.mean(axis=1))
    return {
        "shape": comparison.arm.shape,
        "arm": comparison.arm.label,
        "suite": suite,
        "task": name,
        "kind": task["kind"],
        "chance": task["baseline"],
        "items": d_SI.shape[1],
        "baseline_accuracy": float(task["baseline_SI"].mean()),
        "arm_accuracy": float(task["arm_SI"].mean()),
        "delta": float(d_SI.mean()),
        **_sides("seed", over_seeds),
        **_sides("item", paired_items([d_SI.mean(axis=0)], [0.0])),
        "n_seeds": len(seeds),
        "arm_only": int((d_SI > 0).sum()),
        "baseline_only": int((d_SI < 0).sum()),
        **tested,
        "verdict": _task_verdict(over_seeds, tested["holm_p"], bool((d_SI == 0).all())),
    }


def _task_verdict(seeds: Interval | None, p: float, same_answers: bool) -> str:
    """As `statistics.verdict`, with McNemar's test and Holm's correction in the place of an interval over items."""
    if same_answers:
        return verdict(seeds, None, rounding=True)
    if p >= LEVEL or (seeds is not None and not seeds.excludes(0.0)):
        return INSIDE
    return UNKNOWN if seeds is None else OUTSIDE
