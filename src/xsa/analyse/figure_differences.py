"""Figures of differences from the baseline: of every metric, of every task, and of time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from xsa.analyse.figure import Drawn
from xsa.analyse.statistics import OUTSIDE, ROUNDING
from xsa.analyse.style import INK, QUIET, Colours, finish, panels, plain, save
from xsa.analyse.tables import change, number

_TOLD = ("bpb", "core", "chatcore")  # the metrics whose numbers the caption repeats
_SUITES = {"core": "CORE", "chatcore": "ChatCORE"}


def draw_metrics(folder: Path, rows: Sequence[dict[str, Any]], colours: Colours) -> Drawn:
    """Change of every metric against the baseline, by shape and arm, with both intervals; one panel a metric."""
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    most = max(sum(row["metric"] == metric for row in rows) for metric in metrics)
    figure, axes = panels(len(metrics), width=3.9, height=1.15 + 0.42 * most)
    several = len({row["arm"] for row in rows}) > 1
    for ax, metric in zip(axes, metrics, strict=True):
        mine = [row for row in rows if row["metric"] == metric]
        names = [plain(row["shape"], 14) + (f"\n{plain(row['arm'], 18)}" if several else "") for row in mine]
        limit = _limit(mine) if metric in _SUITES else None
        _forest(ax, mine, names, colours, limit)
        better = f", {mine[0]['better']} is better" if mine[0]["better"] else ""
        ax.set(title=mine[0]["name"], xlabel=f"change ({mine[0]['unit']}){better}")
    labels = list(dict.fromkeys(row["arm"] for row in rows))
    title = "Change of each metric against the baseline, with 95 % intervals"
    finish(figure, title, _forest_handles(labels, colours), columns=3)
    beyond = [row for row in rows if row["verdict"] == OUTSIDE]
    rest = [row for row in rows if row["metric"] in _TOLD and row not in beyond]
    outside = len(beyond)
    told = f"{outside} of {len(rows)} changes {'is' if outside == 1 else 'are'}" + (
        f": {'; '.join(_told(row, several) for row in beyond)}" if beyond else ""
    )
    told += f". Of the rest: {'; '.join(_told(row, several) + ', ' + row['verdict'] for row in rest)}" if rest else ""
    caption = (
        "Change = arm less baseline, paired by seed. Thick bar: 95 % t interval over seeds (none with one seed). Thin bar: "
        "95 % bootstrap interval over items or validation rows. An arrow head: the bar goes on beyond the axis. A filled marker is outside noise: no interval holds zero, nor that over seeds and items together. "
        f"{told}."
    )
    alt = f"Forest plot of {len(rows)} changes against the baseline, {outside} of them outside noise."
    drawn = Drawn("differences", title, caption, alt)
    keys = ("shape", "arm", "metric", "unit", "delta", "seed_lo", "seed_hi", "item_lo", "item_hi", "n_seeds", "verdict")
    save(figure, folder, drawn.name, drawn.alt, [{key: row[key] for key in keys} for row in rows])
    return drawn


def draw_tasks(folder: Path, suite: str, rows: Sequence[dict[str, Any]], colours: Colours) -> Drawn:
    """Change in accuracy of every task of a suite; one panel a shape."""
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    figure, axes = panels(len(shapes), width=3.9, height=1.0 + 0.24 * len(tasks) * len(arms), sharey=True)
    for ax, shape in zip(axes, shapes, strict=True):
        mine = sorted((row for row in rows if row["shape"] == shape), key=lambda row: tasks.index(row["task"]))
        # a task's name once, beside the first of its arms
        before = [None, *(row["task"] for row in mine)]
        names = ["" if row["task"] == last else plain(row["task"], 28) for row, last in zip(mine, before, strict=False)]
        _forest(ax, mine, names, colours, _limit(rows))
        ax.set(title=plain(shape), xlabel="change in accuracy")
    title = f"Change in accuracy of each {_SUITES[suite]} task"
    finish(figure, title, _forest_handles(arms, colours), columns=3)
    outside = [row for row in rows if row["verdict"] == OUTSIDE]
    told = f"{len(outside)} of {len(rows)} changes {'is' if len(outside) == 1 else 'are'} outside noise" + (
        ": " + "; ".join(f"{row['shape']}, {row['task']} {change(row['delta'], 3)}" for row in outside)
        if outside
        else ""
    )
    caption = (
        "Change in raw accuracy, arm less baseline, paired by seed and item. Thick bar: 95 % t interval over seeds; thin "
        f"bar: 95 % bootstrap interval over items. An arrow head: the bar goes on beyond the axis. {told}. A task is outside noise where McNemar's test, corrected by Holm for the suite's tasks, is below 0.05 and the interval over seeds excludes zero; by chance any is in at most one suite of twenty."
    )
    drawn = Drawn(
        f"{suite}_tasks",
        title,
        caption,
        f"Forest plot of changes by task; {len(outside)} of {len(rows)} are outside noise.",
    )
    save(figure, folder, drawn.name, drawn.alt, rows)
    return drawn


def draw_overhead(folder: Path, rows: Sequence[dict[str, Any]], colours: Colours) -> Drawn:
    """Time of a step, a forward and a backward pass, relative to the baseline's; one panel a shape."""
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    most = max(sum(row["shape"] == shape for row in rows) for shape in shapes)
    figure, axes = panels(len(shapes), width=3.9, height=1.0 + 0.3 * most)
    for ax, shape in zip(axes, shapes, strict=True):
        mine = [row for row in rows if row["shape"] == shape]
        ax.axvline(0, color=QUIET, linewidth=1)
        for y, row in enumerate(mine):
            lo, value, hi = (100 * (row[key] - 1) for key in ("lo", "ratio", "hi"))
            colour = colours.colour(row["arm"])
            if row.get("null_lo") is not None:
                null = [100 * (row[key] - 1) for key in ("null_lo", "null_hi")]
                ax.plot(null, [y, y], color=QUIET, alpha=0.45, linewidth=7, solid_capstyle="butt", zorder=1.5)
            ax.plot([lo, hi], [y, y], color=colour, linewidth=2)
            face = colour if row["exceeds_noise"] else "none"
            ax.plot([value], [y], marker=colours.marker(row["arm"]), color=colour, markerfacecolor=face)
        ax.set_yticks(range(len(mine)), [f"{row['mode']} {row['phase']}" for row in mine])
        ax.set_ylim(len(mine) - 0.4, -0.6)
        ax.grid(axis="y", visible=False)
        ax.set(title=plain(shape), xlabel="time added (% of the baseline's)")
    labels = list(dict.fromkeys(row["arm"] for row in rows))
    handles = [*(_marker(colours, label, plain(label)) for label in labels), *_verdict_handles(labels, colours)]
    nulled = any(row.get("null_lo") is not None for row in rows)
    if nulled:
        handles.append(Line2D([], [], color=QUIET, alpha=0.45, linewidth=7, label="baseline against itself"))
    title = "Time that the projection adds, with 95 % intervals"
    finish(figure, title, handles)
    told = "; ".join(
        f"{row['shape']}, {row['arm']}, {row['mode']} {row['phase']}: {number(100 * (row['ratio'] - 1), 1, True)} % "
        f"[{number(100 * (row['lo'] - 1), 1, True)}, {number(100 * (row['hi'] - 1), 1, True)}]"
        for row in rows
        if row["phase"] == "step"
    )
    devices = ", ".join(sorted({str(row["device"]) for row in rows}))
    caption = (
        f"Median time of the arm less the baseline's, in % of the baseline's, on {devices}, the two timed in turn. Bars: 95 % "
        f"bootstrap intervals{'; grey: that of the baseline against itself' if nulled else ''}. Filled: the interval excludes zero"
        f"{', and the difference is larger than the grey bar reaches' if nulled else ''}. Whole steps: {told}."
    )
    drawn = Drawn("overhead", title, caption, f"Dot plot of added time. {told}.")
    save(figure, folder, drawn.name, drawn.alt, rows)
    return drawn


def _limit(rows: Sequence[dict[str, Any]]) -> float:
    """Where an axis of accuracies ends to either side: a few intervals over items, for those over few seeds are far wider."""
    ends = [row[key] for row in rows for key in ("delta", "item_lo", "item_hi") if row[key] is not None]
    return min(1.0, max(0.15, 2 * max(map(abs, ends))))


def _forest(
    ax: Axes, rows: Sequence[dict[str, Any]], names: Sequence[str], colours: Colours, limit: float | None = None
) -> None:
    """A point and two bars for each row, from above down; bars beyond ±`limit` end there in an arrow head."""
    ax.axvline(0, color=QUIET, linewidth=1)
    for y, row in enumerate(rows):
        colour = colours.colour(row["arm"])
        if row["seed_lo"] is not None:
            _bar(ax, (row["seed_lo"], row["seed_hi"]), y, colour, limit)
        if row["item_lo"] is not None:
            ax.plot([row["item_lo"], row["item_hi"]], [y, y], color=colour, linewidth=1.3, marker="|", markersize=7)
        face = colour if row["verdict"] == OUTSIDE else "none"
        ax.plot([row["delta"]], [y], marker=colours.marker(row["arm"]), color=colour, markerfacecolor=face, zorder=5)
    if limit is not None:
        ax.set_xlim(-1.06 * limit, 1.06 * limit)
    elif all(row["verdict"] == ROUNDING for row in rows):
        ax.set_xlim(-1e-3, 1e-3)  # an axis of float errors would draw them as changes
    ax.set_yticks(range(len(rows)), names)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    ax.locator_params(axis="x", nbins=4)


def _bar(ax: Axes, ends: tuple[float, float], y: float, colour: str, limit: float | None) -> None:
    reach = float("inf") if limit is None else limit
    shown = [min(max(end, -reach), reach) for end in ends]
    ax.plot(shown, [y, y], color=colour, linewidth=4, alpha=0.35, solid_capstyle="butt")
    for end, marker in ((ends[0], "<"), (ends[1], ">")):
        if abs(end) > reach:
            ax.plot([min(max(end, -reach), reach)], [y], marker=marker, color=colour, markersize=5, linestyle="")


def _marker(colours: Colours, label: str, text: str) -> Line2D:
    return Line2D([], [], color=colours.colour(label), marker=colours.marker(label), linestyle="", label=text)


def _forest_handles(labels: Sequence[str], colours: Colours) -> list[Line2D]:
    return [
        *(_marker(colours, label, plain(label)) for label in labels),
        Line2D([], [], color=INK, linewidth=4, alpha=0.35, label="interval over seeds"),
        Line2D([], [], color=INK, linewidth=1.3, marker="|", label="interval over items or rows"),
        *_verdict_handles(labels, colours, "inside noise, or cannot tell"),
    ]


def _verdict_handles(labels: Sequence[str], colours: Colours, inside: str = "inside noise") -> list[Line2D]:
    """What filled and hollow markers say, in the marker of the arm where there is one."""
    shape = colours.marker(labels[0]) if len(labels) == 1 else "o"
    faces = (("outside noise", INK), (inside, "none"))
    return [
        Line2D([], [], color=INK, marker=shape, markerfacecolor=face, linestyle="", label=text) for text, face in faces
    ]


def _told(row: dict[str, Any], several: bool) -> str:
    relative = "" if row["relative_percent"] is None else f" ({change(row['relative_percent'], 2)} %)"
    place = f"{row['shape']}, {row['arm']}" if several else row["shape"]
    return f"{row['name']} at {place} {change(row['delta'], 4)}{relative}"
