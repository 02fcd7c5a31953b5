"""Intervals against SciPy, against hand calculations, and against the coverage they promise."""

import math

import numpy as np
import pytest
import scipy.stats

from xsa.analyse.statistics import (
    FEWEST_TO_RESAMPLE,
    INSIDE,
    OUTSIDE,
    ROUNDING,
    UNKNOWN,
    Interval,
    at_rounding,
    bootstrap_mean,
    bootstrap_means,
    deviations_to_show,
    mean_error,
    paired_items,
    paired_rows,
    paired_t,
    percentile_interval,
    pooled_sd,
    power,
    seeds_needed,
    smallest_seen,
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


def test_pooled_sd_is_the_hand_calculation():
    # squares 2 and 8 around their means, 1 + 2 degrees of freedom
    sd, freedom = pooled_sd([[1, 3], [0, 2, 4], [5]])
    assert sd == pytest.approx(math.sqrt((2 + 8) / 3))
    assert freedom == 3
    assert pooled_sd([[1.0], [2.0]]) == (None, 0)


def test_the_standard_error_of_a_mean_agrees_with_scipy():
    values = [0.1, 0.4, 0.2, 0.9]
    assert mean_error(values) == pytest.approx(scipy.stats.sem(values))


def test_bootstrap_means_of_ties_have_the_law_of_drawing_one_by_one():
    values = np.repeat([-1.0, 0.0, 1.0], [12, 70, 18])
    means = bootstrap_means(values, 40_000, np.random.default_rng(1))
    assert means.mean() == pytest.approx(values.mean(), abs=4 * values.std() / 10 / 200)
    assert means.std() == pytest.approx(values.std() / 10, rel=0.02)


def test_percentiles_of_bootstrap_means_agree_with_scipy():
    values = np.random.default_rng(2).exponential(size=80)
    expected = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    found = percentile_interval(bootstrap_means(values, 20_000, np.random.default_rng(2)))
    assert (found.lo, found.hi) == pytest.approx((expected.low, expected.high), abs=0.01)


def test_resampling_few_seeds_gives_no_interval():
    values = np.random.default_rng(3).normal(size=FEWEST_TO_RESAMPLE)
    assert bootstrap_mean(values[1:]) is None
    assert bootstrap_mean(values) is not None


def test_an_expanded_interval_of_normal_values_is_nearly_students():
    values = np.random.default_rng(4).normal(size=12)
    expected, found = paired_t(values), bootstrap_mean(values)
    assert (found.hi - found.lo) / (expected.hi - expected.lo) == pytest.approx(1, abs=0.08)


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
    scaled = [mean_error(task) / (1 - baseline) for task, baseline in zip(tasks, baselines, strict=True)]
    error = math.hypot(*scaled) / 2
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


def test_where_seeds_and_items_alone_are_too_narrow_both_together_decide():
    apart = (Interval(0.1, 0.9), Interval(0.1, 0.9))
    assert verdict(*apart, together=Interval(-0.05, 1.05)) == INSIDE
    assert verdict(*apart, together=Interval(0.01, 0.99)) == OUTSIDE


@pytest.mark.parametrize(("difference", "seeds"), [(0.5, 34), (1.0, 10), (2.0, 5)])
def test_seeds_needed_are_those_of_the_tables_of_paired_t_tests(difference, seeds):
    """G*Power 3 and Cohen's tables for two-sided 5 % and power 0.8."""
    assert seeds_needed(difference, 1.0) == seeds
    assert power(difference, 1.0, seeds - 1) < 0.8 <= power(difference, 1.0, seeds)


def test_power_is_the_area_of_the_noncentral_t():
    bound, law = scipy.stats.t.ppf(0.975, 5), scipy.stats.nct(5, 1.2 * math.sqrt(6))
    assert power(1.2, 1.0, 6) == pytest.approx(law.sf(bound) + law.cdf(-bound), abs=1e-5)
    assert power(0.0, 1.0, 6) == pytest.approx(0.05, abs=1e-5)


def test_items_that_seeds_cannot_lessen_ask_for_more_seeds_or_for_what_no_number_of_seeds_gives():
    assert seeds_needed(0.5, 1.0, fixed_error=0.1) > 34
    assert seeds_needed(0.5, 1.0, fixed_error=0.3) is None  # 0.5 is less than 2.8 standard errors of the items
    assert seeds_needed(0.001, 1.0) is None
    assert seeds_needed(0.0, 1.0) is None


@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_the_smallest_change_seen_needs_just_these_seeds(seeds):
    least = smallest_seen(0.3, seeds)
    assert power(least, 0.3, seeds) == pytest.approx(0.8, abs=1e-3)
    assert seeds_needed(1.001 * least, 0.3) == seeds


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
