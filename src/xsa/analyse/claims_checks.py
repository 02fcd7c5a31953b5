"""Claims about how training went and what was checked: stability, overhead, the equivalence at alpha = 0, logging."""

from __future__ import annotations

from collections.abc import Callable

from xsa.analyse.evidence import Evidence, Row, place, told_change
from xsa.analyse.statistics import Interval, paired_t
from xsa.analyse.verdicts import (
    NOT_TESTED,
    failure_bound,
    judge_bound,
    judge_difference,
    judge_indistinct,
    judge_stability,
    judge_within,
    paired_change,
)
from xsa.study.claims import ArtefactClaim, EarlyMatchClaim, EquivalenceClaim, OverheadClaim, StabilityClaim

PRECISION = 0.05  # how blunt a timing may be that is to show no overhead


def stability(claim: StabilityClaim, evidence: Evidence) -> list[Row]:
    logs, rows = {row["cell"]: row for row in evidence.summary["stability"]}, []
    for shape, arm in evidence.places(claim):
        cells = evidence.cells(arm)
        runs = [logs[cell] for cell in cells if cell in logs]
        base = {"shape": shape, "arm": arm["label"], "what": "Largest rise of the loss", "unit": "nats per token"}
        base |= {"section": "loss", "cells": cells, "missing": [cell for cell in cells if cell not in logs]}
        base["tolerance"] = claim.rise
        if not runs:
            rows.append(base | {"verdict": NOT_TESTED, "why": "no training log is there"})
            continue
        broken = [one["cell"] for one in runs if not _stayed(one, claim.rise)]
        judged = judge_stability(broken, len(runs), _least_runs(arm, cells, logs))
        rises = [one["largest_rise"] for one in runs if one["largest_rise"] is not None]
        why = (
            judged.why
            if broken
            else f"{judged.why}; training may still break in up to {failure_bound(len(runs)):.0%} of runs"
        )
        told = {"verdict": judged.verdict, "why": why, "value": max(rises, default=None), "n": len(runs), "n_of": "run"}
        rows.append(base | told)
    return rows


def _least_runs(arm: Row, cells: list[str], logs: dict[str, Row]) -> int:
    own = sum(cell in logs for cell in arm["cells"])
    return min(own, sum(cell in logs for cell in cells) - own)


def _stayed(log: Row, rise: float) -> bool:
    return log["finite"] and log["largest_rise"] is not None and log["largest_rise"] <= rise


def overhead(claim: OverheadClaim, evidence: Evidence) -> list[Row]:
    rows = []
    for shape, arm in evidence.places(claim):
        timed = [
            row
            for row in evidence.summary["overhead"]
            if place(row) == (shape, arm["label"]) and row["phase"] == "step"
        ]
        base = {
            "shape": shape,
            "arm": arm["label"],
            "what": f"Time of a step, {claim.mode}",
            "unit": "part of the baseline's",
        }
        base |= {
            "section": "overhead",
            "cells": arm["cells"],
            "tolerance": PRECISION if claim.bound == "noise" else claim.bound,
        }
        row = next((row for row in timed if row["mode"] == claim.mode), None)
        if row is None:
            why = f"no {claim.mode} step was timed" + (f", only {timed[0]['mode']} ones" if timed else "")
            rows.append(base | {"verdict": NOT_TESTED, "why": why, "missing": arm["cells"]})
            continue
        ratio = Interval(row["lo"], row["hi"])
        judged = judge_indistinct(ratio, PRECISION) if claim.bound == "noise" else judge_bound(ratio, 1 + claim.bound)
        told = {
            "verdict": judged.verdict,
            "why": judged.why,
            "value": row["ratio"] - 1,
            "lo": row["lo"] - 1,
            "hi": row["hi"] - 1,
        }
        rows.append(base | told | {"n": 1, "n_of": "timing"})
    return rows


def _checks(claim: EquivalenceClaim | EarlyMatchClaim, evidence: Evidence, judge: Callable[[Row], Row]) -> list[Row]:
    """Rows of a claim that the equivalence checks of a shape decide; `judge` gives a check's verdict, value and unit."""
    rows = []
    for shape in evidence.shapes(claim):
        cells = [cell["cell"] for cell in evidence.summary["cells"] if cell["shape"] == shape]
        base = {"shape": shape, "what": "Largest difference", "section": "equivalence", "cells": cells}
        checks = [row for row in evidence.summary["equivalence"] if row["shape"] == shape]
        if not checks:
            rows.append(base | {"verdict": NOT_TESTED, "why": "the equivalence was not checked", "missing": cells})
        rows += [
            base | {"arm": f"{one['dtype']} on {one['device']}", "n": 1, "n_of": "check"} | judge(one) for one in checks
        ]
    return rows


def equivalence(claim: EquivalenceClaim, evidence: Evidence) -> list[Row]:
    def judge(check: Row) -> Row:
        tolerance = claim.tolerance.get(check["dtype"])
        if tolerance is None:
            return {"verdict": NOT_TESTED, "why": f"the claim has no tolerance for {check['dtype']}"}
        judged = judge_within(check, tolerance)
        worst = max(tolerance, key=lambda name: check[name] / tolerance[name] if tolerance[name] else 0)
        told = {"verdict": judged.verdict, "why": judged.why, "value": check[worst], "tolerance": tolerance[worst]}
        return told | {"unit": worst}

    return _checks(claim, evidence, judge)


def early_match(claim: EarlyMatchClaim, evidence: Evidence) -> list[Row]:
    def judge(check: Row) -> Row:
        judged = judge_within(check, {"loss_max_abs": claim.tolerance})
        told = {
            "verdict": judged.verdict,
            "why": f"{judged.why} over {check['steps']} steps",
            "value": check["loss_max_abs"],
        }
        return told | {"unit": "nats per token", "tolerance": claim.tolerance}

    return _checks(claim, evidence, judge)


def artefact(claim: ArtefactClaim, evidence: Evidence) -> list[Row]:
    rows = []
    for shape, arm in evidence.places(claim):
        cells = evidence.cells(arm)
        base = {
            "shape": shape,
            "arm": arm["label"],
            "what": "Early gap added by the other convention, less the arms' own",
        }
        base |= {"unit": "nats per token", "section": "loss", "cells": cells}
        row = next((row for row in evidence.summary.get("logging", []) if place(row) == (shape, arm["label"])), None)
        if row is None:
            rows.append(
                base | {"verdict": NOT_TESTED, "why": "no training logs of a pair of cells are there", "missing": cells}
            )
            continue
        differences = [moved - own for moved, own in zip(row["moved"], row["own"], strict=True)]
        change = paired_change(differences, paired_t(differences))
        rows.append(base | told_change(judge_difference(change, "higher"), change))
    return rows
