"""How often the 95 % intervals hold the truth, and how often noise alone is called a change, over made-up studies.

    python benchmarks/coverage.py [--studies 2000] [--seeds 3,4,5] [--resamples 1000]

A study has two arms, a few paired seeds, and items or rows that all models answer. Training again, asking other items, and
what one seed does to one item vary by known amounts, so that the truth of each question is known in closed form: the interval
over seeds is held against the change on these items, the one over items against the change of these models, and the one over
both against the change itself. Prints a line an interval; from 93 to 97 % is as promised. Under no effect it also prints how
often a claim of either direction is judged reproduced (2.5 % at most) and any task of a suite differs by Holm (5 %).
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from xsa.analyse.mcnemar import holm, mcnemar
from xsa.analyse.statistics import (
    Interval,
    bootstrap_means,
    paired_items,
    paired_rows,
    paired_t,
    percentile_interval,
    seeds_needed,
    unshrunk,
)
from xsa.analyse.variance import noise_of_items, noise_of_rows
from xsa.analyse.verdicts import REPRODUCED, Change, judge_difference

# items and accuracy by chance, as in CORE but the largest tasks, which take long and whose normal law is nearest
TASKS = ((32, 0.0), (100, 0.5), (210, 0.0), (230, 0.2), (273, 0.5), (500, 0.25), (1000, 0.0), (1000, 0.25))
ROWS = 1024


@dataclass(frozen=True)
class World:
    """Standard deviations of what varies, in a model's skill: `seed` from training again, `item` between the arms on an item,
    `both` of one seed on one item; `effect` is what the arm adds."""

    seed: float
    item: float
    both: float
    effect: float = 0.0


@dataclass(frozen=True)
class Study:
    """Differences with the intervals' true values; `together` is the change itself."""

    differences: list[np.ndarray]  # a task each, seeds by items
    together: float
    given_items: float
    given_seeds: float


def suite_study(
    world: World, seeds: int, rng: np.random.Generator, tasks: Sequence[tuple[int, float]] = TASKS
) -> Study:
    """A suite of right-or-wrong items. A model is right where its skill exceeds an item's difficulty, or by luck."""
    skill_A = np.array([-0.3, -0.3 + world.effect])
    parts = {"differences": [], "together": 0.0, "given_items": 0.0, "given_seeds": 0.0}
    for count, chance in tasks:
        seed_AS1 = rng.normal(0, world.seed, (2, seeds, 1))
        hard_I, arm_A1I = rng.normal(0, 1, count), rng.normal(0, world.item, (2, 1, count))
        own_ASI = rng.normal(0, world.both, (2, seeds, count))
        lucky_I = rng.random(count) < chance
        right_ASI = (skill_A[:, None, None] + seed_AS1 + arm_A1I + own_ASI > hard_I) | lucky_I
        parts["differences"].append(right_ASI[1].astype(float) - right_ASI[0])
        # luck takes 1 − chance of every difference, which the centred mean gives back
        of_items = skill_A[:, None] + arm_A1I[:, 0] - hard_I
        centred = (1 - lucky_I) / (1 - chance)
        given_items = (ndtr(of_items / math.hypot(world.seed, world.both)) * centred).mean(axis=1)
        given_seeds = ndtr((skill_A[:, None] + seed_AS1[..., 0]) / math.hypot(1, world.item, world.both)).mean(axis=1)
        together = ndtr(skill_A / math.hypot(1, world.item, world.both, world.seed))
        for name, value in (("given_items", given_items), ("given_seeds", given_seeds), ("together", together)):
            parts[name] += float(value[1] - value[0]) / len(tasks)
    return Study(**parts)


def rows_study(world: World, seeds: int, rng: np.random.Generator, rows: int = ROWS) -> tuple[Study, np.ndarray]:
    """Nats of validation rows, neighbours alike, and their bytes; the differences' unit is nats, the truths' nats a byte."""
    bytes_R = rng.integers(9000, 10600, rows).astype(float)
    item_R = rng.normal(0, world.item, rows)
    item_R = (item_R + 0.5 * np.roll(item_R, 1)) / math.hypot(1, 0.5)
    seed_S = rng.normal(0, world.seed, seeds)
    change_SR = world.effect + seed_S[:, None] + item_R + rng.normal(0, world.both, (seeds, rows))
    of_items = float((item_R * bytes_R).sum() / bytes_R.sum())
    return Study(
        [change_SR * bytes_R], world.effect, world.effect + of_items, world.effect + float(seed_S.mean())
    ), bytes_R


def suite_intervals(
    study: Study, resamples: int, tasks: Sequence[tuple[int, float]] = TASKS
) -> tuple[Interval, Interval, Interval]:
    """The three intervals of a suite, over seeds, over items and over both, as the analysis makes them."""
    baselines = [chance for _, chance in tasks]
    means_S = np.mean([d.mean(axis=1) / (1 - b) for d, b in zip(study.differences, baselines, strict=True)], axis=0)
    items = paired_items([d.mean(axis=0) for d in study.differences], baselines, resamples=resamples)
    return paired_t(means_S), items, noise_of_items(study.differences, baselines).interval(float(means_S.mean()))


def rows_intervals(study: Study, bytes_R: np.ndarray, resamples: int) -> tuple[Interval, Interval, Interval]:
    """The three intervals of bits per byte (here nats)."""
    (d_SR,) = study.differences
    ratios_S = d_SR.sum(axis=1) / bytes_R.sum()
    items = paired_rows(d_SR.mean(axis=0), bytes_R, resamples=resamples)
    return paired_t(ratios_S), items, noise_of_rows(d_SR, bytes_R).interval(float(ratios_S.mean()))


def tally(study: Study, intervals: tuple[Interval, Interval, Interval]) -> Counter:
    """Which intervals held their truth, and claims of which direction were judged reproduced."""
    seeds, items, together = intervals
    truths = (study.given_items, study.given_seeds, study.together)
    held = Counter(
        {
            name: not one.excludes(true)
            for name, one, true in zip(("seeds", "items", "together"), intervals, truths, strict=True)
        }
    )
    change = Change((together.lo + together.hi) / 2, seeds, items, study.differences[0].shape[0], both=together)
    for direction in ("lower", "higher"):
        held[f"reproduced {direction}"] += judge_difference(change, direction).verdict == REPRODUCED
    held["both excluded zero"] += seeds.excludes(0) and items.excludes(0)
    return held


def cover_suite(world: World, seeds: int, studies: int, resamples: int, rng: np.random.Generator) -> Counter:
    """Counts over `studies` suites."""
    counts = Counter()
    for _ in range(studies):
        study = suite_study(world, seeds, rng)
        counts += tally(study, suite_intervals(study, resamples))
    return counts


def cover_rows(world: World, seeds: int, studies: int, resamples: int, rng: np.random.Generator) -> Counter:
    """Counts over `studies` measurements of bits per byte."""
    counts = Counter()
    for _ in range(studies):
        study, bytes_R = rows_study(world, seeds, rng)
        counts += tally(study, rows_intervals(study, bytes_R, resamples))
    return counts


def holm_errors(world: World, seeds: int, studies: int, rng: np.random.Generator) -> int:
    """Studies without effect in which Holm's correction lets any task's McNemar test below 5 %."""
    found = 0
    for _ in range(studies):
        sums = [d.sum(axis=0) for d in suite_study(world, seeds, rng).differences]
        found += min(holm([mcnemar(one) for one in sums])) < 0.05
    return found


def few_values(count: int, studies: int, resamples: int, rng: np.random.Generator) -> dict[str, float]:
    """Coverage of a mean of `count` normal values: Student's t, plain percentiles of a bootstrap, and expanded ones."""
    held = Counter()
    for _ in range(studies):
        values = rng.normal(size=count)
        means = bootstrap_means(values, resamples, rng)
        held["t"] += not paired_t(values).excludes(0)
        held["percentile"] += not percentile_interval(means).excludes(0)
        held["expanded"] += not percentile_interval(
            unshrunk(means, float(values.mean()), count), freedom=count - 1
        ).excludes(0)
    return {name: held[name] / studies for name in ("t", "percentile", "expanded")}


def reached_power(difference: float, studies: int, rng: np.random.Generator) -> tuple[int, float]:
    """The seeds needed for a change of so many standard deviations, and how often so many do show it."""
    seeds = seeds_needed(difference, 1.0)
    shown = sum(paired_t(rng.normal(difference, 1, seeds)).excludes(0) for _ in range(studies))
    return seeds, shown / studies


SUITES = {
    "seeds vary most": World(0.10, 0.02, 0.3),
    "seeds and items alike": World(0.03, 0.3, 0.3),
    "items vary most": World(0.001, 0.4, 0.1),
    "nothing but one seed on one item": World(1e-6, 1e-6, 0.3),
}
BYTES = {
    "seeds vary most": World(1e-4, 1e-3, 1e-3),
    "seeds and rows alike": World(1e-4, 5e-3, 2e-3),
    "rows vary most": World(1e-6, 5e-3, 1e-3),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--seeds", default="3,4,5")
    parser.add_argument("--resamples", type=int, default=1000)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    error = 100 * math.sqrt(0.95 * 0.05 / args.studies)
    print(f"coverage in % over {args.studies} studies without effect (one standard error {error:.1f})")
    print(f"{'':64}  seeds  items   both   reproduced −/+  (without the interval over both)")
    for name, worlds, cover in (("suite", SUITES, cover_suite), ("bits per byte", BYTES, cover_rows)):
        for told, world in worlds.items():
            for seeds in map(int, args.seeds.split(",")):
                found = cover(world, seeds, args.studies, args.resamples, rng)
                share = {
                    key: 100 * found[key] / args.studies for key in (*found, "reproduced lower", "reproduced higher")
                }
                held = "  ".join(f"{share[key]:5.1f}" for key in ("seeds", "items", "together"))
                called = f"{share['reproduced lower']:.1f}/{share['reproduced higher']:.1f}"
                print(f"{name + ', ' + told + ', ' + str(seeds) + ' seeds':64}  {held}  {called:>9}  "
                      f"({found['both excluded zero'] * 100 / args.studies:.1f})", flush=True)  # fmt: skip
    for seeds in (1, 3):
        errors = holm_errors(SUITES["items vary most"], seeds, args.studies // 4, rng)
        print(
            f"any of {len(TASKS)} tasks below 5 % by McNemar and Holm, {seeds} seeds: {400 * errors / args.studies:.1f} %"
        )
    for count in (3, 5, 8, 10, 20):
        told = ", ".join(
            f"{name} {100 * value:.1f}" for name, value in few_values(count, args.studies, args.resamples, rng).items()
        )
        print(f"mean of {count} values: {told}")
    for difference in (3.0, 1.5, 1.0, 0.5):
        seeds, shown = reached_power(difference, args.studies, rng)
        print(f"a change of {difference} sd: {seeds} seeds show it in {100 * shown:.1f} % (80 % asked for)")


if __name__ == "__main__":
    main()
