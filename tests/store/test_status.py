"""What a job says of itself, for those who look from outside."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from xsa.store import status as status_module
from xsa.store.errors import UserError
from xsa.store.progress import Progress
from xsa.store.status import STATUS, JobStatus, read_status, reported


def test_a_running_job_says_how_far_it_is_and_in_what_numbers(tmp_path):
    progress = Progress("pretrain x", log=tmp_path / "x.log")
    with reported(tmp_path / "state", progress):
        progress.watcher._written = -1e9
        progress.step(1, 40, loss=3.5, **{"tok/s": 1200.0})
        told = read_status(tmp_path / "state")
    assert told["state"] == "running" and told["log"] == str(tmp_path / "x.log")
    assert told["progress"] == {
        "unit": "step",
        "done": 1,
        "total": 40,
        "numbers": {"loss": 3.5, "tok/s": 1200.0},
        "seconds_left": None,
    }


def test_steps_in_quick_succession_are_not_written_one_by_one(tmp_path):
    progress = Progress("pretrain x", interval=0.0)
    with reported(tmp_path, progress):
        inode = (tmp_path / STATUS).stat().st_ino
        for step in range(1, 1000):
            progress.step(step, 1000, loss=1.0)
        assert (tmp_path / STATUS).stat().st_ino == inode


def test_a_loss_that_is_not_finite_is_still_json(tmp_path):
    status = JobStatus(tmp_path)
    status.step(1, 2, "step", {"loss": float("nan")}, None)
    text = (tmp_path / STATUS).read_text()
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name))["progress"]["numbers"] == {"loss": "nan"}


class OutOfMemoryError(RuntimeError):
    """Called as torch's."""


@pytest.mark.parametrize(
    ("error", "state", "reason", "sentence"),
    [
        (
            RuntimeError("[gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:5041: Connection reset by peer"),
            "failed",
            "error",
            "another process of the job ended without a word: ",
        ),
        (UserError("the rates are too high"), "failed", "error", "the rates are too high"),
        (MemoryError(), "failed", "memory", "MemoryError (test_status.py:"),
        (
            OutOfMemoryError("CUDA out of memory"),
            "failed",
            "memory",
            "OutOfMemoryError: CUDA out of memory (test_status.py:",
        ),
        (SystemExit(75), "stopped", "SIGTERM", None),
        (SystemExit(143), "stopped", "SIGTERM", None),
        (KeyboardInterrupt(), "stopped", "Ctrl-C", None),
    ],
)
def test_the_end_of_a_job_is_told_by_its_kind(tmp_path, error, state, reason, sentence):
    with pytest.raises(type(error)), reported(tmp_path, Progress()):
        raise error
    told = read_status(tmp_path)
    assert (told["state"], told["reason"]) == (state, reason) and told["ended"] >= told["started"]
    assert sentence in told["error"] if sentence else told["error"] == ""


def test_a_signal_near_the_end_of_a_slurm_jobs_time_is_its_time_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(status_module.time.time()) + 120))
    with pytest.raises(SystemExit), reported(tmp_path, Progress()):
        sys.exit(128 + signal.SIGTERM)
    assert read_status(tmp_path)["reason"] == "time limit"


def test_a_new_try_forgets_how_the_last_one_ended(tmp_path):
    JobStatus(tmp_path).ended(UserError("no"))
    JobStatus(tmp_path).begin()
    told = read_status(tmp_path)
    assert told["state"] == "running" and "error" not in told


def test_a_place_that_cannot_be_written_does_not_fail_the_work(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with reported(tmp_path / "file" / "below", Progress()):
        pass
    assert read_status(tmp_path / "file" / "below") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": 3}'])
def test_what_is_no_status_is_none(tmp_path, text):
    (tmp_path / STATUS).write_text(text)
    assert read_status(tmp_path) is None
