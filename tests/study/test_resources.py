"""What jobs ask of a machine: GPUs by the study or by operations, time by the forecast, places by the profile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from xsa.store.errors import UserError
from xsa.study.profile import read_profile
from xsa.study.project import Project
from xsa.study.resources import Requests, Site
from xsa.study.scheduling import Scheduling

ROOT = Path(__file__).parents[2]
SITE = Site(slurm_partition="cpu", gpu_partition="gpu", gpu_type="h100")


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    return Project(ROOT, tmp_path_factory.mktemp("results")).plan("paper")


@pytest.fixture
def requests(paper, tmp_path):
    """`requests(run={…}, site=…, here=…)` on the paper's study, with nothing recorded."""

    def build(site: Site = SITE, here: int | None = None, **run) -> Requests:
        study = paper.study.model_copy(
            update={"run": paper.study.run.model_validate({**paper.study.run.model_dump(), **run})}
        )
        plan = SimpleNamespace(study=study, cells=paper.cells, results=paper.results)
        return Requests(plan, tmp_path, site, here)

    return build


def of(paper, stage: str, shape: str):
    """The first cell's result of a stage and shape."""
    return next(cell.results[stage] for cell in paper.cells if cell.shape == shape)


def test_a_d12_takes_one_gpu_a_d24_eight_evaluations_one_and_data_none(paper, requests):
    asked = requests()
    assert asked.gpus(of(paper, "pretrain", "d12")) == 1
    assert asked.gpus(of(paper, "pretrain", "d24-written")) == asked.gpus(of(paper, "pretrain", "d24-measured")) == 8
    for shape in ("d12", "d24-measured"):
        assert {asked.gpus(of(paper, stage, shape)) for stage in ("bpb", "core", "chatcore", "attention")} == {1}
    shard = next(result for (stage, _), result in paper.results.items() if stage == "shard")
    assert (asked.gpus(shard), asked.gres(shard), asked.partition(shard), asked.memory_mb(shard)) == (
        0,
        None,
        "cpu",
        8000,
    )


def test_no_more_gpus_are_taken_than_there_are(paper, requests):
    largest = of(paper, "pretrain", "d24-measured")
    assert requests(here=3).gpus(largest) == 2, "a power of two, which divides the batch"
    assert requests(here=1).gpus(largest) == 1
    assert requests(site=Site(gpus_per_node=4)).gpus(largest) == 4


def test_a_number_in_the_study_goes_before_for_all_trainings_or_for_a_shape(paper, requests):
    asked = requests(gpus=2)
    assert {asked.gpus(of(paper, "pretrain", shape)) for shape in ("d12", "d24-written")} == {2}
    assert asked.gpus(of(paper, "core", "d12")) == 1
    asked = requests(gpus={"d12": 4})
    assert (asked.gpus(of(paper, "pretrain", "d12")), asked.gpus(of(paper, "pretrain", "d24-written"))) == (4, 8)
    assert asked.gpus(of(paper, "finetune", "d12")) == 4


def test_gpus_reach_slurm_as_one_request_a_node_with_cpus_and_memory(paper, requests):
    asked, result = requests(gpus=16, threads=6), of(paper, "pretrain", "d24-written")
    assert (asked.nodes(result), asked.gres(result), asked.partition(result)) == (2, "gpu:h100:8", "gpu")
    assert asked.threads(result) == 48
    assert asked.memory_mb(result) > requests(gpus=1).memory_mb(result) >= 32_000
    assert requests(site=Site(), gpus=1).gres(result) == "gpu:1"
    with pytest.raises(UserError, match=r"run\.gpus asks for 9 GPUs, which 2 nodes of 8 cannot share evenly"):
        requests(gpus=9).gres(result)


def test_the_time_limit_is_the_forecast_with_a_margin_doubled_with_each_attempt_up_to_the_sites(paper, requests):
    asked, result = requests(gpus=1), of(paper, "pretrain", "d12")
    forecast = asked._line(result).forecast.seconds / 60
    first = asked.minutes(result)
    assert 1.5 * forecast + 10 <= first <= 1.5 * forecast + 11
    assert [asked.minutes(result, attempt) for attempt in (2, 3)] == [2 * first, 4 * first]
    assert requests(site=Site(most_minutes=100), gpus=1).minutes(result, 4) == 100
    assert asked.minutes(result) > requests(gpus=8).minutes(result) > 10


def test_a_site_is_read_from_a_profile_and_a_wrong_number_is_named():
    profile = read_profile("slurm", ROOT)
    assert profile.site.gpu_partition == "gpu" and profile.site.gpus_per_node == 8
    with pytest.raises(UserError, match="gpus_per_node is 'many'; give a whole number"):
        Site.of({"gpus_per_node": "many"})


def asked_of(paper, tmp_path, local: bool, main: bool = True, **resources) -> dict:
    """What Snakemake is told of the d24's training; `resources` as a run's global limits."""
    result = of(paper, "pretrain", "d24-written")
    workflow = SimpleNamespace(
        local_exec=local,
        is_main_process=main,
        global_resources=dict(resources),
        resource_settings=SimpleNamespace(
            default_resources=yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())["default-resources"]
        ),
    )
    workflow.register_resource = lambda name, value: workflow.global_resources.update({name: value})
    scheduling = Scheduling(lambda stage, key: (paper, result), tmp_path)
    scheduling.limit_devices(workflow)
    functions = scheduling.resources("pretrain", workflow)
    wildcards = SimpleNamespace(result=result.key)
    found = {
        name: function(wildcards, attempt=1) if "attempt" in function.__code__.co_varnames else function(wildcards)
        for name, function in functions.items()
    }
    return found | {"limit": workflow.global_resources.get("devices")}


def test_a_cluster_is_told_all_a_machine_its_devices_and_a_submitted_job_only_what_it_needs(
    paper, tmp_path, monkeypatch
):
    monkeypatch.setenv("XSA_DEVICES", "0,1,2,3")
    cluster = asked_of(paper, tmp_path, local=False)
    assert (cluster["devices"], cluster["gres"], cluster["slurm_partition"]) == (8, "gpu:8", "gpu")
    assert cluster["runtime"] > 10 and cluster["cpus_per_task"] == 64 and cluster["limit"] is None
    machine = asked_of(paper, tmp_path, local=True)
    assert (machine["devices"], machine["limit"], machine["gres"], machine["runtime"]) == (4, 4, None, None)
    assert asked_of(paper, tmp_path, local=True, devices=16)["limit"] == 16, "what the user says goes before"
    inner = asked_of(paper, tmp_path, local=True, main=False)
    assert inner["devices"] == 8 and inner["gres"] is None and inner["runtime"] is None
