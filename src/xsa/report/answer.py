"""The answer in plain words: a handful of sentences, each computed from the numbers that it states.

No sentence claims more than its intervals: a change counts as one only outside noise, and what lies inside noise is
called not shown, never absent.
"""

from __future__ import annotations

from typing import Any

from xsa.report.numbers import counted, fixed, listed, percent, signed

OUTSIDE, INSIDE = "outside noise", "inside noise"
_JUDGED = {OUTSIDE: OUTSIDE, INSIDE: INSIDE}  # any other verdict: one seed, which cannot tell
_UNTOLD = "not to be told from noise by one seed"
FEW_SEEDS = 5
_SPELT_OUT = {False: 4, True: 2}  # changes told one by one, where a shape has one arm or several; more are counted
_NOTHING = "Nothing has been compared yet: no arm of this study has a baseline to be held against."


def answer(summary: dict[str, Any]) -> list[str]:
    """Sentences that answer the study's question, the most telling first."""
    rows = {metric: [row for row in summary["metrics"] if row["metric"] == metric] for metric in _metrics(summary)}
    if not rows:
        return [_NOTHING]
    sentences = []
    if rows.get("bpb"):
        sentences += [_lead(rows["bpb"], summary), _moved([rows["bpb"]])]
    tests = [rows[metric] for metric in ("core", "chatcore") if rows.get(metric)]
    if len({row["verdict"] for group in tests for row in group}) == 1:
        sentences.append(_moved(tests))
    else:
        sentences += [_moved([group]) for group in tests]
    sentences += [_alignment(summary), _overhead(summary), _steadiness(summary), _streams(summary), _seeds(summary)]
    return [sentence for sentence in sentences if sentence]


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
    if not outside and all(row["verdict"] == INSIDE for row in rows):
        return f"{told} predict{'' if many else 's'} held-out text neither better nor worse than the baseline, as far as this study can tell."
    if not outside:
        return f"Whether {told if not many else 'an exclusive arm'} predicts held-out text better cannot be told from one seed an arm."
    return (
        f"The answer depends on the comparison: of {counted(len(rows), 'change')} in how well held-out text is predicted, "
        f"{_are(len(better))} for the better, {len(outside) - len(better) or 'none'} for the worse "
        f"and {len(rows) - len(outside) or 'none'} no more than noise."
    )


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
    outside = sum(row["verdict"] == OUTSIDE for row in rows)
    deltas = sorted(row["delta"] for row in rows)
    return (
        f"{rows[0]['name']} changed by {signed(deltas[0])} to {signed(deltas[-1])} over {len(rows)} comparisons, "
        f"{outside or 'none'} of them outside noise."
    )


def _move(row: dict[str, Any], several: bool) -> str:
    relative = row["relative_percent"]
    share = "" if relative is None else f" ({percent(relative / 100, sign=True)})"
    return f"{signed(row['delta'])}{share} at {_place(row, several)}"


def _place(row: dict[str, Any], several: bool) -> str:
    return f"{row['shape']} with {row['arm']}" if several else row["shape"]


def _judged(rows: list[dict[str, Any]], several: bool) -> str:
    judged = [_JUDGED.get(row["verdict"], _UNTOLD) for row in rows]
    kinds = list(dict.fromkeys(judged))
    if len(kinds) == 1:
        every = {1: "", 2: "both "}.get(len(rows), "all ")
        return every + kinds[0] + (", so no effect was shown in either direction" if kinds[0] == INSIDE else "")
    places = {
        kind: [_place(row, several) for row, one in zip(rows, judged, strict=True) if one == kind] for kind in kinds
    }
    return ", ".join(f"{kind} at {listed(named)}" for kind, named in places.items())


def _alignment(summary: dict[str, Any]) -> str:
    rows = [row for row in summary["metrics"] if row["metric"] == "cos_y_v"]
    if not rows:
        return ""
    several = len({row["arm"] for row in rows}) > 1
    if len(rows) > _SPELT_OUT[several]:
        fell = sum(row["delta"] < 0 for row in rows)
        return f"Attention's output was less aligned with the token's own value, before the projection, in {fell} of {len(rows)} comparisons."
    moves = [
        f"from {fixed(row['baseline_mean'], 3)} to {fixed(row['arm_mean'], 3)} at {_place(row, several)}"
        for row in rows
    ]
    return f"The cosine of attention's output with the token's own value, before the projection, went {listed(moves)}."


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
        "; with so few, only an effect that is large beside a seed's spread can show" if counts[0] < FEW_SEEDS else ""
    )
    return f"Changes are paired over {told} and held against 95 % intervals over seeds and over test items{small}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
