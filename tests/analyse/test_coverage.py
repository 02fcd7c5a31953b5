"""Over made-up studies the intervals hold the truth as often as they say, and noise is not called a change.

A small run of `benchmarks/coverage.py`: bounds are the promised share and four binomial standard errors about it.
"""

import math
from collections import Counter

import numpy as np
import pytest
from benchmarks.coverage import (
    World,
    few_values,
    holm_errors,
    rows_intervals,
    rows_study,
    suite_intervals,
    suite_study,
    tally,
)

STUDIES = 400
NAMES = ("seeds", "items", "together", "reproduced lower", "reproduced higher")
TASKS = ((40, 0.0), (150, 0.5), (300, 0.25))
WORLDS = {"seeds": World(0.2, 0.05, 0.3), "alike": World(0.05, 0.4, 0.3), "items": World(1e-3, 0.5, 0.1)}


def error(share: float) -> float:
    return 4 * math.sqrt(share * (1 - share) / STUDIES)


@pytest.fixture(scope="module", params=WORLDS)
def suites(request):
    """Shares of suites, three seeds, in which each interval held its truth and a claim was judged reproduced."""
    rng, counts = np.random.default_rng(1), Counter()
    for _ in range(STUDIES):
        study = suite_study(WORLDS[request.param], 3, rng, TASKS)
        counts += tally(study, suite_intervals(study, 400, TASKS))
    return {name: counts[name] / STUDIES for name in NAMES}


@pytest.fixture(scope="module")
def rows():
    """The same of bits per byte, over 600 rows."""
    rng, counts = np.random.default_rng(2), Counter()
    for _ in range(STUDIES):
        study, bytes_R = rows_study(World(1e-4, 5e-3, 2e-3), 3, rng, 600)
        counts += tally(study, rows_intervals(study, bytes_R, 400))
    return {name: counts[name] / STUDIES for name in NAMES}


def test_each_interval_of_a_suite_holds_its_own_truth(suites):
    for name in ("seeds", "items"):
        assert suites[name] == pytest.approx(0.95, abs=error(0.95))
    assert 0.95 - error(0.95) <= suites["together"] <= 0.97 + error(0.97)


def test_without_effect_a_claim_is_reproduced_no_more_often_than_promised(suites):
    assert max(suites["reproduced lower"], suites["reproduced higher"]) <= 0.025 + error(0.025)


def test_the_intervals_of_bits_per_byte_hold_their_truths(rows):
    assert rows["seeds"] == pytest.approx(0.95, abs=error(0.95))
    assert 0.93 - error(0.93) <= rows["items"] <= 0.95 + error(0.95)
    assert 0.93 - error(0.93) <= rows["together"] <= 0.97 + error(0.97)
    assert max(rows["reproduced lower"], rows["reproduced higher"]) <= 0.025 + error(0.025)


def test_without_effect_holm_lets_a_task_pass_in_at_most_one_suite_of_twenty():
    assert holm_errors(WORLDS["items"], 2, 200, np.random.default_rng(3)) <= 200 * 0.05 + 4 * math.sqrt(
        200 * 0.05 * 0.95
    )


def test_resampling_three_seeds_holds_the_truth_too_seldom_and_ten_do_well_enough():
    rng = np.random.default_rng(4)
    three, ten = few_values(3, STUDIES, 400, rng), few_values(10, STUDIES, 400, rng)
    assert three["percentile"] < 0.85 and three["expanded"] < 0.93 - error(0.93) / 4
    assert three["t"] == pytest.approx(0.95, abs=error(0.95))
    assert ten["expanded"] >= 0.93 - error(0.93)
