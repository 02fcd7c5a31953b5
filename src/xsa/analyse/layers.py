"""The attention diagnostics by layer: mean and range over heads, for every arm and for every seed of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from xsa.analyse.arms import Grid
from xsa.analyse.results import Results


def layer_rows(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """One row per shape, arm, seed, layer and measure: mean, least and greatest over the heads."""
    rows = []
    for arm in (arm for shape in grid.shapes for arm in grid.arms_of(shape)):
        for seed in arm.seeds:
            frame = results.parquet(arm.cells[seed], "attention", "attention.parquet")
            if frame is None:
                continue
            groups = frame.groupby(["measure", "layer"], sort=True)["value"]
            for (measure, layer), values in groups:
                row = {"shape": arm.shape, "arm": arm.label, "seed": seed, "layer": int(layer), "measure": measure}
                finite = values[np.isfinite(values)]
                if len(finite):
                    numbers = {"mean": finite.mean(), "lowest": finite.min(), "highest": finite.max()}
                    rows.append(row | {name: float(value) for name, value in numbers.items()})
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
