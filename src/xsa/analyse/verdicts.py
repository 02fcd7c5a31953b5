"""The rules by which a claim is judged: each a pure function of what was measured, and each with its false alarms known.

A verdict of *reproduced* about a difference needs every interval there is, over seeds, over items and over both, to leave out zero on
the claimed side. The interval over seeds alone does so in 2.5 % of studies where there is no effect (95 %, two-sided), so no claim with a
direction is falsely called reproduced more often than that. `docs/claims.md` tells the rules to readers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from xsa.analyse.statistics import CONFIDENCE, Interval

REPRODUCED, NOT_REPRODUCED, INSIDE_NOISE = "reproduced", "not reproduced", "inside noise"
NOT_TESTED, CANNOT_TELL = "not tested", "one seed: cannot tell"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, INSIDE_NOISE, CANNOT_TELL, NOT_TESTED)
_SIGN = {"lower": -1, "higher": 1}
NORMAL = 1.959964  # the 97.5th percentile of the standard normal


@dataclass(frozen=True)
class Change:
    """A measured difference with its intervals (None: there is none) and its number of paired seeds.

    both: over seeds and items together, where each alone leaves the other's noise out.
    `rounding` says that no seed's difference is more than the rounding of floats (`statistics.at_rounding`).
    """

    delta: float
    seeds: Interval | None
    items: Interval | None
    n: int
    rounding: bool = False
    both: Interval | None = None

    @property
    def intervals(self) -> list[Interval]:
        """Those that there are."""
        return [one for one in (self.seeds, self.items, self.both) if one is not None]

    def side(self) -> int:
        """−1 or 1 where every interval lies below or above zero, else 0."""
        if self.rounding or self.seeds is None:
            return 0
        if all(one.hi < 0 for one in self.intervals):
            return -1
        return 1 if all(one.lo > 0 for one in self.intervals) else 0


@dataclass(frozen=True)
class Judged:
    """A verdict and, in half a sentence, why."""

    verdict: str
    why: str


def judge_difference(change: Change, direction: str, size: tuple[float, float] | None = None) -> Judged:
    """A claim that a difference is `lower`, `higher`, or `either` (there is one).

    reproduced:     all intervals leave out zero on the claimed side, and, where the claim has a size, the interval over seeds meets
                    `size`, the range of changes that count as the published one;
    not reproduced: they leave out zero on the other side, or on the claimed one with a size outside that range;
    inside noise:   some interval holds zero, or the difference is no more than rounding;
    one seed:       cannot tell, whatever the items say.
    """
    if change.rounding:
        return Judged(INSIDE_NOISE, "the difference is no more than rounding")
    if change.seeds is None:
        return Judged(CANNOT_TELL, "one seed has no spread to hold the difference against")
    side = change.side()
    if not side:
        return Judged(INSIDE_NOISE, _held(change))
    if direction != "either" and side != _SIGN[direction]:
        return Judged(NOT_REPRODUCED, f"the difference is outside noise and {'lower' if side < 0 else 'higher'}")
    if size and (change.seeds.hi < size[0] or change.seeds.lo > size[1]):
        beyond = abs(change.delta) > max(map(abs, size))
        return Judged(
            NOT_REPRODUCED, f"the direction is the claimed one, the size is {'larger' if beyond else 'smaller'}"
        )
    return Judged(REPRODUCED, "every interval leaves out zero on the claimed side")


def _held(change: Change) -> str:
    """Which interval holds zero."""
    names = {"over seeds": change.seeds, "over items": change.items, "over both together": change.both}
    holding = [name for name, one in names.items() if one is not None and not one.excludes(0)]
    if not holding:
        return "the intervals over seeds and over items lie on two sides of zero"
    if len(holding) == 1:
        return f"the interval {holding[0]} holds zero"
    return "the intervals over seeds and over items hold zero"


def judge_no_change(change: Change, tolerance: float) -> Judged:
    """A claim that there is no difference beyond ±`tolerance`.

    reproduced:     all intervals lie inside it (two one-sided tests at 2.5 % each: Schuirmann, J. Pharmacokin. Biopharm. 15, 1987);
    not reproduced: the interval over seeds lies outside it;
    inside noise:   the interval over seeds reaches over its edge;
    one seed:       cannot tell.
    """
    if change.seeds is None:
        return Judged(CANNOT_TELL, "one seed has no spread to hold the tolerance against")
    if all(-tolerance <= one.lo and one.hi <= tolerance for one in change.intervals):
        return Judged(REPRODUCED, "every interval lies within the tolerance")
    if change.seeds.lo > tolerance or change.seeds.hi < -tolerance:
        return Judged(NOT_REPRODUCED, "the interval over seeds lies outside the tolerance")
    return Judged(INSIDE_NOISE, "the interval reaches over the tolerance's edge")


def judge_not_universal(changes: Sequence[Change], better: Sequence[int]) -> Judged:
    """A claim that not every change is for the better; `better` is −1 or 1 for each, the sign of a gain.

    reproduced:     some change is outside noise for the worse, its interval over seeds at 1 − 0.05/m for m changes (Bonferroni);
    not reproduced: every change is outside noise for the better;
    inside noise:   neither. One seed: cannot tell.

    The intervals over seeds of `changes` are to be of that higher confidence (`statistics.paired_t`).
    """
    if any(change.seeds is None for change in changes):
        return Judged(CANNOT_TELL, "one seed has no spread to hold the differences against")
    sides = [change.side() * sign for change, sign in zip(changes, better, strict=True)]
    if -1 in sides:
        return Judged(REPRODUCED, f"{sides.count(-1)} of {len(sides)} changes are outside noise for the worse")
    if all(side == 1 for side in sides):
        return Judged(NOT_REPRODUCED, "every change is outside noise for the better")
    told = f"{sides.count(1) or 'none'} of {len(sides)} changes {'is' if sides.count(1) == 1 else 'are'}"
    return Judged(INSIDE_NOISE, f"{told} outside noise for the better, none for the worse")


def judge_stability(broken: Sequence[str], runs: int, seeds: int) -> Judged:
    """A claim that training is stable, from `runs` runs of which those named in `broken` were not; `seeds` is the least an arm has.

    reproduced: none broke, at least two seeds an arm; not reproduced: one did, for a single run is enough; one seed: cannot tell.
    """
    if broken:
        return Judged(NOT_REPRODUCED, f"{len(broken)} of {runs} runs did not stay stable: {', '.join(broken)}")
    if seeds < 2:
        return Judged(CANNOT_TELL, "one run an arm says little about how often training breaks")
    return Judged(REPRODUCED, f"all {runs} runs stayed stable")


def failure_bound(runs: int, confidence: float = CONFIDENCE) -> float:
    """How often training may break at most when none of `runs` runs did, 1 − (1 − confidence)^(1/n) (Clopper and Pearson 1934)."""
    return 1 - (1 - confidence) ** (1 / runs)


def judge_bound(value: Interval, bound: float) -> Judged:
    """A claim that a quantity is at most `bound`: reproduced where its interval ends below, not where it begins above."""
    if value.hi <= bound:
        return Judged(REPRODUCED, "the whole interval lies below the bound")
    if value.lo > bound:
        return Judged(NOT_REPRODUCED, "the whole interval lies above the bound")
    return Judged(INSIDE_NOISE, "the interval holds the bound")


def judge_indistinct(ratio: Interval, precision: float) -> Judged:
    """A claim that a ratio of times cannot be told from 1.

    Reproduced where its interval holds 1 and is no wider than ±`precision` about it, for a blunt measurement shows nothing; not
    reproduced where it lies above; inside noise where it holds 1 but is wider. An interval below 1 shows no cost either.
    """
    if ratio.lo > 1:
        return Judged(NOT_REPRODUCED, "the interval lies above no overhead")
    if ratio.hi > 1 + precision:
        return Judged(INSIDE_NOISE, f"the interval is too wide to rule out {100 * precision:.0f} %")
    return Judged(REPRODUCED, "the interval holds no overhead and little beside it")


def judge_within(measured: dict[str, float], tolerance: dict[str, float]) -> Judged:
    """A claim that no measure exceeds its tolerance; deterministic, so that one check decides."""
    over = [name for name, most in tolerance.items() if not measured[name] <= most]
    if over:
        return Judged(NOT_REPRODUCED, f"beyond its tolerance: {', '.join(over)}")
    exact = not any(measured[name] for name in tolerance)
    return Judged(REPRODUCED, "no difference at all" if exact else "every difference is within its tolerance")


def outside_measured_noise(published: float, difference_sd: float, n: int) -> bool:
    """Whether a published difference, taken for one pair of runs, would have been outside the noise measured over `n` pairs.

    Where there is no effect, one new difference over the standard deviation of n others follows Student's t with n − 1 degrees of
    freedom; outside is beyond its middle 95 %.
    """
    return abs(published) > float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * difference_sd


def outside_stated_noise(published: float, sd: float) -> bool:
    """The same by a standard deviation of one score that others measured; a difference of two varies √2 times as much."""
    return abs(published) > NORMAL * math.sqrt(2) * sd


def paired_change(differences: Sequence[float], interval: Interval | None) -> Change:
    """A change from paired differences and the interval over seeds that was made of them."""
    values = np.asarray(differences, dtype=np.float64)
    return Change(float(values.mean()), interval, None, values.size)
