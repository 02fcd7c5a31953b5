"""The verdicts as the page shows them: claim by claim, in numbers and words, drawn beside what the paper published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xsa.analyse.claims import claim_rows
from xsa.analyse.statistics import MOST_SEEDS
from xsa.analyse.tables import Column
from xsa.analyse.verdicts import CANNOT_TELL, INSIDE_NOISE, NOT_REPRODUCED, NOT_TESTED, REPRODUCED, VERDICTS
from xsa.report.numbers import ABSENT, absent, change, counted, interval, listed, percent, significant
from xsa.report.whisker import Whisker, position, whisker
from xsa.study.claims import Claims

Row = dict[str, Any]

_CLASS = {
    REPRODUCED: "better",
    NOT_REPRODUCED: "worse",
    INSIDE_NOISE: "inside",
    CANNOT_TELL: "unknown",
    NOT_TESTED: "untested",
}
PART = "part of the baseline's"  # a unit told in per cent
_MEASURES = {  # what the equivalence's measures are called where a unit would stand
    "forward_max_abs": "in logits",
    "loss_abs": "in the loss, nats per token",
    "gradient_max_rel": "in gradients, relative",
    "parameters_max_rel": "in parameters, relative",
}
_EACH = 6  # judgements of a claim that are told one by one at the top; more are told by verdict
COLUMNS = (
    Column("id", "Claim"),
    Column("shape", "Shape"),
    Column("arm", "Arm"),
    Column("verdict", "Verdict"),
    Column("value", "Measured", 4, signed=True),
    Column(("lo", "hi"), "95 %", 4, signed=True),
    Column("n", "n"),
    Column("published", "Published", 4, signed=True),
    Column("ratio", "Measured / published", 2),
)


def judged(claims: Sequence[Row], summary: Row) -> list[Row]:
    """The rows of all claims files of a study, judged (`claim_rows`)."""
    return [row for one in claims for row in claim_rows(Claims.model_validate(one), summary)]


def verdict_files(claims: Sequence[Row], rows: Sequence[Row], cells: Sequence[Row]) -> list[Row]:
    """For each claims file its `paper` and its `claims`; each claim with its rows, ready to be shown.

    cells: as `provenance.cells` gives them, whose anchors the numbers link to.
    """
    anchors, told = {cell["cell"]: cell["anchor"] for cell in cells}, []
    for one in claims:
        found = []
        for claim in one["claims"]:
            mine = [row for row in rows if (row["file"], row["id"]) == (one["name"], claim["id"])]
            names = _apart([row["arm"] for row in mine])
            shown = [_shown(row, mine, anchors) | {"arm_words": words} for row, words in zip(mine, names, strict=True)]
            place = {"anchor": f"claim-{one['name']}-{claim['id']}", "section": mine[0]["section"]}
            kept = {name: claim[name] for name in ("id", "statement", "where", "second_hand")}
            published = claim.get("published")
            told_of = {"pair": published, "noise_words": _noise(claim.get("noise"))}
            found.append(kept | place | told_of | {"rows": shown, "lines": _lines(shown)})
        told.append({"name": one["name"], "paper": one["paper"], "claims": found})
    return told


def tally(rows: Sequence[Row]) -> str:
    """How many judgements there are of each kind, in a sentence; empty where there are no claims."""
    if not rows:
        return ""
    claims = len({(row["file"], row["id"]) for row in rows})
    counts = [(sum(row["verdict"] == one for row in rows), one) for one in VERDICTS]
    told = listed([f"{number} {one.replace(': ', ', ')}" for number, one in counts if number])
    judgements = "" if claims == len(rows) else f", judged {len(rows)} times over shapes and arms"
    return f"Of {counted(claims, 'claim')}{judgements}: {told}."


def _apart(arms: Sequence[str | None]) -> list[str]:
    """What tells the arms of a claim apart: their labels without the parts that all of them have; of one arm nothing."""
    parts = [(arm or "").split(", ") for arm in arms]
    shared = set.intersection(*map(set, parts))
    return [", ".join(part for part in one if part not in shared) for one in parts]


def _lines(rows: Sequence[Row]) -> list[Row]:
    """The rows for the short table; where a claim is about many arms, one line for each shape and verdict."""
    if len(rows) <= _EACH:
        return list(rows)
    lines: dict[tuple, list[Row]] = {}
    for row in rows:
        lines.setdefault((row["shape"], row["verdict"]), []).append(row)
    none = {
        "measured": ABSENT,
        "range": "",
        "published_words": ABSENT,
        "basis": ABSENT,
        "value": None,
        "published": None,
    }
    return [
        mine[0] if len(mine) == 1 else mine[0] | none | {"n": None, "arm_words": counted(len(mine), "arm")}
        for mine in lines.values()
    ]


def _shown(row: Row, group: Sequence[Row], anchors: dict[str, str]) -> Row:
    row = row | {"unit": _MEASURES.get(row["unit"], row["unit"])}
    links = [(cell, anchors[cell]) for cell in row["cells"] if cell in anchors]
    words = {
        "class": _CLASS[row["verdict"]],
        "measured": _number(row, row["value"]),
        "range": _range(row, "lo", "hi"),
        "item_range": _range(row, "item_lo", "item_hi"),
        "both_range": _range(row, "both_lo", "both_hi"),
        "published_words": ABSENT if row["published"] is None else _number(row, row["published"]),
        "basis": counted(row["n"], row["n_of"]) if row["n"] else ABSENT,
        "notes": _notes(row),
        "links": links,
        "whisker": _drawn(row, group),
    }
    return row | words


def _number(row: Row, value: float | None) -> str:
    if absent(value):
        return ABSENT
    if row["unit"] == PART:
        return percent(value, 1, sign=True)
    if row["n_of"] == "seed" or row["published"] is not None:
        return change(value, 4)
    return significant(value, 2) + (" nats" if row["unit"].startswith("nats") else "")


def _range(row: Row, lo: str, hi: str) -> str:
    if row[lo] is None:
        return ""
    if row["unit"] == PART:
        return f"[{percent(row[lo], 1, sign=True)}, {percent(row[hi], 1, sign=True)}]"
    ends = [change(row[end], 4) for end in (lo, hi)]
    # powers of ten, where four digits would show an end as zero
    return f"[{', '.join(ends)}]" if any("×" in end for end in ends) else interval([row[lo], row[hi]], 4)


def _notes(row: Row) -> list[str]:
    """What else is to be known of a verdict: why, the published change beside it, what more seeds would show, what is missing."""
    notes = [row["why"][:1].upper() + row["why"][1:] + "."]
    if row["tolerance"] is not None and row["value"] is not None:
        notes.append(f"Tolerance: {_limit(row)}.")
    if row["ratio"] is not None:
        notes.append(_size(row["ratio"]))
    if row["published_inside"] is not None:
        notes.append(
            f"The interval over seeds {'holds' if row['published_inside'] else 'does not hold'} the published change."
        )
    notes += _published_noise(row)
    if row["needed_by"] is not None:
        whose = "measured here" if row["needed_by"] == "here" else "that others measured"
        seeds = (
            f"more than {MOST_SEEDS:,} paired seeds"
            if row["seeds_needed"] is None
            else counted(row["seeds_needed"], "paired seed")
        )
        notes.append(f"By the noise {whose}, {seeds} would show the published change four times in five.")
    if row["missing"]:
        notes.append(f"Missing: {listed(row['missing'])}.")
    return notes


def _limit(row: Row) -> str:
    return percent(row["tolerance"], 0) if row["unit"] == PART else f"{row['tolerance']:g} {row['unit']}".strip()


def _size(ratio: float) -> str:
    told = f"{abs(ratio):.2g}"
    if ratio < 0:
        return f"The measured change is opposite to the published one, and {told} times its size."
    if told == "1":
        return "The measured change is of the published size."
    return f"The measured change is {told} times the published one."


def _noise(noise: Row | None) -> str:
    """What others measured of a metric's noise; small numbers written out, as their table has them."""
    if noise is None:
        return ""
    ends = listed(list(dict.fromkeys(f"{sd:.6f}".rstrip("0") for sd in noise["sd"])), "to")
    return f"Noise by {noise['source']}: a standard deviation of {ends} over {noise['over']}."


def _published_noise(row: Row) -> list[str]:
    notes = []
    if row["outside_here"] is not None:
        where = "outside" if row["outside_here"] else "inside"
        notes.append(f"The published change, one pair of runs, would be {where} the noise measured here.")
    if row["outside_stated"] is not None:
        where, size = "outside" if row["outside_stated"] else "inside", f"{abs(row['stated_sds']):.1f}"
        notes.append(f"By the noise that others measured it is {where}: {size} standard deviations of a difference.")
    return notes


def _drawn(row: Row, group: Sequence[Row]) -> Whisker | None:
    """The change with its intervals and a mark for the published one, on one scale for the rows of a claim."""
    if row["value"] is None or (row["lo"] is None and row["published"] is None):
        return None
    names = ("value", "lo", "hi", "published", "item_lo", "item_hi")
    scale = max((abs(one[name]) for one in group for name in names if one[name] is not None), default=0.0) or 1.0
    ends = {"seed_lo": row["lo"], "seed_hi": row["hi"], "item_lo": row["item_lo"], "item_hi": row["item_hi"]}
    drawn = whisker({"delta": row["value"], **ends}, scale)
    return drawn if row["published"] is None else replace(drawn, mark=position(row["published"], scale))
