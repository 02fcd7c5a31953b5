"""Figures of the looks at the validation rows: bits per byte of every arm, and their difference with what it saves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from xsa.analyse.figure import Drawn
from xsa.analyse.figure_curves import EARLY, arm_handles, room, token_unit
from xsa.analyse.style import QUIET, Colours, finish, panels, plain, save
from xsa.analyse.tables import number

_Row = dict[str, Any]


def draw_validation(folder: Path, rows: Sequence[_Row], colours: Colours) -> Drawn:
    """Validation bpb at every look during training: mean over seeds, and their range as a band."""
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    figure, axes = panels(len(shapes))
    labels, ends = list(dict.fromkeys(row["arm"] for row in rows)), []
    for ax, shape in zip(axes, shapes, strict=True):
        scale, unit = token_unit(max(row["tokens"] for row in rows if row["shape"] == shape))
        for label in labels:
            looks_L, bpb_SL = _shared_looks([row for row in rows if row["shape"] == shape and row["arm"] == label])
            if not len(looks_L):
                continue
            colour = colours.colour(label)
            ax.fill_between(
                looks_L / scale, bpb_SL.min(axis=0), bpb_SL.max(axis=0), color=colour, alpha=0.3, linewidth=0
            )
            ax.plot(looks_L / scale, bpb_SL.mean(axis=0), color=colour, marker=colours.marker(label))
            ends.append(f"{shape}, {label}: {number(float(bpb_SL[:, -1].mean()), 4)}")
        ax.set_ylim(*_limits([(row["tokens"], row["bpb"]) for row in rows if row["shape"] == shape]))
        ax.set(title=plain(shape), xlabel=f"training tokens ({unit})", ylabel="validation loss (bits per byte)")
    handles = [
        Line2D([], [], color=colours.colour(label), marker=colours.marker(label), label=plain(label))
        for label in labels
    ]
    title = "Validation bits per byte during training"
    finish(figure, title, handles)
    caption = (
        "Looks at the same validation rows during training: mean over seeds, and their range as a band. Last look in bits per "
        f"byte: {'; '.join(ends)}. The first {100 * EARLY:.0f} % of training may run off the top. Stage bpb measures more rows "
        "after training, so its numbers differ a little."
    )
    drawn = Drawn("validation_bpb", title, caption, f"Line chart of validation bits per byte. {'; '.join(ends)}.")
    save(figure, folder, drawn.name, drawn.alt, list(rows))
    return drawn


def draw_look_gaps(folder: Path, rows: Sequence[_Row], saved: Sequence[_Row], colours: Colours) -> Drawn:
    """Difference in validation bpb at every look, with its interval over seeds; in words what it saves in tokens."""
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    figure, axes = panels(len(shapes))
    for ax, shape in zip(axes, shapes, strict=True):
        inside = [row for row in rows if row["shape"] == shape]
        scale, unit = token_unit(max(row["tokens"] for row in inside))
        ax.axhline(0, color=QUIET, linewidth=1)
        for label in dict.fromkeys(row["arm"] for row in inside):
            mine, colour = [row for row in inside if row["arm"] == label], colours.colour(label)
            x = np.array([row["tokens"] for row in mine]) / scale
            ax.plot(x, [row["seed_differences"] for row in mine], ".", color=colour, markersize=4, alpha=0.5, mew=0)
            if mine[0]["lo"] is not None:
                bars = np.array([[row["difference"] - row["lo"], row["hi"] - row["difference"]] for row in mine]).T
                ax.errorbar(x, [row["difference"] for row in mine], bars, color=colour, linewidth=1, capsize=2)
            ax.plot(x, [row["difference"] for row in mine], color=colour, marker=colours.marker(label))
        points = [(row["tokens"], value) for row in inside for value in (0.0, *row["seed_differences"])]
        ax.set_ylim(*_limits(points, 0.25))
        ax.set(title=plain(shape), xlabel=f"training tokens ({unit})", ylabel="difference (bits per byte)")
    handles = arm_handles([row["arm"] for row in rows], colours)
    handles.append(Line2D([], [], color=QUIET, marker=".", linestyle="", label="single seeds"))
    title = "Validation bits per byte of each arm less the baseline's, same seed"
    finish(figure, title, handles)
    words = [told for row in saved if (told := saving_words(row))]
    bars = " Bars: Student's 95 % interval over seeds, which may run off the frame." if rows[0]["n_seeds"] > 1 else ""
    caption = (
        f"Below zero the arm predicts better. Points: single seeds; line: their mean.{bars} Tokens at equal bits per byte, read off "
        f"the straight lines between looks: {'; '.join(words) or 'not to be read'}."
    )
    drawn = Drawn(
        "validation_difference", title, caption, f"Line chart of differences in bits per byte. {'; '.join(words)}."
    )
    save(figure, folder, drawn.name, drawn.alt, [_flat(row) for row in rows])
    return drawn


def saving_words(row: _Row) -> str:
    """One row of `efficiency.savings` in words."""
    place = f"{row['shape']}, {row['arm']}"
    if not row["saved"]:
        return f"{place}: neither arm saves any"
    spread = (
        f"the arm's saving: 95 % over seeds {number(100 * row['saved_lo'], 1, True)} to {number(100 * row['saved_hi'], 1, True)} %"
        if row["saved_lo"] is not None
        else "one seed, no interval"
    )
    who = "the arm" if row["saved"] > 0 else "the baseline"
    return f"{place}: {who} saves {number(100 * abs(row['saved']), 1)} % of the tokens ({spread})"


def _flat(row: _Row) -> _Row:
    seeds = {f"seed_{n}": value for n, value in enumerate(row["seed_differences"])}
    return {name: value for name, value in row.items() if name != "seed_differences"} | seeds


def _shared_looks(rows: Sequence[_Row]) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of the looks that all seeds took, and their bpb, seeds by looks."""
    by_seed: dict[int, dict[int, float]] = {}
    for row in rows:
        by_seed.setdefault(row["seed"], {})[row["tokens"]] = row["bpb"]
    shared = sorted(set.intersection(*map(set, by_seed.values()))) if by_seed else []
    return np.array(shared), np.array([[looks[tokens] for tokens in shared] for looks in by_seed.values()])


def _limits(points: Sequence[tuple[float, float]], share: float = 0.06) -> tuple[float, float]:
    """Limits for all looks but those of the first tenth of training, which would dwarf the rest."""
    end = max(tokens for tokens, _ in points)
    late = [value for tokens, value in points if tokens >= EARLY * end]
    return room(min(late), max(late), share)
