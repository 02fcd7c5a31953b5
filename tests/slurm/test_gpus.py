"""A training of several GPUs on SLURM: what the study asks for reaches the job, its processes meet on one node or on two, and
the loss of one of them costs no more than the steps since the last save."""

from __future__ import annotations

import copy
import json
import os
import re
import signal

import pytest

from tests.slurm.cluster import processes
from tests.slurm.ordeals import begun, log
from tests.slurm.project import SlurmProject, copied, hashes, training
from tests.workflow.conftest import RECIPE, STUDY


@pytest.fixture(scope="module")
def two_gpus(slurm, tmp_path_factory) -> SlurmProject:
    """A study whose one training asks for two GPUs, its data made, under the profile as it is given."""
    project = SlurmProject.new(tmp_path_factory.mktemp("gpus") / "project")
    project.cluster = slurm
    (project.root / "slurm").symlink_to("profiles/slurm")
    recipe = copy.deepcopy(RECIPE)
    recipe["settings"]["data"] |= {"documents_per_shard": 1500, "tokens_per_shard": 40_000}
    recipe["settings"] |= {"horizon": {"steps": 200, "batch_tokens": 256}, "validation": {"every": 100, "rows": 4}}
    project.write("config/recipes/mini.yaml", recipe)
    run = {"threads": 1, "gpus": 2, "save_minutes": 0.01}
    project.write("config/studies/mini.yaml", STUDY | {"factors": {"xsa.alpha": [1]}, "baseline": {}, "run": run})
    project.with_own_code()
    project.settle_lock()
    done = project.snakemake(training(project), "--until", "rows")
    assert done.returncode == 0, done.stdout + done.stderr
    return project


@pytest.fixture(scope="module")
def trained(two_gpus, tmp_path_factory) -> SlurmProject:
    """The study with its training made by SLURM, undisturbed."""
    project = copied(two_gpus, tmp_path_factory.mktemp("trained") / "project")
    project.site(gpu_type="h100")
    project.drive(training(project)).succeed()
    return project


def made(project: SlurmProject) -> dict:
    return json.loads((project.root / training(project)).read_text())["made"]


def test_a_training_of_two_gpus_is_two_processes_of_one_task(trained, slurm):
    said = made(trained)
    assert said["notes"]["processes"] == 2
    told = slurm.job(said["slurm_job"])
    assert (told["Partition"], told["NumNodes"], told["NumTasks"], told["CPUs/Task"]) == ("gpu", "1", "1", "2"), told
    assert "gres:gpu:h100:2" in told["TresPerNode"]
    (task,) = [task for task in slurm.tasks() if task[0] == said["slurm_job"] and task[1] != "batch"]
    assert len(set(task[3].split(","))) == 2 and said["visible_devices"] == task[3]


def test_gpus_on_two_nodes_are_a_process_on_each_that_meet_by_the_jobs_nodes(two_gpus, trained, slurm, tmp_path):
    project = copied(two_gpus, tmp_path / "project")
    project.site(gpu_partition="failing", gpus_per_node=1)
    project.profile(retries=0)
    project.drive(training(project)).succeed()
    said = made(project)
    assert said["notes"]["processes"] == 2
    told = slurm.job(said["slurm_job"])
    assert (told["NumNodes"], told["NodeList"]) == ("2", "g[3-4]"), told
    tasks = [task for task in slurm.tasks() if task[0] == said["slurm_job"]]
    assert sorted(number for _, step, number, _ in tasks if step == "1") == ["0", "1"], tasks
    assert hashes(project) == hashes(trained)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_training_that_loses_one_of_two_processes_ends_in_the_same_weights(two_gpus, trained, tmp_path, rank):
    project = copied(two_gpus, tmp_path / "project")
    driver, run = begun(project)
    (victim,) = [one.pid for one in processes() if {f"SLURM_JOB_ID={run.job}", f"RANK={rank}"} <= set(one.environment)]
    os.kill(victim, signal.SIGKILL)
    text = driver.succeed()
    assert hashes(project) == hashes(trained), text
    assert re.search(r"goes on after step \d+ of 200", log(project)), f"began again:\n{log(project)}\n{text}"
