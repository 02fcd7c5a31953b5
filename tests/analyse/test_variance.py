"""Seeds' and items' noise against hand calculations and each other."""

import math

import numpy as np
import pytest

from xsa.analyse.statistics import mean_error, paired_t
from xsa.analyse.variance import Noise, noise_of_items, noise_of_rows


def test_the_parts_are_the_hand_calculation():
    # two seeds, two items: item means 2 and 4, seed means 2 and 4, the rest of each cell ±1
    noise = noise_of_items([np.array([[2.0, 2.0], [2.0, 6.0]])], [0.0])
    assert noise.seeds == pytest.approx(2 / 2)  # variance 2 of the seeds' means, two seeds
    assert noise.items == pytest.approx(2 / 2)
    assert noise.rest == pytest.approx(4 / 4)  # mean square 4 of one degree of freedom, four cells
    assert noise.variance == pytest.approx(1.0)


def test_the_parts_are_estimated_without_bias():
    """σ²_a/S + σ²_e/(S·I) = 0.01/3 + 0.25/150, σ²_b/I + σ²_e/(S·I) = 0.04/50 + 0.25/150; 4000 draws, 5 standard errors."""
    rng = np.random.default_rng(0)
    drawn = (rng.normal(0, 0.1, (4000, 3, 1)), rng.normal(0, 0.2, (4000, 1, 50)), rng.normal(0, 0.5, (4000, 3, 50)))
    found = [noise_of_items([d_SI], [0.0]) for d_SI in sum(drawn)]
    expected = {"seeds": 0.01 / 3 + 0.25 / 150, "items": 0.04 / 50 + 0.25 / 150, "rest": 0.25 / 150}
    for name, value in expected.items():
        values = [getattr(noise, name) for noise in found]
        assert np.mean(values) == pytest.approx(value, abs=5 * mean_error(values))


def test_a_task_counts_by_what_is_left_above_chance():
    task = np.random.default_rng(1).normal(size=(3, 40))
    one, two = noise_of_items([task], [0.5]), noise_of_items([task], [0.0])
    assert one.items == pytest.approx(4 * two.items) and one.seeds == pytest.approx(4 * two.seeds)


def test_without_noise_of_items_the_interval_is_students():
    noise = noise_of_items([np.array([[1.0] * 30, [3.0] * 30, [4.0] * 30])], [0.0])
    expected, found = paired_t([1.0, 3.0, 4.0]), noise.interval(8 / 3)
    assert (found.lo, found.hi) == pytest.approx((expected.lo, expected.hi))


def test_without_noise_of_seeds_the_interval_is_the_normal_one_over_items():
    found = Noise(3, 0.0, 0.01, 0.0, 1e9).interval(0.0)
    assert found.hi == pytest.approx(1.959964 * 0.1, rel=1e-6)


def test_the_quantile_of_both_is_weighted_by_their_variances():
    # 3 seeds: t(2) = 4.302653; seeds' variance 1, items' own 3: (4.302653·1 + 1.959964·3)/√4
    found = Noise(3, 1.0, 3.0, 0.0, math.inf).interval(0.0)
    assert found.hi == pytest.approx((4.302653 + 1.959964 * 3) / 2, rel=1e-6)


def test_the_interval_over_both_is_never_narrower_than_that_over_seeds():
    for items in (0.001, 0.01, 0.1, 0.3):
        assert Noise(3, 1.0, items, 0.0, math.inf).interval(0.0).hi >= 4.302652


def test_one_seed_tells_the_noise_of_items_alone():
    noise = noise_of_items([np.array([[0.0, 1.0, 0.0, -1.0]])], [0.0])
    assert noise.item_error == pytest.approx(mean_error([0, 1, 0, -1]))
    assert noise.seed_error is noise.error is noise.interval(0.0) is None


def test_rows_in_blocks_of_one_are_items():
    d_SR = np.random.default_rng(2).normal(size=(3, 300))
    rows, items = noise_of_rows(d_SR, np.ones(300), block=1), noise_of_items([d_SR], [0.0])
    assert (rows.seeds, rows.items, rows.rest) == pytest.approx((items.seeds, items.items, items.rest))


def test_rows_of_equal_ratio_have_no_noise_whatever_their_bytes():
    bytes_R = np.random.default_rng(3).integers(9000, 10600, 200).astype(float)
    noise = noise_of_rows(np.stack([0.01 * bytes_R, 0.03 * bytes_R]), bytes_R)
    assert noise.item_error == pytest.approx(0, abs=1e-12)
    assert noise.seed_error == pytest.approx(0.01)


def test_blocks_see_that_neighbours_are_alike():
    """Eight equal neighbours hold the information of one: the variance of the mean is 1/150, of which single rows see 1/1200."""
    d_SR = np.repeat(np.random.default_rng(4).normal(size=150), 8)[None]
    single, blocks = (noise_of_rows(d_SR, np.ones(1200), block).items for block in (1, 40))
    assert single == pytest.approx(1 / 1200, rel=0.3)
    assert blocks == pytest.approx(1 / 150, rel=0.35)
