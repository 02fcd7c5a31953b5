"""Whether two arms answer a task's items differently: McNemar's exact test, over seeds too, and Holm's correction over tasks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def mcnemar(sums: Sequence[int]) -> float:
    """Exact two-sided p of no difference, from each item's right answers of the arm less the baseline's, summed over seeds.

    Where the arms do not differ, an item's difference is as likely as its opposite; p is how often random signs give a total at
    least as far from zero. With one seed the sums are −1, 0 and 1 and this is McNemar's exact test on the discordant items. With
    several an item's seeds keep one sign together, for they are no independent items.

    It speaks of these trained models on other items, not of other seeds. No discordant item gives 1; a p is right to 1e-14.

    Source: McNemar, Psychometrika 12 (1947), exact by the binomial; signs of clusters: Fisher, "The Design of Experiments"
    (1935), section 21.
    """
    array = np.asarray(sums)
    whole = np.rint(array).astype(np.int64)
    assert np.allclose(array, whole), "sums of right answers are whole numbers"
    sizes, counts = np.unique(np.abs(whole[whole != 0]), return_counts=True)
    reach = int(sizes @ counts)
    angle = 2 * np.pi * np.arange(2 * reach + 1) / (2 * reach + 1)
    # the sum of random signs has the characteristic function Π cos(size·t)^count; its transform is the exact law
    transform = np.prod([np.cos(size * angle) ** count for size, count in zip(sizes, counts, strict=True)], axis=0)
    law = np.fft.fft(np.broadcast_to(transform, angle.shape)).real / len(angle)
    distance = np.minimum(np.arange(len(law)), len(law) - np.arange(len(law)))
    return float(np.clip(law[distance >= abs(int(whole.sum()))].sum(), 0.0, 1.0))


def holm(p: Sequence[float]) -> list[float]:
    """p adjusted for having made all these tests: below 0.05 for a true null in at most 5 % of such families.

    The i-th smallest of m counts m − i + 1 times, and no less than a smaller one.
    Source: Holm, Scandinavian Journal of Statistics 6 (1979).
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0)
    return adjusted.tolist()
