"""Figures by layer: self-alignment before and after the projection, and where heads look beside what even attention would."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from xsa.analyse.figure import Drawn
from xsa.analyse.style import INK, QUIET, Colours, finish, panels, plain, save
from xsa.analyse.tables import number

# measure: axis, and what even attention's is called
LOOKS = {
    "diagonal": "attention weight aᵢᵢ",
    "entropy": "entropy of attention (nats)",
    "first": "weight on the row's first token",
}
EVEN = "even attention over the window"


def draw_alignment(folder: Path, rows: Sequence[dict[str, Any]], colours: Colours) -> Drawn:
    """cos(y, v) before and cos(z, v) after the projection by layer, every arm."""
    frame = of_measures(rows, ["cos_y_v", "cos_z_v"])
    shapes, arms = list(frame["shape"].unique()), list(frame["arm"].unique())
    figure, axes = panels(len(shapes))
    for ax, shape in zip(axes, shapes, strict=True):
        ax.axhline(0, color=QUIET, linewidth=1)
        for arm in arms:
            mine = frame[(frame["shape"] == shape) & (frame["arm"] == arm)]
            _line(ax, mine[mine["measure"] == "cos_y_v"], colours, arm, band=True)
            after = {"linestyle": "--", "markerfacecolor": "none", "zorder": 1.5}
            _line(ax, mine[mine["measure"] == "cos_z_v"], colours, arm, **after)
        _layers(ax, shape, "cosine with the own value")
    handles = [arm_handle(colours, arm) for arm in arms]
    handles.append(Line2D([], [], color=INK, label="cos(y, v), before the projection"))
    handles.append(Line2D([], [], color=INK, linestyle="--", label="cos(z, v), after it"))
    title = "Alignment of attention's output with the token's own value, by layer"
    finish(figure, title, handles, columns=2)
    told = "; ".join(
        f"{shape}, {arm}: {number(mean(frame, shape, arm, 'cos_y_v'), 3)} before, "
        f"{number(mean(frame, shape, arm, 'cos_z_v'), 3)} after"
        for shape, arm in there(frame)
    )
    caption = (
        "Mean over heads, validation rows and positions from 1 on (at position 0 y is v), then over seeds; the band is the "
        "range over heads. At α = 1 the cosine after the projection is zero by construction, so only the cosine before it "
        f"says what the model has learnt. Means over layers: {told}."
    )
    drawn = Drawn("alignment", title, caption, f"Line chart by layer. {told}.")
    save(figure, folder, drawn.name, drawn.alt, frame.to_dict("records"))
    return drawn


def draw_diagonal(folder: Path, rows: Sequence[dict[str, Any]], colours: Colours) -> Drawn:
    """The attention weight aᵢᵢ by layer, every arm, beside that of uniform attention over the window."""
    title = "Attention weight of a token on itself, by layer"
    caption = (
        "Mean over heads, validation rows and positions from 1 on, then over seeds; the band is the range over heads. The "
        "dotted line is the weight of a token on itself if attention were spread evenly over what the layer's window shows."
    )
    return _draw_looks(folder, rows, colours, ["diagonal"], "diagonal", title, caption)


def draw_looks(folder: Path, rows: Sequence[dict[str, Any]], colours: Colours) -> Drawn:
    """Entropy of attention and weight on the first token by layer, every arm, beside those of even attention."""
    title = "Where heads look, by layer: entropy, and weight on the first token"
    caption = (
        "Entropy in nats, low where a head looks at few tokens; and the weight on the row's first token, where attention sinks "
        "stand (0 where the window hides it). Mean over heads, rows and positions from 1 on, then over seeds; the band is the range over heads. "
        "The dotted line is what attention spread evenly over the layer's window has."
    )
    return _draw_looks(folder, rows, colours, ["entropy", "first"], "looks", title, caption)


def _draw_looks(
    folder: Path,
    rows: Sequence[dict[str, Any]],
    colours: Colours,
    measures: list[str],
    name: str,
    title: str,
    caption: str,
) -> Drawn:
    frame = of_measures(rows, [*measures, *(f"{measure}_null" for measure in measures)])
    shapes, arms = list(frame["shape"].unique()), list(frame["arm"].unique())
    places = [(shape, measure) for shape in shapes for measure in measures]
    figure, axes = panels(len(places), **({} if len(measures) == 1 else {"columns": len(measures)}))
    for ax, (shape, measure) in zip(axes, places, strict=True):
        null = (
            frame[(frame["shape"] == shape) & (frame["measure"] == f"{measure}_null")].groupby("layer")["mean"].mean()
        )
        ax.plot(null.index, null.to_numpy(), color=QUIET, linestyle=":", linewidth=2)
        for arm in arms:
            mine = frame[(frame["shape"] == shape) & (frame["arm"] == arm) & (frame["measure"] == measure)]
            _line(ax, mine, colours, arm, band=True)
        ax.set_ylim(bottom=0)
        _layers(ax, shape, LOOKS[measure])
    finish(figure, title, [*(arm_handle(colours, arm) for arm in arms), even_handle()])
    told = "; ".join(
        f"{shape}, {arm}: "
        + ", ".join(
            f"{word}{number(mean(frame, shape, arm, measure), 4)} (even {number(mean(frame, shape, arm, f'{measure}_null'), 4)})"
            for measure in measures
            for word in [f"{LOOKS[measure].split()[0]} " if len(measures) > 1 else ""]
        )
        for shape, arm in there(frame)
    )
    drawn = Drawn(name, title, f"{caption} Means over layers: {told}.", f"Line chart by layer. {told}.")
    save(figure, folder, drawn.name, drawn.alt, frame.to_dict("records"))
    return drawn


def of_measures(rows: Sequence[dict[str, Any]], measures: list[str]) -> pd.DataFrame:
    """The rows of some measures as a table."""
    frame = pd.DataFrame(rows)
    return frame[frame["measure"].isin(measures)]


def there(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Every shape and arm of a table, in order."""
    return list(dict.fromkeys(zip(frame["shape"], frame["arm"], strict=True)))


def arm_handle(colours: Colours, arm: str) -> Line2D:
    return Line2D([], [], color=colours.colour(arm), marker=colours.marker(arm), markersize=4, label=plain(arm))


def even_handle() -> Line2D:
    return Line2D([], [], color=QUIET, linestyle=":", linewidth=2, label=EVEN)


def mean(frame: pd.DataFrame, shape: str, arm: str, measure: str) -> float:
    """Mean of a measure over all rows of a shape and arm; NaN where there are none."""
    mine = frame[(frame["shape"] == shape) & (frame["arm"] == arm) & (frame["measure"] == measure)]["mean"]
    return float(np.mean(mine)) if len(mine) else float("nan")


def _line(ax: Axes, frame: pd.DataFrame, colours: Colours, arm: str, band: bool = False, **kwargs: Any) -> None:
    if frame.empty:
        return
    layers = frame.groupby("layer")[["mean", "lowest", "highest"]].mean()
    colour = colours.colour(arm)
    if band:
        ax.fill_between(layers.index, layers["lowest"], layers["highest"], color=colour, alpha=0.15, linewidth=0)
    style = {"marker": colours.marker(arm), "markersize": 3.5, "color": colour} | kwargs
    ax.plot(layers.index, layers["mean"], **style)


def _layers(ax: Axes, shape: str, ylabel: str) -> None:
    lo, hi = ax.dataLim.intervalx
    ax.set_xlim(lo - 0.5, hi + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(title=plain(shape), xlabel="layer (from 0)", ylabel=ylabel)
