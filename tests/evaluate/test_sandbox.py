import os
import sys
import threading

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
    ("program", "kind", "detail"),
    [
        ("assert 1 == 2, 'no'", "wrong", "AssertionError: no"),
        ("def (", "error", "SyntaxError"),
        ("import sys; sys.exit(0)", "left early", "SystemExit: 0"),
        ("import os; os._exit(0)", "left early", "left with status 0 before its end"),
        ("input()", "error", "EOFError"),
        ("def f(): f()\nf()", "error", "RecursionError"),
        (
            "class E(Exception):\n def __str__(self): return self.x.x\nraise E",
            "error",
            "an exception without a readable message",
        ),
        ("if __name__ == '__main__': pass\nelse: raise KeyError('not the main module')", "error", "KeyError"),
        ("while True: pass", "time", "out of time"),
        ("a = []\nwhile True: a.append(bytearray(2**22))", "memory", "MemoryError"),
        ("open('big', 'w').write('x' * 2**22)", "files", "OSError: [Errno 27]"),
        ("x = [open(f'f{i}', 'w') for i in range(1000)]", "files", "OSError: [Errno 24]"),
    ],
)
def test_a_program_that_does_not_says_why(sandbox, program, kind, detail):
    outcome = sandbox.run(program)
    assert outcome.kind == kind and not outcome.passed
    assert outcome.detail.startswith(detail)


def test_a_program_may_write_in_its_own_folder(sandbox):
    assert sandbox.run("open('inside.txt', 'w').write('x')\nassert open('inside.txt').read() == 'x'").passed


@pytest.mark.skipif(sys.platform != "linux", reason="system calls are filtered on Linux alone")
def test_the_kernel_refuses_threads_which_python_itself_would_allow(sandbox):
    assert "can't start new thread" in sandbox.run("import threading; threading.Thread(target=print).start()").detail


def test_programs_run_beside_each_other_and_come_back_in_order(sandbox):
    outcomes = sandbox.run_all([f"assert {number} % 2" for number in range(8)], workers=4)
    assert [one.passed for one in outcomes] == [False, True] * 4


def test_nothing_is_left_behind(sandbox, monkeypatch, tmp_path):
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    sandbox.run("open('x', 'w').write('x')\nimport time\ntime.sleep(0.1)")
    sandbox.run("while True: pass")
    assert not list(tmp_path.iterdir())
    assert threading.active_count() < 20


@pytest.mark.parametrize(
    "body", ["raise SystemExit", "import json, os, sys; o = json.load(sys.stdin); os.write(o['report'], b'[]')"]
)
def test_a_sandbox_that_does_not_work_is_an_error_and_not_a_score(monkeypatch, tmp_path, body):
    child = tmp_path / "child.py"
    child.write_text(body)
    monkeypatch.setattr(module, "CHILD", child)
    with pytest.raises(UserError, match=r"the sandbox .* does not work here: a correct program gave no answer"):
        Sandbox(Limits(seconds=1))


def test_a_sandbox_that_lets_everything_pass_is_an_error(monkeypatch, tmp_path):
    child = tmp_path / "child.py"
    child.write_text(
        "import json, os, sys\no = json.load(sys.stdin)\nos.write(o['report'], json.dumps({'ready': {}, 'word': o['word'], 'end': {}}).encode())\n"
    )
    monkeypatch.setattr(module, "CHILD", child)
    with pytest.raises(UserError, match="a failing assertion came out as 'passed'"):
        Sandbox(Limits(seconds=1))


def test_the_user_s_environment_is_not_handed_over(sandbox, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert "HF_TOKEN" in os.environ
    assert sandbox.run("import os; assert 'HF_TOKEN' not in os.environ").passed


def test_dataclasses_and_annotations_find_their_module(sandbox):
    program = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nassert A(1).x == 1\n"
    assert sandbox.run(program).passed


def test_a_program_that_takes_its_keeper_along_is_no_broken_sandbox(sandbox, monkeypatch):
    once, given = sandbox._once, [None]
    monkeypatch.setattr(sandbox, "_once", lambda program: given.pop() if given else once(program))
    assert sandbox.run("whatever").kind == "killed"


def test_a_sandbox_that_breaks_later_is_an_error_too(monkeypatch, tmp_path):
    made = Sandbox(Limits(seconds=1))
    (tmp_path / "child.py").write_text("")
    monkeypatch.setattr(module, "CHILD", tmp_path / "child.py")
    with pytest.raises(UserError, match="does not work here"):
        made.run("x = 1")
