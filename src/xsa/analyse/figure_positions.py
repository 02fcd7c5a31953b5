"""Figures of the diagnostics by position in the row, and along training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter

from xsa.analyse.figure import Drawn
from xsa.analyse.figure_layers import LOOKS, arm_handle, even_handle, of_measures, there
from xsa.analyse.style import INK, QUIET, Colours, finish, panels, plain, save
from xsa.analyse.tables import number


def draw_alignment_positions(folder: Path, rows: Sequence[dict[str, Any]], colours: Colours) -> Drawn:
    """cos(y, v) by position, every arm, beside the cosine of the own value with earlier ones."""
    frame = of_measures(rows, ["cos_y_v", "cos_v_v"])
    shapes, arms = list(frame["shape"].unique()), list(frame["arm"].unique())
    figure, axes = panels(len(shapes))
    for ax, shape in zip(axes, shapes, strict=True):
        ax.axhline(0, color=QUIET, linewidth=1)
        for arm in arms:
            _line(ax, _of(frame, shape, arm, "cos_y_v"), colours, arm, band=True)
            _line(ax, _of(frame, shape, arm, "cos_v_v"), colours, arm, linestyle="--", markerfacecolor="none")
        _positions(ax, frame[frame["shape"] == shape], shape, "cosine with the own value")
    handles = [arm_handle(colours, arm) for arm in arms]
    handles.append(Line2D([], [], color=INK, label="attention's output, cos(y, v)"))
    handles.append(Line2D([], [], color=INK, linestyle="--", label="earlier values in sight, cos(vⱼ, vᵢ)"))
    title = "Alignment with the token's own value, by position in the row"
    finish(figure, title, handles, columns=2)
    told = _ends(frame, "cos_y_v", "position", lambda row: _range_name(row["first"], row["last"]), 3)
    caption = (
        "Mean over heads, layers and validation rows, then over seeds, in ranges of positions that double; the band is the range over layers. "
        "Where values are alike (dashed), an output is aligned with its own value even without looking at it. "
        f"cos(y, v): {told}."
    )
    drawn = Drawn("alignment_positions", title, caption, f"Line chart by position. cos(y, v): {told}.")
    save(figure, folder, drawn.name, drawn.alt, frame.to_dict("records"))
    return drawn


def draw_looks_positions(folder: Path, rows: Sequence[dict[str, Any]], colours: Colours) -> Drawn:
    """Diagonal weight, entropy and weight on the first token by position, every arm, beside those of even attention."""
    frame = of_measures(rows, [name for measure in LOOKS for name in (measure, f"{measure}_null")])
    shapes, arms = list(frame["shape"].unique()), list(frame["arm"].unique())
    places = [(shape, measure) for shape in shapes for measure in LOOKS]
    figure, axes = panels(len(places), width=3.3)
    for ax, (shape, measure) in zip(axes, places, strict=True):
        null = _mean_line(frame[(frame["shape"] == shape) & (frame["measure"] == f"{measure}_null")])
        ax.plot(null["centre"], null["mean"], color=QUIET, linestyle=":", linewidth=2)
        for arm in arms:
            _line(ax, _of(frame, shape, arm, measure), colours, arm, band=True)
        ax.set_ylim(bottom=0)
        _positions(ax, frame[frame["shape"] == shape], shape, LOOKS[measure])
    title = "Where heads look, by position in the row"
    finish(figure, title, [*(arm_handle(colours, arm) for arm in arms), even_handle()])
    told = _ends(frame, "first", "position", lambda row: _range_name(row["first"], row["last"]), 3)
    caption = (
        "Weight on the token itself, entropy, and weight on the row's first token: mean over heads, layers and validation rows, then over "
        "seeds, in ranges of positions that double; the band is the range over layers. The dotted line is what attention spread evenly over the "
        f"layers' windows has. Weight on the first token: {told}."
    )
    drawn = Drawn("looks_positions", title, caption, f"Line charts by position. Weight on the first token: {told}.")
    save(figure, folder, drawn.name, drawn.alt, frame.to_dict("records"))
    return drawn


def draw_alignment_training(folder: Path, rows: Sequence[dict[str, Any]], colours: Colours) -> Drawn:
    """cos(y, v) and the diagonal weight along training, every arm."""
    frame = of_measures(rows, ["cos_y_v", "diagonal"])
    shapes, arms = list(frame["shape"].unique()), list(frame["arm"].unique())
    places = [(shape, measure) for shape in shapes for measure in ("cos_y_v", "diagonal")]
    figure, axes = panels(len(places), columns=2)
    for ax, (shape, measure) in zip(axes, places, strict=True):
        for arm in arms:
            mine = _of(frame, shape, arm, measure)
            _curve(
                ax, mine.groupby("step")[["mean", "lowest", "highest"]].mean().reset_index(names="centre"), colours, arm
            )
        _steps(ax, sorted(frame[frame["shape"] == shape]["step"].unique()))
        ax.set(title=plain(shape), ylabel="cos(y, v)" if measure == "cos_y_v" else LOOKS["diagonal"])
    title = "Alignment and diagonal weight along training"
    finish(figure, title, [arm_handle(colours, arm) for arm in arms])
    told = _ends(frame, "cos_y_v", "step", lambda row: f"{row['step']:,}", 3)
    caption = (
        "Taken during training on the same validation rows each time: mean over heads, layers and positions from 1 on, then "
        f"over seeds; the band is the range over layers. Steps by their logarithm. cos(y, v): {told}."
    )
    drawn = Drawn("alignment_training", title, caption, f"Line charts by training step. cos(y, v): {told}.")
    save(figure, folder, drawn.name, drawn.alt, frame.to_dict("records"))
    return drawn


def _of(frame: pd.DataFrame, shape: str, arm: str, measure: str) -> pd.DataFrame:
    return frame[(frame["shape"] == shape) & (frame["arm"] == arm) & (frame["measure"] == measure)]


def _mean_line(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds by range of positions; `centre` is the range's geometric middle."""
    line = frame.groupby(["first", "last"])[["mean", "lowest", "highest"]].mean().reset_index()
    return line.assign(centre=np.sqrt(line["first"] * line["last"]))


def _line(ax: Axes, frame: pd.DataFrame, colours: Colours, arm: str, band: bool = False, **kwargs: Any) -> None:
    if not frame.empty:
        _curve(ax, _mean_line(frame), colours, arm, band, **kwargs)


def _curve(ax: Axes, line: pd.DataFrame, colours: Colours, arm: str, band: bool = True, **kwargs: Any) -> None:
    if band:
        ax.fill_between(
            line["centre"], line["lowest"], line["highest"], color=colours.colour(arm), alpha=0.15, linewidth=0
        )
    style = {"marker": colours.marker(arm), "markersize": 3.5, "color": colours.colour(arm)} | kwargs
    ax.plot(line["centre"], line["mean"], **style)


def _positions(ax: Axes, frame: pd.DataFrame, shape: str, ylabel: str) -> None:
    ax.set_xscale("log", base=2)
    firsts = sorted(frame["first"].unique())
    ax.xaxis.set_major_locator(FixedLocator(firsts[:: -(-len(firsts) // 6)]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(FixedLocator([]))
    ax.set(title=plain(shape), xlabel="position in the row (from 0)", ylabel=ylabel)


def _steps(ax: Axes, steps: Sequence[int]) -> None:
    """Looks are dense where training is young, so steps lie by their logarithm, with 0 where it would be one before the first."""
    first = next((step for step in steps if step), 1)
    ax.set_xscale("symlog", linthresh=first, linscale=0.4)
    ax.xaxis.set_major_locator(FixedLocator(steps[:: -(-len(steps) // 8)]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.xaxis.set_minor_locator(FixedLocator([]))
    ax.set_xlabel("training step")


def _range_name(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}–{last}"


def _ends(frame: pd.DataFrame, measure: str, unit: str, name: Any, digits: int) -> str:
    """What a measure is at the first and the last place, in words, for every shape and arm."""
    told = []
    for shape, arm in there(frame):
        mine = _of(frame, shape, arm, measure)
        keys = ["first", "last"] if "first" in mine else ["step"]
        means = mine.groupby(keys)["mean"].mean().reset_index()
        first, last = means.iloc[0], means.iloc[-1]
        told.append(
            f"{shape}, {arm}: {number(float(first['mean']), digits)} at {unit} {name(first.astype(int))}, "
            f"{number(float(last['mean']), digits)} at {name(last.astype(int))}"
        )
    return "; ".join(told)
