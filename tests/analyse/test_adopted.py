"""Every number that rests on an adopted checkpoint is marked, and no other."""

from __future__ import annotations

import json

import pytest

from xsa.analyse.adopted import adopted_cells, mark
from xsa.analyse.arms import read_grid
from xsa.analyse.compare import metric_rows, task_rows
from xsa.analyse.results import Results

ADOPTED = {
    "from": "/elsewhere/pretrain/a@0123456789",
    "differences": [{"field": "seed", "cell": "0", "checkpoint": "7"}],
    "why": "lent by a friend",
    "at": "2026-01-01T00:00:00+00:00",
}


def adopt(found, stage, cell, without=()):
    """Make the `stage` result of `cell` an adopted one that came without some of its files."""
    name = next(one for one in found.grid.cells if one.name == cell).results[stage]
    folder = next(folder for folder in found.study.inputs[stage] if folder.name == name)
    record = json.loads((folder / "record.json").read_text()) | {"adopted": ADOPTED}
    for file in without:
        (folder / file).unlink()
        del record["files"][file]
    (folder / "record.json").write_text(json.dumps(record))
    found.results = Results(found.study.job(found.root / "again"))


def marked(found):
    rows = {
        "cells": [{"cell": cell.name} for cell in found.grid.cells],
        "metrics": metric_rows(found.results, found.grid),
        "tasks": task_rows(found.results, found.grid),
        "layers": [],
        "validation": [],
    }
    mark(rows, found.grid, adopted_cells(found.results, found.grid))
    return rows


def test_a_study_without_any_is_left_as_it_was(study):
    rows = {"metrics": metric_rows(study.results, study.grid)}
    assert adopted_cells(study.results, study.grid) == []
    mark(rows, study.grid, [])
    assert not any("adopted" in row for row in rows["metrics"])


@pytest.mark.parametrize(("alpha", "side"), [(0, "baseline"), (1, "arm")])
def test_a_pretrained_checkpoint_marks_all_that_was_measured_on_it(small, alpha, side):
    found = small(shapes=2)
    adopt(found, "pretrain", f"d12-alpha{alpha}-seed0")
    (entry,) = adopted_cells(found.results, found.grid)
    assert (entry["cell"], entry["why"], entry["stage"]) == (f"d12-alpha{alpha}-seed0", "lent by a friend", "pretrain")
    rows = marked(found)
    assert {row["adopted"] for row in rows["metrics"] if row["shape"] == "d12"} == {side}
    assert {row["adopted"] for row in rows["tasks"] if row["shape"] == "d12"} == {side}
    assert {row["adopted"] for row in rows["metrics"] + rows["tasks"] if row["shape"] == "d24"} == {""}
    fed = {row["cell"]: row["adopted"] for row in rows["cells"]}
    assert "bpb" in fed.pop(f"d12-alpha{alpha}-seed0") and not any(fed.values())


def test_a_fine_tuned_checkpoint_marks_the_chat_scores_alone(small):
    found = small()
    adopt(found, "finetune", "d12-alpha1-seed0")
    rows = marked(found)
    assert {row["metric"] for row in rows["metrics"] if row["adopted"]} == {"chatcore"}
    assert {row["suite"] for row in rows["tasks"] if row["adopted"]} == {"chatcore"}


def test_both_arms_may_rest_on_one(small):
    found = small()
    for alpha in (0, 1):
        adopt(found, "pretrain", f"d12-alpha{alpha}-seed0")
    assert {row["adopted"] for row in marked(found)["metrics"]} == {"both"}


def test_a_checkpoint_that_came_without_its_log_gives_no_curve_and_no_error(small):
    found = small()
    adopt(found, "pretrain", "d12-alpha1-seed0", without=("log.parquet", "validation.parquet"))
    assert read_grid(found.study.settings).cells
    assert not {"train_loss", "last_bpb"} & {row["metric"] for row in marked(found)["metrics"]}
