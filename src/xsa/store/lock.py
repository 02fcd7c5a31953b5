"""A lock on one result, so that two jobs never make it at the same time, on one machine or on several."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from xsa.store.errors import UserError

HEARTBEAT_SECONDS = 30.0
# A holder on another host that has not touched its lock for this long is taken for dead.
STALE_SECONDS = 600.0
# A job that SLURM started again elsewhere takes its own former self for dead after so long a silence.
SILENT_SECONDS = 3 * HEARTBEAT_SECONDS
# Who waits looks so often, and says so, so often.
LOOK_SECONDS, SAY_SECONDS = 2.0, 300.0
LOCKS = ".locks"


def lock_path(results: Path, stage: str, key: str) -> Path:
    """Where the lock of a result lies."""
    return results / LOCKS / f"{stage}-{key}.lock"


class HeldError(UserError):
    """Someone alive holds the lock."""


class Lock:
    """Context manager; raises HeldError, naming the holder, when someone alive holds the lock.

    With `wait` the holder is waited for instead, and `wait` is told so now and again.
    """

    def __init__(self, path: Path, what: str, wait: Callable[[str], None] | None = None):
        self.path, self.what, self._wait = Path(path), what, wait
        self._stop = threading.Event()

    def __enter__(self) -> Lock:
        said = float("-inf")
        while True:
            try:
                return self._take()
            except HeldError as error:
                if self._wait is None:
                    raise
                if time.monotonic() - said >= SAY_SECONDS:
                    said = time.monotonic()
                    self._wait(f"waits: {error}")
                time.sleep(LOOK_SECONDS)

    def _take(self) -> Lock:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        holder = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "pid_started": _started(os.getpid()),
            "slurm_job": os.environ.get("SLURM_JOB_ID"),
            "since": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        # Written beside and linked into place: link() either creates the whole lock or fails, also on NFS.
        mine = self.path.with_name(f".{self.path.name}.{holder['host']}.{os.getpid()}")
        self._mine = json.dumps(holder)
        mine.write_text(self._mine)
        try:
            for _ in range(3):
                try:
                    os.link(mine, self.path)
                    break
                except FileExistsError:
                    self._refuse_or_clear()
            else:
                raise HeldError(
                    f"cannot take the lock {self.path} for {self.what}; another job is taking it now. Try again"
                )
        finally:
            mine.unlink(missing_ok=True)
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        if self._held():
            self.path.unlink(missing_ok=True)

    def _held(self) -> bool:
        """False when another job took the lock over, having thought this one dead."""
        try:
            return self.path.read_text() == self._mine
        except OSError:
            return False

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            if self._held():
                with suppress(OSError):
                    os.utime(self.path)

    def _refuse_or_clear(self) -> None:
        """Raise when the holder lives; remove the lock of a dead one."""
        try:
            age = time.time() - self.path.stat().st_mtime
            text = self.path.read_text()
            holder = json.loads(text)
        except FileNotFoundError:
            return
        except json.JSONDecodeError:
            # Locks are linked into place whole; one that is not was cut by a machine that went down.
            self._clear(text)
            return
        if _alive(holder, age):
            job = f", SLURM job {holder['slurm_job']}" if holder["slurm_job"] else ""
            raise HeldError(
                f"{self.what} is being made by process {holder['pid']} on {holder['host']}{job}, since {holder['since']}. "
                f"Wait for it or stop it; if it is dead, delete {self.path}"
            )
        self._clear(text)

    def _clear(self, text: str) -> None:
        """Remove the dead lock that reads `text`. Moved away first: another job may have cleared and taken it meanwhile."""
        grave = self.path.with_name(f".{self.path.name}.dead.{socket.gethostname()}.{os.getpid()}")
        with suppress(FileNotFoundError):
            os.rename(self.path, grave)
            if grave.read_text() != text:
                with suppress(FileExistsError):
                    os.link(grave, self.path)
            grave.unlink()


def holders(results: Path) -> dict[str, dict]:
    """Who holds each lock under `results`, by the lock's file name, with `alive` and the seconds since its heartbeat, `age`.

    Only reads. SLURM is asked once for all of them. A lock that is no whole JSON counts as a dead one's.
    """
    found: dict[str, dict] = {}
    for path in sorted((Path(results) / LOCKS).glob("[!.]*.lock")):
        with suppress(OSError):
            age = time.time() - path.stat().st_mtime
            try:
                found[path.name] = json.loads(path.read_text()) | {"age": age}
            except (ValueError, TypeError):
                found[path.name] = {"host": None, "pid": None, "slurm_job": None, "since": None, "age": age}
    here = socket.gethostname()
    asked = [one["slurm_job"] for one in found.values() if one["slurm_job"] and one["host"] != here]
    queue = _in_queue(asked) if asked else None
    for one in found.values():
        one["alive"] = one["host"] is not None and _alive(one, one["age"], lambda jobs: queue)
    return found


def _in_queue(jobs: list[str]) -> set[str] | None:
    """Those of some SLURM jobs that run; None where SLURM cannot be asked."""
    if shutil.which("squeue"):
        with suppress(subprocess.SubprocessError, OSError):
            command = [
                *("squeue", "--noheader", "--format", "%A", "--jobs", ",".join(jobs)),
                *("--states", "RUNNING,COMPLETING,SUSPENDED"),
            ]
            asked = subprocess.run(command, capture_output=True, text=True, timeout=60)
            # A job that SLURM has forgotten is an error to squeue, in these words; other errors say nothing of the job.
            if asked.returncode == 0 or (len(jobs) == 1 and "Invalid job id" in asked.stderr):
                return set(asked.stdout.split())
    return None


def _alive(holder: dict, age: float, in_queue: Callable[[list[str]], set[str] | None] = _in_queue) -> bool:
    """Whether the holder of a lock still works: by its process on this host, by its SLURM job, else by its heartbeat."""
    if holder["host"] == socket.gethostname():
        return _started(holder["pid"]) == holder["pid_started"]
    if holder["slurm_job"] and holder["slurm_job"] == os.environ.get("SLURM_JOB_ID"):
        # SLURM gave this job another node. The node it had may be cut off rather than down, so silence must show it.
        return age < SILENT_SECONDS
    if age < STALE_SECONDS and holder["slurm_job"]:
        running = in_queue([holder["slurm_job"]])
        if running is not None:
            return holder["slurm_job"] in running
    return age < STALE_SECONDS


def _started(pid: int) -> str | None:
    """When a process of this host started, in the kernel's ticks; None when it is none or a dead one whose parent has
    not noticed. Pids alone are used again.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return None
