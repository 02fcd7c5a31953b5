"""The figure of one log drawn in careful and careless ways, a fault that has passed for a finding before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from xsa.analyse.conventions import (
    ALL_FAULTS,
    FIRST,
    LAST,
    convention_gaps,
    convention_rows,
    own_micro_batches,
    series_of,
)
from xsa.analyse.curves import SMOOTHING, Gap, thin
from xsa.analyse.figure import Drawn
from xsa.analyse.figure_curves import gap_limits, token_unit
from xsa.analyse.style import QUIET, Colours, finish, panels, plain, save
from xsa.analyse.tables import number

_WAYS = {
    "ours": ("logged as here", "-"),
    "other": ("with the faults, both arms", "--"),
    "mixed": ("with the faults, this arm alone", ":"),
}
_GAPS = (("other", "gap, logged alike"), ("mixed", "gap, one arm faulty"))


def draw_conventions(folder: Path, gaps: Sequence[Gap], colours: Colours) -> Drawn:
    """A row a shape: early curves of both arms in both ways, the gap where both arms' logs have the faults, and where one has."""
    shapes = list(dict.fromkeys(gap.comparison.arm.shape for gap in gaps))
    figure, axes = panels(len(shapes) * (1 + len(_GAPS)), width=3.6, columns=1 + len(_GAPS))
    series = {id(gap): convention_gaps(gap) for gap in gaps}
    for row, shape in enumerate(shapes):
        mine = [gap for gap in gaps if gap.comparison.arm.shape == shape]
        first, *others = axes[row * (1 + len(_GAPS)) :][: 1 + len(_GAPS)]
        _curves(first, mine, colours)
        for ax, (way, told) in zip(others, _GAPS, strict=True):
            _gaps(ax, mine, series, way, colours)
            ax.set_title(f"{plain(shape, 20)}, {told}")
    labels = list(dict.fromkeys(arm.label for gap in gaps for arm in (gap.comparison.baseline, gap.comparison.arm)))
    handles = [Line2D([], [], color=colours.colour(label), label=plain(label)) for label in labels]
    handles += [Line2D([], [], color=QUIET, linestyle=line, label=text) for text, line in _WAYS.values()]
    title = "One log drawn with and without faults of logging"
    finish(figure, title, handles, columns=3)
    words = [_words(gap) for gap in gaps]
    caption = (
        "Solid: every step's mean loss over the whole global batch under the index after the update, smoothed by one rule "
        f"({SMOOTHING}). Dashed and dotted: {_faults(gaps)}. Left: the curves from {100 * FIRST:.0f} to {100 * LAST:.0f} % of the "
        "steps. Middle and right: arm less baseline, where both logs have the faults, and where only the arm's has. The "
        f"faults draw a gap between the baseline and itself, in nats per token: {'; '.join(words)}."
    )
    alt = f"Line charts of one log in two ways and of loss differences. Gaps drawn between equal runs: {'; '.join(words)}."
    drawn = Drawn("conventions", title, caption, alt)
    save(figure, folder, drawn.name, drawn.alt, [row for gap in gaps for row in _rows(gap, series[id(gap)])])
    return drawn


def _curves(ax: Axes, gaps: Sequence[Gap], colours: Colours) -> None:
    """Curves of the baseline and the arms over the early steps, solid as here and dashed with all faults."""
    scale, unit = token_unit(max(gap.tokens_N[-1] for gap in gaps))
    sides = {gap.comparison.baseline.label: (gap, "baseline") for gap in gaps}
    sides |= {gap.comparison.arm.label: (gap, "arm") for gap in gaps}
    for label, (gap, side) in sides.items():
        steps = len(gap.step_N)
        early = slice(int(FIRST * steps), max(int(LAST * steps), int(FIRST * steps) + 2))
        curves = series_of(gap, side)
        for name, line in (("ours", "-"), (ALL_FAULTS, "--")):
            ax.plot(gap.tokens_N[early] / scale, curves[name][early], color=colours.colour(label), linestyle=line)
    shape = gaps[0].comparison.arm.shape
    ax.set(
        title=f"{plain(shape, 20)}, early loss",
        xlabel=f"training tokens ({unit})",
        ylabel="training loss (nats per token)",
    )


def _gaps(ax: Axes, gaps: Sequence[Gap], series: dict[int, dict[str, np.ndarray]], way: str, colours: Colours) -> None:
    scale, unit = token_unit(max(gap.tokens_N[-1] for gap in gaps))
    ax.axhline(0, color=QUIET, linewidth=1)
    for gap in gaps:
        index, colour = thin(len(gap.step_N)), colours.colour(gap.comparison.arm.label)
        for name in ("ours", way):
            values = series[id(gap)][name][index]
            ax.plot(gap.tokens_N[index] / scale, values, color=colour, linestyle=_WAYS[name][1], linewidth=1.2)
    ax.set_ylim(*gap_limits([series[id(gap)][name][None] for gap in gaps for name in ("ours", way)]))
    ax.set(xlabel=f"training tokens ({unit})", ylabel="difference (nats per token)")


def _faults(gaps: Sequence[Gap]) -> str:
    """Which faults are drawn."""
    kept = "a hundredth of the steps under the index before the update, in an exponential mean (0.9) of what was kept"
    if all(own_micro_batches(gap) for gap in gaps):
        return f"the loss of the last micro-batch alone, {kept}"
    why = (
        "these runs did not keep it"
        if any(gap.arm_micro_SN is None for gap in gaps)
        else "here a batch was one micro-batch"
    )
    return f"{kept} (a third fault, the loss of the last micro-batch alone, cannot be drawn, for {why})"


def _rows(gap: Gap, series: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    arm = gap.comparison.arm
    curves = {f"{side}_{name}": values for side in ("baseline", "arm") for name, values in _two(gap, side).items()}
    return [
        {"shape": arm.shape, "arm": arm.label, "step": int(gap.step_N[n]), "tokens": int(gap.tokens_N[n])}
        | {name: float(values[n]) for name, values in (curves | series).items()}
        for n in thin(len(gap.step_N))
    ]


def _two(gap: Gap, side: str) -> dict[str, np.ndarray]:
    curves = series_of(gap, side)
    return {"ours": curves["ours"], "faulty": curves[ALL_FAULTS]}


def _words(gap: Gap) -> str:
    row = convention_rows(gap)[-1]
    return (
        f"{row['shape']}, {row['arm']}: up to {number(abs(row['early']), 4)} early, where the arms themselves are up to "
        f"{number(abs(row['own_early']), 4)} apart, and {number(row['end'], 4, True)} at the end, where they are {number(row['own_end'], 4, True)} apart"
    )
