import os
import sys
import threading
from pathlib import Path

import pytest

from xsa.evaluate import sandbox as module
from xsa.evaluate.sandbox import Limits, Sandbox
from xsa.store.errors import UserError


@pytest.fixture(scope="module")
def sandbox():
    return Sandbox(Limits(seconds=1, memory_bytes=256 * 2**20))


def test_a_program_passes_when_it_runs_to_its_end(sandbox):
    outcome = sandbox.run("import math, re, random, hashlib, collections, typing\nprint('seen by nobody')\nassert 1\n")
    assert (outcome.passed, outcome.detail) == (True, "passed")


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("assert 1 == 2, 'no'", "AssertionError: no"),
        ("def (", "SyntaxError"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("import os; os._exit(0)", "left with status 0 before its end"),
        ("input()", "EOFError"),
        ("def f(): f()\nf()", "RecursionError"),
        (
            "class E(Exception):\n def __str__(self): return self.x.x\nraise E",
            "an exception without a readable message",
        ),
        ("if __name__ == '__main__': pass\nelse: raise KeyError('not the main module')", "KeyError"),
        ("while True: pass", "out of time"),
        ("a = []\nwhile True: a.append(bytearray(2**22))", "MemoryError"),
        ("open('big', 'w').write('x' * 2**22)", "OSError: [Errno 27]"),
        ("x = [open(f'f{i}', 'w') for i in range(1000)]", "OSError: [Errno 24]"),
    ],
)
def test_a_program_that_does_not_says_why(sandbox, program, detail):
    outcome = sandbox.run(program)
    assert not outcome.passed
    assert outcome.detail.startswith(detail)


def test_a_sleeper_is_stopped_by_the_clock():
    quick = Sandbox(Limits(seconds=1))
    quick.limits = Limits(seconds=0.1)
    assert quick.run("import time; time.sleep(60)").detail == "out of time"


@pytest.mark.parametrize(
    "program",
    [
        "import socket; socket.create_connection(('127.0.0.1', 80))",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1')",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true')",
        "import os\nfor _ in range(10000): os.fork()",
        "import _posixsubprocess, os; os.execv('/bin/true', ['true'])",
        "import os; os.kill(os.getppid(), 9)",
        "import ctypes; ctypes.CDLL(None)",
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (99, 99))",
        "import os; os.mkdir('/tmp/somewhere-else')",
        "import os; os.rename(__import__('sys').executable, 'python')",
    ],
)
def test_network_processes_and_changes_outside_are_refused(sandbox, program):
    outcome = sandbox.run(program)
    assert not outcome.passed
    assert outcome.detail.startswith(("PermissionError", "URLError"))


def test_a_file_outside_its_folder_is_not_written(sandbox, tmp_path):
    target = tmp_path / "target.txt"
    target.write_text("whole")
    for program in (f"open({str(target)!r}, 'w')", f"import os; os.remove({str(target)!r})"):
        assert "refused" in sandbox.run(program).detail
    assert target.read_text() == "whole"
    assert sandbox.run("open('inside.txt', 'w').write('x')\nassert open('inside.txt').read() == 'x'").passed


@pytest.mark.skipif(sys.platform != "linux", reason="system calls are filtered on Linux alone")
def test_the_kernel_refuses_threads_which_python_itself_would_allow(sandbox):
    assert "can't start new thread" in sandbox.run("import threading; threading.Thread(target=print).start()").detail


def test_a_flood_of_output_goes_nowhere_and_the_next_program_runs(sandbox):
    flood, following = sandbox.run_all(["while True: print('x' * 2**20)", "x = 1"])
    assert flood.detail == "out of time"
    assert following.passed


def test_programs_run_beside_each_other_and_come_back_in_order(sandbox):
    outcomes = sandbox.run_all([f"assert {number} % 2" for number in range(8)], workers=4)
    assert [one.passed for one in outcomes] == [False, True] * 4


def test_nothing_is_left_behind(sandbox, monkeypatch, tmp_path):
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    sandbox.run("open('x', 'w').write('x')\nimport time\ntime.sleep(0.1)")
    sandbox.run("while True: pass")
    assert not list(tmp_path.iterdir())
    assert threading.active_count() < 20


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_children_that_left_the_group_are_killed_too(monkeypatch, tmp_path):
    # A child script without any confinement, which starts a process in a session of its own and waits.
    child = tmp_path / "child.py"
    pid = tmp_path / "pid"
    child.write_text(
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)\n"
        f"open({str(pid)!r}, 'w').write(str(p.pid))\ntime.sleep(60)\n"
    )
    loose = Sandbox(Limits(seconds=1))
    loose.limits = Limits(seconds=0.1)
    monkeypatch.setattr(module, "CHILD", child)
    assert loose.run("").detail == "out of time"
    state = Path(f"/proc/{int(pid.read_text())}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(
    "body", ["raise SystemExit", "import json, os, sys; o = json.load(sys.stdin); os.write(o['report'], b'[]')"]
)
def test_a_sandbox_that_does_not_work_is_an_error_and_not_a_score(monkeypatch, tmp_path, body):
    child = tmp_path / "child.py"
    child.write_text(body)
    monkeypatch.setattr(module, "CHILD", child)
    with pytest.raises(UserError, match=r"the sandbox .* does not work here: a correct program failed"):
        Sandbox(Limits(seconds=1))


def test_a_sandbox_that_lets_everything_pass_is_an_error(monkeypatch, tmp_path):
    child = tmp_path / "child.py"
    child.write_text(
        "import json, os, sys\no = json.load(sys.stdin)\nos.write(o['report'], json.dumps({'word': o['word']}).encode() + b'\\n')\n"
    )
    monkeypatch.setattr(module, "CHILD", child)
    with pytest.raises(UserError, match="a failing assertion passed"):
        Sandbox(Limits(seconds=1))


def test_the_user_s_environment_is_not_handed_over(sandbox, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert "HF_TOKEN" in os.environ
    assert sandbox.run("import os; assert 'HF_TOKEN' not in os.environ").passed
