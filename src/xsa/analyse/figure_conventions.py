"""The figure of one loss difference under several ways of logging, a fault that has passed for a finding before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.lines import Line2D

from xsa.analyse.curves import SMOOTHING, Gap, convention_gaps, thin
from xsa.analyse.figure import Drawn
from xsa.analyse.figure_curves import EARLY, gap_limits, token_unit
from xsa.analyse.style import QUIET, Colours, finish, panels, plain, save
from xsa.analyse.tables import number

_WAYS = {
    "ours": ("logged as here", "-"),
    "other": ("both arms subsampled, indexed before the update, exponential mean", "--"),
    "mixed": ("only the arm logged in that other way, the baseline as here", ":"),
}
_PANELS = (("other", "both arms logged alike"), ("mixed", "arms logged differently"))


def draw_conventions(folder: Path, gaps: Sequence[Gap], colours: Colours) -> Drawn:
    """The same loss difference as other ways of logging would have drawn it: a row a shape, both alike and mixed."""
    shapes = list(dict.fromkeys(gap.comparison.arm.shape for gap in gaps))
    figure, axes = panels(len(shapes) * len(_PANELS), columns=len(_PANELS))
    rows, words = [], []
    series = {id(gap): convention_gaps(gap) for gap in gaps}
    places = [(shape, way, told) for shape in shapes for way, told in _PANELS]
    for ax, (shape, way, told) in zip(axes, places, strict=True):
        mine = [gap for gap in gaps if gap.comparison.arm.shape == shape]
        scale, unit = token_unit(max(gap.tokens_N[-1] for gap in mine))
        ax.axhline(0, color=QUIET, linewidth=1)
        for gap in mine:
            index, colour = thin(len(gap.step_N)), colours.colour(gap.comparison.arm.label)
            for name in ("ours", way):
                values = series[id(gap)][name][index]
                ax.plot(gap.tokens_N[index] / scale, values, color=colour, linestyle=_WAYS[name][1], linewidth=1.2)
        ax.set_ylim(*gap_limits([series[id(gap)][name][None] for gap in mine for name in ("ours", way)]))
        ax.set(
            title=f"{plain(shape, 24)}, {told}",
            xlabel=f"training tokens ({unit})",
            ylabel="difference (nats per token)",
        )
    for gap in gaps:
        rows += _rows(gap, series[id(gap)])
        words.append(_moved(gap, series[id(gap)]))
    labels = list(dict.fromkeys(gap.comparison.arm.label for gap in gaps))
    handles = [Line2D([], [], color=colours.colour(label), label=f"{plain(label)} less baseline") for label in labels]
    handles += [Line2D([], [], color=QUIET, linestyle=line, label=text) for text, line in _WAYS.values()]
    title = "One loss difference under several logging conventions"
    finish(figure, title, handles, columns=1)
    caption = (
        "The same logs drawn in three ways. Here the log holds every step's mean loss over the whole global batch under "
        f"the index after the update, and is smoothed by one rule ({SMOOTHING}). The other convention keeps a hundredth of "
        "the steps under the index before the update and takes an exponential mean (0.9) of what it kept. After the first "
        f"{100 * EARLY:.0f} % of the steps it moves the difference, in nats per token, by up to: {'; '.join(words)}. A third "
        "convention, the loss of the last micro-batch alone, cannot be drawn, for the log does not keep it."
    )
    drawn = Drawn(
        "conventions", title, caption, f"Line charts of one loss difference. Moved by up to: {'; '.join(words)}."
    )
    save(figure, folder, drawn.name, drawn.alt, rows)
    return drawn


def _rows(gap: Gap, series: dict[str, np.ndarray]) -> list[dict]:
    arm = gap.comparison.arm
    return [
        {"shape": arm.shape, "arm": arm.label, "step": int(gap.step_N[n]), "tokens": int(gap.tokens_N[n])}
        | {name: float(values[n]) for name, values in series.items()}
        for n in thin(len(gap.step_N))
    ]


def _moved(gap: Gap, series: dict[str, np.ndarray]) -> str:
    late = slice(int(len(gap.step_N) * EARLY), None)
    alike, mixed = (float(np.abs(series[name] - series["ours"])[late].max()) for name in ("other", "mixed"))
    arm = gap.comparison.arm
    return f"{arm.shape}, {arm.label}: {number(alike, 4)} with both arms alike, {number(mixed, 4)} with only one"
