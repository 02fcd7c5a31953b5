"""Who holds locks, seen from outside."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from xsa.store import lock as lock_module
from xsa.store.lock import STALE_SECONDS, Lock, holders, lock_path


def elsewhere(results, key="x@0123456789", age=0.0, job=None):
    """A lock that another host took, touched `age` seconds ago."""
    path = lock_path(results, "tokens", key)
    path.parent.mkdir(parents=True, exist_ok=True)
    holder = {"host": "node7", "pid": 1, "pid_started": "1", "slurm_job": job, "since": "2026-07-01T10:00:00+0000"}
    path.write_text(json.dumps(holder))
    then = time.time() - age
    os.utime(path, (then, then))
    return path.name


def test_the_holder_of_a_lock_is_named_and_alive(tmp_path):
    with Lock(lock_path(tmp_path, "tokens", "x@0123456789"), "x"):
        (holder,) = holders(tmp_path).values()
    assert holder["alive"] and (holder["host"], holder["pid"]) == (socket.gethostname(), os.getpid())
    assert holders(tmp_path) == {}


@pytest.mark.parametrize("reaped", [True, False])
def test_a_process_killed_without_a_word_is_dead(tmp_path, reaped):
    code = (
        "import sys, time; from pathlib import Path; from xsa.store.lock import Lock\n"
        "lock = Lock(Path(sys.argv[1]), 'x'); lock.__enter__(); print('held', flush=True); time.sleep(60)"
    )
    path = lock_path(tmp_path, "tokens", "x@0123456789")
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n" and holders(tmp_path)[path.name]["alive"]
    child.kill()
    if reaped:
        child.wait()
    else:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not holders(tmp_path)[path.name]["alive"]
    child.wait()


def test_a_holder_elsewhere_lives_by_its_heartbeat(tmp_path):
    fresh, old = elsewhere(tmp_path, "a@0123456789"), elsewhere(tmp_path, "b@0123456789", age=STALE_SECONDS + 60)
    found = holders(tmp_path)
    assert found[fresh]["alive"] and not found[old]["alive"]


def test_slurm_is_asked_once_for_all_jobs_and_believed(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(lock_module.shutil, "which", lambda name: "/usr/bin/squeue")

    def squeue(command, **options):
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, "11\n", "")

    monkeypatch.setattr(lock_module.subprocess, "run", squeue)
    runs, gone = elsewhere(tmp_path, "a@0123456789", job="11"), elsewhere(tmp_path, "b@0123456789", job="12")
    found = holders(tmp_path)
    assert found[runs]["alive"] and not found[gone]["alive"] and len(asked) == 1 and "11,12" in asked[0]


def test_a_lock_cut_short_counts_as_a_dead_ones(tmp_path):
    name = elsewhere(tmp_path)
    (tmp_path / ".locks" / name).write_text('{"host": "no')
    assert not holders(tmp_path)[name]["alive"]
