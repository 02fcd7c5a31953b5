"""A study's cells as a person or a program reads them."""

from __future__ import annotations

import json
from pathlib import Path

from xsa.study.architecture import flops_per_token, parameter_counts
from xsa.study.plan import Plan
from xsa.study.result import Result


def cells_as_text(plan: Plan, results: Path) -> str:
    """One block a cell: where it stands in the grid, what it costs, and its results, finished ones marked."""
    lines = [f"{plan.study.name}: {plan.study.title}", f"{len(plan.cells)} cells, {len(plan.results)} results", ""]
    for cell in plan.cells:
        told = cell.results["pretrain"].settings
        tokens = told.steps * told.batch_rows * told.model.sequence_len
        factors = ", ".join(f"{path} {value}" for path, value in cell.factors.items())
        lines.append(f"{cell.label}  ({cell.shape}; {factors})")
        lines.append(
            f"  {parameter_counts(told.model)['total']:,} parameters, {told.steps:,} steps of "
            f"{told.batch_rows * told.model.sequence_len:,} tokens = {tokens:,} tokens, "
            f"{tokens * flops_per_token(told.model):.2e} FLOPs, {told.dtype}{', compiled' if told.compile else ''}"
        )
        lines += [f"  {_mark(result, results)} {stage:<12} {result.key}" for stage, result in cell.results.items()]
        lines.append("")
    shown = {(result.stage, result.key) for cell in plan.cells for result in cell.results.values()}
    lines.append("shared by all of them")
    lines += [
        f"  {_mark(result, results)} {stage:<12} {key}"
        for (stage, key), result in plan.results.items()
        if (stage, key) not in shown
    ]
    lines += ["", "✓ there   · to be made"]
    return "\n".join(lines)


def cells_as_json(plan: Plan, results: Path) -> str:
    """Every cell with all its resolved settings."""
    cells = [
        {
            "cell": cell.label,
            "shape": cell.shape,
            "factors": cell.factors,
            "settings": cell.settings.model_dump(mode="json"),
            "results": {
                stage: {
                    "path": str(result.folder(results)),
                    "there": (result.folder(results) / "record.json").exists(),
                    "recipe": result.recipe,
                }
                for stage, result in cell.results.items()
            },
        }
        for cell in plan.cells
    ]
    return json.dumps({"study": plan.study.name, "cells": cells}, indent=1, ensure_ascii=False)


def _mark(result: Result, results: Path) -> str:
    return "✓" if (result.folder(results) / "record.json").exists() else "·"
