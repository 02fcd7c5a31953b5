"""Figures of differences: axes that show what there is to see, captions that name what is outside noise."""

import pytest
from matplotlib.figure import Figure

from xsa.analyse.figure_differences import draw_metrics, draw_overhead, draw_tasks
from xsa.analyse.statistics import INSIDE, OUTSIDE, ROUNDING
from xsa.analyse.style import Colours, figure_style


def task(name="arc", delta=0.02, verdict=INSIDE, **over):
    return {
        "shape": "d4", "arm": "XSA", "suite": "core", "task": name, "delta": delta, "seed_lo": -9.0, "seed_hi": 10.0,
        "item_lo": delta - 0.03, "item_hi": delta + 0.03, "verdict": verdict,
    } | over  # fmt: skip


def metric(name, delta, verdict):
    return task(delta=delta, verdict=verdict) | {
        "metric": name, "name": name.upper(), "unit": "u", "better": None, "relative_percent": None, "n_seeds": 2,
    }  # fmt: skip


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """`drawn(draw, rows)`: what is said of the figure, and its axes."""
    figures = []
    monkeypatch.setattr("xsa.analyse.figure_differences.save", lambda figure, *rest: figures.append(figure))

    def draw(function, *arguments) -> tuple[object, Figure]:
        with figure_style():
            said = function(tmp_path, *arguments, Colours(["baseline", "XSA"]))
        return said, figures[-1]

    return draw


@pytest.mark.parametrize(("half", "limit"), [(0.01, 0.15), (0.2, 0.4), (0.9, 1.0)])
def test_the_axis_of_accuracies_keeps_items_in_sight_and_wider_bars_end_in_arrow_heads(drawn, half, limit):
    rows = [task(delta=0.0, item_lo=-half, item_hi=half)]
    _, figure = drawn(draw_tasks, "core", rows)
    (ax,) = figure.axes
    assert ax.get_xlim() == pytest.approx((-1.06 * limit, 1.06 * limit))
    heads = {line.get_marker(): line.get_xdata()[0] for line in ax.lines if line.get_marker() in ("<", ">")}
    assert heads == {"<": pytest.approx(-limit), ">": pytest.approx(limit)}


def test_the_caption_names_what_is_outside_noise_before_the_rest(drawn):
    rows = [metric("bpb", -0.01, INSIDE), metric("diagonal", 0.08, OUTSIDE)]
    said, _ = drawn(draw_metrics, rows)
    assert "1 of 2 changes is: DIAGONAL at d4 +0.0800. Of the rest: BPB at d4 −0.0100, inside noise." in said.caption


def test_float_errors_are_drawn_at_zero(drawn):
    rows = [metric("bpb", 1.6e-8, ROUNDING) | dict.fromkeys(("seed_lo", "seed_hi", "item_lo", "item_hi"))]
    said, figure = drawn(draw_metrics, rows)
    assert figure.axes[0].get_xlim()[1] > 1e-4
    assert "0.0000" not in said.caption


def test_overhead_is_told_as_its_axis_has_it(drawn):
    rows = [
        {"shape": "d4", "arm": "XSA", "mode": "eager", "phase": "step", "ratio": 1.13, "lo": 1.04, "hi": 1.18,
         "exceeds_noise": True, "device": "cpu"}
    ]  # fmt: skip
    said, figure = drawn(draw_overhead, rows)
    assert "in % of the baseline's" in said.caption and "the interval excludes zero" in said.caption
    assert "atio" not in said.caption
    handles = figure.legends[0].legend_handles
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["XSA", "outside noise", "inside noise"]
    assert len({handle.get_marker() for handle in handles}) == 1
