"""The states of a study's results as a person or a program reads them."""

from __future__ import annotations

import time
from typing import Any

import click

from xsa.store.progress import duration
from xsa.study.plan import Cell, Plan
from xsa.study.remaining import remaining
from xsa.study.stages import STAGES
from xsa.study.states import State

States = dict[tuple[str, str], State]

MARKS = {
    "done": ("✓", "green", "there"),
    "running": ("▶", "cyan", "running"),
    "failed": ("✗", "red", "failed"),
    "stopped": ("‖", "yellow", "stopped"),
    "died": ("†", "red", "died without a word"),
    "ready": ("○", None, "can start"),
    "waiting": ("·", None, "waits"),
    "spared": ("–", None, "not there, not needed"),
}
# What a cell as a whole is called: the first of these that one of its results is in.
WORST = ("failed", "died", "running", "stopped", "ready", "waiting")
WORDS = {"ready": "waiting"}
# At most so many running jobs, and so many kinds of errors, are told in full.
DETAILS = 20
LABEL = 44


def status_text(plan: Plan, states: States, width: int, rows: int) -> str:
    """Summary, one row a cell, then what there is to say of single results.

    Rows that are the same are folded into one where there are more than `rows` cells.
    """
    stages = [stage for stage in STAGES if any(stage in cell.results for cell in plan.cells)]
    told = {cell.label: _of_cell(cell, states) for cell in plan.cells}
    lines = [_summary(plan, states, told), "", *_shared(plan, states), ""]
    lines += _table(plan.cells, told, stages, width, rows)
    details = _details(states)
    lines += ["", *details] if details else []
    used = {state.state for state in states.values()}
    lines += ["", "   ".join(f"{_mark(name)} {word}" for name, (_, _, word) in MARKS.items() if name in used)]
    return "\n".join(lines)


def status_values(plan: Plan, states: States) -> dict[str, Any]:
    """All of it for programs."""
    left = remaining(plan, states)
    told = {cell.label: _of_cell(cell, states) for cell in plan.cells}
    of_cells = {(stage, result.key) for cell in plan.cells for stage, result in cell.results.items()}
    return {
        "study": plan.study.name,
        "done": finished(plan, states),
        "cells_by_state": {
            name: sum(_overall(one) == name for one in told.values())
            for name in ("done", "running", "failed", "died", "stopped")
        },
        "remaining": {"seconds": left.seconds, "jobs": left.jobs, "estimated_stages": list(left.estimated)},
        "cells": [
            {
                "cell": cell.label,
                "shape": cell.shape,
                "factors": cell.factors,
                "state": _overall(told[cell.label]),
                "results": {stage: state.plain() for stage, state in told[cell.label].items()},
            }
            for cell in plan.cells
        ],
        "shared": [state.plain() for place, state in states.items() if place not in of_cells],
    }


def finished(plan: Plan, states: States) -> bool:
    """Whether nothing is left to do: the study's page is there."""
    return states[plan.report.stage, plan.report.key].state == "done"


def _of_cell(cell: Cell, states: States) -> dict[str, State]:
    return {stage: states[stage, result.key] for stage, result in cell.results.items()}


def _overall(told: dict[str, State]) -> str:
    """One word for a cell; it is done when nothing of it is left to do."""
    found = {state.state for state in told.values()}
    name = next((name for name in WORST if name in found), "done")
    return WORDS.get(name, name)


def _summary(plan: Plan, states: States, told: dict[str, dict[str, State]]) -> str:
    words = [_overall(one) for one in told.values()]
    parts = [f"{words.count('done')} of {len(words)} cells done"]
    parts += [
        click.style(f"{words.count(name)} {name}", fg=MARKS[name][1])
        for name in ("running", "failed", "died", "stopped", "waiting")
        if name in words
    ]
    return click.style(plan.study.name, bold=True) + ": " + ", ".join(parts) + _left(plan, states)


def _left(plan: Plan, states: States) -> str:
    left = remaining(plan, states)
    if finished(plan, states):
        return "; nothing is left to do"
    shared = f", {left.jobs} jobs at a time" if left.jobs > 1 else ", one job at a time"
    measured = any(state.state == "done" for (stage, _), state in states.items() if stage not in left.estimated)
    guessed = "" if measured else ", estimated from its operations"
    return f"; about {duration(left.seconds / left.jobs)} left{shared}{guessed}"


def _shared(plan: Plan, states: States) -> list[str]:
    """What all cells share, a stage after the other: how many there are, and the states of those that are not there."""
    of_cells = {(stage, result.key) for cell in plan.cells for stage, result in cell.results.items()}
    by_stage: dict[str, list[str]] = {}
    for place, state in states.items():
        if place not in of_cells:
            by_stage.setdefault(state.stage, []).append(state.state)
    ordered = [stage for stage in by_stage if stage not in ("analyse", "report")]
    parts = {stage: f"{stage} {_tally(by_stage[stage])}" for stage in [*ordered, "analyse", "report"]}
    return [
        "data   " + "   ".join(parts[stage] for stage in ordered),
        "page   " + "   ".join(parts[stage] for stage in ("analyse", "report")),
    ]


def _tally(found: list[str]) -> str:
    if len(found) == 1:
        return _mark(found[0])
    counts = [(name, found.count(name)) for name in MARKS if name in found]
    return " ".join(f"{_mark(name)} {count}" for name, count in counts)


def _table(cells: list[Cell], told: dict[str, dict[str, State]], stages: list[str], width: int, rows: int) -> list[str]:
    label = min(max(len(cell.label) for cell in cells), LABEL)
    # A narrow terminal gets the first letters of the stages' names.
    short = width < label + 2 + sum(max(len(stage), 4) + 2 for stage in stages) + 20
    heads = [stage[:4] if short else stage for stage in stages]
    widths = [max(len(head), 4) for head in heads]
    lines = ["  ".join([" " * label, *(head.ljust(size) for head, size in zip(heads, widths, strict=True))]).rstrip()]
    for group in _groups(cells, told, fold=len(cells) > rows):
        one = told[group[0].label]
        name, note = group[0].label, _note(one)
        if len(group) > 1:
            name, note = f"{len(group)} cells", f"{group[0].label} … {group[-1].label}"
        marks = [
            _padded(one.get(stage), size) if stage in one else " " * size
            for stage, size in zip(stages, widths, strict=True)
        ]
        room = max(width - label - 2 - sum(size + 2 for size in widths), 0)
        lines.append("  ".join([_cut(name, label).ljust(label), *marks, _cut(note, room)]).rstrip())
    return lines


def _groups(cells: list[Cell], told: dict[str, dict[str, State]], fold: bool) -> list[list[Cell]]:
    """Cells by row; where they are folded, those whose results are all in the same states share one."""
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        pattern = tuple((stage, state.state) for stage, state in told[cell.label].items())
        alone = not fold or any(name == "running" for _, name in pattern)
        groups.setdefault(cell.label if alone else pattern, []).append(cell)
    return list(groups.values())


def _note(told: dict[str, State]) -> str:
    """The end of a cell's row: when it was done, or what it waits for."""
    if _overall(told) == "done":
        ended = [state.ended for state in told.values() if state.ended]
        took = sum(state.seconds or 0 for state in told.values())
        return f"done {_clock(max(ended))}, {duration(took)} in all" if ended else ""
    if any(state.state in ("failed", "died", "running", "stopped") for state in told.values()):
        return ""
    # In the order of the stages: what the others wait for comes first.
    first = next(told[stage] for stage in STAGES if stage in told and told[stage].state in ("ready", "waiting"))
    if first.state == "ready":
        return f"{first.stage} can start"
    missing: dict[str, int] = {}
    for one in first.waits_for:
        missing[one.stage] = missing.get(one.stage, 0) + 1
    names = ", ".join(f"{count} {stage}" if count > 1 else stage for stage, count in missing.items())
    return f"{first.stage} waits for {names}"


def _details(states: States) -> list[str]:
    """A few lines for each running job, and for each that ended without a result."""
    running = [state for state in states.values() if state.state == "running"]
    lines = [line for state in running[:DETAILS] for line in _running(state)]
    if len(running) > DETAILS:
        lines.append(f"  … and {len(running) - DETAILS} more running")
    return lines + endings(states)


def endings(states: States) -> list[str]:
    """A few lines for each job that ended without a result; an error is told once, however many jobs met it."""
    lines: list[str] = []
    errors: dict[tuple, list[State]] = {}
    for state in states.values():
        if state.state in ("failed", "died", "stopped"):
            same = state.error if state.state == "failed" else state.key
            errors.setdefault((state.state, state.stage, same), []).append(state)
    for group in list(errors.values())[:DETAILS]:
        lines += _ended(group)
    if len(errors) > DETAILS:
        lines.append(
            f"  … and {sum(map(len, list(errors.values())[DETAILS:]))} more that failed or stopped; --json has all"
        )
    return lines


def _running(state: State) -> list[str]:
    return [f"{_mark('running')} {standing(state)}", f"    {_since(state)}"]


def standing(state: State) -> str:
    """One line on how far a running job is."""
    parts = [_how_far(state)] if state.progress else [state.said or "started"]
    left = (state.progress or {}).get("seconds_left")
    parts += [f"{duration(left)} left"] if left is not None else []
    return f"{state.stage} {state.label}  {', '.join(parts)}"


def _how_far(state: State) -> str:
    told = state.progress or {}
    parts = [f"{told['unit']} {told['done']:,} of {told['total']:,}"]
    return ", ".join([*parts, *(_number(name, value) for name, value in told["numbers"].items())])


def _number(name: str, value: Any) -> str:
    if isinstance(value, float | int):
        value = f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.4g}"
    return f"{value} {name}" if "/" in name else f"{name} {value}"


def _since(state: State) -> str:
    parts = []
    if state.started is not None:
        parts.append(f"since {_clock(state.started)} ({duration(time.time() - state.started)})")
    where = f"on {state.host}, process {state.pid}"
    parts.append(where + (f", SLURM job {state.slurm_job}" if state.slurm_job else ""))
    return " ".join(parts)


def _ended(group: list[State]) -> list[str]:
    """Why one job, or several with the same error, ended without a result."""
    state = group[0]
    verb = {"failed": "failed", "died": "died", "stopped": "was stopped"}[state.state]
    head = f"{_mark(state.state)} {state.stage} {state.label}"
    head += f" and {len(group) - 1} more" if len(group) > 1 else ""
    head += f"  {verb}" + (f" {_clock(state.ended)}" if state.ended else "")
    if state.reason and state.reason not in ("error", "record"):
        head += f" ({state.reason})"
    if state.progress:
        told = state.progress
        head += f", last seen at {told['unit']} {told['done']:,} of {told['total']:,}"
    lines = [head]
    if state.state == "died":
        gone = f"process {state.pid} on {state.host} is gone"
        guess = "" if state.reason else ": it was killed (as for want of memory), or its machine went down"
        lines.append(f"    {gone}{guess}")
    lines += [f"    {line}" for line in (state.error or "").splitlines()[:12]]
    if state.saved_step is not None:
        lines.append(f"    its state is saved: run again, it goes on after step {state.saved_step:,}")
    return [*lines, f"    log: {state.log}"] if state.log else lines


def _padded(state: State | None, size: int) -> str:
    text, progress = MARKS[state.state][0], state.progress
    if state.state == "running" and progress and progress["total"]:
        text += f"{min(99, 100 * progress['done'] // progress['total'])}%"
    return click.style(text, fg=MARKS[state.state][1]) + " " * (size - len(text))


def _mark(name: str) -> str:
    symbol, colour, _ = MARKS[name]
    return click.style(symbol, fg=colour)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…" if size > 8 else ""


def _clock(seconds: float) -> str:
    """A time of day, with the date where it is not today's."""
    then = time.localtime(seconds)
    return time.strftime("%H:%M" if then[:3] == time.localtime()[:3] else "%d %b %H:%M", then)
