"""The page sets what work was predicted to take beside what it took."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.report.test_report import section

from xsa.report.forecasts import forecasts
from xsa.report.reading import read_analysis
from xsa.study.architecture import ModelConfig, flops_per_token


@pytest.fixture
def copied(analysed, tmp_path):
    """A copy of the analysed study with its records, to be changed."""
    shutil.copytree(analysed.parents[1], tmp_path / "results")
    return tmp_path / "results" / "analyse" / analysed.name


def records(analysis, stage):
    return sorted((analysis.parents[1] / stage).glob("*/record.json"))


def edit(path, change):
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def trained(analysis):
    return {row["stage"]: row for row in forecasts(read_analysis(analysis))}.get("pretrain")


def test_training_is_predicted_by_its_operations_and_held_against_its_time(analysed):
    row = trained(analysed)
    settings = json.loads(records(analysed, "pretrain")[0].read_text())["recipe"]["settings"]
    model = ModelConfig.model_validate(settings["model"])
    flops = settings["steps"] * settings["batch_rows"] * 2048 * flops_per_token(model)
    assert row["results"] == 4 and row["predicted"] == pytest.approx(4 * (3 + flops / (0.4 * 989e12)))
    assert (
        row["ratio"] == pytest.approx(row["actual"] / row["predicted"])
        and "rate of Fabricated GPU is not known" in row["said"]
    )


def test_time_counts_every_device_of_a_job(copied):
    before = trained(copied)["actual"]
    for path in records(copied, "pretrain"):
        edit(path, lambda record: record["made"]["notes"].update(processes=8))
    assert trained(copied)["actual"] == pytest.approx(8 * before)


def test_the_prediction_does_not_know_what_was_measured(copied):
    before = trained(copied)["predicted"]
    for path in records(copied, "pretrain"):
        edit(path, lambda record: record["made"].update(wall_seconds=1e6, notes={}))
    row = trained(copied)
    assert row["predicted"] == before and row["actual"] == pytest.approx(4e6)


def test_an_adopted_result_was_not_made_here(copied):
    for path in records(copied, "pretrain"):
        edit(path, lambda record: record.update(adopted={"why": "trained elsewhere"}))
    assert trained(copied) is None


def test_a_copy_without_records_shows_no_table(copied):
    for folder in copied.parents[1].iterdir():
        if folder.name != "analyse":
            shutil.rmtree(folder)
    assert forecasts(read_analysis(copied)) == []


def test_the_page_shows_prediction_actual_time_and_ratio(tree):
    told = section(tree, "provenance")
    assert "What it was predicted to take" in told and "Predicted by" in told and "40 % of H100's 989 TFLOP/s" in told
