"""Loss curves: the one smoothing rule, the curves of an arm, the gap between arms, and what other conventions draw.

The log holds the raw mean loss of every step, numbered after the update. Nothing is smoothed before it is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from xsa.analyse.arms import Arm, Cell, Comparison, Grid
from xsa.analyse.results import Results

WINDOW_SHARE = 0.01
SMOOTHING = "centred running mean over 1 % of the steps (at least 3), its window cut off at both ends"
POINTS = 400  # drawn along a curve at most


def window(steps: int) -> int:
    """Steps in the running mean: 1 % of them, odd, at least 3."""
    return max(3, 2 * round(steps * WINDOW_SHARE / 2) + 1)


def smooth(loss: np.ndarray, ending: bool = False) -> np.ndarray:
    """`SMOOTHING` of a raw loss, one value a step; `ending`: only the mean over the last window.

    A centred mean moves no feature sideways, but within half a window of an end, where steps on one side are missing.
    """
    values = np.asarray(loss, dtype=np.float64)
    width = min(window(len(values)), len(values))
    if ending:
        return values[-width:].mean()
    index = np.arange(len(values))
    first, end = np.maximum(index - width // 2, 0), np.minimum(index + width // 2 + 1, len(values))
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return (sums[end] - sums[first]) / (end - first)


@dataclass(frozen=True)
class ArmCurve:
    """Loss of an arm's seeds at the steps that all of them logged: raw_SN and smooth_SN, seeds by steps."""

    shape: str
    label: str
    seeds: tuple[int, ...]
    step_N: np.ndarray
    tokens_N: np.ndarray
    raw_SN: np.ndarray
    smooth_SN: np.ndarray


def arm_curve(results: Results, arm: Arm) -> ArmCurve | None:
    """The loss curves of an arm's seeds, or None where no log was kept."""
    logs = {seed: log for seed in arm.seeds if (log := _log(results, arm.cells[seed])) is not None}
    if not logs:
        return None
    shared = sorted(set.intersection(*(set(log.index) for log in logs.values())))
    if not shared:
        return None
    first = next(iter(logs.values()))
    raw_SN = np.stack([log.loc[shared, "loss"].to_numpy(dtype=np.float64) for log in logs.values()])
    return ArmCurve(
        arm.shape,
        arm.label,
        tuple(logs),
        np.asarray(shared),
        first.loc[shared, "tokens"].to_numpy(),
        raw_SN,
        np.stack([smooth(raw_N) for raw_N in raw_SN]),
    )


def _log(results: Results, cell: Cell) -> pd.DataFrame | None:
    log = results.parquet(cell, "pretrain", "log.parquet")
    return None if log is None or log.empty else log.set_index("step")


@dataclass(frozen=True)
class Gap:
    """Loss of an arm less its baseline's, seed by seed at the same step: raw_SN and smooth_SN."""

    comparison: Comparison
    step_N: np.ndarray
    tokens_N: np.ndarray
    raw_SN: np.ndarray
    smooth_SN: np.ndarray
    baseline_SN: np.ndarray  # raw losses, for other conventions
    arm_SN: np.ndarray


def loss_gap(results: Results, comparison: Comparison) -> Gap | None:
    """The gap of a comparison over the steps and seeds that both arms logged; None where there are none."""
    pairs = []
    for seed in comparison.seeds:
        logs = [_log(results, arm.cells[seed]) for arm in (comparison.baseline, comparison.arm)]
        if all(log is not None for log in logs):
            pairs.append(logs)
    shared = sorted(set.intersection(*(set(log.index) for pair in pairs for log in pair))) if pairs else []
    if not shared:
        return None
    baseline_SN, arm_SN = (
        np.stack([pair[side].loc[shared, "loss"].to_numpy(dtype=np.float64) for pair in pairs]) for side in (0, 1)
    )
    raw_SN = arm_SN - baseline_SN
    smooth_SN = np.stack([smooth(raw_N) for raw_N in raw_SN])
    tokens = pairs[0][0].loc[shared, "tokens"].to_numpy()
    return Gap(comparison, np.asarray(shared), tokens, raw_SN, smooth_SN, baseline_SN, arm_SN)


def other_convention(loss: np.ndarray, every: int, beta: float = 0.9) -> np.ndarray:
    """The series that a common other way of logging leaves, on the same steps.

    Every `every`-th step is kept, under its index before the update, and an exponential mean with weight `beta` and
    bias correction is taken over the kept ones; between them the last value stands.
    """
    values = np.asarray(loss, dtype=np.float64)
    kept = np.arange(0, len(values), every)
    mean, smoothed = 0.0, np.empty(len(kept))
    for count, index in enumerate(kept, start=1):
        mean = beta * mean + (1 - beta) * values[index]
        smoothed[count - 1] = mean / (1 - beta**count)
    # the loss that belongs to step s (after the update) is drawn at s − 1 under the index before the update
    drawn = np.repeat(smoothed, every)[: len(values)]
    return np.append(drawn[1:], drawn[-1])


def convention_gaps(gap: Gap) -> dict[str, np.ndarray]:
    """The gap, mean over seeds, as three ways of logging draw it; arrays [N].

    ours:  both arms by `SMOOTHING`;
    other: both arms by `other_convention`;
    mixed: the arm by the other convention, the baseline by ours, as when two runs' logs differ.
    """
    every = max(1, len(gap.step_N) // 100)
    ours = [np.mean([smooth(loss) for loss in losses], axis=0) for losses in (gap.baseline_SN, gap.arm_SN)]
    other = [
        np.mean([other_convention(loss, every) for loss in losses], axis=0) for losses in (gap.baseline_SN, gap.arm_SN)
    ]
    return {"ours": ours[1] - ours[0], "other": other[1] - other[0], "mixed": other[1] - ours[0]}


def thin(length: int, points: int = POINTS) -> np.ndarray:
    """Indices of at most about `points` evenly spaced entries, the first and last included."""
    return np.unique(np.linspace(0, length - 1, min(length, points)).round().astype(int))


def curve_rows(curves: list[ArmCurve]) -> list[dict[str, Any]]:
    """The drawn points of every seed's curve, raw and smoothed."""
    return [
        {
            "shape": curve.shape,
            "arm": curve.label,
            "seed": seed,
            "step": int(curve.step_N[n]),
            "tokens": int(curve.tokens_N[n]),
            "loss": float(curve.raw_SN[s, n]),
            "smoothed": float(curve.smooth_SN[s, n]),
        }
        for curve in curves
        for s, seed in enumerate(curve.seeds)
        for n in thin(len(curve.step_N))
    ]


def validation_rows(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """Every look at the validation rows during training: shape, arm, seed, step, tokens, bpb."""
    rows = []
    for arm in (arm for shape in grid.shapes for arm in grid.arms_of(shape)):
        for seed in arm.seeds:
            looks = results.parquet(arm.cells[seed], "pretrain", "validation.parquet")
            for look in [] if looks is None else looks.itertuples():
                row = {"step": int(look.step), "tokens": int(look.tokens), "bpb": float(look.bpb)}
                rows.append({"shape": arm.shape, "arm": arm.label, "seed": seed} | row)
    return rows


def stability(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """Per cell, whether training went smoothly.

    finite: every logged loss and gradient norm is a finite number; largest_rise: how far the smoothed loss ever rose
    above its lowest value before, in nats, after the first tenth of the steps; largest_grad_norm from there on too.
    """
    rows = []
    for cell in grid.cells:
        log = results.parquet(cell, "pretrain", "log.parquet")
        if log is None or log.empty:
            continue
        loss, norm = (log[name].to_numpy(dtype=np.float64) for name in ("loss", "grad_norm"))
        late = slice(len(loss) // 10, None)
        smoothed = smooth(loss)[late]
        rise = float((smoothed - np.minimum.accumulate(smoothed)).max())
        rows.append(
            {
                "cell": cell.name,
                "shape": cell.shape,
                "finite": bool(np.isfinite(loss).all() and np.isfinite(norm).all()),
                "largest_rise": rise if np.isfinite(rise) else None,
                "largest_grad_norm": float(norm[late].max()) if np.isfinite(norm[late]).all() else None,
            }
        )
    return rows
