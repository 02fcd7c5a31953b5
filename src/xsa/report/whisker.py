"""A change and its intervals, drawn in a table's row: thick over seeds, thin over items, on the scale of its metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xsa.analyse.statistics import ROUNDING

WIDTH, HEIGHT = 140.0, 22.0
_MARGIN = 5.0
_ITEMS_IN_SIGHT = 4.0


@dataclass(frozen=True)
class Whisker:
    """Horizontal positions in a drawing of WIDTH × HEIGHT; None where there is no such interval."""

    zero: float
    mean: float
    seeds: tuple[float, float] | None
    items: tuple[float, float] | None
    cut: tuple[bool, bool] = (False, False)  # whether the bar over seeds goes on to the left, to the right
    mark: float | None = None  # the published change


def scale_of(rows: list[dict[str, Any]]) -> float:
    """The greatest distance from zero among the rows' changes and interval ends; 1 where all are no more than rounding.

    An interval over few seeds can be a hundred times as wide as that over items: then the scale keeps the items in sight.
    """
    rows = [row for row in rows if row["verdict"] != ROUNDING]
    ends = [row[key] for row in rows for key in ("delta", "seed_lo", "seed_hi", "item_lo", "item_hi")]
    widest = max((abs(end) for end in ends if end is not None), default=0.0) or 1.0
    items = [abs(row[key]) for row in rows for key in ("item_lo", "item_hi") if row[key] is not None]
    moved = max((abs(row["delta"]) for row in rows), default=0.0)
    return min(widest, _ITEMS_IN_SIGHT * max([*items, moved])) if items and max(items) else widest


def whisker(row: dict[str, Any], scale: float) -> Whisker:
    """Place a change on an axis from −scale to scale."""

    def ends(kind: str) -> tuple[float, float] | None:
        lo, hi = row[f"{kind}_lo"], row[f"{kind}_hi"]
        return None if lo is None or hi is None else (position(lo, scale), position(hi, scale))

    lo, hi = row["seed_lo"], row["seed_hi"]
    cut = (lo is not None and lo < -scale, hi is not None and hi > scale)
    return Whisker(position(0.0, scale), position(row["delta"], scale), ends("seed"), ends("item"), cut)


def position(value: float, scale: float) -> float:
    """Where a value lies in the drawing; beyond the scale, at its end."""
    return round(WIDTH / 2 + min(max(value / scale, -1.0), 1.0) * (WIDTH / 2 - _MARGIN), 1)
