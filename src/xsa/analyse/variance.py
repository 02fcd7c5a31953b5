"""The two sources of noise in a difference between arms, seeds and items, taken apart and put together.

One paired difference a seed s and item i: d_si = δ + a_s + b_i + e_si, with a from training again, b from asking other items,
and e what a seed does to one item. The mean over S seeds and I items has the variance

    σ²_a/S + σ²_b/I + σ²_e/(S·I).

The spread of the seeds' means estimates the first and third term (V_seeds, with S − 1 degrees of freedom), that of the items'
means the second and third (V_items), and what is left of d_si when both are taken away the third (V_rest). So the variance of the
mean is V_seeds + (V_items − V_rest), two parts of independent origin, and its interval takes Cochran's quantile: Student's for
each part, weighted by the part. Tasks have effects of their own; their means are averaged with fixed weights.

Source: the crossed random-effects analysis of variance (Cornfield and Tukey, Annals of Mathematical Statistics 27, 1956), as
used where readers and cases both vary (Hillis, Statistics in Medicine 26, 2007); the quantile: Cochran, Biometrics 20 (1964).
Satterthwaite's degrees of freedom would do from six seeds on; with two they hold the truth in as few as 87 of 100 studies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from xsa.analyse.statistics import CONFIDENCE, Interval, block_length, circular_sums, satterthwaite


@dataclass(frozen=True)
class Noise:
    """Estimated variances of a mean difference: `seeds` and `items` each hold the `rest` too.

    With one seed only that of the items is known.
    """

    n_seeds: int
    seeds: float | None
    items: float
    rest: float | None
    items_freedom: float

    @property
    def seed_error(self) -> float | None:
        """Standard error of the mean, had other seeds been trained and the same items asked."""
        return None if self.seeds is None else math.sqrt(self.seeds)

    @property
    def item_error(self) -> float:
        """Standard error of the mean, had other items been asked of the same models."""
        return math.sqrt(self.items)

    @property
    def variance(self) -> float | None:
        """Variance of the mean over other seeds and other items; None for one seed."""
        return None if self.seeds is None else self.seeds + self.fixed_error**2

    @property
    def error(self) -> float | None:
        """Standard error of the mean over other seeds and other items."""
        return None if self.variance is None else math.sqrt(self.variance)

    @property
    def fixed_error(self) -> float:
        """The part of the items' standard error that more seeds do not lessen, σ_b/√I."""
        return math.sqrt(max(self.items - (self.rest or 0.0), 0.0))

    def interval(self, mean: float, confidence: float = CONFIDENCE) -> Interval | None:
        """Interval of the true difference around `mean`, over seeds and items together; None for one seed.

        Never narrower than the one over seeds alone, which Cochran's quantile can be by a little.
        """
        if self.variance is None:
            return None
        if not self.variance:
            return Interval(mean, mean)
        of_seeds, of_items = stdtrit([self.n_seeds - 1, self.items_freedom], 0.5 + confidence / 2)
        half = float(of_seeds * self.seeds + of_items * self.fixed_error**2) / self.error
        half = max(half, float(of_seeds) * math.sqrt(self.seeds))
        return Interval(mean - half, mean + half)


def noise_of_items(differences: Sequence[np.ndarray], baselines: Sequence[float]) -> Noise:
    """Noise of the change in a centred mean over tasks; `differences` holds one array a task, seeds by items [S, I].

    A task's mean counts 1/((1 − b)·K), with b its accuracy by chance and K the number of tasks.
    """
    weights = [1 / ((1 - baseline) * len(differences)) for baseline in baselines]
    S = len(differences[0])
    seed_means_S = np.zeros(S)
    items, sizes, rest = [], [], 0.0
    for d_SI, weight in zip(differences, weights, strict=True):
        count = d_SI.shape[1]
        items.append(weight**2 * float(d_SI.mean(axis=0).var(ddof=1)) / count if count > 1 else 0.0)
        sizes.append(max(count, 2))
        seed_means_S += weight * d_SI.mean(axis=1)
        if S > 1 and count > 1:
            e_SI = d_SI - d_SI.mean(axis=0) - d_SI.mean(axis=1, keepdims=True) + d_SI.mean()
            rest += weight**2 * float((e_SI**2).sum()) / ((S - 1) * (count - 1)) / (S * count)
    return _noise(seed_means_S, sum(items), rest, satterthwaite(items, sizes))


def noise_of_rows(differences_SR: np.ndarray, weights_R: np.ndarray, block: int | None = None) -> Noise:
    """Noise of Σ differences / Σ weights over rows, for bits per byte; blocks of neighbouring rows as `statistics.paired_rows`.

    The ratio's variance is that of its linear part, Σ (difference − ratio·weight) / Σ weights (Cochran, "Sampling Techniques",
    1977, ch. 6); the variance of a sum of dependent rows is that of its circular blocks' sums.
    """
    S, rows = differences_SR.shape
    assert rows > 1 and len(weights_R) == rows, "a weight for each of several rows"
    block = block_length(rows) if block is None else block
    total = float(weights_R.sum())
    ratios_S = differences_SR.sum(axis=1) / total
    linear_SR = (differences_SR - ratios_S[:, None] * weights_R) / total
    mean_R = linear_SR.mean(axis=0)
    items = float(_block_variance(mean_R, block))
    rest = float(_block_variance(linear_SR - mean_R, block).sum()) / (S * (S - 1)) if S > 1 else 0.0
    return _noise(ratios_S, items, rest, max(rows / block - 1, 1))


def _noise(means_S: np.ndarray, items: float, rest: float, freedom: float) -> Noise:
    S = len(means_S)
    if S < 2:
        return Noise(S, None, items, None, freedom)
    return Noise(S, float(means_S.var(ddof=1)) / S, items, rest, freedom)


def _block_variance(values: np.ndarray, block: int) -> np.ndarray:
    """Variance of the sum of values of sum zero along the last axis, from the sums of circular blocks."""
    rows = values.shape[-1]
    block = min(block, max(rows // 2, 1))
    # blocks of values whose own mean was taken away vary by 1 − b/n too little
    return rows / block * (circular_sums(values, block) ** 2).mean(axis=-1) / (1 - block / rows)
