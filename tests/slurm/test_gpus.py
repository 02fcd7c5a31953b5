"""A training of several GPUs on SLURM: what the study asks for reaches the job, and its processes meet on one node or on two."""

from __future__ import annotations

import json

import pytest

from tests.slurm.project import SlurmProject, copied, training
from tests.workflow.conftest import RECIPE, STUDY


@pytest.fixture(scope="module")
def two_gpus(slurm, tmp_path_factory) -> SlurmProject:
    """A study whose one training asks for two GPUs, its data made, under the profile as it is given."""
    project = SlurmProject.new(tmp_path_factory.mktemp("gpus") / "project")
    project.cluster = slurm
    (project.root / "slurm").symlink_to("profiles/slurm")
    project.write("config/recipes/mini.yaml", RECIPE)
    study = STUDY | {"factors": {"xsa.alpha": [1]}, "baseline": {}, "run": {"threads": 1, "gpus": 2}}
    project.write("config/studies/mini.yaml", study)
    project.with_own_code()
    project.settle_lock()
    run = project.snakemake(training(project), "--until", "rows")
    assert run.returncode == 0, run.stdout + run.stderr
    return project


def trained(project: SlurmProject) -> dict:
    """The record of the training, made by SLURM."""
    record = training(project)
    project.drive(record).succeed()
    return json.loads((project.root / record).read_text())["made"]


def test_a_training_of_two_gpus_is_two_processes_of_one_task(two_gpus, slurm, tmp_path):
    project = copied(two_gpus, tmp_path / "project")
    project.site(gpu_type="h100")
    made = trained(project)
    assert made["notes"]["processes"] == 2
    told = slurm.job(made["slurm_job"])
    assert (told["Partition"], told["NumNodes"], told["NumTasks"], told["CPUs/Task"]) == ("gpu", "1", "1", "2"), told
    assert "gres:gpu:h100:2" in told["TresPerNode"]
    (task,) = [task for task in slurm.tasks() if task[0] == made["slurm_job"] and task[1] != "batch"]
    assert len(set(task[3].split(","))) == 2 and made["visible_devices"] == task[3]


def test_gpus_on_two_nodes_are_a_process_on_each_that_meet_by_the_jobs_nodes(two_gpus, slurm, tmp_path):
    project = copied(two_gpus, tmp_path / "project")
    project.site(gpu_partition="failing", gpus_per_node=1)
    project.profile(retries=0)
    made = trained(project)
    assert made["notes"]["processes"] == 2
    told = slurm.job(made["slurm_job"])
    assert (told["NumNodes"], told["NodeList"]) == ("2", "g[3-4]"), told
    tasks = [task for task in slurm.tasks() if task[0] == made["slurm_job"]]
    assert sorted(number for _, step, number, _ in tasks if step == "1") == ["0", "1"], tasks
