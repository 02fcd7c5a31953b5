"""The attention diagnostics by layer, by position and along training, for every arm and for every seed of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from xsa.analyse.arms import Arm, Grid
from xsa.analyse.results import Results

# What attention looks at, beside how its output lies: measures that have a null of their own name.
LOOKS = ("diagonal", "first", "entropy")


def layer_rows(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """One row per shape, arm, seed, layer and measure: mean, least and greatest over the heads, over all positions from 1 on."""
    rows = []
    for arm, seed, frame in _tables(results, grid):
        for (measure, layer), values in _whole(frame).groupby(["measure", "layer"], sort=True)["value"]:
            if found := _range(values):
                row = {"shape": arm.shape, "arm": arm.label, "seed": seed, "layer": int(layer), "measure": measure}
                rows.append(row | found)
    return rows


def position_rows(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """One row per shape, arm, seed, measure and range of positions: mean over layers and heads, least and greatest layer.

    A study whose diagnostics were taken without positions has none.
    """
    rows = []
    for arm, seed, frame in _tables(results, grid):
        if "first" not in frame:
            continue
        parts = frame.drop(_whole(frame).index)
        by_layer = parts.groupby(["measure", "first", "last", "layer"], sort=True)["value"].mean()
        for (measure, first, last), values in by_layer.groupby(level=[0, 1, 2], sort=True):
            if found := _range(values):
                row = {"shape": arm.shape, "arm": arm.label, "seed": seed, "measure": measure}
                rows.append(row | {"first": int(first), "last": int(last)} | found)
    return rows


def training_rows(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """One row per shape, arm, seed, measure and step at which training took the diagnostics: mean, least and greatest layer."""
    rows = []
    for arm in _arms(grid):
        for seed in arm.seeds:
            if not results.holds(arm.cells[seed], "pretrain", "alignment.parquet"):
                continue
            frame = results.parquet(arm.cells[seed], "pretrain", "alignment.parquet")
            for (measure, step, tokens), values in frame.groupby(["measure", "step", "tokens"], sort=True)["mean"]:
                if found := _range(values):
                    row = {"shape": arm.shape, "arm": arm.label, "seed": seed, "measure": measure}
                    rows.append(row | {"step": int(step), "tokens": int(tokens)} | found)
    return rows


def attention_means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per shape, arm and measure: the mean over layers, heads and seeds, and its smallest and largest seed."""
    if not rows:
        return []
    frame = pd.DataFrame(rows)
    seeds = frame.groupby(["shape", "arm", "measure", "seed"], sort=False)["mean"].mean().reset_index()
    means = []
    for (shape, arm, measure), values in seeds.groupby(["shape", "arm", "measure"], sort=False)["mean"]:
        row = {"shape": shape, "arm": arm, "measure": measure, "n_seeds": len(values)}
        numbers = {"mean": values.mean(), "lowest_seed": values.min(), "highest_seed": values.max()}
        means.append(row | {name: float(value) for name, value in numbers.items()})
    return means


def _arms(grid: Grid) -> list[Arm]:
    return [arm for shape in grid.shapes for arm in grid.arms_of(shape)]


def _tables(results: Results, grid: Grid) -> Iterator[tuple[Arm, int, pd.DataFrame]]:
    for arm in _arms(grid):
        for seed in arm.seeds:
            frame = results.parquet(arm.cells[seed], "attention", "attention.parquet")
            if frame is not None:
                yield arm, seed, frame


def _whole(frame: pd.DataFrame) -> pd.DataFrame:
    """The lines over all positions; a table of an earlier form has no others.

    Where a row has but one measured position, the range of it comes second.
    """
    if "first" not in frame:
        return frame
    whole = frame[(frame["first"] == frame["first"].min()) & (frame["last"] == frame["last"].max())]
    return whole.drop_duplicates(["layer", "head", "measure"])


def _range(values: pd.Series) -> dict[str, float]:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return {}
    return {"mean": float(finite.mean()), "lowest": float(finite.min()), "highest": float(finite.max())}
