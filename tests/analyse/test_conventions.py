"""What faults of logging draw: hand calculations, and the gap between a run and itself."""

import dataclasses

import numpy as np
import pytest

from xsa.analyse.conventions import (
    ALL_FAULTS,
    INDEX_FAULT,
    MEAN_FAULT,
    MICRO_FAULT,
    before_update,
    convention_gaps,
    convention_rows,
    held_mean,
    other_convention,
    series_of,
)
from xsa.analyse.curves import loss_gap, smooth


@pytest.fixture(scope="module")
def gap(study):
    return loss_gap(study.results, study.grid.comparisons[0])


def test_the_other_convention_is_the_hand_calculation():
    # every second step kept: 1 and 3; means with bias correction: 1, then (0.9·0.1·1 + 0.1·3)/(1 − 0.81)
    second = (0.09 + 0.3) / 0.19
    assert held_mean(np.array([1.0, 2.0, 3.0, 4.0]), every=2) == pytest.approx([1.0, 1.0, second, second])
    # the loss of step 2 (index before the update) is drawn at 2, whose place after the update is the second
    assert other_convention(np.array([1.0, 2.0, 3.0, 4.0]), every=2) == pytest.approx([1.0, second, second, second])


def test_the_index_before_the_update_draws_a_falling_loss_one_step_early():
    assert before_update(np.array([5.0, 4.0, 3.0])) == pytest.approx([4.0, 3.0, 3.0])


def test_conventions_differ_little_when_shared_and_much_when_mixed(gap):
    series = convention_gaps(gap)
    late = slice(100, None)
    alike = np.abs(series["other"] - series["ours"])[late].max()
    mixed = np.abs(series["mixed"] - series["ours"])[late].max()
    assert alike < 0.02
    assert mixed > 10 * alike


def test_a_fault_draws_a_gap_between_a_run_and_itself_larger_than_that_between_the_arms(gap):
    rows = {row["fault"]: row for row in convention_rows(gap)}
    assert set(rows) == {INDEX_FAULT, MEAN_FAULT, MICRO_FAULT, ALL_FAULTS}
    # the loss falls: an early index shows it too low, an exponential mean too high
    assert rows[INDEX_FAULT]["early_mean"] < 0 < rows[MEAN_FAULT]["early_mean"]
    assert abs(rows[ALL_FAULTS]["early"]) > 3 * abs(rows[ALL_FAULTS]["own_early"])
    assert rows[ALL_FAULTS]["own_end"] == pytest.approx(-0.008, abs=0.002)


def test_each_fault_is_the_difference_of_two_drawings_of_one_raw_log(gap):
    (row,) = (row for row in convention_rows(gap) if row["fault"] == MICRO_FAULT)
    moved = np.mean([smooth(one) for one in gap.baseline_micro_SN - gap.baseline_SN], axis=0)
    assert abs(row["early"]) == pytest.approx(np.abs(moved[30:150]).max())
    assert row["end"] == pytest.approx(moved[-60:].mean())


@pytest.mark.parametrize("kept", [None, "whole"])
def test_without_micro_batches_of_their_own_that_fault_is_not_drawn(gap, kept):
    micro = {} if kept is None else {"baseline_micro_SN": gap.baseline_SN, "arm_micro_SN": gap.arm_SN}
    bare = dataclasses.replace(gap, **({"baseline_micro_SN": None, "arm_micro_SN": None} | micro))
    assert MICRO_FAULT not in series_of(bare, "arm")
    assert [row["fault"] for row in convention_rows(bare)] == [INDEX_FAULT, MEAN_FAULT, ALL_FAULTS]
