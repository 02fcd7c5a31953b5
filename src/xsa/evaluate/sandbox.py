"""Running generated Python programs so that they can do no harm and cannot be mistaken for what they are not.

Each program gets a fresh interpreter without site packages (`sandbox_child.py`) in a session of its own and an empty
folder that is deleted afterwards. Limits: CPU seconds (and three times as many by the clock, for sleepers and busy
machines), memory, size and number of files; no child processes, no network, no writing outside the folder; its output
goes nowhere. When the time is over, it is killed with whatever it may have started.

A program has passed when it ran to its end: the child says so with a word that it was told at the start. Leaving
early, by `sys.exit(0)` or `os._exit(0)`, is no pass.

How well programs are confined depends on the system, and `confinement` says it: system calls are filtered (seccomp) on
Linux on x86-64 and arm64; the network is a namespace of its own where that is allowed; root gives up its rights where
the interpreter's library can be read without them. Everywhere an audit hook refuses within Python. What is not
confined: reading files that the user may read, and many small files until the time is over. This keeps out accidents and
the mischief that a language model writes, not an attacker with a kernel exploit.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from xsa.evaluate import sandbox_child
from xsa.store.errors import UserError

CHILD = Path(sandbox_child.__file__)
MARK = "XSA_SANDBOX"  # environment variable by which a program's stray children are found
REPORT_BYTES = 8192

# What must pass and what must not, before any answer is judged: a broken sandbox is an error, never a score of 0.
CANARIES = (
    ("a correct program", "import math, typing, collections\nassert math.gcd(12, 18) == 6\n", True),
    ("a failing assertion", "assert 1 + 1 == 3\n", False),
    ("a program that leaves early", "import os\nos._exit(0)\n", False),
    ("a program that opens a socket", "import socket\nsocket.socket()\n", False),
    ("a program that starts another", "import subprocess, sys\nsubprocess.run([sys.executable, '-V'])\n", False),
)


@dataclass(frozen=True)
class Limits:
    """What one program may use. `seconds` are of CPU time, rounded up to whole ones by the system."""

    seconds: float = 5.0
    memory_bytes: int = 512 * 2**20
    file_bytes: int = 2**20
    open_files: int = 32


@dataclass(frozen=True)
class Outcome:
    """`detail` is "passed", or why not: "out of time", the exception with its message, or how it ended."""

    passed: bool
    detail: str


class Sandbox:
    """Runs programs under limits. Made by `Sandbox(limits)`, which first checks that it works (UserError)."""

    def __init__(self, limits: Limits = Limits()):
        self.limits = limits
        self.confinement: dict[str, str] = {}
        for name, program, passes in CANARIES:
            outcome = self.run(program)
            if outcome.passed != passes:
                raise UserError(
                    f"the sandbox for generated programs does not work here: {name} {'failed' if passes else 'passed'} "
                    f"({outcome.detail}). Raise chatcore.sandbox_seconds if the machine is busy, or "
                    "leave humaneval out of chatcore.tasks"
                )

    def run_all(self, programs: Sequence[str], workers: int = 1) -> list[Outcome]:
        """The outcome of each program, `workers` of them running at a time."""
        with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
            return list(pool.map(self.run, programs))

    def run(self, program: str) -> Outcome:
        """Run one program to its end or its limits."""
        word = secrets.token_hex(16)
        with tempfile.TemporaryDirectory(prefix="xsa-sandbox-", ignore_cleanup_errors=True) as folder:
            report, status = self._run(program, word, folder)
        self.confinement = report.get("confinement", self.confinement)
        if report.get("word") == word:
            return Outcome(True, "passed")
        if "detail" in report:
            return Outcome(False, str(report["detail"])[:200])
        if status in (None, -signal.SIGXCPU):
            return Outcome(False, "out of time")
        ended = f"killed by {signal.Signals(-status).name}" if status < 0 else f"left with status {status}"
        return Outcome(False, f"{ended} before its end")

    def _run(self, program: str, word: str, folder: str) -> tuple[dict, int | None]:
        """The child's report ({} where it gave none) and its exit status (None where it had to be killed)."""
        receive, send = os.pipe()
        orders = asdict(self.limits) | {"program": program, "word": word, "folder": folder, "report": send}
        mark = secrets.token_hex(16)
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": folder, "HOME": folder, "LC_ALL": "C.UTF-8", MARK: mark},
            pass_fds=[send],
            start_new_session=True,
        )
        os.close(send)
        try:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(json.dumps(orders).encode())
                child.stdin.close()
            text, ended = _receive(receive, time.monotonic() + 3 * self.limits.seconds + 1)
        finally:
            os.close(receive)
            # Before the child is waited for, its number cannot be given to another process.
            _kill(child.pid, mark)
            status = child.wait()
        try:
            report = json.loads(text)
        except ValueError:
            report = {}
        return report if isinstance(report, dict) else {}, status if ended else None


def _receive(descriptor: int, deadline: float) -> tuple[bytes, bool]:
    """One line, or all until the other end is closed; False where neither came before the deadline."""
    text = b""
    while b"\n" not in text and len(text) < REPORT_BYTES:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return text, False
        piece = os.read(descriptor, REPORT_BYTES)
        if not piece:
            break
        text += piece
    return text, True


def _kill(group: int, mark: str) -> None:
    """Kill the child's process group, then whatever carries its mark and has left the group, until there is nothing."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    for _ in range(100):
        strays = [pid for pid in _marked(mark) if pid != group]
        if not strays:
            return
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _marked(mark: str) -> list[int]:
    """Processes whose environment has the mark (none where there is no /proc)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found
