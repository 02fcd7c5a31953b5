"""McNemar's test against the binomial and every way to choose signs; Holm against a hand calculation."""

import itertools

import numpy as np
import pytest
import scipy.stats

from xsa.analyse.mcnemar import holm, mcnemar


@pytest.mark.parametrize(("arm_only", "baseline_only"), [(9, 2), (1, 0), (0, 6), (140, 101), (1409, 1300)])
def test_one_seed_gives_the_exact_binomial_test_of_discordant_items(arm_only, baseline_only):
    sums = [1] * arm_only + [-1] * baseline_only + [0] * 50
    expected = scipy.stats.binomtest(arm_only, arm_only + baseline_only).pvalue
    assert mcnemar(sums) == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_several_seeds_give_the_share_of_sign_choices_at_least_as_far_from_zero():
    sums = [3, -1, 2, 2, 0, 1, -3, 1, 3]
    totals = [abs(np.dot(signs, sums)) for signs in itertools.product((-1, 1), repeat=len(sums))]
    assert mcnemar(sums) == pytest.approx(np.mean(np.array(totals) >= abs(sum(sums))))


def test_seeds_that_answer_alike_are_no_more_items():
    assert mcnemar([3, 3, 3, -3, 0]) == pytest.approx(mcnemar([1, 1, 1, -1, 0]))


def test_no_discordant_item_gives_no_evidence():
    assert mcnemar([0, 0, 0]) == 1.0
    assert mcnemar([1, -1]) == pytest.approx(1.0)


def test_holm_multiplies_the_smallest_by_all_and_never_falls():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []
