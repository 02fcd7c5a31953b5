"""What a run prints of a job that failed: short, and where the reason is."""

from __future__ import annotations

import logging
import os
import socket
import time
from types import SimpleNamespace

import pytest
from snakemake.logging import DefaultFormatter
from snakemake_interface_logger_plugins.common import LogEvent

from xsa.study.failed_jobs import LAST_LINES, TOLD, FailedJobs
from xsa.study.states import State

KEY = "d4-x@0123456789"
PLACE = ("pretrain", KEY)
SUBMITTED = "SLURM-job '7' failed, SLURM status is: 'FAILED'. For further error details see the cluster/cloud log"
# As a job that Snakemake's executor submitted writes it.
SLURMS = """\
SNAKEMAKE
=========
  Command: snakemake --set-resources base64//c2hhcmQ6bWVtX21iPTEwMDA=
Building DAG of jobs...
[Sun Nov 29 19:27:12 2026]
Job 0: training d4
/usr/bin/bash: line 1: exec: xsa: not found
RuleException:
Error in rule pretrain:
    message: None
WorkflowError:
At least one job did not complete successfully.
srun: error: g1: task 0: Exited with exit code 1
"""


@pytest.fixture
def printed(tmp_path):
    """What a run prints of a training's job that failed; the job's last word is given."""

    def of(state: State | None, event=LogEvent.JOB_ERROR, filtered: FailedJobs | None = None, **fields) -> str | None:
        own, slurms = tmp_path / "own.log", tmp_path / "7.log"
        slurms.write_text(SLURMS)
        told = {
            "rule_name": "pretrain",
            "rule_msg": SUBMITTED,
            "jobid": 3,
            "input": [],
            "output": [str(tmp_path / KEY / "record.json")],
            "log": [str(own), str(slurms)],
            "aux_logs": [str(slurms)],
            "aux": {"external_jobid": "7"},
            "indent": False,
            "conda_env": None,
            "shellcmd": "exec xsa pretrain",
        }
        record = logging.makeLogRecord({"msg": "Error in rule pretrain", "event": event} | told | fields)
        kept = (filtered or FailedJobs(lambda place: state)).filter(record)
        return DefaultFormatter(show_failed_logs=True).format(record) if kept else None

    return of


def stopped(**fields) -> State:
    told = {"host": "node7", "pid": 1, "ended": time.time(), "reason": "preempted", "log": "own.log", "saved_step": 792}
    return State(*PLACE, "stopped", **({"slurm_job": "7"} | told | fields))


def test_the_reason_the_saved_step_and_the_logs_are_told_and_no_log_is_printed_whole(printed, tmp_path):
    (tmp_path / "own.log").write_text("step\n" * 10_000)
    text = printed(stopped())
    assert "Job 3 failed: pretrain d4-x@0123456789" in text and "SLURM status is: 'FAILED'." in text
    assert "was stopped" in text and "(preempted)" in text and "goes on after step 792" in text
    assert "log: own.log" in text and f"SLURM's log: {tmp_path / '7.log'}" in text
    assert len(text.splitlines()) < 10 and "base64" not in text and "\x1b" not in text


@pytest.mark.parametrize("state", [None, stopped(slurm_job="6")])
def test_of_a_job_that_said_nothing_the_end_of_its_logs_is_told_without_snakemakes_own_words(printed, tmp_path, state):
    (tmp_path / "own.log").write_text("".join(f"line {number}\n" for number in range(100)))
    filtered = FailedJobs(lambda place: state)
    text = printed(state, filtered=filtered)
    lines = [line.strip() for line in text.splitlines()]
    at = lines.index(f"the end of {tmp_path / '7.log'}:")
    assert lines[at + 1 : at + 3] == [
        "/usr/bin/bash: line 1: exec: xsa: not found",
        "srun: error: g1: task 0: Exited with exit code 1",
    ]
    assert next(line for line in lines if line.startswith("line ")) == f"line {100 - LAST_LINES}"
    assert "was stopped" not in text, "that was an earlier job"
    assert "\n".join(filtered.silent()) in text
    filtered._ended = lambda place: stopped()
    printed(None, filtered=filtered)
    assert filtered.silent() == []


def test_jobs_that_all_said_nothing_are_told_again_only_in_part(printed, tmp_path):
    filtered = FailedJobs(lambda place: None)
    for number in range(10):
        printed(None, filtered=filtered, output=[str(tmp_path / f"d{number}@0123456789" / "record.json")])
    said = filtered.silent()
    assert said[-1] == f"… and {10 - TOLD} more jobs that said nothing"
    assert sum(line.startswith("Job 3 failed") for line in said) == TOLD


def test_of_a_job_that_could_not_be_submitted_the_reason_alone_is_told(printed):
    message = (
        "SLURM sbatch failed. The error message was 'sbatch: error: invalid partition specified: nosuch'.\n"
        "    sbatch call:\n        sbatch --wrap=base64//c2hhcmQ6bWVtX21iPTEwMDA=For further error details see the cluster/cloud log"
    )
    filtered = FailedJobs(lambda place: stopped())
    text = printed(None, filtered=filtered, rule_msg=message, aux={})
    assert "invalid partition specified: nosuch" in text and len(text.splitlines()) == 3
    assert "base64" not in text and "was stopped" not in text, "that was an earlier job"
    assert len(filtered.silent_places) == 1


def test_how_an_earlier_try_on_this_machine_ended_is_not_told_of_a_job_that_said_nothing(printed, tmp_path):
    (tmp_path / "own.log").write_text("cannot open libcudart.so.13\n")
    filtered = FailedJobs(lambda place: stopped(host=socket.gethostname(), slurm_job=None, ended=time.time() - 1))
    local = {"rule_msg": None, "aux": {}, "log": [str(tmp_path / "own.log")]}
    assert "was stopped" in printed(None, filtered=filtered, **local)
    filtered.filter(logging.makeLogRecord({"msg": "", "event": LogEvent.JOB_INFO, "jobid": 3}))
    text = printed(None, filtered=filtered, **local)
    assert "was stopped" not in text and "libcudart" in text


def test_a_job_that_is_still_saving_is_not_called_dead(printed):
    text = printed(State(*PLACE, "running", slurm_job="7", said="step 3"))
    assert "it has not come to its end yet" in text and "died" not in text


def test_of_jobs_submitted_together_only_those_that_failed_are_told(printed, tmp_path):
    info = [{"rule_name": "tokens", "log": []}, {"rule_name": "rows", "log": []}]
    text = printed(None, LogEvent.GROUP_ERROR, job_error_info=info)
    assert "Of 2 jobs submitted together some failed: rows, tokens" in text and "xsa: not found" in text
    assert printed(None, indent=True) is not None
    (tmp_path / KEY).mkdir()
    (tmp_path / KEY / "record.json").write_text("{}")
    assert printed(None, indent=True) is None


def test_what_is_no_stages_job_is_told_as_snakemake_tells_it(printed):
    assert "Error in rule publish:" in printed(None, rule_name="publish")
    assert printed(None, event=None) == "Error in rule pretrain"


def test_an_error_in_telling_leaves_snakemakes_own_words(printed):
    def unreadable(place):
        raise OSError("stale file handle")

    assert "Error in rule pretrain:" in printed(None, filtered=FailedJobs(unreadable))


def test_of_a_group_that_could_not_be_submitted_the_reason_is_told_and_no_log_of_an_earlier_try(printed, tmp_path):
    (tmp_path / "own.log").write_text("a.parquet has no column `text`\n")
    filtered, texts = FailedJobs(lambda place: None), []

    def log_both(job_info, msg=None, **kwargs):
        group = {
            "event": LogEvent.GROUP_ERROR,
            "groupid": "g",
            "job_error_info": [{"rule_name": "shard"}],
            "aux_logs": [],
        }
        texts.append(printed(None, filtered=filtered, **group))
        texts.append(printed(None, filtered=filtered, rule_msg=None, aux={}, aux_logs=[], indent=True))

    executor = SimpleNamespace(print_job_error=log_both)
    filtered.hear(executor)
    job = SimpleNamespace(is_group=lambda: True)
    refused = "SLURM sbatch failed. The error message was 'sbatch: error: invalid partition specified: cpu'."
    executor.print_job_error(SimpleNamespace(job=job, external_jobid=None), refused + "\n    sbatch call:\n sbatch x")
    assert "1 job could not be submitted: shard" in texts[0] and refused in texts[0] and "sbatch x" not in texts[0]
    assert texts[1] is None
    assert refused in "\n".join(filtered.silent())
    executor.print_job_error(SimpleNamespace(job=job, external_jobid="7"), None)
    assert "submitted together some failed" in texts[2] and "no column" in texts[3]


def test_a_log_that_was_last_written_before_the_job_began_is_not_its_end(printed, tmp_path):
    (tmp_path / "own.log").write_text("an earlier try\n")
    os.utime(tmp_path / "own.log", (0, 0))
    filtered = FailedJobs(lambda place: None)
    filtered.filter(logging.makeLogRecord({"event": LogEvent.JOB_INFO, "jobid": 3}))
    assert "an earlier try" not in printed(None, filtered=filtered)
