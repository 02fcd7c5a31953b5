"""Forecasts rest on what was measured, where something was, and say so."""

from __future__ import annotations

import copy

import pytest

from tests.study.conftest import RECIPE, STUDY
from tests.study.recording import record
from xsa.store.recorded import recorded_results
from xsa.study.cost import Cost
from xsa.study.forecast import device_seconds, estimate, gpu_rate
from xsa.study.outlook import outlook
from xsa.study.stages import STAGES

SPEED = {"tokens": 2560, "tokens_per_second": 100.0, "processes": 1}


@pytest.fixture
def results(project):
    return project.root / "results"


def first(plan, stage="pretrain"):
    return next(result for (name, _), result in plan.results.items() if name == stage)


def lines(project, results, stage):
    """What is to be made of a stage."""
    shown = outlook(project.plan(), results).lines
    return [line for line in shown if line.result.stage == stage and line.action.name == "run"]


def test_without_records_the_operations_decide(project, results):
    (line, *_) = lines(project, results, "pretrain")
    assert line.forecast.basis == "estimated" and "30 GFLOP/s" in line.forecast.said
    assert line.forecast.seconds == pytest.approx(3 + line.cost.flops / 3e10)


def test_training_of_the_same_shape_is_taken_at_its_measured_throughput(project, results):
    record(first(project.plan()), results, notes=SPEED, wall_seconds=1.0)
    (line, *_) = lines(project, results, "pretrain")
    assert line.forecast.basis == "measured" and line.forecast.seconds == pytest.approx(25.6)
    assert "1 record of this shape" in line.forecast.said


def test_the_median_of_several_records_counts(project, results):
    for result, speed in zip(
        [one for (stage, _), one in project.plan().results.items() if stage == "pretrain"], (50, 100, 800), strict=False
    ):
        record(result, results, notes=SPEED | {"tokens_per_second": speed})
    (line,) = lines(project, results, "pretrain")
    assert line.forecast.seconds == pytest.approx(25.6)


def test_another_shape_is_scaled_by_its_operations(project, results):
    record(first(project.plan()), results, notes=SPEED)
    small = lines(project, results, "pretrain")[0].cost.flops
    shapes = {**STUDY["shapes"], "d4": {"model": {"n_layer": 4, "n_embd": 64, "n_head": 2}}}
    project.study({**copy.deepcopy(STUDY), "shapes": shapes})
    line = next(line for line in lines(project, results, "pretrain") if line.result.label.startswith("d4"))
    assert line.forecast.basis == "nearest" and "measured at d2w32h2" in line.forecast.said
    assert line.forecast.seconds == pytest.approx(25.6 * line.cost.flops / small)


def test_evaluations_go_by_measured_seconds_scaled_by_work(project, results):
    record(first(project.plan(), "bpb"), results, wall_seconds=8.0)
    recipe = copy.deepcopy(RECIPE)
    recipe["settings"]["bpb"] = {"rows": 5120}
    project.recipe(recipe)
    (line, *_) = lines(project, results, "bpb")
    assert line.forecast.seconds == pytest.approx(4.0) and line.forecast.basis == "measured"


def test_records_of_a_cpu_say_nothing_of_a_gpu_nor_one_gpu_of_another(project, results):
    plan = project.plan()
    trained = [one for (stage, _), one in plan.results.items() if stage == "pretrain"]
    record(trained[0], results, notes=SPEED)
    record(trained[1], results, notes=SPEED, gpu="NVIDIA A100-SXM4-80GB")
    study = {**copy.deepcopy(STUDY), "run": {"requires": "cuda", "gpu": "H100"}}
    project.study(study)
    assert {line.forecast.basis for line in lines(project, results, "pretrain")} == {"estimated"}
    project.study({**study, "run": {"requires": "cuda", "gpu": "A100"}})
    (line, *_) = lines(project, results, "pretrain")
    assert line.forecast.basis == "measured" and line.gpu_hours == pytest.approx(25.6 / 3600) and line.cpu_hours == 0


def test_gpu_hours_count_every_gpu_of_a_job(project, results):
    record(first(project.plan()), results, notes=SPEED | {"processes": 8}, gpu="NVIDIA H100 80GB HBM3")
    project.study({**copy.deepcopy(STUDY), "run": {"requires": "cuda", "gpu": "H100"}})
    assert lines(project, results, "pretrain")[0].gpu_hours == pytest.approx(8 * 25.6 / 3600)


def test_the_price_is_the_studys(project, results):
    project.study({**copy.deepcopy(STUDY), "run": {"requires": "cuda", "gpu": "H100", "gpu_hour_price": 2.0}})
    totals = outlook(project.plan(), results).totals
    assert totals.cost == pytest.approx(2 * totals.gpu_hours) and totals.gpu_hours > 0


def test_a_local_copy_says_nothing_of_a_download(project, results):
    record(first(project.plan(), "shard"), results, wall_seconds=0.001)
    data = {"kind": "hub", "dataset": "a/b", "shards": 40, "tokens_per_shard": 10_000}
    project.study({**copy.deepcopy(STUDY), "settings": {"data": data}})
    assert {line.forecast.basis for line in lines(project, results, "shard")} == {"estimated"}


def test_nanochats_stock_depth_24_takes_the_time_that_was_seen():
    # 5.84B tokens of 4.78e9 operations on 8 H100s took 5934 s at 59 % (in fp8); at 40 %, in bf16, half as long again.
    forecast = estimate("pretrain", Cost(flops=5.84e9 * 4.78e9), "gpu", "NVIDIA H100 80GB HBM3")
    assert forecast.seconds == pytest.approx(8 * 5934 * 59 / 40, rel=0.02)


def test_a_resumed_training_is_measured_by_its_throughput_not_its_last_sitting():
    assert device_seconds("pretrain", {"wall_seconds": 1.0, "device": "cpu", "threads": 2, "notes": SPEED}) == 51.2
    assert device_seconds("core", {"wall_seconds": 3.0, "device": "cuda", "threads": 8, "notes": {}}) == 3.0
    assert device_seconds("core", {"notes": None}) is None


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("unheard of", "H100"),
    ],
)
def test_a_gpu_is_known_by_its_name(name, known):
    assert gpu_rate(name)[0] == known


def test_records_are_read_for_every_stage(project, results):
    record(first(project.plan(), "core"), results)
    assert {stage for stage, _ in recorded_results(results, STAGES)} == {"core"}
