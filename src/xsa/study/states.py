"""The state of every result of a study, from the files alone: records, locks, state folders. Nothing is written.

done      its record is there
running   somebody alive holds its lock
failed    its last try ended with an error
stopped   its last try was asked to stop (a signal, a time limit); training saved its state first
died      its last try ended without a word: killed, out of memory, or its machine went down
ready     all that it reads is there; it waits for its turn
waiting   something that it reads is not there yet
spared    not there, and nothing that is still to be made reads it
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from xsa.store.errors import UserError
from xsa.store.lock import holders, lock_path
from xsa.store.record import RECORD, read_record
from xsa.store.status import read_status
from xsa.study.plan import Plan
from xsa.study.result import Result

# Files on a shared file system take a moment each; so many are asked for at a time.
READERS = 16
# What SLURM writes last into the log of a job that it ends.
SLURM_LOGS = Path(".snakemake/slurm_logs")
# In what Snakemake writes first, each time that SLURM starts the job.
SLURM_START = "--executor slurm-jobstep"
SLURM_WORDS = {
    "time limit": re.compile(r"DUE TO TIME LIMIT"),
    "memory": re.compile(r"oom[_-]kill", re.IGNORECASE),
    "preempted": re.compile(r"DUE TO PREEMPTION"),
    "node failure": re.compile(r"DUE TO NODE FAILURE|Node failure on"),
    # What a task is told in either case; only a task that stays to be killed is told of preemption by name.
    "cancelled or preempted": re.compile(r"CANCELLED AT \S+ \*\*\*"),
}

# A line of `Progress.step`.
STEP_LINE = re.compile(r"  \w+ [\d,]+/[\d,]+(  |$)")


@dataclass
class State:
    """One result's state. Times are seconds since 1970; what does not apply is None.

    seconds: how long the finished job took. progress: unit, done, total, numbers, seconds_left, as the job last said.
    saved_step: the step of the newest saved state. waits_for: what it reads and is not there.
    """

    stage: str
    key: str
    state: str
    started: float | None = None
    ended: float | None = None
    seconds: float | None = None
    host: str | None = None
    pid: int | None = None
    slurm_job: str | None = None
    heartbeat_age: float | None = None
    progress: dict[str, Any] | None = None
    said: str | None = None
    reason: str | None = None
    error: str | None = None
    log: str | None = None
    saved_step: int | None = None
    waits_for: list[Result] = field(default_factory=list)

    @property
    def label(self) -> str:
        return self.key.rpartition("@")[0]

    def plain(self) -> dict[str, Any]:
        """Its fields as JSON values, without those that do not apply."""
        values = {name: value for name, value in vars(self).items() if value not in (None, [])}
        if self.waits_for:
            values["waits_for"] = [f"{one.stage}/{one.key}" for one in self.waits_for]
        return values


class Observer:
    """Looks at a study's results again and again; what is done is read once."""

    def __init__(self, plan: Plan, results: Path):
        self.plan, self.results = plan, Path(results)
        self._done: dict[tuple[str, str], State] = {}

    def look(self) -> dict[tuple[str, str], State]:
        """The state of every result of the study now, by (stage, label@digest)."""
        states = self._states(list(self.plan.results))
        died = [place for place, state in states.items() if state.state == "died"]
        # A job may have started, or come to its end, between the looks at locks, state folders and records.
        return states | self._states(died) if died else states

    def ended(self, place: tuple[str, str]) -> State | None:
        """How a job that has just ended without a result ended, by its own word; None where it said nothing."""
        return self._tried(place, holders(self.results).get(lock_path(self.results, *place).name))

    def _states(self, places: list[tuple[str, str]]) -> dict[tuple[str, str], State]:
        locks, tried = holders(self.results), self._state_folders(places)
        there = self._look_for(self.plan.results)
        needed = self._needed(there)
        states = {}
        for place in places:
            result, lock = self.plan.results[place], locks.get(lock_path(self.results, *place).name)
            if place in there:
                states[place] = self._done[place]
                continue
            state = self._tried(place, lock) if lock is not None or place in tried else None
            missing = [one for one in result.upstream() if (one.stage, one.key) not in there]
            # An error of a job that cannot be tried again before others are made says nothing of now.
            if state is None or (state.state == "failed" and missing):
                name = "spared" if place not in needed else "waiting" if missing else "ready"
                state = State(*place, name, waits_for=missing)
            states[place] = state
        return states

    def _look_for(self, places: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """The results among `places` whose records are there. New ones are read, and kept in `_done`."""
        folders = {(stage, name) for stage in {stage for stage, _ in places} for name in _names(self.results / stage)}
        candidates = [place for place in places if place in folders]
        with ThreadPoolExecutor(READERS) as pool:
            found = pool.map(lambda place: (self.results / place[0] / place[1] / RECORD).exists(), candidates)
            there = {place for place, exists in zip(candidates, found, strict=True) if exists}
            new = [place for place in there if place not in self._done]
            self._done |= dict(zip(new, pool.map(self._finished, new), strict=True))
        return there

    def _finished(self, place: tuple[str, str]) -> State:
        """A result whose record is there; `failed` where that record cannot be believed."""
        folder = self.results / place[0] / place[1]
        try:
            made = read_record(folder).get("made", {})
        except UserError as error:
            return State(*place, "failed", reason="record", error=str(error))
        started, seconds = _seconds(made.get("started")), made.get("wall_seconds")
        ended = None if started is None or seconds is None else started + seconds
        return State(*place, "done", started, ended, seconds, made.get("host"), slurm_job=made.get("slurm_job"))

    def _needed(self, there: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """What is still to be made for the study's page."""
        needed, waiting = set(), [self.plan.report]
        while waiting:
            result = waiting.pop()
            place = (result.stage, result.key)
            if place not in there and place not in needed:
                needed.add(place)
                waiting += result.upstream()
        return needed

    def _state_folders(self, places: list[tuple[str, str]]) -> set[tuple[str, str]]:
        stages = {stage for stage, _ in places}
        return {(stage, name) for stage in stages for name in _names(self.results / ".state" / stage)}

    def _tried(self, place: tuple[str, str], lock: dict[str, Any] | None) -> State | None:
        """Running, failed, stopped or died, from its lock and its own word; None where there is neither."""
        told = read_status(self.results / ".state" / place[0] / place[1])
        if lock is None and told is None:
            return None
        told = told or {"state": "running"}
        alive = lock is not None and lock["alive"]
        ended = "died" if told["state"] == "running" else told["state"]
        return self._told(State(*place, "running" if alive else ended), told, lock or {})

    def _told(self, state: State, told: dict[str, Any], lock: dict[str, Any]) -> State:
        folder = self.results / ".state" / state.stage / state.key
        for name in ("host", "pid", "slurm_job"):
            setattr(state, name, lock.get(name) or told.get(name))
        state.started = told.get("started") or _seconds(lock.get("since"))
        state.heartbeat_age = lock.get("age")
        state.progress, state.said, state.log = told.get("progress"), told.get("said"), self._log(state, told)
        state.saved_step = max(
            (int(name[5:]) for name in _names(folder) if re.fullmatch(r"step_\d+", name)), default=None
        )
        if state.state != "running":
            state.ended, state.reason, state.error = told.get("ended"), told.get("reason"), told.get("error") or None
        if state.reason == "SIGTERM":
            state.reason = self._slurms_reason(state.slurm_job) or state.reason
        if state.state == "died":
            state.ended = told.get("at")
            state.reason = self._slurms_reason(state.slurm_job)
            state.error = last_lines(Path(state.log)) if state.log else None
        return state

    def _log(self, state: State, told: dict[str, Any]) -> str | None:
        path = self.results / ".logs" / state.stage / f"{state.key}.log"
        return str(path) if path.exists() else told.get("log")

    def _slurms_reason(self, job: str | None) -> str | None:
        """Why SLURM ended a job, as its log below the project's folder says; None where it does not."""
        root = self.plan.loaded.root / SLURM_LOGS
        for path in sorted(root.glob(f"**/{job}.log")) if job and re.fullmatch(r"\w+", job) else ():
            # Snakemake goes on to write after it; and the log of a job that was requeued has its earlier ends too.
            words = (last_lines(path, 500, 65_536) or "").rpartition(SLURM_START)[2]
            return next((reason for reason, pattern in SLURM_WORDS.items() if pattern.search(words)), None)
        return None


def _names(folder: Path) -> list[str]:
    """Names of what is in a folder; none where there is no such folder."""
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def _seconds(time: str | None) -> float | None:
    try:
        return datetime.fromisoformat(time).timestamp()
    except (TypeError, ValueError):
        return None


def last_lines(path: Path, count: int = 3, size: int = 8192) -> str | None:
    """The last lines of a log that say something, of its last `size` bytes; how far the job was is known otherwise."""
    try:
        with open(path, "rb") as handle:
            handle.seek(max(0, path.stat().st_size - size))
            lines = handle.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return "\n".join([line.rstrip() for line in lines if line.strip() and not STEP_LINE.search(line)][-count:]) or None
