"""What a summary holds about an arm: the evidence that claims are judged by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xsa.analyse.statistics import ROUNDING, Interval
from xsa.analyse.verdicts import Change, Judged
from xsa.study.claims import Claim

# Where on the page numbers stand, by the stage that measured them.
SECTIONS = {"pretrain": "loss", "bpb": "results", "core": "results", "chatcore": "results", "attention": "mechanism"}

Row = dict[str, Any]


class Evidence:
    """A summary's arms and rows, found by shape and factors."""

    def __init__(self, summary: Row):
        self.summary = summary
        self.values = {cell["cell"]: cell for cell in summary["cells"]}

    def shapes(self, claim: Claim) -> list[str]:
        """The shapes that a claim is about."""
        return list(self.summary["shapes"] if claim.shapes == "all" else claim.shapes)

    def arms(self, shape: str, wanted: dict[str, Any]) -> list[Row]:
        """Arms of a shape with these factor values that are no baseline."""
        return [
            arm
            for arm in self.summary["arms"]
            if arm["shape"] == shape
            and not arm["is_baseline"]
            and all(name in arm["factors"] and arm["factors"][name] == value for name, value in wanted.items())
        ]

    def places(self, claim: Claim) -> Iterator[tuple[str, Row]]:
        """Every shape and arm that a claim is about."""
        for shape in self.shapes(claim):
            for arm in self.arms(shape, claim.arm):
                yield shape, arm

    def metric(self, metric: str, arm: Row) -> Row | None:
        """The change of a metric from an arm's baseline to the arm; None where no pair of cells has it."""
        rows = (row for row in self.summary["metrics"] if (row["shape"], row["arm"]) == (arm["shape"], arm["label"]))
        return next((row for row in rows if row["metric"] == metric), None)

    def cells(self, arm: Row) -> list[str]:
        """The cells of an arm and of the baseline that it is held against; of all baselines of its shape where none is known."""
        known = {row["baseline_arm"] for row in self.summary["metrics"] if place(row) == (arm["shape"], arm["label"])}
        others = [
            one
            for one in self.summary["arms"]
            if one["shape"] == arm["shape"] and one["is_baseline"] and (not known or one["label"] in known)
        ]
        return [cell for one in (*others, arm) for cell in one["cells"]]

    def lacking(self, cells: list[str], metric: str) -> list[str]:
        """Those of `cells` that have no value of a metric."""
        return [cell for cell in cells if self.values[cell].get(metric) is None]


def place(row: Row) -> tuple[str, str]:
    """The shape and the arm that a row of a summary is about."""
    return row["shape"], row["arm"]


def interval(row: Row, kind: str) -> Interval | None:
    """A row's interval over `seed`, `item` or, in `total`, both; None where there is none."""
    lo, hi = row.get(f"{kind}_lo"), row.get(f"{kind}_hi")
    return None if lo is None or hi is None else Interval(lo, hi)


def change_of(row: Row) -> Change:
    """The change that a row of `metrics` tells of."""
    rounding = row["verdict"] == ROUNDING
    seeds, items, both = (interval(row, kind) for kind in ("seed", "item", "total"))
    return Change(row["delta"], seeds, items, row["n_seeds"], rounding, both)


def told_change(judged: Judged, change: Change) -> Row:
    """A verdict on a change as entries of a claim's row."""
    found: Row = {"verdict": judged.verdict, "why": judged.why, "value": change.delta, "n": change.n, "n_of": "seed"}
    if change.seeds is not None:
        found |= {"lo": change.seeds.lo, "hi": change.seeds.hi}
    if change.items is not None:
        found |= {"item_lo": change.items.lo, "item_hi": change.items.hi}
    if change.both is not None:
        found |= {"both_lo": change.both.lo, "both_hi": change.both.hi}
    return found
