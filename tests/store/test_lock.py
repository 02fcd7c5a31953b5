from __future__ import annotations

import json
import os
import threading
import time

import pytest

from xsa.store import lock
from xsa.store.lock import HeldError, Lock


def test_who_waits_gets_the_lock_when_the_holder_is_done_and_says_for_whom(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "LOOK_SECONDS", 0.01)
    path, said, order = tmp_path / "a.lock", [], []
    holder = Lock(path, "a")
    holder.__enter__()

    def wait():
        with Lock(path, "a", wait=said.append):
            order.append("taken")

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not said:
        time.sleep(0.01)
    order.append("given")
    holder.__exit__()
    waiting.join(20)
    assert order == ["given", "taken"]
    assert len(said) == 1 and f"process {os.getpid()}" in said[0]


def elsewhere(path, job, age):
    """A lock that a SLURM job on another host holds, last touched `age` seconds ago."""
    path.write_text(
        json.dumps({"host": "gone", "pid": 1, "pid_started": "1", "slurm_job": job, "since": "2026-01-01T00:00:00"})
    )
    os.utime(path, (time.time() - age,) * 2)


def test_a_job_that_was_started_again_on_another_node_takes_over_from_its_silent_self(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    elsewhere(tmp_path / "a.lock", "7", age=lock.SILENT_SECONDS + 5)
    with Lock(tmp_path / "a.lock", "a"):
        pass


def test_a_job_does_not_take_over_from_its_self_that_was_heard_of_just_now(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    elsewhere(tmp_path / "a.lock", "7", age=5)
    with pytest.raises(HeldError, match="SLURM job 7"), Lock(tmp_path / "a.lock", "a"):
        pass
