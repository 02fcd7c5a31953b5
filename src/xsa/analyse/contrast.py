"""The metrics of two cells, or of the arms of two studies, held against each other as a study holds its arms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from xsa.analyse.arms import Arm, Cell, Comparison, Grid, read_grid
from xsa.analyse.compare import SUITES, metric_rows
from xsa.analyse.headline import headline
from xsa.analyse.results import MEASUREMENTS, Results
from xsa.store.job import Job
from xsa.store.record import RECORD
from xsa.study.settings import Settings
from xsa.study.stages import AnalyseStage


class _Nothing(Settings):
    """The settings of a contrast: none."""


def contrast_cells(old: AnalyseStage, old_cell: str, new: AnalyseStage, new_cell: str, results: Path) -> list[dict]:
    """One row a metric that both cells have (`compare.metric_rows`), the seeds' numbers not asked for."""
    pair = [
        _there(next(cell for cell in read_grid(settings).cells if cell.name == name), results)
        for settings, name in ((old, old_cell), (new, new_cell))
    ]
    arms = [Arm(cell.shape, cell.name, cell.factors, number == 0, {0: cell}) for number, cell in enumerate(pair)]
    return _rows([Comparison(arms[0], arms[1], (0,))], _folders(arms, results))


def contrast_results(old: Path, new: Path) -> list[dict[str, Any]]:
    """The same of two results of one stage, by their folders; of stages without a metric the numbers side by side."""
    stage = old.resolve().parent.name
    arms = [
        Arm("", folder.name, {}, number == 0, {0: Cell(folder.name, "", 0, {}, {}, {stage: folder.name})})
        for number, folder in enumerate((old, new))
    ]
    rows = _rows([Comparison(arms[0], arms[1], (0,))], {stage: [old, new]})
    if rows:
        return rows
    numbers = {one.name: one for one in headline(new, stage)}
    return [
        {"name": one.name, "unit": one.unit, "baseline_mean": one.value, "arm_mean": numbers[one.name].value}
        for one in headline(old, stage)
        if one.name in numbers
    ]


def contrast_studies(old: AnalyseStage, new: AnalyseStage, results: Path) -> list[dict[str, Any]]:
    """One row a metric and arm that both studies have, over the seeds that both have. What is one result is left out."""
    others = {_place(arm): arm for arm in read_grid(new).arms}
    comparisons = []
    for arm in read_grid(old).arms:
        other = others.get(_place(arm))
        seeds = tuple(seed for seed in arm.seeds if other and seed in other.cells)
        if seeds and any(arm.cells[seed].results != other.cells[seed].results for seed in seeds):
            comparisons.append(Comparison(_arm(arm, results), _arm(other, results), seeds))
    arms = [arm for comparison in comparisons for arm in (comparison.baseline, comparison.arm)]
    return _rows(comparisons, _folders(arms, results))


def _place(arm: Arm) -> str:
    return repr((arm.shape, sorted(arm.factors.items(), key=str)))


def _arm(arm: Arm, results: Path) -> Arm:
    return replace(arm, cells={seed: _there(cell, results) for seed, cell in arm.cells.items()})


def _there(cell: Cell, results: Path) -> Cell:
    """The cell with those of its results that are on disk."""
    kept = {stage: key for stage, key in cell.results.items() if (results / stage / key / RECORD).exists()}
    return replace(cell, results=kept)


def _folders(arms: list[Arm], results: Path) -> dict[str, list[Path]]:
    cells = [cell for arm in arms for cell in arm.cells.values()]
    return {
        stage: list(dict.fromkeys(results / stage / cell.results[stage] for cell in cells if stage in cell.results))
        for stage in MEASUREMENTS
    }


def _rows(comparisons: list[Comparison], folders: dict[str, list[Path]]) -> list[dict[str, Any]]:
    """Rows of `metric_rows`, with each side's own interval over items where it is one cell's score on a suite."""
    nowhere = Path()
    read = Results(Job("analyse", "contrast", _Nothing(), dict(folders), out=nowhere, state=nowhere))
    rows = metric_rows(read, Grid((), (), tuple(comparisons)))
    for row in rows:
        (found,) = (one for one in comparisons if (one.arm.shape, one.arm.label) == (row["shape"], row["arm"]))
        if row["metric"] in SUITES and len(found.seeds) == 1:
            for side, arm in (("baseline", found.baseline), ("arm", found.arm)):
                told = read.json(arm.cells[found.seeds[0]], row["metric"], SUITES[row["metric"]])
                row[f"{side}_interval"] = told.get("interval")
    return rows
