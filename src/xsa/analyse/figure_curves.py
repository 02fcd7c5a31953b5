"""Figures of the training loss: of every arm, and its difference between arms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from xsa.analyse.curves import SMOOTHING, ArmCurve, Gap, curve_rows, thin, window
from xsa.analyse.figure import Drawn
from xsa.analyse.statistics import pointwise_t
from xsa.analyse.style import QUIET, Colours, finish, panels, plain, save
from xsa.analyse.tables import number

BINS = 150  # of the faint band that shows the raw loss
STRETCHES = 20  # of training, each with an interval
EARLY = 0.1  # the first tenth of the steps may run off the frame, so that the rest can be seen


def draw_loss(folder: Path, curves: Sequence[ArmCurve], colours: Colours) -> Drawn:
    """Training loss of every arm: smoothed mean over seeds, range over seeds, and the raw loss's range behind."""
    shapes = list(dict.fromkeys(curve.shape for curve in curves))
    figure, axes = panels(len(shapes))
    for ax, shape in zip(axes, shapes, strict=True):
        mine = [curve for curve in curves if curve.shape == shape]
        scale, unit = token_unit(max(curve.tokens_N[-1] for curve in mine))
        for curve in mine:
            colour = colours.colour(curve.label)
            _band(ax, curve.tokens_N / scale, curve.raw_SN, colour, alpha=0.13, bins=BINS)
            mean_and_range(ax, curve.tokens_N / scale, curve.smooth_SN, colour)
        ax.set_ylim(*_loss_limits(mine))
        ax.set(title=plain(shape), xlabel=f"training tokens ({unit})", ylabel="training loss (nats per token)")
    labels = list(dict.fromkeys(curve.label for curve in curves))
    handles = [Line2D([], [], color=colours.colour(label), label=plain(label)) for label in labels]
    handles.append(Patch(color=QUIET, alpha=0.25, label="raw loss of single steps, range"))
    title = "Training loss of both arms" if len(labels) == 2 else "Training loss of each arm"
    finish(figure, title, handles)
    ends = [
        f"{curve.shape}, {curve.label}: {number(float(np.mean(curve.raw_SN[:, -window(len(curve.step_N)) :])), 4)}"
        for curve in curves
    ]
    caption = (
        f"Raw mean loss over the whole global batch against tokens seen after the update. Lines: {SMOOTHING}, then the "
        f"mean over seeds; the band around a line is the range over seeds, the faint band the range of the raw losses. "
        f"Mean loss of the last 1 % of the steps in nats per token: {'; '.join(ends)}. "
        f"The first {100 * EARLY:.0f} % of the steps may run off the top."
    )
    drawn = Drawn(
        "loss", title, caption, f"Line chart of training loss against tokens, by shape and arm. {'; '.join(ends)}."
    )
    save(figure, folder, drawn.name, drawn.alt, curve_rows(list(curves)))
    return drawn


def draw_gap(folder: Path, gaps: Sequence[Gap], colours: Colours) -> Drawn:
    """Loss of each arm less its baseline's at the same step: mean over seeds and range."""
    shapes = list(dict.fromkeys(gap.comparison.arm.shape for gap in gaps))
    figure, axes = panels(len(shapes))
    rows, ends = [], []
    for ax, shape in zip(axes, shapes, strict=True):
        mine = [gap for gap in gaps if gap.comparison.arm.shape == shape]
        scale, unit = token_unit(max(gap.tokens_N[-1] for gap in mine))
        ax.axhline(0, color=QUIET, linewidth=1)
        for gap in mine:
            colour = colours.colour(gap.comparison.arm.label)
            index = thin(len(gap.step_N))
            raw_N = gap.raw_SN.mean(axis=0)
            ax.plot(gap.tokens_N[index] / scale, raw_N[index], ".", color=colour, markersize=2.5, alpha=0.35, mew=0)
            mean_and_range(ax, gap.tokens_N / scale, gap.smooth_SN, colour)
            _intervals(ax, gap, scale, colour)
            rows += _gap_rows(gap) + _stretch_rows(gap)
            ends.append(_gap_end(gap))
        ax.set_ylim(*gap_limits([gap.smooth_SN for gap in mine]))
        ax.set(title=plain(shape), xlabel=f"training tokens ({unit})", ylabel="loss difference (nats per token)")
    handles = arm_handles([gap.comparison.arm.label for gap in gaps], colours)
    handles.append(
        Line2D([], [], color=QUIET, marker=".", linestyle="", label="raw difference of single steps, mean of seeds")
    )
    title = "Training loss of each arm less the baseline's, same rows and seed"
    finish(figure, title, handles)
    caption = (
        f"Below zero the arm fits better. Both arms read the same rows at a step, so their common noise cancels. Lines: "
        f"{SMOOTHING}, then the mean over seeds with their range{_interval_words(max(len(gap.raw_SN) for gap in gaps))}. Mean difference over the last 1 % of the steps: "
        f"{'; '.join(ends)}. The first {100 * EARLY:.0f} % of the steps may run off the frame."
    )
    drawn = Drawn(
        "loss_difference", title, caption, f"Line chart of the loss difference between arms. {'; '.join(ends)}."
    )
    save(figure, folder, drawn.name, drawn.alt, rows)
    return drawn


def token_unit(tokens: float) -> tuple[float, str]:
    """The number that token counts up to `tokens` are divided by on an axis, and its name."""
    for scale, unit in ((1e9, "billions"), (1e6, "millions"), (1e3, "thousands")):
        if tokens >= scale:
            return scale, unit
    return 1.0, "tokens"


def _band(ax: Axes, x_N: np.ndarray, values_SN: np.ndarray, colour: str, alpha: float, bins: int) -> None:
    """The range of the values, over seeds and within each of `bins` stretches of steps."""
    edges = np.unique(np.linspace(0, len(x_N), min(bins, len(x_N)) + 1).astype(int))[:-1]
    lowest = np.minimum.reduceat(values_SN.min(axis=0), edges)
    highest = np.maximum.reduceat(values_SN.max(axis=0), edges)
    # a stretch stands from its first step to the next one's, so that no range is drawn where it was not seen
    ax.fill_between(x_N[edges], lowest, highest, step="post", color=colour, alpha=alpha, linewidth=0)


def mean_and_range(ax: Axes, x_N: np.ndarray, values_SN: np.ndarray, colour: str) -> None:
    """The mean over seeds as a line, thinned, and their range as a band."""
    index = thin(len(x_N))
    if len(values_SN) > 1:
        lowest, highest = values_SN.min(axis=0)[index], values_SN.max(axis=0)[index]
        ax.fill_between(x_N[index], lowest, highest, color=colour, alpha=0.3, linewidth=0)
    ax.plot(x_N[index], values_SN.mean(axis=0)[index], color=colour)


def _stretches(gap: Gap) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens at the middles of STRETCHES parts of the steps, and the mean raw difference there with the half width of its interval."""
    edges = np.unique(np.linspace(0, len(gap.step_N), min(STRETCHES, len(gap.step_N)) + 1).astype(int))
    counts = np.diff(edges)
    means_SK = np.add.reduceat(gap.raw_SN, edges[:-1], axis=1) / counts
    return gap.tokens_N[edges[:-1] + counts // 2], *pointwise_t(means_SK)


def _intervals(ax: Axes, gap: Gap, scale: float, colour: str) -> None:
    """Student's interval over seeds of each stretch's mean difference, as bars that may run off the frame."""
    if len(gap.raw_SN) > 1:
        tokens_K, means_K, halves_K = _stretches(gap)
        ax.errorbar(tokens_K / scale, means_K, halves_K, fmt="none", color=colour, elinewidth=1, capsize=2)


def _interval_words(seeds: int) -> str:
    share = 100 // STRETCHES
    return (
        ""
        if seeds < 2
        else f"; bars: Student's 95 % interval over seeds of the mean over each {share} % of the steps, which may run off the frame"
    )


def _loss_limits(curves: Sequence[ArmCurve]) -> tuple[float, float]:
    top = max(float(np.nanmax(curve.smooth_SN[:, int(curve.smooth_SN.shape[1] * EARLY) :])) for curve in curves)
    bottom = min(float(np.nanmin(curve.smooth_SN)) for curve in curves)
    return room(bottom, top)


def gap_limits(series: Sequence[np.ndarray]) -> tuple[float, float]:
    """Limits of an axis of differences, seeds by steps: zero and all but the first tenth of the steps, with some room."""
    late = np.concatenate([values_SN[:, int(values_SN.shape[1] * EARLY) :].ravel() for values_SN in series])
    return room(min(0.0, float(late.min())), max(0.0, float(late.max())), 0.25)


def room(bottom: float, top: float, share: float = 0.06) -> tuple[float, float]:
    """Limits of an axis that holds both values, with `share` of their distance to spare."""
    margin = share * (top - bottom) or 1e-6
    return bottom - margin, top + margin


def arm_handles(labels: Sequence[str], colours: Colours) -> list[Any]:
    """A legend's entry for each arm's difference from its baseline."""
    return [
        Line2D([], [], color=colours.colour(label), label=f"{plain(label)} less baseline")
        for label in dict.fromkeys(labels)
    ]


def _gap_rows(gap: Gap) -> list[dict[str, Any]]:
    return [
        {
            "shape": gap.comparison.arm.shape,
            "arm": gap.comparison.arm.label,
            "seed": seed,
            "step": int(gap.step_N[n]),
            "tokens": int(gap.tokens_N[n]),
            "difference": float(gap.raw_SN[s, n]),
            "smoothed": float(gap.smooth_SN[s, n]),
        }
        for s, seed in enumerate(gap.comparison.seeds[: len(gap.raw_SN)])
        for n in thin(len(gap.step_N))
    ]


def _stretch_rows(gap: Gap) -> list[dict[str, Any]]:
    """The bars: rows of no seed, with the mean difference of a stretch and the ends of its interval."""
    if len(gap.raw_SN) < 2:
        return []
    arm = gap.comparison.arm
    return [
        {"shape": arm.shape, "arm": arm.label, "tokens": int(tokens)}
        | {"stretch_mean": float(mean), "lo": float(mean - half), "hi": float(mean + half)}
        for tokens, mean, half in zip(*_stretches(gap), strict=True)
    ]


def _gap_end(gap: Gap) -> str:
    last = gap.raw_SN[:, -window(len(gap.step_N)) :].mean(axis=1)
    spread = (
        f" (seeds {number(float(last.min()), 4, True)} to {number(float(last.max()), 4, True)})"
        if len(last) > 1
        else ""
    )
    arm = gap.comparison.arm
    return f"{arm.shape}, {arm.label}: {number(float(last.mean()), 4, True)} nats per token{spread}"
