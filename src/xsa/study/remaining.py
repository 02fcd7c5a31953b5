"""How long a study will still take, by what its own jobs have taken so far."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from xsa.study.architecture import flops_per_token
from xsa.study.plan import Plan
from xsa.study.states import State

TO_BE_MADE = ("running", "ready", "waiting", "failed", "stopped", "died")


@dataclass(frozen=True)
class Remaining:
    """Seconds of work left, how many jobs share them now, and the stages of which nothing is known yet."""

    seconds: float
    jobs: int
    unknown: tuple[str, ...]


def remaining(plan: Plan, states: dict[tuple[str, str], State]) -> Remaining:
    """Work that is left: each result by the median time of its stage's finished ones, scaled by the model's FLOPs.

    Running jobs are taken at their own word where they say how long they still need.
    """
    sizes = _sizes(plan)
    samples: dict[str, list[float]] = {}
    for place, state in states.items():
        took = state.seconds if state.state == "done" else _told_total(state)
        if took is not None:
            samples.setdefault(state.stage, []).append(took / sizes.get(place, 1.0))
    rates = {stage: statistics.median(found) for stage, found in samples.items()}
    seconds, unknown = 0.0, {}
    for place, state in states.items():
        if state.state in TO_BE_MADE:
            if state.stage in rates:
                seconds += _left(state, rates[state.stage] * sizes.get(place, 1.0))
            else:
                unknown[state.stage] = None
    running = sum(state.state == "running" for state in states.values())
    return Remaining(seconds, max(1, running), tuple(unknown))


def _left(state: State, expected: float) -> float:
    """Seconds that a result still needs, when all of it takes `expected`."""
    if state.state != "running":
        return expected
    said = (state.progress or {}).get("seconds_left")
    return said if said is not None else max(0.0, expected - (time.time() - (state.started or time.time())))


def _told_total(state: State) -> float | None:
    """How long a running job will have taken by its own word."""
    left = (state.progress or {}).get("seconds_left") if state.state == "running" else None
    return None if left is None or state.started is None else time.time() - state.started + left


def _sizes(plan: Plan) -> dict[tuple[str, str], float]:
    """FLOPs by result, for what a model's size decides; a measurement's number of tokens is the same in a study."""
    sizes: dict[tuple[str, str], float] = {}
    for cell in plan.cells:
        if "pretrain" not in cell.results:
            continue
        told = cell.results["pretrain"].settings
        per_token = flops_per_token(told.model)
        tokens = told.steps * told.batch_rows * told.model.sequence_len
        for stage, result in cell.results.items():
            sizes[stage, result.key] = per_token * (tokens if stage == "pretrain" else 1)
    return sizes
