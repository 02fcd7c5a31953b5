"""Claims held against what a study measured: one row a claim, shape and arm, with its verdict and the numbers that it rests on.

Everything is read from an analysis' summary, so that a claim can be changed, or added, without analysing again.
"""

from __future__ import annotations

from xsa.analyse.claims_changes import contrast, difference, no_change, not_universal
from xsa.analyse.claims_checks import artefact, early_match, equivalence, overhead, stability
from xsa.analyse.evidence import Evidence, Row
from xsa.analyse.verdicts import NOT_TESTED
from xsa.study.claims import Claims, UntestedClaim


def claim_rows(claims: Claims, summary: Row) -> list[Row]:
    """Every claim of a file judged: a row for each shape and arm that it is about, in the file's order.

    verdict, why:            one of `verdicts.VERDICTS`, and the reason in half a sentence;
    value, lo, hi:           what was measured (unit, and what it is called in `what`) and its interval, over seeds where n counts those;
    item_lo, both_lo, …:     the intervals over items, and over seeds and items together, where there are such;
    n, n_of:                 how many seeds, runs or checks it rests on;
    published, ratio:        the paper's change, and the measured one as a part of it;
    published_inside:        whether the interval over seeds holds the published change;
    outside_here, outside_stated, stated_sds: whether the published change would be outside the noise measured here and by others, and
                             how many standard deviations of a difference it is by the latter;
    seeds_needed, needed_by: how many paired seeds would show the published change, and by whose noise that is reckoned, `here` or `stated`;
    cells, missing:          the cells behind it, and those whose measurement is not there;
    section:                 where on the page its numbers stand.
    """
    evidence = Evidence(summary)
    rows = []
    for claim in claims.claims:
        told = {name: getattr(claim, name) for name in ("id", "kind", "statement", "where", "second_hand")}
        found = _JUDGES[claim.kind](claim, evidence) or [{"verdict": NOT_TESTED, "why": "no such arm is here"}]
        rows += [_EMPTY | {"file": claims.name} | told | row for row in found]
    return rows


_NONE = (
    *(
        "shape",
        "arm",
        "what",
        "unit",
        "value",
        "lo",
        "hi",
        "item_lo",
        "item_hi",
        "both_lo",
        "both_hi",
        "n",
        "n_of",
        "published",
        "ratio",
    ),
    *(
        "published_inside",
        "outside_here",
        "outside_stated",
        "stated_sds",
        "seeds_needed",
        "needed_by",
        "tolerance",
        "section",
    ),
)
_EMPTY: Row = dict.fromkeys(_NONE) | {"cells": [], "missing": []}


def _untested(claim: UntestedClaim, evidence: Evidence) -> list[Row]:
    return [{"verdict": NOT_TESTED, "why": f"it would need {claim.needs}"}]


_JUDGES = {
    "difference": difference,
    "no_change": no_change,
    "contrast": contrast,
    "not_universal": not_universal,
    "stability": stability,
    "overhead": overhead,
    "equivalence": equivalence,
    "early_match": early_match,
    "artefact": artefact,
    "untested": _untested,
}
