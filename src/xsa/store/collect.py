"""What lies in a folder of results that nobody needs: found, told with size and cost, and removed when asked.

Only what the store itself puts there is looked at: results, damaged ones set aside, private folders that a kill left
behind, saved states, logs and frozen code. Anything else is nobody's business here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xsa.store.arrival import STAGING
from xsa.store.errors import UserError
from xsa.store.lock import STALE_SECONDS, Lock, holders, lock_path
from xsa.store.record import RECORD, WHOLE
from xsa.store.snapshot import CODE, PART
from xsa.study.queued import in_queue
from xsa.study.stages import STAGES

TRASH = ".gc-"
# Jobs of a run that starts now, or has just ended, may not have told anybody yet what they work by.
YOUNG_SECONDS = 24 * 3600.0
_KEY = r"[A-Za-z0-9._-]+@[0-9a-f]{10}"
_PART = re.compile(rf"\.({_KEY})\.\d+\.part")
_DAMAGED = re.compile(rf"\.({_KEY})\.damaged-\d+")


@dataclass(frozen=True)
class Stray:
    """Something that nobody needs.

    kind:   result, damaged (a result set aside), unfinished (what a kill left), state (saved by a training), log, code (frozen).
    key:    the result's label@digest; None for what belongs to no single one.
    hours:  what it cost, in hours of the GPUs that made it, or of the machine where it had none; None where nothing says it.
    device: cuda or cpu; empty where nothing says it.
    holder: who works on it now; it is never removed then.
    """

    kind: str
    stage: str
    key: str | None
    paths: tuple[Path, ...]
    bytes: int
    hours: float | None = 0.0
    device: str = ""
    holder: str | None = None

    @property
    def name(self) -> str:
        """What a user calls it."""
        if self.kind == "code":
            return f"{CODE}/{self.paths[0].name}"
        return f"{self.stage}/{self.key}" if self.kind in ("result", "state", "log") else self.paths[0].name


def strays(results: Path, wanted: Set[tuple[str, str]]) -> list[Stray]:
    """All that lies in `results` and is no result of `wanted`, pairs of stage and label@digest; largest cost first."""
    held = {name: _holder(one) for name, one in holders(results).items() if one["alive"]}
    found = [*_results(results, wanted, held), *_set_aside(results, held), *_private(results), *_frozen(results, held)]
    return sorted(
        found, key=lambda one: (-(one.hours if one.hours is not None else float("inf")), -one.bytes, one.name)
    )


def _holder(lock: dict[str, Any]) -> str:
    return f"process {lock['pid']} on {lock['host']}"


def _results(results: Path, wanted: Set[tuple[str, str]], held: dict[str, str]) -> Iterator[Stray]:
    """Results that are not wanted, with their states and logs; and states of results that are finished."""
    for stage in STAGES:
        folders = {path.name: path for path in _children(results / stage) if re.fullmatch(_KEY, path.name)}
        states = {path.name: path for path in _children(results / ".state" / stage) if re.fullmatch(_KEY, path.name)}
        logs = {path.stem: path for path in _children(results / ".logs" / stage) if path.suffix == ".log"}
        for key in sorted({*folders, *states, *logs}):
            folder, state, log = folders.get(key), states.get(key), logs.get(key)
            if (stage, key) in wanted:
                if state is None or folder is None or not (folder / RECORD).exists():
                    continue
                kind, paths, hours, device = "state", [state], 0.0, ""
            else:
                kind = "result" if folder else "state" if state else "log"
                paths = [path for path in (folder, state, log) if path]
                hours, device = _cost(folder, state)
            holder = held.get(lock_path(results, stage, key).name)
            yield Stray(kind, stage, key, tuple(paths), sum(map(_size, paths)), hours, device, holder)


def _cost(folder: Path | None, state: Path | None) -> tuple[float | None, str]:
    """Hours that a result cost, by its record, and the device. A saved training without a result is of unknown cost."""
    if folder is None:
        return (None if state and any(state.glob("step_*")) else 0.0), ""
    for name in (RECORD, WHOLE):
        try:
            made = json.loads((folder / name).read_bytes())["made"]
            processes = (made.get("notes") or {}).get("processes") or 1
            seconds = made["wall_seconds"] + (made.get("earlier_seconds") or 0.0)
            return seconds / 3600 * processes, made.get("device") or ""
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return (None if any(folder.iterdir()) else 0.0), ""


def _set_aside(results: Path, held: dict[str, str]) -> Iterator[Stray]:
    """Results that were found damaged, and private folders of jobs that were killed."""
    for stage in STAGES:
        for path in _children(results / stage):
            part, damaged = _PART.fullmatch(path.name), _DAMAGED.fullmatch(path.name)
            match = part or damaged
            if not match:
                continue
            hours, device = (0.0, "") if part else _cost(path, None)
            holder = held.get(lock_path(results, stage, match[1]).name) if part else None
            kind = "unfinished" if part else "damaged"
            yield Stray(kind, stage, match[1], (path,), _size(path), hours, device, holder)


def _private(results: Path) -> Iterator[Stray]:
    """Folders of imports and removals that were killed."""
    of_stages = [results / top / stage for top in ("", ".state", ".logs") for stage in STAGES]
    for path in (path for folder in (results, results / CODE, *of_stages) for path in _children(folder)):
        if path.name.startswith((STAGING, TRASH)):
            host, _, pid = path.name.removeprefix(STAGING).removeprefix(TRASH).rpartition("-")
            alive = (
                Path(f"/proc/{pid}").exists()
                if host == socket.gethostname()
                else time.time() - path.stat().st_mtime < STALE_SECONDS
            )
            yield Stray(
                "unfinished", "", None, (path,), _size(path), holder=f"process {pid} on {host}" if alive else None
            )


def _frozen(results: Path, held: dict[str, str]) -> Iterator[Stray]:
    """Frozen code that no record names, and copies that were never finished. None is removed while anybody works here."""
    there = [path for path in _children(results / CODE) if path.is_dir() and not path.name.startswith(TRASH)]
    old = [path for path in there if not _young(path)]
    if not old:
        return
    # Jobs that wait in a queue for days hold no lock, and will work by the code that was frozen for them.
    waiting = in_queue(Path.cwd())
    asked = "a job of SLURM, perhaps: `squeue` does not answer" if waiting is None else None
    holder = next(iter(held.values()), None) or (f"SLURM job {waiting[0]}" if waiting else asked)
    named = {_snapshot_of(folder) for stage in STAGES for folder in _children(results / stage)}
    for path in old:
        if path.name.endswith(PART):
            yield Stray("unfinished", "", None, (path,), _size(path), holder=holder)
        elif path.name not in named:
            yield Stray("code", "", None, (path,), _size(path), holder=holder)


def _young(path: Path) -> bool:
    return time.time() - path.stat().st_mtime < YOUNG_SECONDS


def _snapshot_of(folder: Path) -> str | None:
    """The frozen code that a result was made by; None where nothing says it."""
    for name in (RECORD, WHOLE):
        try:
            return json.loads((folder / name).read_bytes())["made"]["snapshot"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def _children(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files if not file.is_dir())


def chosen(found: list[Stray], names: tuple[str, ...], keep_hours: float) -> tuple[list[Stray], list[Stray]]:
    """What may be removed, and what must be named first: without `names` all that cost at most `keep_hours`, else those named.

    UserError for a name that is no stray's, and for one whose holder works on it.
    """
    if not names:
        cheap = [one for one in found if one.hours is not None and one.hours <= keep_hours and not one.holder]
        return cheap, [one for one in found if one not in cheap and not one.holder]
    picked = []
    for name in names:
        short = name.rstrip("/").removesuffix(f"/{RECORD}")
        named = [one for one in found if short in (one.name, one.key, *map(str, one.paths))]
        if not named:
            raise UserError(
                f"{name} is nothing that could be removed: a study under config/studies refers to it, or it is not there; "
                "`xsa gc` lists what could be"
            )
        busy = next((one for one in named if one.holder), None)
        if busy:
            busy_with = "needed" if busy.kind == "code" else "being made"
            raise UserError(f"{name} is {busy_with} by {busy.holder}; wait for it or stop it")
        picked += named
    return list(dict.fromkeys(picked)), []


def remove(results: Path, stray: Stray) -> None:
    """Remove a stray: renamed out of sight in one step each, then deleted. UserError when somebody works on it meanwhile."""
    if stray.key is None:
        if stray.kind == "code" and _young(stray.paths[0]):
            raise UserError(f"a run that has just started works by {stray.paths[0]}")
        _discard(stray)
        return
    with Lock(lock_path(results, stray.stage, stray.key), what=f"{stray.stage} {stray.key}"):
        _discard(stray)


def _discard(stray: Stray) -> None:
    for path in stray.paths:
        # Beside it, for a stage's folder may be a link to another file system.
        trash = path.parent / f"{TRASH}{socket.gethostname()}-{os.getpid()}"
        os.rename(path, trash)
        if trash.is_dir() and not trash.is_symlink():
            shutil.rmtree(trash)
        else:
            trash.unlink()
