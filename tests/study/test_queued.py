from __future__ import annotations

import json
import os
import socket
import subprocess
from types import SimpleNamespace

import pytest
from snakemake.resources import Resources

from xsa.store.lock import lock_path
from xsa.study import queued
from xsa.study.queued import Queue, wait_in_queue

KEY, OTHER = "d4-x@0123456789", "d4-y@0123456789"
ROOT = "/projects/mine"
SIGNAL = "--signal=TERM@300 --open-mode=append"


def row(job: int, key: str = KEY, stage: str = "pretrain", reason: str = "None", root: str = ROOT) -> str:
    """A job as squeue shows it."""
    return f"{job}|{reason}|rule_{stage}_wildcards_{key}|{root}\n"


def locked(results, job: str, stage: str = "pretrain", key: str = KEY, host: str = "node7") -> None:
    path = lock_path(results, stage, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"host": host, "pid": 1, "pid_started": "1", "slurm_job": job, "since": ""}))


def makers(results, told: str) -> dict:
    return Queue(ROOT, results, lambda: told).makers()


def test_jobs_of_the_same_folder_make_what_their_comments_say(tmp_path):
    told = row(7) + row(12) + row(9, OTHER, "bpb") + row(8, root="/projects/other") + "5|None|(null)|" + ROOT + "\n"
    assert makers(tmp_path, told) == {("pretrain", KEY): ["7", "12"], ("bpb", OTHER): ["9"]}


def test_a_lock_names_what_a_job_of_any_folder_makes_while_slurm_has_it(tmp_path):
    locked(tmp_path, "7")
    locked(tmp_path, "8", key=OTHER)
    lock_path(tmp_path, "bpb", KEY).write_text("{")
    assert makers(tmp_path, "7|None|(null)|/projects/other\n") == {("pretrain", KEY): ["7"]}


def test_what_a_process_that_is_gone_worked_on_is_not_waited_for_though_its_job_goes_on(tmp_path):
    locked(tmp_path, "7", host=socket.gethostname())
    locked(tmp_path, "8", key=OTHER)
    os.utime(lock_path(tmp_path, "pretrain", OTHER), (0, 0))
    assert makers(tmp_path, "7|None|(null)|/projects/other\n8|None|(null)|/projects/other\n") == {}


def test_the_allocation_that_the_driver_runs_in_is_not_waited_for(tmp_path, monkeypatch):
    locked(tmp_path, "7")
    monkeypatch.setattr(queued, "OWN", "7")
    assert makers(tmp_path, "7|None|(null)|/projects/other\n") == {}


NEVER = ["JobHeldUser", "JobHeldAdmin", "launch failed requeued held", "PartitionTimeLimit", "DependencyNeverSatisfied"]


@pytest.mark.parametrize("reason", NEVER)
def test_a_job_that_will_not_start_is_not_waited_for(tmp_path, reason):
    assert makers(tmp_path, row(7, reason=reason) + row(8, reason="Dependency")) == {("pretrain", KEY): ["8"]}


def test_slurm_is_asked_once_and_again_for_a_further_try(tmp_path, monkeypatch):
    answers = [row(7), row(8)]
    queue = Queue(ROOT, tmp_path, lambda: answers.pop(0))
    assert [queue.makers() for _ in range(3)] == 3 * [{("pretrain", KEY): ["7"]}]
    assert queue.makers(again=True) == {("pretrain", KEY): ["7"]}, "others have just asked"
    monkeypatch.setattr(queued, "FRESH_SECONDS", -1.0)
    assert queue.makers(again=True) == {("pretrain", KEY): ["8"]}


class Planned:
    """A workflow of three rules as Snakemake keeps it, and what SLURM is told of a job."""

    def __init__(self, executor: str = "slurm", main: bool = True, **extra: str):
        self.rules = [
            self.rule("pretrain", **extra),
            self.rule("shard", group="shards"),
            self.rule("publish"),
        ]
        self.workdir_init, self.is_main_process = ROOT, main
        self.executor_plugin = SimpleNamespace(name=executor)

    def rule(self, name: str, group: str | None = None, **extra: str) -> SimpleNamespace:
        resources = Resources.parser_factory(allow_expressions=True)([f"{key}={value}" for key, value in extra.items()])
        return SimpleNamespace(name=name, group=group, resources=resources)

    def extra(self, attempt: int = 1, key: str = KEY) -> str | None:
        """`slurm_extra` of a training."""
        found = self.rules[0].resources.get("slurm_extra")
        told = {"input": [], "attempt": attempt, "threads": 1, "rulename": "pretrain", "async_run": None}
        return None if found is None else found.evaluate(SimpleNamespace(result=key), **told).value


JOBS = [("pretrain", KEY), ("pretrain", OTHER), ("shard", KEY), ("all", None)]


@pytest.fixture
def squeue(tmp_path, monkeypatch):
    """Have a command stand in for SLURM's: it prints the text that the returned function is given, and counts its calls."""
    calls = tmp_path / "calls"

    def answer(text: str, code: int = 0):
        (tmp_path / "told").write_text(text)
        command = tmp_path / "squeue"
        command.write_text(f'#!/bin/sh\necho "$@" >> {calls}\ncat {tmp_path / "told"}\nexit {code}\n')
        command.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return lambda: calls.read_text().splitlines() if calls.exists() else []

    return answer


def test_a_job_is_told_to_wait_for_the_one_that_makes_its_result_and_of_the_profiles_signal(tmp_path, squeue):
    calls = squeue(row(7) + row(12) + row(13, stage="shard"))
    workflow = Planned(slurm_extra=f"'{SIGNAL}'")
    (line,) = wait_in_queue(workflow, JOBS, tmp_path / "results")
    assert line.startswith("pretrain d4-x  ") and "SLURM job 7 and 12" in line
    assert workflow.extra() == f"--dependency=afterany:7:12 {SIGNAL}"
    assert workflow.extra(key=OTHER) == SIGNAL
    assert "slurm_extra" not in workflow.rules[1].resources, "jobs of a group must all ask for the same"
    assert len(calls()) == 1
    assert workflow.extra(attempt=2) == f"--dependency=afterany:7:12 {SIGNAL}" and len(calls()) == 1


def test_a_profile_without_further_words_gets_the_dependency_alone(tmp_path, squeue):
    squeue(row(7))
    workflow = Planned()
    wait_in_queue(workflow, JOBS, tmp_path / "results")
    assert (workflow.extra(), workflow.extra(key=OTHER)) == ("--dependency=afterany:7", None)


def test_what_is_told_at_the_start_is_short_however_many_jobs_wait(tmp_path, squeue):
    keys = [f"d4-{number}@0123456789" for number in range(30)]
    squeue("".join(row(number, key) for number, key in enumerate(keys, 1)))
    lines = wait_in_queue(Planned(), [("pretrain", key) for key in keys], tmp_path / "results")
    assert len(lines) == 9 and lines[-1] == "… and 22 more"


def test_where_squeue_fails_jobs_are_submitted_as_the_profile_says(tmp_path, squeue):
    squeue(row(7), code=1)
    workflow = Planned(slurm_extra=f"'{SIGNAL}'")
    assert wait_in_queue(workflow, JOBS, tmp_path / "results") == []
    assert workflow.extra() == SIGNAL


@pytest.mark.parametrize("where", [{"executor": "cluster-generic"}, {"main": False}])
def test_no_queue_is_asked_where_jobs_do_not_go_to_slurm_or_are_those_jobs(tmp_path, squeue, where):
    calls = squeue(row(7))
    workflow = Planned(**where)
    assert wait_in_queue(workflow, JOBS, tmp_path / "results") == []
    assert workflow.extra() is None and calls() == []


def test_a_dependency_of_the_profiles_own_goes_before(tmp_path, squeue):
    squeue(row(7))
    workflow = Planned(slurm_extra="'--dependency=singleton'")
    wait_in_queue(workflow, JOBS, tmp_path / "results")
    # sbatch takes the last of an option that is given twice.
    assert workflow.extra() == "--dependency=afterany:7 --dependency=singleton"


def test_squeue_that_is_not_there_says_nothing(monkeypatch):
    def absent(*_, **__):
        raise FileNotFoundError("squeue")

    monkeypatch.setattr(subprocess, "run", absent)
    assert queued._asked_of_squeue() is None
