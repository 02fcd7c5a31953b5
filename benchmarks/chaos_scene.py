"""What goes on in a project at this moment: its processes, its trainings, their saved states."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from tests.slurm.cluster import Process, processes
from tests.workflow.conftest import MiniProject

from xsa.store.files import sha256_file
from xsa.store.lock import lock_path
from xsa.study.forecast import TRAINING

PHASES = {
    "data": ("shard", "bundle", "chatsets", "tokenizer", "tokens", "rows"),
    "training": TRAINING,
    "evaluation": ("bpb", "core", "chatcore"),
    "analysis": ("analyse", "report", "publish"),
}
_VERB = re.compile(r"xsa (?P<stage>\w+) (?:mini )?\S*?(?P<key>[^/\s]+)/(?:record\.json|report\.html)")


@dataclass
class Job:
    """A running verb: processes by rank, or one; `launcher` is what started several, if that is alive."""

    stage: str
    key: str
    pids: list[int]
    launcher: int | None = None

    @property
    def everyone(self) -> list[int]:
        return [*self.pids, *([self.launcher] if self.launcher else [])]


@dataclass
class State:
    """A whole saved state."""

    folder: Path
    step: int


class Scene:
    """A project while a study runs in it."""

    def __init__(self, project: MiniProject):
        self.project, self.results = project, project.root / "results"

    def processes(self) -> list[Process]:
        """All of the project, by the home that they were given; dead ones that nobody has noticed yet left out."""
        mark = f"HOME={self.project.root}"
        return [one for one in processes() if mark in one.environment]

    def jobs(self) -> list[Job]:
        """Verbs that run. Of those that make one result, who waits for another is a job of its own."""
        found: dict[tuple[str, str, str | int], Job] = {}
        for one in self.processes():
            said = _VERB.search(one.command)
            if said is None or "bash" in one.command.split(" ")[0]:
                continue
            port = dict(pair.partition("=")[::2] for pair in one.environment).get("MASTER_PORT")
            place = (said["stage"], said["key"], port or one.pid)
            found.setdefault(place, Job(said["stage"], said["key"], [])).pids.append(one.pid)
        for (stage, key, port), job in list(found.items()):
            parent = _parent(job.pids[0])
            if isinstance(port, str) and found.pop((stage, key, parent), None):
                job.launcher = parent
        return list(found.values())

    def at_work(self, job: Job) -> bool:
        """Whether a job holds the lock of its result."""
        with suppress(OSError, ValueError):
            return json.loads(lock_path(self.results, job.stage, job.key).read_text())["pid"] in job.pids
        return False

    def states(self, job: Job) -> set[tuple[str, int]]:
        """Names and times of saved states, whole or not."""
        found = set()
        for path in self._state_folder(job).glob("step_*"):
            with suppress(OSError):
                found.add((path.name, path.stat().st_mtime_ns))
        return found

    def saving(self, job: Job) -> bool:
        """Whether a state is being written."""
        return any(self._state_folder(job).glob(".step_*.part"))

    def good_states(self, job: Job) -> list[State]:
        """Saved states whose files have the hashes that they state, newest first."""
        found = []
        for folder in sorted(self._state_folder(job).glob("step_*"), reverse=True):
            with suppress(OSError, ValueError, KeyError):
                told = json.loads((folder / "state.json").read_text())
                if all(sha256_file(folder / name) == expected for name, expected in told["files"].items()):
                    found.append(State(folder, told["step"]))
        return found

    def log(self, job: Job) -> Path:
        return self.results / ".logs" / job.stage / f"{job.key}.log"

    def _state_folder(self, job: Job) -> Path:
        return self.results / ".state" / job.stage / job.key


def reached(newest: State | None, now: float) -> int:
    """About which step a training was at by the time `now`, from the age of its newest state and the time of its steps."""
    if newest is None:
        return 0
    with suppress(OSError):
        steps = pq.read_table(newest.folder / "timing.parquet")["seconds"].to_pylist()
        return newest.step + max(0, int((now - newest.folder.stat().st_mtime) / statistics.median(steps)))
    return newest.step


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """A signal to processes, of which some may be gone."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def alive(pid: int) -> bool:
    return _stat(pid)[0] not in ("", "Z", "X")


def _parent(pid: int) -> int:
    return int(_stat(pid)[1] or 0)


def _stat(pid: int) -> list[str]:
    """State and parent of a process; empty texts for none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (OSError, IndexError):
        return ["", ""]
