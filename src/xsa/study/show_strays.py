"""What could be removed from a folder of results, as a person reads it."""

from __future__ import annotations

from xsa.store.collect import Stray
from xsa.study.show_outlook import size

WHY = {
    "result": "no study refers to it",
    "damaged": "found damaged and set aside",
    "unfinished": "left by a job that was killed",
    "state": "saved by a training",
    "log": "of a result that is gone",
    "code": "frozen for a run, and no result was made by it",
}


def strays_as_text(strays: list[Stray]) -> str:
    """A line each, with size, cost, and why it is not needed; then the sum of each kind."""
    if not strays:
        return "nothing to remove: a study refers to everything here"
    width = max(len(one.name) for one in strays)
    lines = [
        f"{one.kind:<10}  {one.name:<{width}}  {size(one.bytes) or '0 B':>8}  {_cost(one):>16}  "
        + (f"in use by {one.holder}" if one.holder else WHY[one.kind])
        for one in strays
    ]
    return "\n".join([*lines, "", f"in all: {sum_as_text(strays)}"])


def _cost(stray: Stray) -> str:
    if stray.hours is None:
        return "cost not known"
    return f"{stray.hours:.3g} {_unit(stray)}" if stray.hours else ""


def _unit(stray: Stray) -> str:
    return "GPU-hours" if stray.device == "cuda" else "CPU job hours"


def sum_as_text(strays: list[Stray]) -> str:
    """How many, how large, and what they cost."""
    parts = [f"{len(strays)} of them", size(sum(one.bytes for one in strays)) or "0 B"]
    for unit in ("GPU-hours", "CPU job hours"):
        hours = sum(one.hours or 0 for one in strays if _unit(one) == unit)
        if hours:
            parts.append(f"{hours:.3g} {unit}")
    return ", ".join(parts)
