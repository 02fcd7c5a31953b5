"""Running generated Python programs so that they can do no harm and cannot be mistaken for what they are not.

Each program gets a fresh interpreter without site packages and an empty folder that is gone afterwards. Limits: CPU seconds
(and three times as many by the clock, for sleepers and busy machines), memory, size and number of files; no child
processes, no network, no files but its own and Python's library; its output goes nowhere. When it has ended or its time is
over, everything that it may have started is killed (`sandbox_child.py`, `sandbox_kernel.py`).

A program has passed when it ran to its end: the child says so with a word that it was told at the start. Leaving
early, by `sys.exit(0)` or `os._exit(0)`, is no pass.

What confines a program depends on the system; `confinement` says it, and docs/evaluation.md what each part promises.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from xsa.evaluate import sandbox_child
from xsa.store.errors import UserError

CHILD = Path(sandbox_child.__file__)
# How a program can end. wrong: an assertion failed. files: too large, too many open, folder full. refused: it tried what is
# not allowed. killed: by a signal that was no limit's. The others say it themselves.
KINDS = ("passed", "wrong", "error", "time", "memory", "files", "refused", "left early", "killed")
OVERTIME_SECONDS = 60.0  # past the longest that the child can take, it hangs

# What must pass and what must not, before any answer is judged: a broken sandbox is an error, never a score of 0.
CANARIES = (
    ("a correct program", "import math, typing, collections\nassert math.gcd(12, 18) == 6\n", "passed"),
    ("a failing assertion", "assert 1 + 1 == 3\n", "wrong"),
    ("a program that leaves early", "import os\nos._exit(0)\n", "left early"),
    ("a program that opens a socket", "import socket\nsocket.socket()\n", "refused"),
    ("a program that starts another", "import subprocess, sys\nsubprocess.run([sys.executable, '-V'])\n", "refused"),
    ("a program that writes outside its folder", "open('/tmp/xsa-canary', 'w')\n", "refused"),
)


@dataclass(frozen=True)
class Limits:
    """What one program may use. `seconds` are of CPU time, rounded up to whole ones by the system.

    folder_bytes and folder_files hold where the folder is a file system of its own (`confinement["folder"]`).
    """

    seconds: float = 5.0
    memory_bytes: int = 512 * 2**20
    file_bytes: int = 2**20
    open_files: int = 32
    folder_bytes: int = 16 * 2**20
    folder_files: int = 1024


@dataclass(frozen=True)
class Outcome:
    """How a program ended: one of KINDS, and in words (the exception with its message, the signal)."""

    kind: str
    detail: str

    @property
    def passed(self) -> bool:
        return self.kind == "passed"


class Sandbox:
    """Runs programs under limits. Made by `Sandbox(limits)`, which first checks that it works (UserError)."""

    def __init__(self, limits: Limits = Limits()):
        self.limits = limits
        self.confinement: dict[str, str] = {}
        self.check()

    def check(self) -> None:
        """Run programs whose outcome is known; UserError where one comes out otherwise."""
        for name, program, kind in CANARIES:
            outcome = self._once(program)
            if outcome is None or outcome.kind != kind:
                how = f"came out as {outcome.kind!r} ({outcome.detail})" if outcome else "gave no answer"
                raise UserError(
                    f"the sandbox for generated programs does not work here: {name} {how}, expected {kind!r}. Raise "
                    "chatcore.sandbox_seconds if the machine is busy, or leave humaneval out of chatcore.tasks"
                )

    def run_all(self, programs: Sequence[str], workers: int = 1) -> list[Outcome]:
        """The outcome of each program, `workers` of them running at a time."""
        with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
            return list(pool.map(self.run, programs))

    def run(self, program: str) -> Outcome:
        """Run one program to its end or its limits. UserError where the sandbox itself has broken since it was made."""
        outcome = self._once(program)
        if outcome is None:
            self.check()
            outcome = Outcome("killed", "ended together with what was watching over it")
        return outcome

    def _once(self, program: str) -> Outcome | None:
        """The outcome, or None where the child did not say that it had begun and had cleared up."""
        word = secrets.token_hex(16)
        with _own_folder() as folder:
            said = self._said(program, word, folder)
        if not isinstance(said.get("ready"), dict) or not isinstance(said.get("end"), dict):
            return None
        self.confinement = said["ready"]
        if said.get("word") == word:
            return Outcome("passed", "passed")
        if said.get("kind") in KINDS[1:]:
            return Outcome(said["kind"], str(said.get("detail"))[:200])
        status, late = said["end"].get("status"), said["end"].get("late")
        if late or status == -signal.SIGXCPU:
            return Outcome("time", "out of time")
        if status is None or status >= 0:
            return Outcome("left early", f"left with status {status} before its end")
        return Outcome("killed", f"killed by {signal.Signals(-status).name} before its end")

    def _said(self, program: str, word: str, folder: str) -> dict:
        """All that the child said, its lines joined; {} where it said nothing that can be read."""
        receive, send = os.pipe()
        orders = asdict(self.limits) | {"program": program, "word": word, "folder": folder, "report": send}
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": folder, "HOME": folder, "LC_ALL": "C.UTF-8"},
            pass_fds=[send],
            start_new_session=True,
        )
        os.close(send)
        try:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(json.dumps(orders).encode())
                child.stdin.close()
            text = _receive(receive, time.monotonic() + 3 * self.limits.seconds + OVERTIME_SECONDS)
        finally:
            os.close(receive)
            # The child ends by itself when all is killed. Before it is waited for, its number cannot be another's.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        said = {}
        for line in text.splitlines():
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                said |= value if isinstance(value, dict) else {}
        return said


@contextlib.contextmanager
def _own_folder() -> Iterator[str]:
    """An empty folder; gone afterwards, however deep a program has made it."""
    folder = tempfile.mkdtemp(prefix="xsa-sandbox-")
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except RecursionError:
            subprocess.run(["rm", "-rf", folder], stderr=subprocess.DEVNULL)


def _receive(descriptor: int, deadline: float) -> bytes:
    """All until the other end is closed, or the deadline."""
    text = b""
    while select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
        piece = os.read(descriptor, 65536)
        if not piece:
            break
        text += piece
    return text
