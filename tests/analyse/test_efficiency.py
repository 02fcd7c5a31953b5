"""Tokens saved at equal bits per byte, and differences along training, against hand calculations."""

from types import SimpleNamespace

import numpy as np
import pytest

from xsa.analyse.curves import validation_rows
from xsa.analyse.efficiency import look_gaps, savings, tokens_to_reach
from xsa.analyse.statistics import paired_t

TOKENS = (100, 200, 300, 400)


def looks(*curves):
    """Rows of looks; `curves` are (arm, seed, bpb at each of TOKENS)."""
    return [
        {"shape": "d4", "arm": arm, "seed": seed, "tokens": tokens, "bpb": bpb}
        for arm, seed, values in curves
        for tokens, bpb in zip(TOKENS, values, strict=True)
    ]


def grid(seeds):
    arms = [SimpleNamespace(shape="d4", label=label) for label in ("baseline", "XSA")]
    return SimpleNamespace(comparisons=(SimpleNamespace(baseline=arms[0], arm=arms[1], seeds=tuple(range(seeds))),))


BASE = (4.0, 3.0, 2.0, 1.0)
BETTER = (4.0, 2.5, 1.5, 0.5)  # reaches 1.0 half-way between the last two looks
OVERHEAD = [{"shape": "d4", "arm": "XSA", "mode": "compiled", "phase": "step", "ratio": 1.04}]


def test_a_curve_is_read_on_the_straight_line_between_looks():
    curve = np.array(TOKENS, dtype=float), np.array(BETTER)
    assert tokens_to_reach(curve, 1.0) == 350
    assert tokens_to_reach(curve, 2.5) == 200
    assert tokens_to_reach(curve, 0.4) is None
    # a curve that rises again had been there before
    assert tokens_to_reach((curve[0], np.array([4.0, 1.0, 2.0, 0.5])), 1.5) == pytest.approx(100 + 100 * 2.5 / 3)


def test_the_better_arm_saves_what_it_did_not_need_to_reach_the_others_end():
    (row,) = savings(looks(("baseline", 0, BASE), ("XSA", 0, BETTER)), grid(1), OVERHEAD)
    assert (row["saved"], row["saved_tokens"], row["n_seeds"]) == (0.125, 50.0, 1)
    assert row["saved_time"] == pytest.approx(1 - 1.04 * 350 / 400)
    assert row["saved_lo"] is row["saved_time_lo"] is None


def test_a_saving_of_the_baseline_counts_below_zero_and_costs_time():
    (row,) = savings(looks(("baseline", 0, BETTER), ("XSA", 0, BASE)), grid(1), OVERHEAD)
    assert row["saved"] == -0.125
    # the arm needs 400 tokens for what the baseline does with 350
    assert row["saved_time"] == pytest.approx(1 - 1.04 * 400 / 350)


def test_the_saving_has_students_interval_over_seeds():
    worse = (4.0, 3.0, 2.0, 1.25)
    made = looks(
        ("baseline", 0, BASE), ("XSA", 0, BETTER), ("baseline", 1, BASE), ("XSA", 1, worse), ("baseline", 2, BASE), ("XSA", 2, BASE)
    )  # fmt: skip
    (row,) = savings(made, grid(3), [])
    expected = [0.125, -(1 - 375 / 400), 0.0]
    assert row["seed_savings"] == pytest.approx(expected)
    interval = paired_t(expected)
    assert (row["saved_lo"], row["saved_hi"]) == pytest.approx((interval.lo, interval.hi))
    assert row["saved_time"] is None


def test_a_saving_read_at_the_first_look_is_only_a_bound():
    (row,) = savings(looks(("baseline", 0, BASE), ("XSA", 0, (0.9, 0.8, 0.7, 0.6))), grid(1), [])
    assert (row["saved"], row["bounded"]) == (0.75, 1)


def test_differences_along_training_have_an_interval_at_each_look():
    made = looks(("baseline", 0, BASE), ("XSA", 0, BETTER), ("baseline", 1, BASE), ("XSA", 1, (4.0, 2.8, 1.9, 0.8)))
    rows = look_gaps(made, grid(2))
    assert [row["difference"] for row in rows] == pytest.approx([0.0, -0.35, -0.3, -0.35])
    interval = paired_t([-0.5, -0.2])
    assert (rows[-1]["lo"], rows[-1]["hi"]) == pytest.approx((interval.lo, interval.hi))


def test_the_made_up_study_saves_tokens_where_its_loss_is_lower(study):
    rows = savings(validation_rows(study.results, study.grid), study.grid, [])
    assert [row["n_seeds"] for row in rows] == [3, 3]
    assert all(0.0 < row["saved"] < 0.2 for row in rows)
