"""The stage `analyse`: tables, figures and a summary of a study, from the JSON and parquet of its results alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xsa.analyse.adopted import adopted_cells, mark
from xsa.analyse.arms import Arm, Cell, Grid, read_grid
from xsa.analyse.artefacts import artefact_rows
from xsa.analyse.checks import (
    data_streams,
    environment,
    equivalence_rows,
    missing,
    not_taken,
    overhead_rows,
    training_notes,
)
from xsa.analyse.compare import SUITES, metric_rows, task_rows
from xsa.analyse.conventions import convention_rows
from xsa.analyse.curves import SMOOTHING, arm_curve, curve_rows, loss_gap, stability, validation_rows
from xsa.analyse.efficiency import look_gaps, savings
from xsa.analyse.figure import Drawn
from xsa.analyse.figure_conventions import draw_conventions
from xsa.analyse.figure_curves import draw_gap, draw_loss
from xsa.analyse.figure_differences import draw_metrics, draw_overhead, draw_tasks
from xsa.analyse.figure_doses import dose_rows, draw_doses
from xsa.analyse.figure_layers import draw_alignment, draw_diagonal, draw_looks
from xsa.analyse.figure_positions import draw_alignment_positions, draw_alignment_training, draw_looks_positions
from xsa.analyse.figure_validation import draw_look_gaps, draw_validation
from xsa.analyse.layers import attention_means, layer_rows, position_rows, training_rows
from xsa.analyse.metrics import METRICS
from xsa.analyse.results import Results
from xsa.analyse.statistics import CONFIDENCE, RESAMPLES
from xsa.analyse.style import Colours, figure_style
from xsa.analyse.tables import Column, write_table
from xsa.store.files import write_json
from xsa.store.job import Job
from xsa.study.stages import AnalyseStage

_CELL_COLUMNS = (
    Column("shape", "Shape"),
    Column("arm", "Arm"),
    Column("seed", "Seed"),
    *(Column(metric.id, metric.name, 4) for metric in METRICS),
    Column("unigram_bpb", "Unigram bpb", 4),
    Column(("core_lo", "core_hi"), "CORE, 95 % over items", 4, signed=True),
    Column(("chatcore_lo", "chatcore_hi"), "ChatCORE, 95 % over items", 4, signed=True),
)
_METRIC_COLUMNS = (
    Column("shape", "Shape"),
    Column("arm", "Arm"),
    Column("name", "Metric"),
    Column("baseline_mean", "Baseline", 4),
    Column("arm_mean", "Arm's mean", 4),
    Column("delta", "Δ", 4, signed=True),
    Column("relative_percent", "%", 2, signed=True),
    Column(("seed_lo", "seed_hi"), "95 % over seeds", 4, signed=True),
    Column(("item_lo", "item_hi"), "95 % over items", 4, signed=True),
    Column(("total_lo", "total_hi"), "95 % over both", 4, signed=True),
    Column("n_seeds", "Seeds"),
    Column("seeds_needed", "Seeds needed"),
    Column("verdict", "Verdict"),
)
_TASK_COLUMNS = (
    Column("shape", "Shape"),
    Column("arm", "Arm"),
    Column("suite", "Suite"),
    Column("task", "Task"),
    Column("items", "Items"),
    Column("baseline_accuracy", "Baseline", 3),
    Column("arm_accuracy", "Arm's mean", 3),
    Column("delta", "Δ", 3, signed=True),
    Column(("item_lo", "item_hi"), "95 % over items", 3, signed=True),
    Column("mcnemar_p", "McNemar p"),
    Column("holm_p", "Holm p"),
    Column("verdict", "Verdict"),
)
_CURVE_COLUMNS = (
    Column("shape", "Shape"),
    Column("arm", "Arm"),
    Column("seed", "Seed"),
    Column("step", "Step"),
    Column("loss", "Loss", 4),
    Column("smoothed", "Smoothed", 4),
)
_SAVING_COLUMNS = (
    Column("shape", "Shape"),
    Column("arm", "Arm"),
    Column("tokens", "Tokens"),
    Column("saved", "Saved", 4, signed=True),
    Column(("saved_lo", "saved_hi"), "95 % over seeds", 4, signed=True),
    Column("step_ratio", "Time of a step", 3),
    Column("saved_time", "Time saved", 4, signed=True),
    Column("n_seeds", "Seeds"),
)
_CONVENTION_COLUMNS = (
    Column("shape", "Shape"),
    Column("arm", "Arm"),
    Column("fault", "Fault of the log"),
    Column("early", "Largest early gap", 4, signed=True),
    Column("end", "Gap at the end", 4, signed=True),
    Column("own_early", "Arms' own, early", 4, signed=True),
    Column("own_end", "Arms' own, end", 4, signed=True),
)
_ATTENTION_COLUMNS = (
    Column("shape", "Shape"),
    Column("arm", "Arm"),
    Column("measure", "Measure"),
    Column("mean", "Mean", 4),
    Column(("lowest_seed", "highest_seed"), "Range over seeds", 4),
    Column("n_seeds", "Seeds"),
)
_OVERHEAD_COLUMNS = (
    Column("shape", "Shape"),
    Column("arm", "Arm"),
    Column("mode", "Mode"),
    Column("phase", "Phase"),
    Column("ratio", "Ratio", 4),
    Column(("lo", "hi"), "95 %", 4),
    Column("exceeds_noise", "More than noise"),
)
_EQUIVALENCE_COLUMNS = (
    Column("shape", "Shape"),
    Column("dtype", "dtype"),
    Column("device", "Device"),
    Column("forward_max_abs", "Logits"),
    Column("loss_abs", "Loss"),
    Column("gradient_max_rel", "Gradients (relative)"),
    Column("steps", "Steps"),
    Column("loss_max_abs", "Loss while training"),
    Column("parameters_max_rel", "Parameters (relative)"),
    Column("bitwise", "Bitwise equal"),
)


def analyse(job: Job) -> dict[str, Any]:
    """Write tables/, figures/ and summary.json of the study in `job.settings` into `job.out`.

    Measurements that were not taken are left out and named in the summary.
    """
    settings: AnalyseStage = job.settings
    grid, results = read_grid(settings), Results(job)
    found = {
        "cells": [_cell_row(results, grid, cell) for cell in grid.cells],
        "metrics": metric_rows(results, grid),
        "tasks": task_rows(results, grid),
        "layers": layer_rows(results, grid),
        "positions": position_rows(results, grid),
        "along_training": training_rows(results, grid),
        "overhead": overhead_rows(results, grid),
        "equivalence": equivalence_rows(results, grid),
        "validation": validation_rows(results, grid),
    }
    gaps = [gap for comparison in grid.comparisons if (gap := loss_gap(results, comparison))]
    found |= {
        "look_gaps": look_gaps(found["validation"], grid),
        "savings": savings(found["validation"], grid, found["overhead"]),
        "conventions": [row for gap in gaps for row in convention_rows(gap)],
    }
    adopted = adopted_cells(results, grid)
    mark(found, grid, adopted)
    job.progress.say(f"{len(grid.cells)} cells in {len(grid.arms)} arms, {len(found['metrics'])} changes measured")
    arms = [arm for shape in grid.shapes for arm in grid.arms_of(shape)]
    curves = [curve for arm in arms if (curve := arm_curve(results, arm))]
    _write_tables(job.out / "tables", found, curves)
    with figure_style():
        figures = _draw(job.out / "figures", found, curves, gaps, grid)
    write_json(job.out / "figures" / "figures.json", [vars(figure) for figure in figures])
    summary = _summary(settings, results, grid, found, figures) | {"adopted": adopted}
    write_json(job.out / "summary.json", summary)
    return {"cells": len(grid.cells), "figures": len(figures), "missing": len(missing(grid))}


def _cell_row(results: Results, grid: Grid, cell: Cell) -> dict[str, Any]:
    arm = _arm_of(grid, cell)
    row = {"cell": cell.name, "shape": cell.shape, "arm": arm.label, "seed": cell.seed}
    trained = {"steps": cell.settings.get("steps"), "batch_rows": cell.settings.get("batch_rows")}
    return row | trained | {metric.id: metric.value(results, cell) for metric in METRICS} | _beside(results, cell)


def _beside(results: Results, cell: Cell) -> dict[str, float | None]:
    """What a cell's scores are to be read beside: the unigram model's bpb on the same tokens, and intervals over items."""
    beside = {"unigram_bpb": (results.json(cell, "bpb", "bpb.json") or {}).get("unigram_bpb")}
    for suite, file in SUITES.items():
        lo, hi = (results.json(cell, suite, file) or {}).get("interval") or (None, None)
        beside |= {f"{suite}_lo": lo, f"{suite}_hi": hi}
    return beside


def _arm_of(grid: Grid, cell: Cell) -> Arm:
    return next(arm for arm in grid.arms if cell in arm.cells.values())


def _write_tables(folder: Path, found: dict[str, list], curves: list) -> None:
    write_table(folder, "cells", found["cells"], _CELL_COLUMNS)
    write_table(folder, "metrics", found["metrics"], _METRIC_COLUMNS)
    write_table(folder, "tasks", found["tasks"], _TASK_COLUMNS)
    write_table(folder, "overhead", found["overhead"], _OVERHEAD_COLUMNS)
    write_table(folder, "savings", found["savings"], _SAVING_COLUMNS)
    write_table(folder, "conventions", found["conventions"], _CONVENTION_COLUMNS)
    write_table(folder, "equivalence", found["equivalence"], _EQUIVALENCE_COLUMNS)
    # a page of print holds the means over layers and the ends of the curves; the CSVs hold all
    write_table(folder, "alignment", found["layers"], _ATTENTION_COLUMNS, attention_means(found["layers"]))
    points = curve_rows(curves)
    ends = {(row["shape"], row["arm"], row["seed"]): row for row in points}
    write_table(folder, "curves", points, _CURVE_COLUMNS, list(ends.values()))


def _draw(folder: Path, found: dict[str, list], curves: list, gaps: list, grid: Grid) -> list[Drawn]:
    """Every figure that there are numbers for."""
    folder.mkdir(parents=True, exist_ok=True)
    colours = Colours(grid.labels)
    core, chatcore = ([row for row in found["tasks"] if row["suite"] == suite] for suite in ("core", "chatcore"))
    # diagnostics of an earlier form have no entropy
    looks = found["layers"] if any(row["measure"] == "entropy" for row in found["layers"]) else []
    drawings = (
        (found["metrics"], lambda rows: draw_metrics(folder, rows, colours)),
        (dose_rows(found["metrics"], grid), lambda rows: draw_doses(folder, rows)),
        (curves, lambda rows: draw_loss(folder, rows, colours)),
        (gaps, lambda rows: draw_gap(folder, rows, colours)),
        (found["validation"], lambda rows: draw_validation(folder, rows, colours)),
        (found["look_gaps"], lambda rows: draw_look_gaps(folder, rows, found["savings"], colours)),
        (found["layers"], lambda rows: draw_alignment(folder, rows, colours)),
        (found["layers"], lambda rows: draw_diagonal(folder, rows, colours)),
        (found["positions"], lambda rows: draw_alignment_positions(folder, rows, colours)),
        (looks, lambda rows: draw_looks(folder, rows, colours)),
        (found["positions"], lambda rows: draw_looks_positions(folder, rows, colours)),
        (found["along_training"], lambda rows: draw_alignment_training(folder, rows, colours)),
        (core, lambda rows: draw_tasks(folder, "core", rows, colours)),
        (chatcore, lambda rows: draw_tasks(folder, "chatcore", rows, colours)),
        (found["overhead"], lambda rows: draw_overhead(folder, rows, colours)),
        (gaps, lambda rows: draw_conventions(folder, rows, colours)),
    )
    return [draw(rows) for rows, draw in drawings if rows]


def _summary(
    settings: AnalyseStage, results: Results, grid: Grid, found: dict[str, list], figures: list[Drawn]
) -> dict[str, Any]:
    """Everything that the page says in words or small tables."""
    colours = Colours(grid.labels)
    arms = [
        {
            "shape": arm.shape,
            "label": arm.label,
            "is_baseline": arm.is_baseline,
            "factors": arm.factors,
            "seeds": arm.seeds,
            "cells": [arm.cells[seed].name for seed in arm.seeds],
            "colour": colours.colour(arm.label),
            "training": {str(seed): notes for seed, notes in training_notes(results, arm).items()},
        }
        for shape in grid.shapes
        for arm in grid.arms_of(shape)
    ]
    places = {
        cell.name: {name: getattr(cell, name) for name in ("factors", "settings", "results", "data")}
        for cell in grid.cells
    }
    return {
        "study": settings.study,
        "title": settings.title,
        "question": settings.question,
        "factors": {name: list(values) for name, values in settings.factors.items()},
        "baseline": settings.baseline,
        "shapes": grid.shapes,
        "arms": arms,
        "cells": [row | places[row["cell"]] for row in found["cells"]],
        "metrics": found["metrics"],
        "tasks": found["tasks"],
        "attention": attention_means(found["layers"]),
        "overhead": found["overhead"],
        "equivalence": found["equivalence"],
        "savings": found["savings"],
        "conventions": found["conventions"],
        "stability": stability(results, grid),
        "logging": artefact_rows(results, grid),
        "streams": data_streams(results, grid),
        "environment": environment(results),
        "missing": missing(grid),
        "not_taken": not_taken(grid),
        "lacking": list(settings.lacking),
        "uncompared": [{"shape": arm.shape, "arm": arm.label} for arm in grid.uncompared()],
        "method": {"smoothing": SMOOTHING, "confidence": CONFIDENCE, "resamples": RESAMPLES},
        "figures": [figure.name for figure in figures],
    }
