"""Intervals and errors for differences between arms.

An arm's number varies for two reasons: another seed trains another model, and another draw of test items (or validation
rows) gives the same model another score. So a difference gets an interval over paired seeds, one over paired items, and one
over both together (`xsa.analyse.variance`), and counts as more than noise only where none of them holds zero.
`docs/statistics.md` says which answers which question; `benchmarks/coverage.py` how often each holds the truth.

Everything is NumPy on whole arrays and seeded: the same data give the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, ndtr, stdtrit

CONFIDENCE = 0.95
POWER = 0.8
MOST_SEEDS = 1000
FEWEST_TO_RESAMPLE = 10  # values whose resampling tells an interval; with fewer it holds the truth too seldom
RESAMPLES = 10_000
SEED = 20260705
OUTSIDE, INSIDE, UNKNOWN = "outside noise", "inside noise", "one seed: cannot tell"
ROUNDING = "no difference beyond rounding"
# Metrics are of order one and computed in float32, whose steps are 1.2e-7 of a number; sums of many lose another digit.
RESOLUTION = 1e-6
_LEAST_SIZE = 0.1
_SMALL = 1e-12  # stands for no spread
_SHARES = 4000  # of the law of an estimated variance, for a power right to 1e-5
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


def pointwise_t(values_SN: np.ndarray, confidence: float = CONFIDENCE) -> tuple[np.ndarray, np.ndarray]:
    """Means over at least two seeds at each point of curves and half widths of their `paired_t` intervals, each by itself."""
    S = len(values_SN)
    assert S > 1, "one seed has no spread"
    factor = float(stdtrit(S - 1, 0.5 + confidence / 2)) / math.sqrt(S)
    return values_SN.mean(axis=0), factor * values_SN.std(axis=0, ddof=1)


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


def percentile_interval(
    replicates: np.ndarray, confidence: float = CONFIDENCE, freedom: float | None = None
) -> Interval:
    """The middle `confidence` of bootstrap replicates; with `freedom`, expanded to the tails of Student's t.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), ch. 13; the expansion: Hesterberg, "What Teachers
    Should Know About the Bootstrap", The American Statistician 69 (2015), section 4.
    """
    tail = (1 - confidence) / 2
    if freedom is not None:
        tail = float(ndtr(stdtrit(freedom, tail)))
    lo, hi = np.quantile(replicates, [tail, 1 - tail])
    return Interval(float(lo), float(hi))


def unshrunk(replicates: np.ndarray, centre: float, draws: float) -> np.ndarray:
    """Replicates at √(n/(n−1)) times their distance from `centre`: drawing n of n values varies by (n − 1)/n too little."""
    return centre + (replicates - centre) * math.sqrt(draws / (draws - 1))


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
    """Expanded percentile interval of a mean under resampling of its values, such as paired differences, one a seed.

    None below FEWEST_TO_RESAMPLE values: of three there are ten different resamples, and the middle 95 % of those holds the
    mean of a normal in about three studies of four (`benchmarks/coverage.py`). There `paired_t` is the interval to read.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size < FEWEST_TO_RESAMPLE:
        return None
    means = bootstrap_means(array, resamples, np.random.default_rng(seed))
    return percentile_interval(unshrunk(means, float(array.mean()), array.size), confidence, array.size - 1)


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
    total, variances, sizes = np.zeros(resamples), [], []
    for array, baseline in zip(differences, baselines, strict=True):
        means, size = bootstrap_means(array, resamples, rng), max(len(array), 2)
        total += unshrunk(means, float(np.mean(array)), size) / (1 - baseline)
        variances.append(float(np.var(array)) / (size - 1) / (1 - baseline) ** 2)
        sizes.append(size)
    return percentile_interval(total / len(differences), confidence, satterthwaite(variances, sizes))


def satterthwaite(variances: Sequence[float], sizes: Sequence[int]) -> float:
    """Degrees of freedom of a sum of estimated variances of means of `sizes` values: (ΣV)² / Σ V²/(n − 1).

    Source: Satterthwaite, Biometrics Bulletin 2 (1946).
    """
    parts = np.asarray(variances, dtype=np.float64)
    if not parts.any():
        return float(sum(sizes) - len(sizes)) or 1.0
    parts = parts / parts.max()
    return float(parts.sum() ** 2 / (parts**2 / (np.asarray(sizes) - 1)).sum())


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
    block = block_length(rows) if block is None else min(block, rows)
    tops, bottoms = circular_sums(differences, block), circular_sums(weights, block)
    rng = np.random.default_rng(seed)
    draws = math.ceil(rows / block)
    ratios = np.empty(resamples)
    step = max(1, _CHUNK // draws)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        starts = rng.integers(0, rows, size=(stop - start, draws))
        ratios[start:stop] = tops[starts].sum(axis=1) / bottoms[starts].sum(axis=1)
    blocks = max(rows / block, 2)
    ratios = unshrunk(ratios, float(np.sum(differences) / np.sum(weights)), blocks)
    return percentile_interval(ratios, confidence, blocks - 1)


def block_length(rows: int) -> int:
    """Rows in a block, ⌈n^(1/3)⌉: the rate of Hall, Horowitz and Jing, Biometrika 82 (1995)."""
    return min(math.ceil(round(rows ** (1 / 3), 9)), rows)


def circular_sums(values: np.ndarray, block: int) -> np.ndarray:
    """Sum of `block` neighbours along the last axis from each start on, round the end."""
    array = np.asarray(values, dtype=np.float64)
    around = np.concatenate([np.zeros((*array.shape[:-1], 1)), array, array[..., : block - 1]], axis=-1)
    sums = np.cumsum(around, axis=-1)
    return sums[..., block:] - sums[..., :-block]


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


def power(difference: float, sd: float, seeds: int, fixed_error: float = 0.0) -> float:
    """How often the 95 % interval over `seeds` pairs excludes zero when the true change is `difference`; two-sided.

    sd: of the paired differences over seeds. fixed_error: standard error that further seeds do not lessen, that of the items
    (`variance.Noise.fixed_error`); then the interval is the one over seeds and items together, and its law is approximate.

    Source: the noncentral t of Student's test (Johnson and Welch, Biometrika 31, 1940); with fixed_error its degrees of freedom
    by Satterthwaite, Biometrics Bulletin 2 (1946).
    """
    assert seeds > 1 and sd > 0, "one pair has no spread"
    of_seeds = sd**2 / seeds
    variance = of_seeds + fixed_error**2
    freedom = (seeds - 1) * (variance / of_seeds) ** 2
    of_seeds_t, normal = stdtrit([seeds - 1, math.inf], 0.5 + CONFIDENCE / 2)
    bound = float(of_seeds_t * of_seeds + normal * fixed_error**2) / variance
    shift = abs(difference) / math.sqrt(variance)
    # given the estimated variance, w times the true one, the mean is normal; w is drawn at the middles of equal shares
    shares = (np.arange(_SHARES) + 0.5) / _SHARES
    root_w = np.sqrt(chdtri(freedom, 1 - shares) / freedom)
    return float(1 - np.mean(ndtr(bound * root_w - shift) - ndtr(-bound * root_w - shift)))


def seeds_needed(difference: float, sd: float, fixed_error: float = 0.0, wanted: float = POWER) -> int | None:
    """The least number of paired seeds that show a true change of `difference` with probability `wanted`, by `power`.

    None where it takes more than MOST_SEEDS, or no number does because `fixed_error`, that of the items, is too large.
    """
    if not difference or (fixed_error and power(difference, sd or _SMALL, MOST_SEEDS, fixed_error) < wanted):
        return None
    if not sd:
        return 2
    low, high = 1, 2
    while power(difference, sd, high, fixed_error) < wanted:
        if high >= MOST_SEEDS:
            return None
        low, high = high, min(2 * high, MOST_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(difference, sd, middle, fixed_error) >= wanted else (middle, high)
    return high


def smallest_seen(sd: float, seeds: int, fixed_error: float = 0.0, wanted: float = POWER) -> float:
    """The least true change that `seeds` pairs show with probability `wanted`, by `power`; to four digits."""
    low, high = 0.0, sd + fixed_error
    while power(high, sd, seeds, fixed_error) < wanted:
        low, high = high, 2 * high
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle, sd, seeds, fixed_error) >= wanted else (middle, high)
    return high


def verdict(
    seeds: Interval | None, items: Interval | None, rounding: bool = False, together: Interval | None = None
) -> str:
    """Whether a difference is more than noise, by the intervals over seeds, over items, and over both (None: not known).

    `rounding` says that the difference is `at_rounding`: then no interval is asked, for all would judge float errors.

    Any interval that holds zero is enough for *inside noise*; *outside noise* needs an interval over seeds that excludes
    zero, and no other that holds it. The one over both is needed besides: where both noises are of one size, each alone is
    too narrow by √2. One seed can show a difference to be inside the items' noise, never that it is outside of noise.
    """
    if rounding:
        return ROUNDING
    if any(interval is not None and not interval.excludes(0.0) for interval in (seeds, items, together)):
        return INSIDE
    return UNKNOWN if seeds is None else OUTSIDE
