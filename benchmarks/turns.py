"""Ratios of two things that were timed in turns."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def ratios(mine: Sequence[float], other: Sequence[float]) -> str:
    """How many times faster `mine` is, from seconds of pairs of turns: median and quartiles over pairs."""
    each = [b / a for a, b in zip(mine, other, strict=True)]
    low, middle, high = statistics.quantiles(each, n=4)
    return f"{middle:8.2f}x  (quartiles {low:.2f} to {high:.2f}, {len(each)} pairs)"


def speeds(name: str, tokens: int, mine: Sequence[float], other: Sequence[float]) -> str:
    """Median tokens a second of both."""
    ours, theirs = (f"{tokens / statistics.median(seconds):,.0f}" for seconds in (mine, other))
    return f"ours {ours} tokens/s, {name} {theirs}"
