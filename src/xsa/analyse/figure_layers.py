"""Figures by layer: self-alignment before and after the projection, and the diagonal weight beside its null."""

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


def draw_alignment(folder: Path, rows: Sequence[dict[str, Any]], colours: Colours) -> Drawn:
    """cos(y, v) before and cos(z, v) after the projection by layer, every arm."""
    frame = pd.DataFrame(rows)
    frame = frame[frame["measure"].isin(["cos_y_v", "cos_z_v"])]
    shapes, arms = list(frame["shape"].unique()), list(frame["arm"].unique())
    figure, axes = panels(len(shapes))
    for ax, shape in zip(axes, shapes, strict=True):
        ax.axhline(0, color=QUIET, linewidth=1)
        for arm in arms:
            mine = frame[(frame["shape"] == shape) & (frame["arm"] == arm)]
            _line(ax, mine[mine["measure"] == "cos_y_v"], colours, arm, band=True)
            _line(
                ax,
                mine[mine["measure"] == "cos_z_v"],
                colours,
                arm,
                linestyle="--",
                markerfacecolor="none",
                zorder=1.5,
            )
        _layers(ax, shape, "cosine with the own value")
    handles = [_arm_handle(colours, arm) for arm in arms]
    handles.append(Line2D([], [], color=INK, label="cos(y, v), before the projection"))
    handles.append(Line2D([], [], color=INK, linestyle="--", label="cos(z, v), after it"))
    title = "Alignment of attention's output with the token's own value, by layer"
    finish(figure, title, handles, columns=2)
    told = "; ".join(
        f"{shape}, {arm}: {number(_mean(frame, shape, arm, 'cos_y_v'), 3)} before, "
        f"{number(_mean(frame, shape, arm, 'cos_z_v'), 3)} after"
        for shape in shapes
        for arm in arms
        if not frame[(frame["shape"] == shape) & (frame["arm"] == arm)].empty
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
    frame = pd.DataFrame(rows)
    frame = frame[frame["measure"].isin(["diagonal", "diagonal_null"])]
    shapes, arms = list(frame["shape"].unique()), list(frame["arm"].unique())
    figure, axes = panels(len(shapes))
    for ax, shape in zip(axes, shapes, strict=True):
        null = frame[(frame["shape"] == shape) & (frame["measure"] == "diagonal_null")].groupby("layer")["mean"].mean()
        ax.plot(null.index, null.to_numpy(), color=QUIET, linestyle=":", linewidth=2)
        for arm in arms:
            mine = frame[(frame["shape"] == shape) & (frame["arm"] == arm) & (frame["measure"] == "diagonal")]
            _line(ax, mine, colours, arm, band=True)
        ax.set_ylim(bottom=0)
        _layers(ax, shape, "attention weight aᵢᵢ")
    handles = [_arm_handle(colours, arm) for arm in arms]
    handles.append(Line2D([], [], color=QUIET, linestyle=":", linewidth=2, label="uniform attention over the window"))
    title = "Attention weight of a token on itself, by layer"
    finish(figure, title, handles)
    told = "; ".join(
        f"{shape}, {arm}: {number(_mean(frame, shape, arm, 'diagonal'), 4)} "
        f"(uniform {number(_mean(frame, shape, arm, 'diagonal_null'), 4)})"
        for shape in shapes
        for arm in arms
        if not frame[(frame["shape"] == shape) & (frame["arm"] == arm)].empty
    )
    caption = (
        "Mean over heads, validation rows and positions from 1 on, then over seeds; the band is the range over heads. The "
        "dotted line is the weight of a token on itself if attention were spread evenly over what the layer's window "
        f"shows. Means over layers: {told}."
    )
    drawn = Drawn("diagonal", title, caption, f"Line chart by layer. {told}.")
    save(figure, folder, drawn.name, drawn.alt, frame.to_dict("records"))
    return drawn


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


def _arm_handle(colours: Colours, arm: str) -> Line2D:
    return Line2D([], [], color=colours.colour(arm), marker=colours.marker(arm), markersize=4, label=plain(arm))


def _mean(frame: pd.DataFrame, shape: str, arm: str, measure: str) -> float:
    mine = frame[(frame["shape"] == shape) & (frame["arm"] == arm) & (frame["measure"] == measure)]["mean"]
    return float(np.mean(mine)) if len(mine) else float("nan")
