"""The differences of two results, cells or studies as a person reads them."""

from __future__ import annotations

from typing import Any

import click

from xsa.study.differences import same
from xsa.study.flat import ABSENT, word

Values = dict[str, Any]

# Of a list of changes so many are shown, of a list of functions so many; --json has all.
SHOWN, FUNCTIONS, LONG = 40, 12, 60


def differences_text(told: Values) -> str:
    """All sections that differ, and in a line those that do not."""
    old, new = told["old"], told["new"]
    lines = [f"{click.style(old, fg='red')} → {click.style(new, fg='green')}"]
    if same(told) and not told.get("metrics"):
        return f"{lines[0]}\nthe same in all: settings, results, code, environment"
    sections = {
        "study file": [_change(one) for one in told.get("study", [])],
        "cells": _cells(told.get("cells")),
        "settings": _settings(told),
        "results": _results(told.get("results", [])),
        "code": [line for one in told["code"] for line in _code(one)],
        "environment": [_change(one, ", ".join(one["stages"])) for one in told["environment"]],
    }
    equal = [name for name in ("settings", "code", "environment") if not sections[name]]
    for name, found in sections.items():
        if found:
            most = len(found) if name == "code" else SHOWN
            lines += ["", click.style(name, bold=True), *(f"  {line}" for line in found[:most])]
            lines += [f"  … and {len(found) - most} more; --json has all"] if len(found) > most else []
    if told.get("metrics"):
        lines += ["", click.style("metrics", bold=True), *(f"  {line}" for line in _metrics(told))]
    if told.get("not_compared"):
        lines += ["", click.style("metrics", bold=True), f"  cannot be compared: {told['not_compared']}"]
    return "\n".join([*lines, *(["", f"the same: {', '.join(equal)}"] if equal else [])])


def _change(one: Values, note: str = "") -> str:
    old, new = (_clipped(word(one.get(side, ABSENT))) for side in ("old", "new"))
    text = f"{one['path']}: {click.style(old, fg='red')} → {click.style(new, fg='green')}"
    return f"{text}   ({note})" if note else text


def _clipped(text: str) -> str:
    return text if len(text) <= LONG else text[: LONG - 1] + "…"


def _cells(cells: Values | None) -> list[str]:
    if not cells or not (cells["only_old"] or cells["only_new"]):
        return []
    lines = [f"{cells['both']} in both"]
    for side, sign, colour in (("only_old", "-", "red"), ("only_new", "+", "green")):
        lines += [click.style(f"{sign} {label}", fg=colour) for label in cells[side]]
    return lines


def _settings(told: Values) -> list[str]:
    cells = told.get("cells", {}).get("both")
    lines = []
    for one in told["settings"]:
        note = one.get("stage", "")
        if cells and one.get("cells") != cells:
            note = f"{one['cells']} of {cells} cells"
        lines.append(_change(one, note))
    return lines


def _results(results: list[Values]) -> list[str]:
    """Which stages' results are others; those of a single pair of cells by their digests."""
    lines = []
    for one in results:
        if "old" in one and one["differ"]:
            digests = ["none" if one[side] is None else "@" + one[side].rpartition("@")[2] for side in ("old", "new")]
            lines.append(f"{one['stage']}: {click.style(digests[0], fg='red')} → {click.style(digests[1], fg='green')}")
        elif one["differ"]:
            lines.append(f"{one['stage']}: another result in {one['differ']} of {one['of']} cells")
    equal = [one["stage"] for one in results if not one["differ"]]
    return lines + ([f"the same: {', '.join(equal)}"] if equal else [])


def _code(one: Values) -> list[str]:
    versions = f"{one['stage']}: "
    if one["old_version"] != one["new_version"]:
        versions += f"version {one['old_version']} → {one['new_version']}, "
    if one["old_fingerprint"] == one["new_fingerprint"]:
        return [versions.rstrip(", ") + ", the same code"]
    lines = [versions + f"code {one['old_fingerprint']} → {one['new_fingerprint']}"]
    functions = one["functions"]
    if functions is None:
        return [lines[0] + " (which functions is not known: that code was never locked)"]
    signs = (("changed", "~", "yellow"), ("added", "+", "green"), ("removed", "-", "red"))
    found = [click.style(f"  {sign} {name}", fg=colour) for kind, sign, colour in signs for name in functions[kind]]
    more = [f"  … and {len(found) - FUNCTIONS} more"] if len(found) > FUNCTIONS else []
    return lines + found[:FUNCTIONS] + more + [f"  kept: {why}" for why in one.get("kept", [])]


def _metrics(told: Values) -> list[str]:
    """A line a metric: both values, the change, what it may be by items and by seeds, and the verdict; arms by themselves."""
    by_arm: dict[str, list[Values]] = {}
    for row in told["metrics"]:
        by_arm.setdefault(f"{row['shape']}, {row['arm']}" if told["kind"] == "study" else "", []).append(row)
    lines: list[str] = []
    for arm, rows in by_arm.items():
        width, sides = max(len(row["name"]) for row in rows), max(len(_sides(row)) for row in rows)
        lines += [arm] if arm else []
        for row in rows:
            lines.append(f"{row['name']:<{width}}  {_sides(row):<{sides}}  {_signed(row)}  {_noise(row)}".rstrip())
    return lines


def _sides(row: Values) -> str:
    texts = []
    for side in ("baseline", "arm"):
        interval = row.get(f"{side}_interval")
        noise = f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else ""
        texts.append(f"{row[f'{side}_mean']:.5g}{noise}")
    return " → ".join(texts)


def _signed(row: Values) -> str:
    delta = row.get("delta")
    if delta is None:
        return ""
    colour = None
    if row.get("better") and row["verdict"].startswith("outside"):
        colour = "green" if (delta < 0) == (row["better"] == "lower") else "red"
    return click.style(f"{delta:+.4g}".ljust(10), fg=colour)


def _noise(row: Values) -> str:
    parts = []
    for kind, count in (("item", row.get("n_items")), ("seed", row.get("n_seeds"))):
        if row.get(f"{kind}_lo") is not None:
            what = ("rows" if row["metric"] == "bpb" else "items") if kind == "item" else "seeds"
            parts.append(f"[{row[f'{kind}_lo']:+.4g}, {row[f'{kind}_hi']:+.4g}] over {count:,} {what}")
    return ", ".join([*parts, *([row["verdict"]] if row.get("verdict") else [])])
