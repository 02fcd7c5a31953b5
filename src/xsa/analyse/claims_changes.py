"""Claims about changes: of one metric between arms, between two changes, and over all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xsa.analyse.evidence import SECTIONS, Evidence, Row, change_of, told_change
from xsa.analyse.metrics import METRICS
from xsa.analyse.statistics import CONFIDENCE, paired_t, seeds_needed
from xsa.analyse.verdicts import (
    NOT_TESTED,
    Change,
    Judged,
    judge_difference,
    judge_no_change,
    judge_not_universal,
    outside_measured_noise,
    outside_stated_noise,
    paired_change,
)
from xsa.study.claims import ContrastClaim, DifferenceClaim, NoChangeClaim, Noise, NotUniversalClaim, Published

_METRIC = {metric.id: metric for metric in METRICS}


def _of_metric(
    claim: DifferenceClaim | NoChangeClaim, evidence: Evidence, judge: Callable[[Change], Judged]
) -> list[Row]:
    """Rows of a claim about the change of one metric; `judge` takes the change."""
    metric, rows = _METRIC[claim.metric], []
    for shape, arm in evidence.places(claim):
        cells, row = evidence.cells(arm), evidence.metric(claim.metric, arm)
        base = {"shape": shape, "arm": arm["label"], "what": metric.name, "unit": metric.unit, "cells": cells}
        base |= {"section": SECTIONS[metric.stage], "missing": evidence.lacking(cells, claim.metric)}
        if row is None:
            rows.append(base | {"verdict": NOT_TESTED, "why": f"{metric.name} was not measured in a pair of cells"})
        else:
            change = change_of(row)
            rows.append(base | told_change(judge(change), change) | {"difference_sd": row["difference_sd"]})
    return rows


def difference(claim: DifferenceClaim, evidence: Evidence) -> list[Row]:
    size = None
    if claim.size:
        part = sorted(claim.published.change * (1 + sign * claim.size) for sign in (-1, 1))
        size = (part[0], part[1])
    rows = _of_metric(claim, evidence, lambda change: judge_difference(change, claim.direction, size))
    return [row | _beside(row, claim.published, claim.noise) for row in rows] if claim.published else rows


def _beside(row: Row, published: Published, noise: Noise | None) -> Row:
    """What is told beside a verdict about the published change."""
    change = published.change
    told: Row = {"published": change}
    if row.get("value") is not None and change:
        told["ratio"] = row["value"] / change
    if row.get("lo") is not None:
        sd = row["difference_sd"]
        told["published_inside"] = row["lo"] <= change <= row["hi"]
        told["outside_here"] = outside_measured_noise(change, sd, row["n"])
        told |= {"seeds_needed": seeds_needed(change, sd), "needed_by": "here"}
    if noise is not None:
        told["outside_stated"] = outside_stated_noise(change, noise.sd[1])
        told["stated_sds"] = change / (2**0.5 * noise.sd[1])
        if "needed_by" not in told and noise.over == "seeds":
            told |= {"seeds_needed": seeds_needed(change, 2**0.5 * noise.sd[1]), "needed_by": "stated"}
    return told


def no_change(claim: NoChangeClaim, evidence: Evidence) -> list[Row]:
    rows = _of_metric(claim, evidence, lambda change: judge_no_change(change, claim.tolerance))
    return [row | {"tolerance": claim.tolerance} for row in rows]


def contrast(claim: ContrastClaim, evidence: Evidence) -> list[Row]:
    """The change of one arm less that of another, paired by seed."""
    metric, named, rows = _METRIC[claim.metric], {*claim.first, *claim.second}, []
    for shape in evidence.shapes(claim):
        for first in evidence.arms(shape, claim.first):
            for second in evidence.arms(shape, claim.second):
                if first is second or _others(first, named) != _others(second, named):
                    continue
                cells = list(dict.fromkeys(evidence.cells(first) + evidence.cells(second)))
                base = {"shape": shape, "arm": f"{first['label']} against {second['label']}", "what": metric.name}
                base |= {"unit": metric.unit, "cells": cells, "section": SECTIONS[metric.stage]}
                base["missing"] = evidence.lacking(cells, claim.metric)
                rows.append(base | _contrasted(claim, [evidence.metric(claim.metric, arm) for arm in (first, second)]))
    return rows


def _others(arm: Row, named: set[str]) -> Row:
    return {name: value for name, value in arm["factors"].items() if name not in named}


def _contrasted(claim: ContrastClaim, pair: list[Row | None]) -> Row:
    deltas = [{} if row is None else dict(zip(row["seeds"], row["seed_deltas"], strict=True)) for row in pair]
    seeds = sorted(deltas[0].keys() & deltas[1].keys())
    if not seeds:
        return {"verdict": NOT_TESTED, "why": "no seed has all the cells measured that the two changes are made of"}
    differences = [deltas[0][seed] - deltas[1][seed] for seed in seeds]
    change = paired_change(differences, paired_t(differences))
    return told_change(judge_difference(change, claim.direction), change)


def not_universal(claim: NotUniversalClaim, evidence: Evidence) -> list[Row]:
    places = [(metric, arm) for metric in claim.metrics for _, arm in evidence.places(claim)]
    found = [(row, arm) for metric, arm in places if (row := evidence.metric(metric, arm))]
    cells = list(dict.fromkeys(cell for _, arm in places for cell in evidence.cells(arm)))
    lacking = [cell for cell in cells if any(evidence.values[cell].get(metric) is None for metric in claim.metrics)]
    base = {"what": f"{len(found)} of {len(places)} changes", "section": "results", "cells": cells, "missing": lacking}
    if not found:
        return [base | {"verdict": NOT_TESTED, "why": "none of its metrics was measured in a pair of cells"}]
    confidence = 1 - (1 - CONFIDENCE) / len(found)
    changes = [replace(change_of(row), seeds=paired_t(row["seed_deltas"], confidence)) for row, _ in found]
    judged = judge_not_universal(changes, [-1 if row["better"] == "lower" else 1 for row, _ in found])
    seeds = min(change.n for change in changes)
    return [base | {"verdict": judged.verdict, "why": judged.why, "n": seeds, "n_of": "seed"}]
