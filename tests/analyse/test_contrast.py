"""Cells, results and studies held against each other outside a study's own comparisons."""

from __future__ import annotations

import pytest

from xsa.analyse.compare import metric_rows
from xsa.analyse.contrast import contrast_cells, contrast_results, contrast_studies
from xsa.analyse.headline import headline


def cell_of(study, alpha, seed=0):
    return next(c for c in study.grid.cells if c.factors["xsa.alpha"] == alpha and c.seed == seed)


def test_two_cells_differ_as_the_same_arms_of_one_seed_do(small):
    one = small()
    pair = [cell_of(one, alpha).name for alpha in (0, 1)]
    found = contrast_cells(one.study.settings, pair[0], one.study.settings, pair[1], one.root / "results")
    expected = metric_rows(one.results, one.grid)
    numbers = ("metric", "baseline_mean", "arm_mean", "delta", "item_lo", "item_hi", "verdict")
    assert [[row[name] for name in numbers] for row in found] == [[row[name] for name in numbers] for row in expected]
    assert {"bpb", "core", "chatcore"} <= {row["metric"] for row in found}


def test_a_score_keeps_its_own_interval_over_items(small):
    one = small()
    pair = [cell_of(one, alpha).name for alpha in (0, 1)]
    rows = contrast_cells(one.study.settings, pair[0], one.study.settings, pair[1], one.root / "results")
    core = next(row for row in rows if row["metric"] == "core")
    told = [one.results.json(cell_of(one, alpha), "core", "core.json").get("interval") for alpha in (0, 1)]
    assert [core["baseline_interval"], core["arm_interval"]] == told


def test_what_one_cell_has_not_measured_is_left_out(small):
    one = small(drop=(f"core/{cell_of(small(), 1).name}",))
    pair = [cell_of(one, alpha).name for alpha in (0, 1)]
    rows = contrast_cells(one.study.settings, pair[0], one.study.settings, pair[1], one.root / "results")
    assert "core" not in {row["metric"] for row in rows} and "bpb" in {row["metric"] for row in rows}


def test_two_studies_are_paired_by_arm_and_seed(study):
    """A second study whose baseline cells are the first one's cells with the projection."""
    with_xsa = {(c.shape, c.seed): c for c in study.grid.cells if c.factors["xsa.alpha"] == 1}
    cells = [dict(entry) for entry in study.study.settings.cells if entry["factors"]["xsa.alpha"] == 0]
    for entry in cells:
        twin = with_xsa[entry["shape"], entry["factors"]["seed"]]
        entry |= {"cell": twin.name, "settings": twin.settings, "results": twin.results}
    other = study.study.settings.model_copy(update={"cells": tuple(cells)})
    found = contrast_studies(study.study.settings, other, study.root / "results")
    expected = {(row["shape"], row["metric"]): row for row in metric_rows(study.results, study.grid)}
    assert len(found) == len(expected)
    for row in found:
        same = expected[row["shape"], row["metric"]]
        for name in ("delta", "seed_lo", "seed_hi", "item_lo", "item_hi", "n_seeds", "verdict"):
            assert row[name] == same[name]


def test_a_study_held_against_itself_has_nothing_to_show(study):
    assert contrast_studies(study.study.settings, study.study.settings, study.root / "results") == []


def test_two_results_of_a_measurement_are_held_against_each_other(small):
    one = small()
    folders = [one.results.folder(cell_of(one, alpha), "bpb") for alpha in (0, 1)]
    (row,) = contrast_results(*folders)
    assert row["metric"] == "bpb" and row["item_lo"] <= row["delta"] <= row["item_hi"]


def test_results_without_a_metric_show_their_numbers_side_by_side(small):
    one = small()
    folder = one.results.folder(cell_of(one, 1), "overhead")
    rows = contrast_results(folder, folder)
    assert rows and all(row["baseline_mean"] == row["arm_mean"] for row in rows)


@pytest.mark.parametrize("stage", ["pretrain", "bpb", "core", "chatcore", "attention", "overhead"])
def test_every_measurement_has_numbers_that_it_is_known_by(small, stage):
    one = small()
    numbers = headline(one.results.folder(cell_of(one, 1), stage), stage)
    assert numbers and all(isinstance(number.value, int | float) for number in numbers)


def test_a_result_whose_file_is_gone_has_no_numbers(small):
    one = small()
    folder = one.results.folder(cell_of(one, 1), "bpb")
    (folder / "bpb.json").unlink()
    assert headline(folder, "bpb") == []
