"""Bits per byte along training as differences between arms, and the training tokens that the better arm saves at equal bpb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xsa.analyse.arms import Comparison, Grid
from xsa.analyse.statistics import paired_t

Row = dict[str, Any]
_Curve = tuple[np.ndarray, np.ndarray]  # tokens and bpb of one seed's looks


def look_gaps(looks: Sequence[Row], grid: Grid) -> list[Row]:
    """One row a comparison and look that all its seeds took: mean difference in bpb, the seeds' own, and their t interval.

    looks: rows of `curves.validation_rows`. `lo` and `hi` are None for one seed.
    """
    rows = []
    for comparison in grid.comparisons:
        pairs = _pairs(looks, comparison)
        differences = [_differences(*pair) for pair in pairs.values()]
        for tokens in sorted(set.intersection(*map(set, differences))) if differences else []:
            values = [one[tokens] for one in differences]
            interval = paired_t(values)
            place = {"shape": comparison.arm.shape, "arm": comparison.arm.label, "tokens": tokens}
            ends = {"lo": interval.lo if interval else None, "hi": interval.hi if interval else None}
            rows.append(
                place
                | {"difference": float(np.mean(values))}
                | ends
                | {"n_seeds": len(values), "seed_differences": values}
            )
    return rows


def savings(looks: Sequence[Row], grid: Grid, overhead: Sequence[Row]) -> list[Row]:
    """One row a comparison: which share of the training tokens the better arm saves at the other's final bpb.

    For each seed the worse of the two ends at some bpb, and the better reached it after fewer tokens, found on the straight line
    between two looks; saved = 1 − those tokens / all. It counts below zero where the baseline is the better. The row has the
    mean over seeds with Student's interval, the same in tokens, and as share of time: a step of the arm takes `step_ratio` times
    as long (the measured overhead, compiled where it is known). `bounded` counts the seeds whose better arm was there at its
    first look already, so that it saved more.

    What is saved is read off one schedule: the rate had not fallen to its end where the better arm reached the bpb, so a run
    planned for so few tokens would do a little better yet.
    """
    rows = []
    for comparison in grid.comparisons:
        seeds = {seed: _saved(*pair) for seed, pair in _pairs(looks, comparison).items()}
        if not seeds:
            continue
        saved = np.array([share for share, _ in seeds.values()])
        tokens = max(float(curve[0][-1]) for pair in _pairs(looks, comparison).values() for curve in pair)
        ratio = _step_ratio(comparison, overhead)
        interval = paired_t(saved)
        of_time = paired_t(_of_time(saved, ratio)) if ratio else None
        rows.append(
            {
                "shape": comparison.arm.shape,
                "arm": comparison.arm.label,
                "n_seeds": len(seeds),
                "tokens": tokens,
                "saved": float(saved.mean()),
                "saved_lo": interval.lo if interval else None,
                "saved_hi": interval.hi if interval else None,
                "saved_tokens": float(saved.mean()) * tokens,
                "step_ratio": ratio,
                "saved_time": float(_of_time(saved, ratio).mean()) if ratio else None,
                "saved_time_lo": of_time.lo if of_time else None,
                "saved_time_hi": of_time.hi if of_time else None,
                "bounded": sum(bool(bounded) for _, bounded in seeds.values()),
                "seed_savings": saved.tolist(),
            }
        )
    return rows


def tokens_to_reach(curve: _Curve, bpb: float) -> float | None:
    """Tokens after which a curve first is at `bpb` or below, on the straight line between looks; None where it never is."""
    tokens, values = curve
    reached = np.flatnonzero(values <= bpb)
    if not len(reached):
        return None
    n = int(reached[0])
    if n == 0 or values[n] == bpb:
        return float(tokens[n])
    share = (values[n - 1] - bpb) / (values[n - 1] - values[n])
    return float(tokens[n - 1] + share * (tokens[n] - tokens[n - 1]))


def _saved(baseline: _Curve, arm: _Curve) -> tuple[float, bool]:
    """The share of tokens that the arm saves, below zero where the baseline does; whether it is only a bound."""
    sign, better, worse = (1, arm, baseline) if arm[1][-1] <= baseline[1][-1] else (-1, baseline, arm)
    reached = tokens_to_reach(better, float(worse[1][-1]))
    assert reached is not None, "the better arm ends below"
    return sign * (1 - reached / float(worse[0][-1])), reached == better[0][0] and len(better[0]) > 1


def _of_time(saved: np.ndarray, ratio: float) -> np.ndarray:
    """Share of the baseline's time that the arm saves at equal bpb.

    Below zero of `saved` the arm needs 1/(1 + saved) times the baseline's tokens, for there it is the baseline that saves.
    """
    needed = np.where(saved >= 0, 1 - saved, 1 / (1 + np.minimum(saved, 0)))
    return 1 - ratio * needed


def _step_ratio(comparison: Comparison, overhead: Sequence[Row]) -> float | None:
    mine = [
        row
        for row in overhead
        if (row["shape"], row["arm"], row["phase"]) == (comparison.arm.shape, comparison.arm.label, "step")
    ]
    found = [row for row in mine if row["mode"] == "compiled"] or mine
    return float(found[0]["ratio"]) if found else None


def _pairs(looks: Sequence[Row], comparison: Comparison) -> dict[int, tuple[_Curve, _Curve]]:
    """Both arms' curves of every seed of a comparison that was looked at in both."""
    curves: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for row in looks:
        if row["shape"] == comparison.arm.shape:
            curves.setdefault((row["arm"], row["seed"]), []).append((row["tokens"], row["bpb"]))
    pairs = {}
    for seed in comparison.seeds:
        pair = [curves.get((arm.label, seed)) for arm in (comparison.baseline, comparison.arm)]
        if None not in pair:
            pairs[seed] = tuple(
                tuple(np.array(column, dtype=float) for column in zip(*sorted(one), strict=True)) for one in pair
            )
    return pairs


def _differences(baseline: _Curve, arm: _Curve) -> dict[int, float]:
    """Difference in bpb by tokens, at the looks that both took."""
    known = dict(zip(*baseline, strict=True))
    return {int(tokens): float(bpb - known[tokens]) for tokens, bpb in zip(*arm, strict=True) if tokens in known}
