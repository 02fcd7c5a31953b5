"""A study on SLURM: to its report by the user's own command, each job with what it asked for, by the code of its start."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from tests.slurm.cluster import wait_for
from tests.slurm.project import GPU_STAGES, SlurmProject, copied, training
from tests.workflow.conftest import RECIPE, STUDY

# Without what is slow: the chat model, and CORE.
EVALUATE = {"core": False, "chatcore": False}


@pytest.fixture(scope="session")
def reported(slurm, outcomes, tmp_path_factory) -> tuple[SlurmProject, str]:
    """The miniature study run to its page by SLURM alone, with what the driver printed, while other tests' jobs run too."""
    project = SlurmProject.new(tmp_path_factory.mktemp("reported") / "project")
    project.cluster = slurm
    project.use_gpus()
    project.write("config/recipes/mini.yaml", RECIPE)
    project.write("config/studies/mini.yaml", STUDY | {"settings": {"evaluate": EVALUATE}})
    project.with_own_code()
    project.settle_lock()
    project.profile(gres="'gpu:h100:2'")
    return project, project.drive("results/mini/report.html").succeed(1200)


def test_the_users_command_ends_with_the_report(reported):
    project, text = reported
    assert (project.root / "results/mini/report.html").stat().st_size > 10_000, text


def test_each_gpu_job_is_one_task_with_the_devices_that_it_asked_for(reported, slurm):
    project, _ = reported
    made = [json.loads(path.read_text()) for path in project.root.glob("results/*/*/record.json")]
    jobs = {one["made"]["slurm_job"]: one["stage"] for one in made if one["stage"] in GPU_STAGES}
    assert set(jobs.values()) == set(GPU_STAGES)
    tasks = [task for task in slurm.tasks() if task[0] in jobs and task[1] != "batch"]
    assert sorted(task[0] for task in tasks) == sorted(jobs), "one task a job"
    for job, _, number, devices in tasks:
        told = slurm.job(job)
        asked = 2 if jobs[job] == "pretrain" else 1
        assert (number, told["NumTasks"], len(set(devices.split(",")))) == ("0", "1", asked), told


def test_shards_and_their_encoding_are_submitted_together(reported):
    project, text = reported
    made = [json.loads(path.read_text()) for path in project.root.glob("results/*/*/record.json")]
    jobs = {
        stage: {one["made"]["slurm_job"] for one in made if one["stage"] == stage}
        for stage in ("shard", "tokens", "rows")
    }
    assert len(jobs["shard"]) == 1 and len(jobs["tokens"] | jobs["rows"]) == 1, text


def test_jobs_run_the_code_and_settings_of_the_start_whatever_is_edited_while_they_wait(prepared, tmp_path, slurm):
    project = copied(prepared, tmp_path / "project")
    project.profile(slurm_partition="held")
    wanted = training(project)
    slurm.run("scontrol", "update", "PartitionName=held", "State=DOWN")
    try:
        driver = project.drive(wanted)
        wait_for(lambda: "has been submitted" in driver.text(), 300, "nothing submitted")
        study = project.root / "config/studies/mini.yaml"
        study.write_text(study.read_text().replace("- 1\n", "- 0.5\n"))
        assert yaml.safe_load(study.read_text())["factors"]["xsa.alpha"] == [0.5]
        for broken in (
            "installed/xsa/train/loop.py",
            "installed/xsa/study/workflow.py",
            "Snakefile",
            "rules/train.smk",
        ):
            (project.root / broken).write_text("raise RuntimeError('edited')\n")
    finally:
        slurm.run("scontrol", "update", "PartitionName=held", "State=UP")
    driver.succeed()
    record = json.loads((project.root / wanted).read_text())
    assert record["recipe"]["settings"]["model"]["alpha"] == 1
    (snapshot,) = {path.name for path in (project.root / "results/.code").iterdir()}
    assert record["made"]["snapshot"] == snapshot
    assert re.fullmatch("[0-9a-f]{12}", snapshot)
