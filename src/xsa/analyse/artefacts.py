"""How far another way of logging would have moved the early difference between two arms, seed by seed.

A step index from before the update and a smoothed subsample move a falling curve sideways. Where only one arm is logged so, that
shift passes for a difference between arms, and early, where the loss falls fast, it can exceed the arms' own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xsa.analyse.arms import Grid
from xsa.analyse.conventions import FIRST, KEPT, LAST, other_convention
from xsa.analyse.curves import Gap, loss_gap, smooth
from xsa.analyse.results import Results


def artefact_rows(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """One row a comparison with logs: seed by seed, in nats per token over the early steps,

    own:   the largest smoothed difference between the arms, both logged as here;
    moved: the largest move of that difference when the arm alone is logged by `other_convention`.
    """
    return [_row(gap) for comparison in grid.comparisons if (gap := loss_gap(results, comparison))]


def _row(gap: Gap) -> dict[str, Any]:
    steps = len(gap.step_N)
    early = slice(int(FIRST * steps), max(int(LAST * steps), int(FIRST * steps) + 1))
    every = max(1, steps // KEPT)
    own, moved = [], []
    for baseline_N, arm_N in zip(gap.baseline_SN, gap.arm_SN, strict=True):
        arm = smooth(arm_N)
        own.append(float(np.abs(arm - smooth(baseline_N))[early].max()))
        moved.append(float(np.abs(other_convention(arm_N, every) - arm)[early].max()))
    return {
        "shape": gap.comparison.arm.shape,
        "arm": gap.comparison.arm.label,
        "own": own,
        "moved": moved,
    }
