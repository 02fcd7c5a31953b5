"""`summary.md`: the page in a screenful of Markdown, fit for a pull request."""

from __future__ import annotations

import re
from typing import Any

from xsa.analyse.tables import one_line
from xsa.report.adopted import adopted_sentence
from xsa.report.answer import answer
from xsa.report.numbers import (
    ABSENT,
    absent,
    change,
    counted,
    fixed,
    interval,
    listed,
    percent,
    percent_change,
    significant,
)
from xsa.report.verdicts import PART, tally

SUMMARY = "summary.md"
_MARKS = re.compile(r"([\\`*_{}\[\]<>|~#$&])")
Row = dict[str, Any]


def markdown(summary: Row, rows: list[Row], gaps: list[str], page: str) -> str:
    """The summary of an analysed study; `rows` as `verdicts.judged` gives them, `page` where the whole of it lies."""
    told = answer(summary)
    parts = [f"## {escape(summary['title'])}", "**" + escape(told[0]) + "**"]
    if adopted := adopted_sentence(summary):
        parts.append(f"**Adopted checkpoints.** {escape(adopted)}")
    if rows:
        parts += [escape(tally(rows)), _verdicts(rows)]
    else:
        parts.append(escape(" ".join(told[1:])))
    parts += [_metrics(summary["metrics"]), _overhead(summary["overhead"]), _made(summary)]
    if gaps:
        parts.append("**Missing**\n\n" + "\n".join(f"- {escape(gap)}" for gap in gaps))
    parts.append(f"All of it, with every number's source: `{page}`")
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it stands, on one line, and that mentions nobody."""
    return _MARKS.sub(r"\\\1", one_line(text)).replace("@", "@\u2060")


def _table(header: list[str], rows: list[list[str]], right: int) -> str:
    """A table whose last columns, from `right` on, are numbers."""
    rule = [" --- " if index < right else " ---: " for index in range(len(header))]
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(rule) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _verdicts(rows: list[Row]) -> str:
    shown, before = [], None
    for row in rows:
        place = ", ".join(escape(str(row[key])) for key in ("shape", "arm") if row[key])
        basis = counted(row["n"], row["n_of"]) if row["n"] else ABSENT
        statement = "" if row["id"] == before else escape(row["statement"])
        words = [statement, place or ABSENT, f"**{escape(row['verdict'])}**", escape(row["why"])]
        shown.append([*words, _value(row, "value"), _between(row), _value(row, "published"), basis])
        before = row["id"]
    return _table(["Claim", "Where", "Verdict", "Why", "Measured", "95 %", "Published", "n"], shown, 4)


def _value(row: Row, key: str) -> str:
    if absent(row[key]):
        return ABSENT
    if row["unit"] == PART:
        return percent(row[key], 1, sign=True)
    return change(row[key]) if row["n_of"] == "seed" or row["published"] is not None else significant(row[key], 2)


def _between(row: Row) -> str:
    if row["lo"] is None:
        return ABSENT
    if row["unit"] == PART:
        return f"[{percent(row['lo'], 1, sign=True)}, {percent(row['hi'], 1, sign=True)}]"
    return interval([row["lo"], row["hi"]])


def _metrics(rows: list[Row]) -> str:
    if not rows:
        return ""
    shown = []
    for row in rows:
        relative = ABSENT if row["relative_percent"] is None else percent_change(row["relative_percent"] / 100)
        numbers = [fixed(row["baseline_mean"]), fixed(row["arm_mean"]), change(row["delta"]), relative]
        ends = [interval([row[f"{over}_lo"], row[f"{over}_hi"]]) for over in ("seed", "item")]
        words = [escape(row["shape"]), escape(row["arm"]), escape(row["name"]), escape(row["verdict"])]
        shown.append([*words, *numbers, *ends, str(row["n_seeds"])])
    header = [
        "Shape",
        "Arm",
        "Metric",
        "Verdict",
        "Baseline",
        "Arm's mean",
        "Change",
        "%",
        "95 % over seeds",
        "95 % over items",
        "Seeds",
    ]
    return "**Results**\n\n" + _table(header, shown, 4)


def _overhead(rows: list[Row]) -> str:
    steps = [row for row in rows if row["phase"] == "step"]
    if not steps:
        return ""
    shown = []
    for row in steps:
        verdict = "outside noise" if row["exceeds_noise"] else "inside noise"
        ends = interval([row["lo"], row["hi"]], 3, sign=False)
        words = [escape(row["shape"]), escape(row["arm"]), row["mode"], verdict]
        shown.append([*words, percent(row["ratio"] - 1, 1, sign=True), ends])
    devices = escape(listed(sorted({str(row["device"]) for row in steps})))
    header = ["Shape", "Arm", "Mode", "Verdict", "Step time added", "Ratio, 95 %"]
    return f"**Overhead** on {devices}\n\n" + _table(header, shown, 4)


def _made(summary: Row) -> str:
    made = summary["environment"]
    counts = sorted({len(arm["seeds"]) for arm in summary["arms"]})
    facts = [f"{counted(len(summary['cells']), 'cell')}, {' to '.join(map(str, counts))} seeds an arm"]
    facts += [f"computed on {listed(made['devices'])}"] if made["devices"] else []
    facts += [f"commit {listed(made['commits'])}"] if made["commits"] else []
    return "**This run**: " + escape("; ".join(facts)) + "."
