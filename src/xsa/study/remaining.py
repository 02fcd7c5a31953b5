"""How long a study will still take, by what its own jobs have taken so far."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

from xsa.study.cost import Cost, Costs
from xsa.study.forecast import DEFAULT_GPU, estimate
from xsa.study.machine import gpu_model
from xsa.study.outlook import device
from xsa.study.plan import Plan
from xsa.study.states import State

TO_BE_MADE = ("running", "ready", "waiting", "failed", "stopped", "died")


@dataclass(frozen=True)
class Remaining:
    """Seconds of work left, how many jobs share them now, and the stages that are estimated: none of them is done yet."""

    seconds: float
    jobs: int
    estimated: tuple[str, ...]


def remaining(plan: Plan, states: Mapping[tuple[str, str], State]) -> Remaining:
    """Work that is left: each result by the median time of its stage's finished ones, scaled by its work (`cost`).

    Running jobs are taken at their own word where they say how long they still need. Stages of which nothing is done
    are estimated from their work alone, as `xsa plan` does.
    """
    costs = Costs({result.digest: result.recipe for result in plan.results.values()})
    work = {place: costs.of(plan.results[place].recipe) for place in states}
    samples: dict[str, list[float]] = {}
    for place, state in states.items():
        took = state.seconds if state.state == "done" else _told_total(state)
        if took is not None:
            samples.setdefault(state.stage, []).append(took / work[place].work)
    rates = {stage: statistics.median(found) for stage, found in samples.items()}
    seconds, estimated = 0.0, {}
    for place, state in states.items():
        if state.state in TO_BE_MADE:
            if state.stage in rates:
                expected = rates[state.stage] * work[place].work
            else:
                expected, estimated[state.stage] = _estimate(plan, place, work[place]), None
            seconds += _left(state, expected)
    running = sum(state.state == "running" for state in states.values())
    return Remaining(seconds, max(1, running), tuple(estimated))


def _estimate(plan: Plan, place: tuple[str, str], cost: Cost) -> float:
    gpu = plan.study.run.gpu or gpu_model() or DEFAULT_GPU
    return estimate(place[0], cost, device(plan, plan.results[place]), gpu).seconds


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
