"""A study's cells as a person or a program reads them."""

from __future__ import annotations

import json
from pathlib import Path

from xsa.study.architecture import flops_per_token, parameter_counts
from xsa.study.forecast import GPU_FLOPS, UTILISATION
from xsa.study.plan import Cell, Plan
from xsa.study.result import Result

# More results of one stage than this are shown as one line.
FOLDED = 12


def cells_as_text(plan: Plan, results: Path) -> str:
    """One block a cell: where it stands in the grid, what it costs, and its results, finished ones marked."""
    lines = [f"{plan.study.name}: {plan.study.title}", _totals(plan, results), ""]
    for cell in plan.cells:
        factors = ", ".join(f"{path} {value}" for path, value in cell.factors.items())
        lines.append(f"{cell.label}  ({cell.shape}; {factors})")
        lines.append(f"  {parameter_counts(cell.checkpoint.settings.model)['total']:,} parameters, {_training(cell)}")
        lines += [f"  {_mark(result, results)} {stage:<12} {result.key}" for stage, result in cell.results.items()]
        lines.append("")
    shown = {(result.stage, result.key) for cell in plan.cells for result in cell.results.values()}
    lines.append("shared by all of them")
    shared: dict[str, list[Result]] = {}
    for key, result in plan.results.items():
        if key not in shown:
            shared.setdefault(result.stage, []).append(result)
    for stage, found in shared.items():
        if len(found) > FOLDED:
            there = sum(_mark(result, results) == "✓" for result in found)
            lines.append(f"    {stage:<12} {len(found)} results, {there} there: {found[0].key} … {found[-1].key}")
        else:
            lines += [f"  {_mark(result, results)} {stage:<12} {result.key}" for result in found]
    lines += ["", "✓ there   · to be made"]
    return "\n".join(lines)


def _training(cell: Cell) -> str:
    """What training the cell takes."""
    if "pretrain" not in cell.results:
        return f"trained elsewhere: {cell.settings.imported.path}"
    told = cell.results["pretrain"].settings
    batch = told.batch_rows * told.model.sequence_len
    tokens = told.steps * batch
    return (
        f"{told.steps:,} steps of {batch:,} tokens = {tokens:,} tokens, {tokens * flops_per_token(told.model):.2e} FLOPs, "
        f"{told.dtype}{', compiled' if told.compile else ''}"
    )


def _totals(plan: Plan, results: Path) -> str:
    """How many cells and results there are, and what training all of them computes."""
    trained = {one.key: one.settings for cell in plan.cells if (one := cell.results.get("pretrain"))}
    flops = sum(
        told.steps * told.batch_rows * told.model.sequence_len * flops_per_token(told.model)
        for told in trained.values()
    )
    there = sum(_mark(result, results) == "✓" for result in plan.results.values())
    text = f"{len(plan.cells)} cells, {len(plan.results)} results, {there} of them there; training computes {flops:.2e} FLOPs"
    if plan.study.run.requires == "cuda":
        rate, share = GPU_FLOPS["H100"], UTILISATION["pretrain"]
        text += (
            f", about {flops / (rate * share) / 3600:,.0f} H100-hours at {share:.0%} of its {rate / 1e12:.0f} TFLOP/s"
        )
    return text


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
