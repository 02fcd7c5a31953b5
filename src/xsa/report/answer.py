"""The answer in plain words: a handful of sentences, each computed from the numbers that it states.

No sentence claims more than its intervals: a change counts as one only outside noise, and what lies inside noise is
called not shown, never absent.
"""

from __future__ import annotations

from typing import Any

from xsa.analyse.statistics import INSIDE, OUTSIDE, ROUNDING, deviations_to_show
from xsa.report.numbers import change, counted, fixed, listed, percent, percent_change

_BETTER, _WORSE, _NEITHER = "for the better", "for the worse", "where no direction is better"
_UNTOLD = "not to be told from noise by one seed"
FEW_SEEDS = 5
_SPELT_OUT = {False: 4, True: 2}  # changes told one by one, where a shape has one arm or several; more are counted
_NAMED = 4  # changes named in the tally; more are counted
_NOTHING = "Nothing can be compared yet: there is no seed of which both an arm and its baseline were measured."


def answer(summary: dict[str, Any]) -> list[str]:
    """Sentences that answer the study's question, the most telling first."""
    rows = {metric: [row for row in summary["metrics"] if row["metric"] == metric] for metric in _metrics(summary)}
    if not rows:
        return [_NOTHING]
    sentences = []
    if rows.get("bpb"):
        sentences += [_lead(rows["bpb"], summary), _moved([rows["bpb"]]), _agreement(rows["bpb"])]
    tests = [rows[metric] for metric in ("core", "chatcore") if rows.get(metric)]
    if len({row["verdict"] for group in tests for row in group}) == 1:
        sentences.append(_moved(tests))
    else:
        sentences += [_moved([group]) for group in tests]
    sentences += [_alignment(summary), _tally(summary["metrics"]), _overhead(summary)]
    sentences += [*warnings(summary), _seeds(summary)]
    return [sentence for sentence in sentences if sentence]


def warnings(summary: dict[str, Any]) -> list[str]:
    """Sentences without which no number of the page is to be read."""
    return [sentence for sentence in (_steadiness(summary), _streams(summary)) if sentence]


def improved(row: dict[str, Any]) -> bool | None:
    """Whether a change is for the better; None where neither direction is, or nothing moved."""
    if row["better"] is None or not row["delta"]:
        return None
    return (row["delta"] < 0) == (row["better"] == "lower")


def seed_counts(summary: dict[str, Any]) -> list[int]:
    """Numbers of paired seeds that the study's changes rest on."""
    return sorted({row["n_seeds"] for row in summary["metrics"]})


def treatment(summary: dict[str, Any]) -> str:
    """What the arms that are no baseline are called together."""
    labels = list(dict.fromkeys(arm["label"] for arm in summary["arms"] if not arm["is_baseline"]))
    return labels[0] if len(labels) == 1 else "the exclusive arms"


def _metrics(summary: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["metric"] for row in summary["metrics"]))


def _lead(rows: list[dict[str, Any]], summary: dict[str, Any]) -> str:
    """The first sentence: what bits per byte say, the one metric whose noise is small."""
    told = _capital(treatment(summary))
    many = told.endswith("arms")
    outside = [row for row in rows if row["verdict"] == OUTSIDE]
    better = [row for row in outside if improved(row)]
    if len(better) == len(rows):
        return f"{told} predict{'' if many else 's'} held-out text better than the baseline{_everywhere(rows)}."
    if outside and not better and len(outside) == len(rows):
        return f"{told} predict{'' if many else 's'} held-out text worse than the baseline{_everywhere(rows)}."
    if all(row["verdict"] == ROUNDING for row in rows):
        return f"{told} and the baseline predict held-out text alike{_everywhere(rows)}: there is no difference beyond rounding."
    one = "an exclusive arm" if many else told
    if not outside and all(row["n_seeds"] == 1 for row in rows) and any(row["verdict"] != INSIDE for row in rows):
        return f"Whether {one} predicts held-out text better cannot be told from one seed an arm."
    if not outside:
        return f"This study does not show whether {one} predicts held-out text better or worse than the baseline."
    return (
        f"The answer depends on the comparison: of {counted(len(rows), 'change')} in how well held-out text is predicted, "
        f"{_are(len(better))} for the better, {len(outside) - len(better) or 'none'} for the worse "
        f"and {len(rows) - len(outside) or 'none'} not outside noise."
    )


def _agreement(rows: list[dict[str, Any]]) -> str:
    """Where all seeds moved alike and the change is inside noise all the same: that they did, and why it is."""
    alike = [row for row in rows if row["verdict"] == INSIDE and _one_sign(row.get("seed_deltas") or [])]
    several = len({row["arm"] for row in rows}) > 1
    if not alike or len(alike) > _SPELT_OUT[several]:
        return ""
    moved = listed([_agreed(row, several) for row in alike])
    return f"{_capital(moved)}; {listed(list(dict.fromkeys(_why_noise(row) for row in alike)))}."


def _one_sign(deltas: list[float]) -> bool:
    return len(deltas) > 1 and (all(delta > 0 for delta in deltas) or all(delta < 0 for delta in deltas))


def _agreed(row: dict[str, Any], several: bool) -> str:
    every = "both seeds" if row["n_seeds"] == 2 else f"all {row['n_seeds']} seeds"
    return f"at {_place(row, several)} {every} {'improved' if improved(row) else 'got worse'}"


def _why_noise(row: dict[str, Any]) -> str:
    if row["seed_lo"] is None or not row["seed_lo"] <= 0 <= row["seed_hi"]:
        return "the interval over validation rows holds zero"
    told = "two" if row["n_seeds"] == 2 else row["n_seeds"]
    return f"{told} seeds are too few here for an interval that excludes zero"


def _are(number: int) -> str:
    return f"{number or 'none'} {'is' if number == 1 else 'are'}"


def _everywhere(rows: list[dict[str, Any]]) -> str:
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    return {1: f" at {shapes[0]}", 2: " at both shapes"}.get(len(shapes), f" at all {len(shapes)} shapes")


def _moved(groups: list[list[dict[str, Any]]]) -> str:
    """How metrics moved in each comparison, and whether that is more than noise; a group of rows a metric."""
    every = [row for rows in groups for row in rows]
    several = len({row["arm"] for row in every}) > 1
    if any(len(rows) > _SPELT_OUT[several] for rows in groups):
        return " ".join(_counted(rows) for rows in groups)
    moves = [
        f"{rows[0]['name']}{' changed' if order == 0 else ''} by {listed([_move(row, several) for row in rows])}"
        for order, rows in enumerate(groups)
    ]
    return f"{listed(moves)}: {_judged(every, several)}."


def _counted(rows: list[dict[str, Any]]) -> str:
    outside = [row for row in rows if row["verdict"] == OUTSIDE]
    deltas = sorted(row["delta"] for row in rows)
    ways = [_direction(row) for row in outside]
    split = listed([f"{ways.count(way)} {way}" for way in (_BETTER, _WORSE) if way in ways])
    return (
        f"{rows[0]['name']} changed by {change(deltas[0])} to {change(deltas[-1])} over {len(rows)} comparisons, "
        f"{len(outside) or 'none'} of them outside noise{split and f' ({split})'}."
    )


def _direction(row: dict[str, Any]) -> str:
    return {True: _BETTER, False: _WORSE, None: _NEITHER}[improved(row)]


def _move(row: dict[str, Any], several: bool) -> str:
    relative = row["relative_percent"]
    share = "" if relative is None else f" ({percent_change(relative / 100)})"
    return f"{change(row['delta'])}{share} at {_place(row, several)}"


def _place(row: dict[str, Any], several: bool) -> str:
    return f"{row['shape']} with {row['arm']}" if several else row["shape"]


def _judged(rows: list[dict[str, Any]], several: bool, effect: bool = True) -> str:
    judged = [_verdict(row) for row in rows]
    kinds = list(dict.fromkeys(judged))
    if len(kinds) == 1:
        every = {1: "", 2: "both "}.get(len(rows), "all ")
        return (
            every + kinds[0] + (", so no effect was shown in either direction" if effect and kinds[0] == INSIDE else "")
        )
    places = {
        kind: [_place(row, several) for row, one in zip(rows, judged, strict=True) if one == kind] for kind in kinds
    }
    return ", ".join(f"{kind} at {listed(named)}" for kind, named in places.items())


def _verdict(row: dict[str, Any]) -> str:
    """The verdict in a sentence, with the direction where there is a better one."""
    if row["verdict"] == OUTSIDE:
        return OUTSIDE if improved(row) is None else f"{OUTSIDE} {_direction(row)}"
    return row["verdict"] if row["verdict"] in (INSIDE, ROUNDING) else _UNTOLD


def _tally(rows: list[dict[str, Any]]) -> str:
    """How many changes were judged at all, and which of them are outside noise in which direction."""
    outside = [row for row in rows if row["verdict"] == OUTSIDE]
    judged = f"Of {counted(len(rows), 'change')} of metrics that {'was' if len(rows) == 1 else 'were'} judged, "
    if not outside:
        return f"{judged}none is outside noise."
    several = len({row["arm"] for row in rows}) > 1
    parts = []
    for way in (_BETTER, _WORSE, _NEITHER):
        mine = [row for row in outside if _direction(row) == way]
        parts.append(f"{len(mine) or 'none'} {way}{_named(mine, several)}")
    # that no metric without a better direction moved is no news
    parts = [part for part in parts if part != f"none {_NEITHER}"]
    return f"{judged}{len(outside)} {'is' if len(outside) == 1 else 'are'} outside noise: {listed(parts)}."


def _named(rows: list[dict[str, Any]], several: bool) -> str:
    """The changes in brackets; the metrics alone where the changes are many."""
    if not rows:
        return ""
    if len(rows) <= _NAMED:
        return f" ({'; '.join(row['name'] + ' at ' + _place(row, several) + _went(row) for row in rows)})"
    ways = {_went(row).replace(", ", ", all ") for row in rows}
    return f" ({'; '.join(dict.fromkeys(row['name'] for row in rows))}{ways.pop() if len(ways) == 1 else ''})"


def _went(row: dict[str, Any]) -> str:
    return "" if improved(row) is not None else ", higher" if row["delta"] > 0 else ", lower"


def _alignment(summary: dict[str, Any]) -> str:
    rows = [row for row in summary["metrics"] if row["metric"] == "cos_y_v"]
    if not rows:
        return ""
    several = len({row["arm"] for row in rows}) > 1
    if len(rows) > _SPELT_OUT[several]:
        fell, outside = sum(row["delta"] < 0 for row in rows), sum(row["verdict"] == OUTSIDE for row in rows)
        return (
            "Attention's output was less aligned with the token's own value, before the projection, in "
            f"{fell} of {len(rows)} comparisons; {outside or 'none'} of the {len(rows)} changes {'is' if outside == 1 else 'are'} outside noise."
        )
    moves = [
        f"from {fixed(row['baseline_mean'], 3)} to {fixed(row['arm_mean'], 3)} at {_place(row, several)}"
        for row in rows
    ]
    return f"The cosine of attention's output with the token's own value, before the projection, went {listed(moves)}: {_judged(rows, several, effect=False)}."


def _overhead(summary: dict[str, Any]) -> str:
    rows = [row for row in summary["overhead"] if row["phase"] == "step"]
    if not rows:
        return ""
    rows = [row for row in rows if row["mode"] == "compiled"] or rows
    mode, devices = rows[0]["mode"], listed(sorted({str(row["device"]) for row in rows}))
    added = sorted(row["ratio"] - 1 for row in rows)
    low, high = percent(added[0], 1, sign=True), percent(added[-1], 1, sign=True)
    size = low if low == high else f"{low} to {high}"
    beyond = sum(bool(row["exceeds_noise"]) for row in rows)
    if len(rows) == 1:
        judged = "more than noise" if beyond else "inside noise"
    else:
        judged = f"more than noise in {beyond} of {len(rows)} timings" if beyond else "inside noise throughout"
    return f"The projection changes the time of a training step by {size} ({mode}, on {devices}), {judged}."


def _steadiness(summary: dict[str, Any]) -> str:
    broken = [row["cell"] for row in summary["stability"] if not row["finite"]]
    if broken:
        return f"Training was not stable: {listed(broken)} logged a loss or gradient that is no finite number."
    return ""


def _streams(summary: dict[str, Any]) -> str:
    apart = [stream["shape"] for stream in summary["streams"] if stream["equal"] is False]
    if not apart:
        return ""
    return (
        f"Beware: the cells of {listed(apart)} did not all read the same training rows, so their arms are not matched."
    )


def _seeds(summary: dict[str, Any]) -> str:
    counts = seed_counts(summary)
    if not counts:
        return ""
    if counts == [1]:
        return (
            "Each arm was trained once. One seed says nothing about the spread between seeds, so no change here can be called "
            "more than noise; a second seed would begin to tell."
        )
    told = counted(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    small = (
        f"; with {counted(counts[0], 'seed')} a change must exceed {fixed(deviations_to_show(counts[0]), 1)} standard deviations of "
        "its paired differences before the interval over seeds excludes zero"
        if 1 < counts[0] < FEW_SEEDS
        else ""
    )
    return f"Changes are paired over {told} and held against 95 % intervals over seeds and over test items{small}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
