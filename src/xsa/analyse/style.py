"""How figures look and are saved: one colour an arm, readable by colour-blind eyes, on light ground and dark, in print.

An SVG is the same to the byte for the same data: ids by a fixed salt, no date. Its text is text, and its ink is
`currentColor`, so that a page's own text colour decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from xsa.analyse.tables import csv_text, one_line
from xsa.store.files import write_text

matplotlib.use("Agg")

# Okabe and Ito, "Color Universal Design" (2008), without black and yellow, which vanish on one ground or the other.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK = "#010203"  # stands for the page's text colour
QUIET = "#808080"  # grid, zero lines, nulls: mid-grey reads on both grounds
COLUMNS = 3
NARROWEST = 6.4  # inches of a figure, so that title and legend fit
_ENTRY = 2.8  # inches of a legend entry
_STYLE = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.formatter.useoffset": False,
    "figure.constrained_layout.use": True,
    "figure.titlesize": 11,
    "figure.titleweight": "bold",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.alpha": 0.3,
    "grid.color": QUIET,
    "grid.linewidth": 0.5,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "xsa",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "xtick.labelsize": 8,
    "ytick.color": INK,
    "ytick.labelsize": 8,
}


@contextmanager
def figure_style():
    """Draw and save figures inside this."""
    with matplotlib.rc_context(_STYLE):
        yield


class Colours:
    """Colour and marker of an arm by its label: the same in every figure of a study, baselines first."""

    def __init__(self, labels: Sequence[str]):
        self._index = {label: index for index, label in enumerate(labels)}

    def colour(self, label: str) -> str:
        return PALETTE[self._index[label] % len(PALETTE)]

    def marker(self, label: str) -> str:
        return MARKERS[self._index[label] % len(MARKERS)]


def panels(
    count: int, width: float = 4.0, height: float = 2.7, columns: int = COLUMNS, **kwargs: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels in rows of up to `columns`; sizes of one panel in inches."""
    columns = min(count, columns)
    rows = -(-count // columns)
    # room beside the panels for the title above and the legend below
    figure = Figure(figsize=(max(columns * width, NARROWEST), rows * height + 0.75))
    figure.get_layout_engine().set(hspace=0.06, wspace=0.04)
    grid = figure.subplots(rows, columns, squeeze=False, **kwargs)
    axes = list(grid.flat)
    for spare in axes[count:]:
        spare.remove()
    return figure, axes[:count]


def finish(figure: Figure, title: str, handles: Sequence[Any] = (), columns: int = 4) -> None:
    """The figure's title above it at the left, and one legend for all panels below."""
    figure.suptitle(plain(title, 120), x=0.01, ha="left")
    if handles:
        columns = min(len(handles), columns, int(figure.get_figwidth() / _ENTRY))
        figure.legend(handles=list(handles), loc="outside lower left", ncols=columns)


def plain(text: str, length: int = 40) -> str:
    """A label on one line, cut where it is too long for a figure."""
    text = one_line(text)
    return text if len(text) <= length else text[: length - 1] + "…"


def save(figure: Figure, folder: Path, name: str, alt: str, data: Sequence[dict[str, Any]]) -> None:
    """Write `name.svg`, `.pdf` and `.png` (white ground), and the drawn numbers as `name.csv`."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once, not once a format
    svg = folder / f"{name}.svg"
    figure.savefig(svg, transparent=True, metadata={"Date": None})
    write_text(svg, page_svg(svg.read_text(encoding="utf-8"), alt))
    figure.savefig(folder / f"{name}.pdf", transparent=True, metadata={"CreationDate": None})
    figure.savefig(folder / f"{name}.png", dpi=150, facecolor="white", metadata={"Software": None})
    keys = list(dict.fromkeys(key for row in data for key in row))
    write_text(folder / f"{name}.csv", csv_text(keys, data))


def page_svg(svg: str, alt: str) -> str:
    """Matplotlib's SVG with the page's ink and a text alternative, and without metadata and fixed fonts."""
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, 'DejaVu Sans', sans-serif", svg)
    return re.sub(
        r"<svg ([^>]*)>",
        lambda match: f'<svg role="img" {match.group(1)}>\n <title>{escape(one_line(alt))}</title>',
        svg,
        count=1,
    )
