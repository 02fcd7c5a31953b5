"""The outlook of a study as a person or a program reads it."""

from __future__ import annotations

import itertools
import json
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

from xsa.study.limits import exceeded, shape_of
from xsa.study.outlook import Line, Outlook, Totals, totals
from xsa.study.reuse import ACTIONS, NOT_NEEDED, RESUME, REUSE

WIDTH = 100
LABEL = 33
# Lines of reasons in the summary at the start of a run.
REASONS = 4


def outlook_as_text(outlook: Outlook, *, cells: bool = False) -> str:
    """A table of what runs, why, and what it costs; equal lines are one. `cells`: every result on a line of its own."""
    study = outlook.plan.study
    whole = outlook.totals
    lines = [f"{study.name}: {study.title}", f"{len(outlook.plan.cells)} cells, {_actions(whole)}"]
    running = [line for line in outlook.lines if line.action.runs]
    if running:
        lines += [_costs(outlook, whole), "", _header(whole)]
    for (action, reason), group in _grouped(running).items():
        lines.append(f"{action}: {reason}")
        lines += [_row(one, whole) for one in ([[line] for line in group] if cells else _alike(group))]
    if running:
        lines += [_row_of("all of it", "", len(running), whole, whole)]
    lines.append("")
    for name in (REUSE, NOT_NEEDED):
        lines += _kept(name, [line for line in outlook.lines if line.action.name == name], cells)
    if running:
        lines += ["", *_basis(running)]
    return "\n".join(_wrapped([*lines, *_closing(outlook)])).rstrip()


def outlook_as_summary(outlook: Outlook) -> str:
    """What a run is about to do, in at most 15 lines."""
    whole, study = outlook.totals, outlook.plan.study.name
    running = [line for line in outlook.lines if line.action.runs]
    groups = sorted(_grouped(running).items(), key=lambda item: -sum(line.cost.flops for line in item[1]))
    lines = [f"{study}: {_actions(whole)}"]
    lines += [f"  {action}, {reason}: {_stages(group)}" for (action, reason), group in groups[:REASONS]]
    if len(groups) > REASONS:
        count = sum(len(group) for _, group in groups[REASONS:])
        lines.append(f"  {count} more for other reasons, which `xsa plan {study}` lists")
    lines.append("  " + _costs(outlook, whole))
    lines += [f"  {line}" for line in _basis([line for line in running if line.result.stage == "pretrain"])[:1]]
    lines += [f"warning: {one}" for one in outlook.warnings[:1]]
    if len(outlook.warnings) > 1:
        lines.append(f"warning: and {len(outlook.warnings) - 1} more, which `xsa plan {study}` lists")
    return "\n".join(part for line in lines for part in _wrapped([line])[:2])


def outlook_as_json(outlook: Outlook, results: Path) -> str:
    """Everything, a row for each result."""
    run = outlook.plan.study.run
    value = {
        "study": outlook.plan.study.name,
        "gpu": outlook.gpu,
        "gpu_hour_price": run.gpu_hour_price,
        "limits": outlook.plan.study.limits.model_dump(),
        "exceeded": exceeded(outlook),
        "warnings": outlook.warnings,
        "totals": vars(outlook.totals),
        "results": [_as_json(line, results) for line in outlook.lines],
    }
    return json.dumps(value, indent=1, ensure_ascii=False)


def _as_json(line: Line, results: Path) -> dict[str, Any]:
    return {
        "stage": line.result.stage,
        "result": line.result.key,
        "path": str(line.result.folder(results)),
        "cells": list(line.cells),
        "action": line.action.name,
        "step": line.action.step,
        "reason": line.action.reason,
        "tokens": line.cost.tokens,
        "flops": line.cost.flops,
        "bytes": round(line.cost.bytes),
        "gpu_hours": line.gpu_hours,
        "cpu_hours": line.cpu_hours,
        "cost": line.gpu_hours * line.price,
        "shards_to_fetch": int(line.fetched),
        "basis": line.forecast.basis if line.forecast else None,
        "basis_said": line.forecast.said if line.forecast else None,
    }


# --- groups ---


def _grouped(lines: list[Line]) -> dict[tuple[str, str], list[Line]]:
    """Lines by action and reason, in the order of ACTIONS."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in sorted(lines, key=lambda line: ACTIONS.index(line.action.name)):
        name = line.action.name
        if name == RESUME:
            name = f"resume at step {line.action.step:,}"
        groups.setdefault((name, line.action.reason), []).append(line)
    return groups


def _alike(lines: list[Line]) -> list[list[Line]]:
    """Lines of one stage and shape together."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.result.stage, shape_of(line)), []).append(line)
    return list(groups.values())


def _stages(lines: list[Line]) -> str:
    return ", ".join(f"{count} {stage}" for stage, count in Counter(line.result.stage for line in lines).items())


def _kept(name: str, lines: list[Line], cells: bool) -> list[str]:
    """What is not made: by stage, and by reason where there is one; or every result."""
    if cells:
        return [f"{name}: {line.result.stage} {line.result.key}{_because(line)}" for line in lines]
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(_because(line), []).append(line)
    return [f"{name}: {_stages(group)}{because}" for because, group in groups.items()]


def _because(line: Line) -> str:
    return f" ({line.action.reason})" if line.action.reason else ""


def names(labels: list[str]) -> str:
    """Several labels as one: `d12w768h12-muon-a{0,1}-s{0,1,2}` where they are a grid, else the first and the last.

    What all labels begin with is told once: `d12w768h12-muon-a0-s1 … a1-s1`.
    """
    if len(labels) == 1:
        return labels[0]
    parts = [label.split("-") for label in labels]
    if len({len(one) for one in parts}) == 1:
        columns = [list(dict.fromkeys(column)) for column in zip(*parts, strict=True)]
        size = 1
        for column in columns:
            size *= len(column)
        text = "-".join(_braced(column) for column in columns)
        if size == len(labels) and len(text) <= LABEL:
            return text
    first, last = labels[0].split("-"), labels[-1].split("-")
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    return f"{labels[0]} … {'-'.join(last[shared:])}"


def _braced(values: list[str]) -> str:
    """`a{0,1}` of `a0`, `a1`."""
    if len(values) == 1:
        return values[0]
    head = values[0][:1] if values[0][:1].isalpha() and len({value[:1] for value in values}) == 1 else ""
    return f"{head}{{{','.join(value[len(head) :] for value in values)}}}"


# --- rows and numbers ---


def _header(whole: Totals) -> str:
    return _columns("stage", "results", "", ["tokens", "FLOPs", "GPU-h", "CPU-h", "cost", "disk"], whole)


def _row(lines: list[Line], whole: Totals) -> str:
    label = names([line.result.label for line in lines])
    return _row_of(lines[0].result.stage, label, len(lines), totals(lines), whole)


def _row_of(stage: str, label: str, count: int, part: Totals, whole: Totals) -> str:
    numbers = [
        amount(part.tokens),
        f"{part.flops:.1e}".replace("e+", "e") if part.flops else "",
        _hours(part.gpu_hours),
        _hours(part.cpu_hours),
        _price(part.cost),
        size(part.bytes),
    ]
    return _columns(stage, label, f"{count:,}", numbers, whole)


def _columns(stage: str, label: str, count: str, numbers: list[str], whole: Totals) -> str:
    """One line of the table; columns of GPUs are left out where none is used."""
    tokens, flops, gpu, cpu, cost, disk = numbers
    text = f"  {stage:<11} {_clipped(label, LABEL):<{LABEL}} {count:>5} {tokens:>7} {flops:>8}"
    if whole.gpu_hours:
        text += f" {gpu:>6}"
    text += f" {cpu:>6}"
    if whole.cost:
        text += f" {cost:>6}"
    return f"{text} {disk:>8}".rstrip()


def _actions(whole: Totals) -> str:
    count = sum(whole.actions.values())
    told = ", ".join(f"{whole.actions[name]:,} {name}" for name in ACTIONS if name in whole.actions)
    return f"{count:,} results: {told}"


def _costs(outlook: Outlook, whole: Totals) -> str:
    """The totals in a sentence."""
    parts = []
    if whole.gpu_hours:
        price = outlook.plan.study.run.gpu_hour_price
        parts.append(f"{_hours(whole.gpu_hours)} {outlook.gpu}-hours (cost {whole.cost:,.2f} at {price:.2f} an hour)")
    parts += [f"{_hours(whole.cpu_hours) or '0'} CPU-hours", f"{size(whole.bytes) or '0 MB'} of disk"]
    if whole.shards:
        parts.append(f"{whole.shards:,} shards to fetch ({size(whole.shard_bytes)})")
    return "about " + ", ".join(parts)


def _basis(lines: list[Line]) -> list[str]:
    """What the forecasts rest on, by stage."""
    stages: dict[str, list[str]] = {}
    for line in lines:
        if line.forecast and line.forecast.said not in stages.setdefault(line.result.stage, []):
            stages[line.result.stage].append(line.forecast.said)
    told: dict[str, list[str]] = {}
    for stage, said in stages.items():
        told.setdefault("; ".join(said), []).append(stage)
    return [f"time of {', '.join(names)}: {said}" for said, names in told.items()]


def _closing(outlook: Outlook) -> list[str]:
    sentences = [f"warning: {one}" for one in outlook.warnings] + [f"limit: {one}" for one in exceeded(outlook)]
    return ["", *sentences] if sentences else []


def amount(value: float) -> str:
    """A count in short: `5.84B`; nothing for none."""
    for unit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:g}" if value else ""


def size(value: float) -> str:
    """Bytes in short: `12.2 GB`; nothing for none."""
    for unit, letters in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= unit:
            return f"{value / unit:.3g} {letters}"
    return f"{value:.0f} B" if value else ""


def _hours(value: float) -> str:
    if not value:
        return ""
    if value < 0.001:
        return "<0.001"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 1 else f"{value:.3g}"


def _price(value: float) -> str:
    if not value:
        return ""
    return "<0.01" if value < 0.01 else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def _wrapped(lines: list[str]) -> list[str]:
    """Sentences broken at the width of a terminal; rows of the table are no wider."""
    return [part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ") or [""]]


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
