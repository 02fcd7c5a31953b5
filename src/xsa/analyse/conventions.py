"""What careless ways of logging make of one raw log, and the gaps between equal runs that they draw.

Three faults have passed for findings: logging the loss of the last micro-batch alone, writing a step under its index before the
update, and taking an exponential mean of a subsample of the steps. Each moves or blurs a curve; where one arm's log has the fault
and the other's has not, the difference is drawn as one between arms. How large it is follows from one run logged in both ways.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xsa.analyse.curves import Gap, smooth

FIRST, LAST = 0.05, 0.25  # the part of the steps that counts as early; before it the loss of an untrained model falls
KEPT = 100  # steps that the subsample keeps
BETA = 0.9
MICRO_FAULT, INDEX_FAULT, MEAN_FAULT, ALL_FAULTS = (
    "loss of the last micro-batch alone",
    "index before the update",
    "exponential mean of a subsample",
    "all of these together",
)


def other_convention(loss: np.ndarray, every: int, beta: float = BETA) -> np.ndarray:
    """The series that a careless log leaves, on the same steps: `held_mean` under the index before the update."""
    return before_update(held_mean(loss, every, beta))


def before_update(series: np.ndarray) -> np.ndarray:
    """A series as drawn under the index before the update: what belongs to step s stands at s − 1."""
    return np.append(series[1:], series[-1])


def held_mean(loss: np.ndarray, every: int, beta: float = BETA) -> np.ndarray:
    """Every `every`-th step kept, an exponential mean with weight `beta` and bias correction over those; between them it stands."""
    values = np.asarray(loss, dtype=np.float64)
    kept = np.arange(0, len(values), every)
    mean, smoothed = 0.0, np.empty(len(kept))
    for count, index in enumerate(kept, start=1):
        mean = beta * mean + (1 - beta) * values[index]
        smoothed[count - 1] = mean / (1 - beta**count)
    return np.repeat(smoothed, every)[: len(values)]


def own_micro_batches(gap: Gap) -> bool:
    """Whether the last micro-batch was kept and is not the whole batch, so that its loss alone is another number."""
    if gap.arm_micro_SN is None:
        return False
    return not np.allclose(gap.arm_micro_SN, gap.arm_SN, rtol=1e-4, atol=1e-5)


def series_of(gap: Gap, side: str) -> dict[str, np.ndarray]:
    """The curve of one side, `baseline` or `arm`, mean over seeds: as logged here (`ours`), with each fault, and with all."""
    loss_SN = getattr(gap, f"{side}_SN")
    micro_SN = getattr(gap, f"{side}_micro_SN") if own_micro_batches(gap) else None
    every = max(1, loss_SN.shape[1] // KEPT)
    ways = {
        "ours": (loss_SN, smooth),
        INDEX_FAULT: (loss_SN, lambda loss: before_update(smooth(loss))),
        MEAN_FAULT: (loss_SN, lambda loss: held_mean(loss, every)),
        ALL_FAULTS: (loss_SN if micro_SN is None else micro_SN, lambda loss: other_convention(loss, every)),
    }
    if micro_SN is not None:
        ways[MICRO_FAULT] = (micro_SN, smooth)
    return {name: np.mean([way(loss) for loss in losses_SN], axis=0) for name, (losses_SN, way) in ways.items()}


def convention_gaps(gap: Gap) -> dict[str, np.ndarray]:
    """The gap, mean over seeds, as three ways of logging draw it; arrays [N].

    ours:  both arms as logged here;
    other: both arms with all faults;
    mixed: the arm with all faults, the baseline as here, as when two runs' logs differ.
    """
    baseline, arm = series_of(gap, "baseline"), series_of(gap, "arm")
    return {
        "ours": arm["ours"] - baseline["ours"],
        "other": arm[ALL_FAULTS] - baseline[ALL_FAULTS],
        "mixed": arm[ALL_FAULTS] - baseline["ours"],
    }


def convention_rows(gap: Gap) -> list[dict[str, Any]]:
    """One row a fault, in nats per token: gaps that it draws between the baseline and itself, logged in both ways.

    early, early_mean: largest in size and mean, over the steps from FIRST to LAST; end: mean over the last tenth;
    own_early, own_end: the gap between the arms, both logged as here, largest early and mean at the end.
    """
    steps = len(gap.step_N)
    early = slice(int(FIRST * steps), max(int(LAST * steps), int(FIRST * steps) + 1))
    end = slice(steps - max(steps // 10, 1), None)
    baseline, arm = series_of(gap, "baseline"), series_of(gap, "arm")
    own = arm["ours"] - baseline["ours"]
    place = {"shape": gap.comparison.arm.shape, "arm": gap.comparison.arm.label}
    told = {"own_early": _largest(own[early]), "own_end": float(own[end].mean())}
    rows = []
    for fault in (INDEX_FAULT, MEAN_FAULT, MICRO_FAULT, ALL_FAULTS):
        if fault in baseline:
            moved = baseline[fault] - baseline["ours"]
            found = {"early": _largest(moved[early]), "early_mean": float(moved[early].mean())}
            rows.append(place | {"fault": fault} | found | {"end": float(moved[end].mean())} | told)
    return rows


def _largest(values: np.ndarray) -> float:
    """The value that is largest in size, with its sign."""
    return float(values[np.abs(values).argmax()])
