"""Loss curves: the one smoothing rule, the curves of an arm, the gap between arms, and looks at the validation rows.

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
MICRO = "last_micro_loss"  # column of timing.parquet
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
    """Loss of an arm less its baseline's, seed by seed at the same step: raw_SN and smooth_SN.

    The last two hold the losses of the last micro-batch alone, None where no run kept them.
    """

    comparison: Comparison
    step_N: np.ndarray
    tokens_N: np.ndarray
    raw_SN: np.ndarray
    smooth_SN: np.ndarray
    baseline_SN: np.ndarray  # raw losses, for other conventions
    arm_SN: np.ndarray
    baseline_micro_SN: np.ndarray | None = None
    arm_micro_SN: np.ndarray | None = None


def loss_gap(results: Results, comparison: Comparison) -> Gap | None:
    """The gap of a comparison over the steps and seeds that both arms logged; None where there are none."""
    pairs, seeds = [], []
    for seed in comparison.seeds:
        logs = [_log(results, arm.cells[seed]) for arm in (comparison.baseline, comparison.arm)]
        if all(log is not None for log in logs):
            pairs.append(logs)
            seeds.append(seed)
    shared = sorted(set.intersection(*(set(log.index) for pair in pairs for log in pair))) if pairs else []
    if not shared:
        return None
    baseline_SN, arm_SN = (
        np.stack([pair[side].loc[shared, "loss"].to_numpy(dtype=np.float64) for pair in pairs]) for side in (0, 1)
    )
    raw_SN = arm_SN - baseline_SN
    smooth_SN = np.stack([smooth(raw_N) for raw_N in raw_SN])
    tokens = pairs[0][0].loc[shared, "tokens"].to_numpy()
    micro = [_micro_losses(results, arm, seeds, shared) for arm in (comparison.baseline, comparison.arm)]
    kept = micro if all(losses is not None for losses in micro) else (None, None)
    return Gap(comparison, np.asarray(shared), tokens, raw_SN, smooth_SN, baseline_SN, arm_SN, *kept)


def _micro_losses(results: Results, arm: Arm, seeds: list[int], steps: list[int]) -> np.ndarray | None:
    """Losses of the last micro-batch of each step, seeds by steps; None where a run has not kept them all."""
    losses = []
    for seed in seeds:
        timing = results.parquet(arm.cells[seed], "pretrain", "timing.parquet")
        if timing is None or MICRO not in timing:
            return None
        losses.append(timing.set_index("step")[MICRO].reindex(steps).to_numpy(dtype=np.float64))
    return np.stack(losses) if np.isfinite(losses).all() else None


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
