"""Loss curves: the smoothing rule, gaps between arms, and what other conventions would have drawn."""

import numpy as np
import pytest

from xsa.analyse.curves import (
    arm_curve,
    curve_rows,
    loss_gap,
    smooth,
    stability,
    thin,
    validation_rows,
    window,
)


def test_the_window_is_one_percent_of_the_steps_and_odd():
    assert [window(steps) for steps in (5, 100, 600, 5000)] == [3, 3, 7, 51]


def test_smoothing_is_a_centred_mean_cut_off_at_both_ends():
    # window 3 by hand
    assert smooth(np.array([3.0, 6.0, 0.0, 9.0])) == pytest.approx([4.5, 3.0, 5.0, 4.5])


def test_smoothing_moves_no_straight_line():
    line = np.arange(1000.0)
    assert smooth(line)[10:-10] == pytest.approx(line[10:-10])


def test_the_end_of_training_is_the_mean_of_the_last_window():
    values = np.arange(600.0)
    assert smooth(values, ending=True) == pytest.approx(596.0)


def test_one_step_is_its_own_mean():
    assert smooth(np.array([2.0])) == pytest.approx([2.0])


def test_thinning_keeps_first_and_last_and_everything_that_is_short():
    assert list(thin(3, 10)) == [0, 1, 2]
    kept = thin(5000, 100)
    assert (kept[0], kept[-1], len(kept)) == (0, 4999, 100)


def test_a_curve_holds_every_seed_of_an_arm(study):
    arm = study.grid.arms_of("d12")[0]
    curve = arm_curve(study.results, arm)
    assert curve.raw_SN.shape == curve.smooth_SN.shape == (3, 600)
    assert (curve.step_N[0], curve.step_N[-1], curve.tokens_N[0]) == (1, 600, 524_288)
    rows = curve_rows([curve])
    assert {row["seed"] for row in rows} == {0, 1, 2}
    assert rows[-1]["loss"] == curve.raw_SN[2, -1]


def test_the_gap_is_taken_seed_by_seed_so_that_the_noise_of_the_rows_cancels(study):
    gap = loss_gap(study.results, study.grid.comparisons[0])
    assert gap.raw_SN.mean() == pytest.approx(-0.008, abs=0.002)
    assert gap.raw_SN.std() < 0.4 * (gap.baseline_SN[0, 300:] - gap.smooth_SN[0, 300:]).std()


def test_validation_looks_are_listed_by_arm_and_seed(study):
    rows = validation_rows(study.results, study.grid)
    assert len(rows) == 2 * 2 * 3 * 6
    assert rows[0]["arm"] == "baseline"


def test_stability_is_finite_and_small_where_nothing_went_wrong(study):
    rows = stability(study.results, study.grid)
    assert len(rows) == 12
    assert all(row["finite"] and row["largest_rise"] < 0.1 for row in rows)


def test_without_a_log_there_is_no_curve_and_no_gap(small):
    found = small(drop=("pretrain",))
    assert arm_curve(found.results, found.grid.arms[0]) is None
    assert loss_gap(found.results, found.grid.comparisons[0]) is None
    assert stability(found.results, found.grid) == validation_rows(found.results, found.grid) == []
