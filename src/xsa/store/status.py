"""How a job stands, in its own words: a small file in its state folder, read by whoever looks from outside.

It is written whole, at most once every `INTERVAL` while steps go by, and without waiting for the disk: losing it costs
nothing, and it never enters a result. It goes with the state folder when the result is whole. What a job cannot say,
because it was killed, its lock tells: the file says `running` and nobody alive holds the lock.
"""

from __future__ import annotations

import json
import os
import socket
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from xsa.store.errors import UserError
from xsa.store.progress import Progress

STATUS = "status.json"
INTERVAL = 2.0
# EX_TEMPFAIL, the exit code of a trainer that was asked to stop and saved its state first.
SAVED = 75
# A signal that comes so near before the end of a SLURM job's time is SLURM's warning of that end.
WARNING_SECONDS = 900


class JobStatus:
    """Writes the file of one job. `log` is where the job's log lies, if it has one.

    spent: seconds that earlier tries at the same result took, as far as they said.
    """

    def __init__(self, folder: Path, log: str | None = None):
        self.path = Path(folder) / STATUS
        self.spent = _spent(read_status(folder))
        self._told: dict[str, Any] = {
            "state": "running",
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "slurm_job": os.environ.get("SLURM_JOB_ID"),
            "started": time.time(),
            "log": log,
            "said": None,
            "progress": None,
            "spent": self.spent,
        }
        self._written = float("-inf")

    def begin(self) -> None:
        """Say that the job runs. What an earlier try said is gone."""
        self._write()

    def said(self, sentence: str) -> None:
        """Keep the last sentence that the job printed."""
        self._told["said"] = sentence
        self._write_when_due()

    def step(self, done: int, total: int, unit: str, numbers: dict[str, Any], seconds_left: float | None) -> None:
        """Keep how far the job is, with the numbers that it printed beside."""
        plain = {name: value if _finite(value) else str(value) for name, value in numbers.items()}
        progress = {"unit": unit, "done": done, "total": total, "numbers": plain, "seconds_left": seconds_left}
        self._told["progress"] = progress
        self._write_when_due()

    def ended(self, error: BaseException) -> None:
        """Say why the job ended without a result."""
        state, reason = _reason(error)
        self._told |= {"state": state, "reason": reason, "error": _sentence(error), "ended": time.time()}
        self._write()

    def _write_when_due(self) -> None:
        if time.monotonic() - self._written >= INTERVAL:
            self._write()

    def _write(self) -> None:
        """Write the file; a disk that refuses must not fail the work."""
        self._written = time.monotonic()
        temporary = self.path.with_name(f".{STATUS}.{os.getpid()}.part")
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(self._told | {"at": time.time()}, ensure_ascii=False), encoding="utf-8")
            os.replace(temporary, self.path)


@contextmanager
def reported(folder: Path, progress: Progress) -> Iterator[JobStatus]:
    """Keep the status file in `folder` up to date with what `progress` is told, and with how the block ends."""
    status = JobStatus(folder, progress.log)
    status.begin()
    progress.watcher = status
    try:
        yield status
    except BaseException as error:
        status.ended(error)
        raise
    finally:
        progress.watcher = None


def read_status(folder: Path) -> dict[str, Any] | None:
    """What a job last said of itself; None where it said nothing that can be read."""
    try:
        told = json.loads((Path(folder) / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) and isinstance(told.get("state"), str) else None


def _spent(told: dict[str, Any] | None) -> float:
    """Seconds that a job took until it last said something, with those of the tries before it."""
    try:
        return max(0.0, told["at"] - told["started"]) + told.get("spent", 0.0)
    except (KeyError, TypeError):
        return 0.0


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or abs(value) < float("inf")


def _reason(error: BaseException) -> tuple[str, str]:
    """State, and the kind of end: `error`, `memory`, `time limit`, `SIGTERM` or `Ctrl-C`."""
    if isinstance(error, SystemExit):
        end = os.environ.get("SLURM_JOB_END_TIME", "")
        limit = end.isdigit() and int(end) - time.time() < WARNING_SECONDS
        asked = "time limit" if limit else "SIGTERM"
        return ("stopped", asked) if error.code in (SAVED, 143) else ("failed", f"exit {error.code}")
    if isinstance(error, KeyboardInterrupt):
        return "stopped", "Ctrl-C"
    # torch's own error is known by its name, for this module must not import torch
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "failed", "memory"
    return "failed", "error"


def peer_is_gone(error: BaseException) -> bool:
    """Whether an error is the transport's, which loses its connection when another process of the job dies.

    torch tells no more than an address; its errors are known by name and text.
    """
    return isinstance(error, RuntimeError) and (type(error).__name__.startswith("Dist") or "gloo" in str(error))


def explained(error: BaseException) -> str | None:
    """The sentence that says all of an error; None where the place in the code matters."""
    if peer_is_gone(error):
        return "another process of the job ended without a word: killed, out of memory, or its machine went down"
    return str(error) if isinstance(error, UserError) else None


def _sentence(error: BaseException) -> str:
    """The user's sentence, or what Python says with the place in the code."""
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return ""
    told = explained(error)
    if told is not None:
        return told
    said = "".join(traceback.format_exception_only(error)).strip()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    own = [frame for frame in frames if f"{os.sep}xsa{os.sep}" in frame.filename] or frames
    where = f" ({Path(own[-1].filename).name}:{own[-1].lineno}, in {own[-1].name})" if own else ""
    return said + where
