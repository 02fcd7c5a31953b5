"""The rules of the verdicts, each by its cases, and their false alarms where there is no effect."""

from __future__ import annotations

import math

import numpy as np
import pytest

from xsa.analyse.statistics import Interval, paired_t
from xsa.analyse.verdicts import (
    CANNOT_TELL,
    INSIDE_NOISE,
    NOT_REPRODUCED,
    REPRODUCED,
    Change,
    failure_bound,
    judge_bound,
    judge_difference,
    judge_indistinct,
    judge_no_change,
    judge_not_universal,
    judge_stability,
    judge_within,
    outside_measured_noise,
    outside_stated_noise,
    paired_change,
)

BELOW, ABOVE, ACROSS = Interval(-0.3, -0.1), Interval(0.1, 0.3), Interval(-0.1, 0.3)


def change(seeds, items=None, both=None, rounding=False):
    middle = 0.0 if seeds is None else (seeds.lo + seeds.hi) / 2
    return Change(middle, seeds, items, 1 if seeds is None else 3, rounding, both)


@pytest.mark.parametrize(
    ("measured", "direction", "verdict"),
    [
        (change(BELOW), "lower", REPRODUCED),
        (change(BELOW, BELOW, BELOW), "lower", REPRODUCED),
        (change(BELOW), "higher", NOT_REPRODUCED),
        (change(ABOVE), "lower", NOT_REPRODUCED),
        (change(BELOW), "either", REPRODUCED),
        (change(ACROSS), "either", INSIDE_NOISE),
        (change(ACROSS), "lower", INSIDE_NOISE),
        (change(BELOW, ACROSS), "lower", INSIDE_NOISE),
        (change(BELOW, BELOW, ACROSS), "lower", INSIDE_NOISE),
        (change(BELOW, ABOVE), "lower", INSIDE_NOISE),
        (change(BELOW, rounding=True), "lower", INSIDE_NOISE),
        (change(None, BELOW), "lower", CANNOT_TELL),
    ],
)
def test_a_difference_is_judged_by_all_its_intervals(measured, direction, verdict):
    assert judge_difference(measured, direction).verdict == verdict


def test_a_size_is_reproduced_where_the_interval_meets_the_published_range():
    assert judge_difference(change(BELOW), "lower", (-0.15, -0.05)).verdict == REPRODUCED
    smaller = judge_difference(change(BELOW), "lower", (-1.5, -0.5))
    larger = judge_difference(change(BELOW), "lower", (-0.03, -0.01))
    assert smaller.verdict == larger.verdict == NOT_REPRODUCED
    assert "smaller" in smaller.why and "larger" in larger.why


def test_no_change_is_reproduced_inside_the_tolerance_and_refuted_outside():
    assert judge_no_change(change(ACROSS), 0.5).verdict == REPRODUCED
    assert judge_no_change(change(ACROSS), 0.2).verdict == INSIDE_NOISE
    assert judge_no_change(change(ABOVE), 0.05).verdict == NOT_REPRODUCED
    assert judge_no_change(change(None), 0.5).verdict == CANNOT_TELL


def test_no_universal_gain_needs_one_change_for_the_worse():
    assert judge_not_universal([change(BELOW), change(BELOW)], [-1, 1]).verdict == REPRODUCED
    assert judge_not_universal([change(BELOW), change(ABOVE)], [-1, 1]).verdict == NOT_REPRODUCED
    assert judge_not_universal([change(BELOW), change(ACROSS)], [-1, 1]).verdict == INSIDE_NOISE
    assert judge_not_universal([change(BELOW), change(None)], [-1, 1]).verdict == CANNOT_TELL


def test_one_broken_run_refutes_stability_and_one_seed_cannot_show_it():
    assert judge_stability(["d12-s1"], 6, 3).verdict == NOT_REPRODUCED
    assert judge_stability([], 6, 3).verdict == REPRODUCED
    assert judge_stability([], 2, 1).verdict == CANNOT_TELL
    # the chance of no failure in n runs that each fail with the bound's probability is 5 %
    assert (1 - failure_bound(6)) ** 6 == pytest.approx(0.05)


def test_a_bound_and_indistinct_times_are_judged_by_the_interval_alone():
    assert judge_bound(Interval(1.01, 1.04), 1.05).verdict == REPRODUCED
    assert judge_bound(Interval(1.01, 1.06), 1.05).verdict == INSIDE_NOISE
    assert judge_bound(Interval(1.06, 1.07), 1.05).verdict == NOT_REPRODUCED
    assert judge_indistinct(Interval(0.99, 1.01), 0.05).verdict == REPRODUCED
    assert judge_indistinct(Interval(0.9, 1.2), 0.05).verdict == INSIDE_NOISE
    assert judge_indistinct(Interval(1.01, 1.02), 0.05).verdict == NOT_REPRODUCED


def test_a_tolerance_is_kept_or_named_and_nan_is_no_match():
    assert judge_within({"a": 0.0, "b": 9.0}, {"a": 0.0}).why == "no difference at all"
    assert judge_within({"a": 0.1}, {"a": 0.2}).verdict == REPRODUCED
    assert "a" in judge_within({"a": 0.3}, {"a": 0.2}).why
    assert judge_within({"a": math.nan}, {"a": 0.2}).verdict == NOT_REPRODUCED


def test_the_published_changes_of_bpb_alone_are_outside_the_noise_that_others_measured():
    # the published changes, over the most that a seed's standard deviation was seen to be
    assert outside_stated_noise(0.8457 - 0.8484, 0.00023) and outside_stated_noise(0.7171 - 0.7193, 0.00023)
    assert not any(
        outside_stated_noise(b - a, 0.006) for a, b in ((0.1602, 0.1508), (0.2593, 0.2606), (0.3638, 0.3682))
    )


def test_one_pair_is_held_against_t_of_the_measured_pairs():
    # t(2; 0.975) = 4.302653
    assert outside_measured_noise(-4.31, 1.0, 3) and not outside_measured_noise(-4.30, 1.0, 3)


def studies(effect: float, seeds: int, count: int, rng) -> list[Change]:
    differences = rng.normal(effect, 1.0, (count, seeds))
    return [paired_change(one, paired_t(one)) for one in differences]


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_where_there_is_no_effect_a_direction_is_falsely_reproduced_in_one_study_of_forty(seeds):
    rng = np.random.default_rng(seeds)
    verdicts = [judge_difference(one, "lower").verdict for one in studies(0.0, seeds, 4000, rng)]
    # 2.5 % ± 4 standard errors of 4,000 studies
    assert verdicts.count(REPRODUCED) / 4000 == pytest.approx(0.025, abs=0.01)
    assert verdicts.count(NOT_REPRODUCED) / 4000 == pytest.approx(0.025, abs=0.01)


def test_where_there_is_no_effect_a_difference_either_way_is_found_in_one_study_of_twenty():
    verdicts = [judge_difference(one, "either").verdict for one in studies(0.0, 3, 4000, np.random.default_rng(7))]
    assert verdicts.count(REPRODUCED) / 4000 == pytest.approx(0.05, abs=0.014)


def test_a_change_at_the_edge_of_the_tolerance_is_rarely_called_none():
    verdicts = [judge_no_change(one, 4.0).verdict for one in studies(4.0, 5, 4000, np.random.default_rng(8))]
    assert verdicts.count(REPRODUCED) / 4000 <= 0.035


def test_where_there_is_no_effect_a_published_pair_is_outside_the_noise_in_one_study_of_twenty():
    rng = np.random.default_rng(9)
    sds = rng.normal(0, 1, (4000, 3)).std(axis=1, ddof=1)
    published = rng.normal(0, 1, 4000)
    found = [outside_measured_noise(d, sd, 3) for d, sd in zip(published, sds, strict=True)]
    assert np.mean(found) == pytest.approx(0.05, abs=0.014)


def test_where_nothing_changes_some_metric_of_many_is_called_worse_in_one_study_of_forty_at_most():
    rng, metrics = np.random.default_rng(10), 6
    wrong = 0
    for _ in range(2000):
        differences = rng.normal(0, 1, (metrics, 4))
        changes = [paired_change(one, paired_t(one, 1 - 0.05 / metrics)) for one in differences]
        wrong += judge_not_universal(changes, [1] * metrics).verdict == REPRODUCED
    assert wrong / 2000 <= 0.039
