"""Intervals against SciPy, against hand calculations, and against the coverage they promise."""

import math

import numpy as np
import pytest
import scipy.stats

from xsa.analyse.statistics import (
    INSIDE,
    OUTSIDE,
    ROUNDING,
    UNKNOWN,
    Interval,
    at_rounding,
    bootstrap_mean,
    bootstrap_means,
    centred_mean_error,
    deviations_to_show,
    mean_error,
    paired_items,
    paired_rows,
    paired_t,
    percentile_interval,
    pooled_sd,
    proportion_error,
    verdict,
)


def test_paired_t_agrees_with_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 7))
    expected = scipy.stats.ttest_rel(a, b).confidence_interval(0.95)
    found = paired_t(a - b)
    assert (found.lo, found.hi) == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_paired_t_of_two_seeds_is_the_hand_calculation():
    # differences 1 and 3: mean 2, s = sqrt(2), standard error 1, t(1; 0.975) = 12.7062
    found = paired_t([1.0, 3.0])
    assert (found.lo, found.hi) == pytest.approx((2 - 12.7062, 2 + 12.7062), abs=1e-4)


def test_one_seed_has_no_interval():
    assert paired_t([0.3]) is None
    assert paired_t([]) is None
    assert bootstrap_mean([0.3]) is None


def test_pooled_sd_is_the_hand_calculation():
    # squares 2 and 8 around their means, 1 + 2 degrees of freedom
    sd, freedom = pooled_sd([[1, 3], [0, 2, 4], [5]])
    assert sd == pytest.approx(math.sqrt((2 + 8) / 3))
    assert freedom == 3
    assert pooled_sd([[1.0], [2.0]]) == (None, 0)


def test_standard_errors_agree_with_scipy_and_the_binomial():
    values = [0.1, 0.4, 0.2, 0.9]
    assert mean_error(values) == pytest.approx(scipy.stats.sem(values))
    assert proportion_error(0.25, 300) == pytest.approx(scipy.stats.binom(300, 0.25).std() / 300)


def test_the_centred_mean_divides_each_error_by_what_is_left_above_chance():
    # two tasks: 0.03/(1-0.25) = 0.04 and 0.03; sqrt(0.04² + 0.03²)/2 = 0.025
    assert centred_mean_error([0.03, 0.03], [0.25, 0.0]) == pytest.approx(0.025)


def test_bootstrap_means_of_ties_have_the_law_of_drawing_one_by_one():
    values = np.repeat([-1.0, 0.0, 1.0], [12, 70, 18])
    means = bootstrap_means(values, 40_000, np.random.default_rng(1))
    assert means.mean() == pytest.approx(values.mean(), abs=4 * values.std() / 10 / 200)
    assert means.std() == pytest.approx(values.std() / 10, rel=0.02)


def test_bootstrap_mean_agrees_with_scipy():
    values = np.random.default_rng(2).exponential(size=80)
    expected = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    found = bootstrap_mean(values, resamples=20_000)
    assert (found.lo, found.hi) == pytest.approx((expected.low, expected.high), abs=0.01)


def test_percentile_interval_leaves_equal_tails():
    found = percentile_interval(np.arange(1001) / 1000, confidence=0.9)
    assert (found.lo, found.hi) == pytest.approx((0.05, 0.95))


def test_the_same_data_give_the_same_interval():
    values = np.random.default_rng(4).normal(size=50)
    assert bootstrap_mean(values) == bootstrap_mean(values.copy())
    assert paired_rows(values, np.ones(50)) == paired_rows(values.copy(), np.ones(50))


def test_paired_items_weigh_a_task_by_what_is_left_above_chance():
    """Without spread within tasks the interval is the point: mean of 0.1/(1-0.5) and 0.3/(1-0)."""
    found = paired_items([np.full(20, 0.1), np.full(5, 0.3)], [0.5, 0.0])
    assert (found.lo, found.hi) == pytest.approx((0.25, 0.25))


def test_paired_items_have_the_width_of_the_normal_approximation():
    rng = np.random.default_rng(5)
    tasks = [rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=n) for n in (400, 900)]
    baselines = [0.25, 0.5]
    error = centred_mean_error([task.std() / math.sqrt(task.size) for task in tasks], baselines)
    found = paired_items(tasks, baselines)
    assert (found.hi - found.lo) / 2 == pytest.approx(1.96 * error, rel=0.05)
    assert paired_items([np.array([])], [0.0]) is None
    assert paired_items([], []) is None


def test_rows_of_equal_ratio_have_no_spread():
    bytes_ = np.array([100.0, 250.0, 90.0, 400.0])
    found = paired_rows(0.02 * bytes_, bytes_)
    assert (found.lo, found.hi) == pytest.approx((0.02, 0.02))


def test_single_rows_have_the_width_of_the_normal_approximation():
    rng = np.random.default_rng(6)
    differences = rng.normal(1.0, 0.5, size=600)
    found = paired_rows(differences, np.ones(600), block=1)
    assert (found.hi - found.lo) / 2 == pytest.approx(1.96 * differences.std() / math.sqrt(600), rel=0.05)


def test_blocks_widen_the_interval_of_rows_that_resemble_their_neighbours():
    rng = np.random.default_rng(7)
    rows = np.repeat(rng.normal(size=150), 8)
    single, blocks = paired_rows(rows, np.ones(1200), block=1), paired_rows(rows, np.ones(1200))
    # eight equal neighbours hold the information of one: √8 ≈ 2.8 times as wide, blocks of 11 see most of it
    assert 1.8 < (blocks.hi - blocks.lo) / (single.hi - single.lo) < 3.0


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """300 made-up studies of 4 seeds and of two tasks; 95 % intervals, so 285 ± 4 (one sd) should hold the truth."""
    rng = np.random.default_rng(8)
    studies, seeds, items = 300, 0, 0
    for _ in range(studies):
        found = paired_t(rng.normal(0.2, 1.0, size=4))
        seeds += not found.excludes(0.2)
        tasks = [rng.choice([-1.0, 0.0, 1.0], p=[0.05, 0.75, 0.2], size=n) for n in (150, 300)]
        found = paired_items(tasks, [0.25, 0.0], resamples=600)
        items += not found.excludes(0.15 * (1 / 0.75 + 1) / 2)
    assert 270 <= seeds <= 298
    assert 270 <= items <= 298


@pytest.mark.parametrize(
    ("seeds", "items", "expected"),
    [
        (Interval(0.1, 0.2), Interval(0.05, 0.3), OUTSIDE),
        (Interval(-0.2, -0.1), None, OUTSIDE),
        (Interval(0.1, 0.2), Interval(-0.05, 0.3), INSIDE),
        (Interval(-0.1, 0.2), Interval(0.05, 0.3), INSIDE),
        (None, Interval(0.05, 0.3), UNKNOWN),
        (None, Interval(-0.05, 0.3), INSIDE),
        (None, None, UNKNOWN),
        (Interval(0.0, 0.0), None, INSIDE),
    ],
)
def test_a_difference_is_outside_noise_only_when_every_interval_excludes_zero(seeds, items, expected):
    assert verdict(seeds, items) == expected


def test_a_difference_at_rounding_is_judged_by_no_interval():
    assert verdict(Interval(1e-8, 2e-8), Interval(1e-8, 2e-8), rounding=True) == ROUNDING
    assert at_rounding([1.6e-8, -2e-7], 2.3) and at_rounding([0.0], 0.0)
    assert not at_rounding([1e-5], 2.3)
    assert not at_rounding([0.01, -0.01], 2.3)  # seeds that cancel are noise


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_interval_over_seeds_excludes_zero_from_the_told_number_of_deviations_on(seeds):
    spread = np.random.default_rng(seeds).normal(size=seeds)
    spread = (spread - spread.mean()) / spread.std(ddof=1)
    least = deviations_to_show(seeds)
    assert paired_t(spread + 1.001 * least).excludes(0.0)
    assert not paired_t(spread + 0.999 * least).excludes(0.0)
