"""A change drawn in a row keeps its interval over items in sight, however wide the one over seeds is."""

import pytest

from xsa.report.whisker import WIDTH, scale_of, whisker


def row(delta=0.02, seeds=(-1.5, 1.6), items=(-0.01, 0.05), verdict="inside noise"):
    ends = dict(zip(("seed_lo", "seed_hi", "item_lo", "item_hi"), (*seeds, *items), strict=True))
    return ends | {"delta": delta, "verdict": verdict}


def test_a_bar_that_leaves_the_scale_is_cut_and_marked():
    scale = scale_of([row()])
    drawn = whisker(row(), scale)
    assert scale == pytest.approx(0.2)
    assert drawn.cut == (True, True) and drawn.items[1] - drawn.items[0] > WIDTH / 10
    assert all(0 <= end <= WIDTH for end in drawn.seeds)


def test_bars_of_like_width_are_drawn_whole():
    one = row(seeds=(-0.03, 0.07))
    assert scale_of([one]) == 0.07 and whisker(one, 0.07).cut == (False, False)


def test_a_change_at_rounding_is_drawn_at_zero():
    one = row(delta=1.6e-8, seeds=(1e-8, 2e-8), items=(None, None), verdict="no difference beyond rounding")
    drawn = whisker(one, scale_of([one]))
    assert drawn.mean == drawn.zero == WIDTH / 2
