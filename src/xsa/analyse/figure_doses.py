"""The figure of a study that varies alpha: how each metric changes with the share of the own value that is removed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from xsa.analyse.arms import Grid
from xsa.analyse.figure import Drawn
from xsa.analyse.style import MARKERS, PALETTE, QUIET, finish, panels, plain, save
from xsa.analyse.tables import change

ALPHA = "xsa.alpha"
METRICS = ("bpb", "core", "chatcore", "cos_y_v")


def dose_rows(metrics: Sequence[dict[str, Any]], grid: Grid) -> list[dict[str, Any]]:
    """Rows of `metrics` with their arm's `alpha` and `series`, its other factors in words; none where a study has one alpha above 0."""
    arms = {(arm.shape, arm.label): arm for arm in grid.arms}
    if len({arm.factors[ALPHA] for arm in grid.arms if arm.factors.get(ALPHA)}) < 2:
        return []
    rows = []
    for row in metrics:
        if row["metric"] in METRICS:
            told = [part for part in row["arm"].split(", ") if not part.startswith("XSA α")]
            place = {"alpha": arms[row["shape"], row["arm"]].factors[ALPHA], "series": ", ".join(told) or "XSA"}
            rows.append(row | place)
    return rows


def draw_doses(folder: Path, rows: Sequence[dict[str, Any]]) -> Drawn:
    """Change of the main metrics against alpha, a line for each series; a panel a shape and metric."""
    places = [
        (shape, metric)
        for shape in dict.fromkeys(row["shape"] for row in rows)
        for metric in METRICS
        if any((row["shape"], row["metric"]) == (shape, metric) for row in rows)
    ]
    series = list(dict.fromkeys(row["series"] for row in rows))
    figure, axes = panels(len(places), width=4.4, height=3.0, columns=2)
    for ax, (shape, metric) in zip(axes, places, strict=True):
        mine = [row for row in rows if (row["shape"], row["metric"]) == (shape, metric)]
        _panel(ax, mine, series)
        ax.set(title=f"{plain(shape, 20)}, {mine[0]['name']}", xlabel="α, share of the own value removed")
        ax.set_ylabel(f"change ({mine[0]['unit']})")
    title = "Change of each metric with the share of the own value that is removed"
    finish(figure, title, [_handle(index, plain(one, 60)) for index, one in enumerate(series)], columns=2)
    told = "; ".join(_told(shape, metric, rows) for shape, metric in places)
    caption = (
        "Change = arm less baseline (α = 0, at zero by definition), paired by seed; points of one line share all settings but α. "
        "Bars: 95 % t intervals over seeds, moved apart sideways for the eye; none with one seed, and cut where they would hide the "
        f"points. {told}."
    )
    drawn = Drawn("doses", title, caption, f"Lines of {len(series)} settings over α. {told}.")
    keys = ("shape", "metric", "unit", "series", "alpha", "delta", "seed_lo", "seed_hi", "n_seeds", "verdict")
    save(figure, folder, drawn.name, drawn.alt, [{key: row[key] for key in keys} for row in rows])
    return drawn


def _panel(ax: Axes, rows: list[dict[str, Any]], series: list[str]) -> None:
    ax.axhline(0, color=QUIET, linewidth=1)
    largest = max(abs(row["delta"]) for row in rows) or 1.0
    for index, one in enumerate(series):
        mine = sorted((row for row in rows if row["series"] == one), key=lambda row: row["alpha"])
        shift = 0.008 * (index - (len(series) - 1) / 2)
        style = _style(index)
        ax.plot([0, *(row["alpha"] + shift for row in mine)], [0, *(row["delta"] for row in mine)], **style)
        for row in mine:
            if row["seed_lo"] is not None:
                ends = (row["seed_lo"], row["seed_hi"])
                ax.plot([row["alpha"] + shift] * 2, ends, color=style["color"], linewidth=0.8, alpha=0.6)
    ax.set_ylim(-3 * largest, 3 * largest)
    ax.set_xlim(-0.05, 1.05)


def _style(index: int) -> dict[str, Any]:
    """Six colours, then the same again with broken lines."""
    colour, line = PALETTE[index % len(PALETTE)], ("-", "--", ":")[index // len(PALETTE) % 3]
    return {
        "color": colour,
        "linestyle": line,
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 4,
        "linewidth": 1.2,
    }


def _handle(index: int, label: str) -> Line2D:
    return Line2D([], [], label=label, **_style(index))


def _told(shape: str, metric: str, rows: Sequence[dict[str, Any]]) -> str:
    """The changes at the ends of a panel, lowest and highest."""
    mine = sorted(
        (row for row in rows if (row["shape"], row["metric"]) == (shape, metric)), key=lambda row: row["delta"]
    )
    ends = [f"{change(row['delta'], 4)} (α = {row['alpha']:g}, {row['series']})" for row in (mine[0], mine[-1])]
    return f"{shape}, {mine[0]['name']}: from {ends[0]} to {ends[1]}"
