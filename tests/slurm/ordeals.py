"""What a cluster does to a training, and the user's command that follows. Each returns what the drivers printed."""

from __future__ import annotations

import json
import os
import re
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
    # The second job must come while the first is at work.
    os.kill(run.pid, signal.SIGSTOP)
    driver.signal(signal.SIGKILL)
    driver.wait()
    second = project.drive(training(project))
    try:
        waiting = _behind(project, run.job)
    finally:
        os.kill(run.pid, signal.SIGCONT)
    text = second.succeed()
    assert f"SLURM job {run.job} already" in text, text
    assert project.cluster.job(waiting)["JobState"] == "COMPLETED"
    assert _maker(project) == run.job, "trained twice"
    assert "was made by another job" not in log(project) and "waits: " not in log(project)
    return text


@ordeal
def kill_of_the_driver_and_of_its_job(project):
    driver, run = begun(project)
    driver.signal(signal.SIGKILL)
    driver.wait()
    os.kill(run.pid, signal.SIGSTOP)
    second = project.drive(training(project))
    waiting = _behind(project, run.job)
    os.kill(run.pid, signal.SIGKILL)
    text = second.succeed()
    assert _maker(project) == waiting, text
    return text


@ordeal
def kill_of_the_driver_of_a_job_in_the_queue(project):
    project.profile(slurm_partition="crowded")
    sleep = ("--partition=crowded", "--gres=gpu:1", "--output=/dev/null", "--wrap=exec sleep 600")
    other = project.cluster.run("sbatch", "--parsable", *sleep).strip()
    driver = project.drive(training(project))
    first = wait_for(lambda: re.search(r"has been submitted with SLURM jobid (\d+)", driver.text()), 300, "no job")[1]
    driver.signal(signal.SIGKILL)
    driver.wait()
    second = project.drive(training(project))
    waiting = _behind(project, first)
    assert project.cluster.job(first)["JobState"] == "PENDING" and int(first) < int(waiting)
    project.cluster.run("scancel", other)
    text = second.succeed()
    assert _maker(project) == first, text
    return text


def _behind(project: SlurmProject, first: str) -> str:
    """The job that SLURM keeps in its queue until the job `first` has ended."""

    def found() -> str | None:
        told = project.cluster.run("squeue", "--noheader", "--states=PENDING", "--format=%A|%r|%E|%Z").splitlines()
        rows = [line.split("|") for line in told]
        behind = [row for row in rows if f"afterany:{first}(" in row[2] and row[3] == str(project.root)]
        assert all(row[1] == "Dependency" for row in behind), told
        return behind[0][0] if behind else None

    return wait_for(found, 300, f"no job waits for {first}")


def _maker(project: SlurmProject) -> str:
    """The job that the training's record names."""
    (record,) = project.root.glob("results/pretrain/*/record.json")
    return json.loads(record.read_text())["made"]["slurm_job"]


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
