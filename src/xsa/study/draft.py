"""The page of a study that is half done: its analysis over the results that are there, and what it lacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from xsa.store.errors import UserError
from xsa.store.record import RECORD
from xsa.study.plan import Cell, Plan
from xsa.study.result import Result


def draft(plan: Plan, results: Path) -> tuple[Result, Result]:
    """The analysis and the report of the results of `plan` that are recorded under `results`, entered into the plan.

    Where all are there these are the study's own. UserError where not one measurement or training is.
    """
    cells, lacking = [], []
    for cell in plan.cells:
        there = {stage: one for stage, one in cell.results.items() if (one.folder(results) / RECORD).exists()}
        lacking += [{"cell": cell.label, "stage": stage} for stage in cell.results if stage not in there]
        cells.append(_with(cell, there))
    if not any(cell.results for cell in cells):
        raise UserError(
            f"nothing of the study {plan.study.name!r} is under {results} yet; run it first, `xsa plan {plan.study.name}` says "
            "what that takes"
        )
    analyse = plan.analysis_of(cells, tuple(lacking)) if lacking else plan.analyse
    return analyse, plan.report_of(analyse)


def _with(cell: Cell, there: dict[str, Result]) -> Cell:
    return replace(cell, results=there, trained=cell.checkpoint.recipe["settings"])
