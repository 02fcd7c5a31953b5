"""A project's configuration as it was at a git revision, read from git's objects; the working tree is left alone."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import yaml

from xsa.store.errors import UserError
from xsa.study.lock import LOCK, StagesLock, lock_values
from xsa.study.plan import Plan
from xsa.study.study import LoadedStudy, find_study


def plan_at(revision: str, study: str, root: Path, results: Path) -> tuple[Plan, StagesLock]:
    """The plan of a study by its files and lock of a revision, and that lock.

    Local data, imported checkpoints and the report's templates are taken as they are now, for git does not hold them
    all; settings are read by the present code. UserError where git has no such revision, or the code cannot read it.
    """
    commit = _commit(revision, root)
    with tempfile.TemporaryDirectory(prefix="xsa-revision-") as folder:
        there = Path(folder)
        packed = _git(root, "archive", "--format=tar", commit, "config")
        if packed is None:
            raise UserError(f"{revision} holds no config/ of this project; name a revision that has it")
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            # It is git's own archive; Python before 3.11.4 has no filters.
            safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(there, **safely)
        try:
            path, lock = find_study(study, there), StagesLock(there)
            loaded = LoadedStudy(path, there)
            loaded.root = root
            return Plan(loaded, lock, results), lock
        except UserError as error:
            raise UserError(f"as it was at {revision}: {str(error).replace(f'{there}/', '')}") from None


def functions_at(commit: str | None, stage: str, fingerprint: str | None, root: Path) -> dict[str, str] | None:
    """Hashes of the functions behind a stage's code, from the lock at the commit that made a result, or from today's.

    None where neither lock has the fingerprint that the result's record states: its code was never locked.
    """
    for text in (_lock_text(commit, root), _now(root)):
        entry = _entries(text).get(stage) if text else None
        if entry and entry.get("fingerprint") == fingerprint:
            return entry["functions"]
    return None


_parsed: dict[str, dict[str, Any]] = {}


def _entries(text: str) -> dict[str, Any]:
    if text not in _parsed:
        try:
            _parsed[text] = lock_values(text)["stages"]
        except (yaml.YAMLError, KeyError, TypeError):
            _parsed[text] = {}
    return _parsed[text]


def _lock_text(commit: str | None, root: Path) -> str | None:
    if not commit or not re.fullmatch(r"[0-9a-f]{7,40}\+?", commit):
        return None
    shown = _git(root, "show", f"{commit.rstrip('+')}:./{LOCK.as_posix()}")
    return shown.decode("utf-8", errors="replace") if shown else None


def _now(root: Path) -> str | None:
    try:
        return (root / LOCK).read_text(encoding="utf-8")
    except OSError:
        return None


def _commit(revision: str, root: Path) -> str:
    found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if not found:
        raise UserError(f"git knows no revision {revision!r} in {root}; `git log --oneline` lists them")
    return found.decode().strip()


def _git(root: Path, *arguments: str) -> bytes | None:
    """What git prints; None where it refuses."""
    try:
        run = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout if run.returncode == 0 else None
