"""What a cluster does to a training, and the user's command that follows. Each returns what the drivers printed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.slurm.cluster import processes, wait_for
from tests.slurm.project import Driver, SlurmProject, training

ORDEALS: dict[str, Callable[[SlurmProject], str]] = {}


def ordeal(function: Callable[[SlurmProject], str]) -> Callable[[SlurmProject], str]:
    """Enter a function that trains through some trouble."""
    ORDEALS[function.__name__] = function
    return function


class Running:
    """A training that has saved a state, by its lock."""

    def __init__(self, project: SlurmProject, driver: Driver, states: int = 1):
        def ready() -> bool:
            assert driver.process.poll() is None, driver.text()
            return len(list(project.root.glob("results/.state/pretrain/*/step_*"))) >= states

        wait_for(ready, 300, f"no state saved by {driver.output}")
        (lock,) = project.root.glob("results/.locks/pretrain-*.lock")
        holder = json.loads(lock.read_text())
        self.pid, self.job = holder["pid"], holder["slurm_job"]


def begun(project: SlurmProject, states: int = 1) -> tuple[Driver, Running]:
    """The study started on SLURM, and its training once it has saved a state."""
    driver = project.drive(training(project))
    return driver, Running(project, driver, states)


def log(project: SlurmProject) -> str:
    """What the training says; nothing while a new job has put the log away."""
    return "".join(path.read_text() for path in project.root.glob("results/.logs/pretrain/*.log"))


@ordeal
def scancel(project):
    driver, run = begun(project)
    project.cluster.run("scancel", run.job)
    return driver.succeed()


@ordeal
def time_limit(project):
    project.profile(runtime=1, slurm_extra="'--open-mode=append'")
    driver, run = begun(project)
    # As if the training were long: it stands still until the limit, when SLURM wakes it to tell it.
    os.kill(run.pid, signal.SIGSTOP)
    wait_for(lambda: project.cluster.job(run.job).get("JobState") == "TIMEOUT", 300, "no time limit")
    return driver.succeed()


@ordeal
def requeue(project):
    driver, run = begun(project)
    project.cluster.run("scontrol", "requeue", run.job)
    return driver.succeed()


@ordeal
def preemption(project):
    project.profile(slurm_partition="spare")
    driver, _ = begun(project)
    project.cluster.run("sbatch", "--partition=urgent", "--gres=gpu:2", "--output=/dev/null", "--wrap=sleep 2")
    return driver.succeed()


@ordeal
def kill_of_the_trainer(project):
    driver, run = begun(project)
    os.kill(run.pid, signal.SIGKILL)
    return driver.succeed()


@ordeal
def kill_of_the_jobs_shell(project):
    driver, run = begun(project)
    (shell,) = [one.pid for one in processes() if f"job{int(run.job):05d}/slurm_script" in one.command]
    os.kill(shell, signal.SIGKILL)
    return driver.succeed()


@ordeal
def interrupt_of_the_driver(project):
    return _driver_gone(project, signal.SIGINT)


@ordeal
def termination_of_the_driver(project):
    return _driver_gone(project, signal.SIGTERM)


def _driver_gone(project: SlurmProject, number: signal.Signals) -> str:
    driver, _ = begun(project)
    driver.signal(number)
    driver.wait()
    return driver.text() + project.drive(training(project)).succeed()


@ordeal
def kill_of_the_driver(project):
    driver, run = begun(project)
    # The second job must find the first at work.
    os.kill(run.pid, signal.SIGSTOP)
    driver.signal(signal.SIGKILL)
    driver.wait()
    second = project.drive(training(project))
    try:
        wait_for(lambda: "waits: " in log(project), 300, "the second job does not wait")
    finally:
        os.kill(run.pid, signal.SIGCONT)
    text = second.succeed()
    (record,) = project.root.glob("results/pretrain/*/record.json")
    assert json.loads(record.read_text())["made"]["slurm_job"] == run.job, "trained twice"
    return text


@ordeal
def full_disk(project):
    project.profile(retries=0)
    results, before = project.root / "results", project.root / "before"
    results.rename(before)
    results.mkdir()
    size = sum(path.stat().st_size for path in before.rglob("*")) + 40_000_000
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "xsa-test", str(results)], check=True)
    try:
        shutil.copytree(before, results, dirs_exist_ok=True)
        driver, run = begun(project)
        os.kill(run.pid, signal.SIGSTOP)
        with pytest.raises(OSError, match="No space"), open(results / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(b"0" * 65536)
        os.kill(run.pid, signal.SIGCONT)
        assert driver.wait() != 0
        assert "the disk is full" in driver.text(), driver.text()
        (results / "filler").unlink()
        text = driver.text() + project.drive(training(project)).succeed()
        shutil.copytree(results, project.root / "kept")
    finally:
        subprocess.run(["umount", "--lazy", str(results)], check=True)
    results.rmdir()
    (project.root / "kept").rename(results)
    return text


@ordeal
def half_written_states(project):
    project.profile(retries=0)
    driver, run = begun(project, states=2)
    os.kill(run.pid, signal.SIGKILL)
    assert driver.wait() != 0
    newest = max(project.root.glob("results/.state/pretrain/*/step_*"))
    os.truncate(newest / "model.safetensors", 1000)
    shutil.copytree(newest, newest.with_name(".step_00009999.part"))
    return driver.text() + project.drive(training(project)).succeed()


@ordeal
def node_down(project):
    project.profile(slurm_partition="failing")
    driver, run = begun(project)
    project.cluster.lose(project.cluster.job(run.job)["NodeList"], run.job)
    return driver.succeed()
