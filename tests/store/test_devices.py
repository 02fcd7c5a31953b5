"""GPUs of one machine: each job gets its own, and none is given twice unless it is asked for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from xsa.store import devices
from xsa.store.devices import claimed
from xsa.store.errors import UserError

HOLD = """
import os, sys
from xsa.store.devices import claimed
with claimed(int(sys.argv[1]), sys.argv[2].split(",")):
    print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """The machine's temporary folder, for this test alone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(devices, "WAIT_SECONDS", 0.02)
    for name in ("SLURM_JOB_ID", "SLURMD_NODENAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def hold():
    """`hold(count, names)` starts a process that has devices until it is ended."""
    started = []

    def start(count: int, names: str, **environment) -> tuple[subprocess.Popen, str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(count), names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
        started.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.wait()


def taken(count: int, names: list[str], share: bool = False) -> str:
    with claimed(count, names, share):
        return os.environ["CUDA_VISIBLE_DEVICES"]


def test_jobs_at_one_time_get_devices_of_their_own(hold):
    first, second = hold(1, "0,1,2")[1], hold(2, "0,1,2")[1]
    assert (first, second) == ("0", "1,2")


def test_a_job_waits_until_a_device_is_free_and_says_so(hold):
    process, _ = hold(2, "0,1")
    said = []

    def tell(sentence: str) -> None:
        said.append(sentence)
        process.kill()  # however a holder ends, its devices are free

    with claimed(1, ["0", "1"], say=tell):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
    assert said == ["waits for 1 of the GPUs 0, 1, which other jobs use"]


def test_a_device_is_shared_where_that_is_asked_for_and_none_is_free(hold):
    assert hold(1, "0,1")[1] == "0"
    assert taken(1, ["0", "1"], share=True) == "1", "a free one first"
    hold(1, "0,1")
    assert taken(1, ["0", "1"], share=True) in ("0", "1")


def test_more_devices_than_there_are_is_a_sentence():
    with pytest.raises(UserError, match=r"3 GPUs are asked for, and this machine has 2 \(0, 1\)"):
        taken(3, ["0", "1"])


def test_without_devices_nothing_happens(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with claimed(1, []) as held:
        assert held == [] and os.environ["CUDA_VISIBLE_DEVICES"] == "7"


def test_what_was_visible_before_is_visible_again(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    with claimed(1, ["GPU-a", "GPU-b"]):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-a"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"


def test_a_device_stays_taken_as_long_as_a_process_that_was_given_its_lock_lives(hold):
    with claimed(1, ["0", "1"]) as held:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=held)
    assert taken(1, ["0", "1"]) == "1"
    child.kill()
    child.wait()
    assert taken(1, ["0", "1"]) == "0"


def test_devices_of_two_slurm_jobs_or_two_nodes_of_one_may_have_the_same_names(hold):
    assert hold(1, "0", SLURM_JOB_ID="1")[1] == hold(1, "0", SLURM_JOB_ID="2")[1] == "0"
    assert hold(1, "0", SLURM_JOB_ID="3", SLURMD_NODENAME="a")[1] == "0"
    assert hold(1, "0", SLURM_JOB_ID="3", SLURMD_NODENAME="b")[1] == "0"
