"""Intervals and errors for differences between arms.

An arm's number varies for two reasons that no single interval covers: another seed trains another model, and another
draw of test items (or validation rows) gives the same model another score. So a difference gets two intervals, one
over paired seeds and one over paired items, and counts as more than noise only where neither holds zero.

Everything is NumPy on whole arrays and seeded: the same data give the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95
RESAMPLES = 10_000
SEED = 20260705
OUTSIDE, INSIDE, UNKNOWN = "outside noise", "inside noise", "one seed: cannot tell"
ROUNDING = "no difference beyond rounding"
# Metrics are of order one and computed in float32, whose steps are 1.2e-7 of a number; sums of many lose another digit.
RESOLUTION = 1e-6
_LEAST_SIZE = 0.1
_CHUNK = 4_000_000  # random numbers held at once, so that memory stays bounded


@dataclass(frozen=True)
class Interval:
    lo: float
    hi: float

    def excludes(self, value: float) -> bool:
        return not self.lo <= value <= self.hi


def paired_t(differences: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Student's t interval for the mean of paired differences, one a seed: mean ± t(n−1)·s/√n.

    None for fewer than two differences, for one pair says nothing of its own spread.
    Source: Student, "The probable error of a mean", Biometrika 6 (1908).
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.size < 2:
        return None
    half = float(stdtrit(values.size - 1, 0.5 + confidence / 2)) * mean_error(values)
    return Interval(float(values.mean()) - half, float(values.mean()) + half)


def pooled_sd(groups: Sequence[Sequence[float]]) -> tuple[float | None, int]:
    """Standard deviation within groups, pooled over them, and its degrees of freedom: √(ΣSS / Σ(n−1)).

    With one group per arm this is the noise of a seed. None, 0 where no group has two members.
    Source: the error mean square of a one-way analysis of variance (Fisher 1925, ch. VII).
    """
    arrays = [np.asarray(group, dtype=np.float64) for group in groups if len(group) > 1]
    freedom = sum(array.size - 1 for array in arrays)
    if not freedom:
        return None, 0
    squares = sum(float(((array - array.mean()) ** 2).sum()) for array in arrays)
    return math.sqrt(squares / freedom), freedom


def mean_error(values: Sequence[float]) -> float:
    """Standard error of a mean, s/√n with s over n − 1; needs two values."""
    array = np.asarray(values, dtype=np.float64)
    assert array.size > 1, "one value has no standard error"
    return float(array.std(ddof=1)) / math.sqrt(array.size)


def proportion_error(accuracy: float, items: int) -> float:
    """Standard error of an accuracy over `items` independent items, √(p(1−p)/n) (binomial)."""
    return math.sqrt(accuracy * (1 - accuracy) / items)


def centred_mean_error(errors: Sequence[float], baselines: Sequence[float]) -> float:
    """Standard error of the mean over tasks of (accuracy − b)/(1 − b), the tasks' items being independent."""
    scaled = np.asarray(errors, dtype=np.float64) / (1 - np.asarray(baselines, dtype=np.float64))
    return float(np.sqrt((scaled**2).sum())) / scaled.size


def percentile_interval(replicates: np.ndarray, confidence: float = CONFIDENCE) -> Interval:
    """The middle `confidence` of bootstrap replicates.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), ch. 13.
    """
    tail = (1 - confidence) / 2
    lo, hi = np.quantile(replicates, [tail, 1 - tail])
    return Interval(float(lo), float(hi))


def bootstrap_means(values: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Means of `resamples` draws of len(values) from `values` with replacement; float64 [resamples].

    Equal values are drawn together by a multinomial count, which has the same law as drawing them one at a time and
    costs the number of distinct values: three for paired right-or-wrong items of one seed, however many items.
    """
    distinct, counts = np.unique(np.asarray(values, dtype=np.float64), return_counts=True)
    size = int(counts.sum())
    means = np.empty(resamples)
    step = max(1, _CHUNK // len(distinct))
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        means[start:stop] = rng.multinomial(size, counts / size, size=stop - start) @ distinct / size
    return means


def bootstrap_mean(
    values: Sequence[float], confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval | None:
    """Percentile interval of a mean under resampling of its values; None for fewer than two values."""
    array = np.asarray(values, dtype=np.float64)
    if array.size < 2:
        return None
    return percentile_interval(bootstrap_means(array, resamples, np.random.default_rng(seed)), confidence)


def paired_items(
    differences: Sequence[np.ndarray],
    baselines: Sequence[float],
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval | None:
    """Interval of the change in a centred mean over tasks, when another draw of items had been asked.

    differences: one array a task, item by item the arm's correctness less the baseline's (means over seeds).
    baselines:   each task's accuracy by chance, b; a task's change counts 1/(1 − b), then tasks are averaged.

    Items are drawn with replacement within each task, for tasks are fixed; both arms keep the same items.
    None where a task has no item. Source: stratified bootstrap (Efron and Tibshirani 1993, ch. 8) of paired
    differences, as Koehn (2004) does for translation scores.
    """
    if not differences or any(len(array) == 0 for array in differences):
        return None
    rng = np.random.default_rng(seed)
    total = np.zeros(resamples)
    for array, baseline in zip(differences, baselines, strict=True):
        total += bootstrap_means(array, resamples, rng) / (1 - baseline)
    return percentile_interval(total / len(differences), confidence)


def paired_rows(
    differences: np.ndarray,
    weights: np.ndarray,
    block: int | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval | None:
    """Interval of Σ differences / Σ weights over other validation rows like these.

    For bits per byte: differences are nats of the arm less the baseline's divided by ln 2, row by row, weights are
    the rows' bytes. Blocks of neighbouring rows are drawn, from a circle of all rows, because rows packed from the
    same documents' buffer resemble each other; `block` is ⌈n^(1/3)⌉ rows unless given, 1 draws single rows.
    None for fewer than two rows.

    Source: Politis and Romano, "A circular block-resampling procedure for stationary data" (1992); the rate n^(1/3):
    Hall, Horowitz and Jing, Biometrika 82 (1995).
    """
    rows = len(differences)
    assert rows == len(weights), "a weight for each row"
    if rows < 2:
        return None
    block = min(math.ceil(rows ** (1 / 3)) if block is None else block, rows)
    tops, bottoms = _circular_sums(differences, block), _circular_sums(weights, block)
    rng = np.random.default_rng(seed)
    draws = math.ceil(rows / block)
    ratios = np.empty(resamples)
    step = max(1, _CHUNK // draws)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        starts = rng.integers(0, rows, size=(stop - start, draws))
        ratios[start:stop] = tops[starts].sum(axis=1) / bottoms[starts].sum(axis=1)
    return percentile_interval(ratios, confidence)


def _circular_sums(values: np.ndarray, block: int) -> np.ndarray:
    """Sum of `block` neighbours from each start on, round the end."""
    array = np.asarray(values, dtype=np.float64)
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate([array, array[: block - 1]]))])
    return sums[block:] - sums[:-block]


def at_rounding(differences: Sequence[float], baseline: float) -> bool:
    """Whether no paired difference is more than float32 rounding of numbers of `baseline`'s size.

    Each difference must be, not their mean: a change whose seeds cancel is noise, no rounding.
    """
    least = RESOLUTION * max(abs(baseline), _LEAST_SIZE)
    return bool(np.all(np.abs(np.asarray(differences, dtype=np.float64)) <= least))


def deviations_to_show(seeds: int, confidence: float = CONFIDENCE) -> float:
    """How many standard deviations of its paired differences a change must exceed for `paired_t` to exclude zero."""
    assert seeds > 1, "one pair has no standard deviation"
    return float(stdtrit(seeds - 1, 0.5 + confidence / 2)) / math.sqrt(seeds)


def verdict(seeds: Interval | None, items: Interval | None, rounding: bool = False) -> str:
    """Whether a difference is more than noise, by the interval over seeds and the one over items (None: not known).

    `rounding` says that the difference is `at_rounding`: then no interval is asked, for both would judge float errors.

    Either interval that holds zero is enough for *inside noise*; *outside noise* needs an interval over seeds that
    excludes zero, and no interval over items that holds it. One seed can show a difference to be inside the items'
    noise, never that it is outside of noise.
    """
    if rounding:
        return ROUNDING
    if any(interval is not None and not interval.excludes(0.0) for interval in (seeds, items)):
        return INSIDE
    return UNKNOWN if seeds is None else OUTSIDE
