"""Making a result: in a private folder, hashed, recorded, then renamed into place; never half there, never twice."""

from __future__ import annotations

import errno
import importlib
import importlib.metadata
import os
import platform
import shutil
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from xsa.store.errors import UserError
from xsa.store.files import sha256_file, write_json
from xsa.store.job import Job
from xsa.store.lock import Lock, lock_path
from xsa.store.record import RECORD, WHOLE, read_record, verify_file
from xsa.store.snapshot import frozen, git_commit
from xsa.store.status import reported
from xsa.study.stages import STAGES

_PACKAGES = ("xsa", "torch", "numpy", "pyarrow", "tiktoken", "rustbpe", "pandas", "scipy", "matplotlib", "snakemake")


def produce(
    job: Job, recipe: dict[str, Any], digest: str, code: str, begin: Callable[[Job], None] = lambda job: None
) -> Path:
    """Run the stage of `job` and put its result at `job.out`; return that folder.

    A result that is there and whole is kept, and only its record is written again (Snakemake deletes the record of a
    job that it runs again). A result that is there and damaged is moved aside, not deleted.

    Raises UserError for what the user can mend: someone else makes this result now, the disk is full, or what the
    stage itself refuses. Nothing is left at `job.out` then but what had been there. `code` is the fingerprint of the
    stage's code, for the record. `begin` is called with the job just before the stage runs, where it does run.
    A job of a workflow's run waits for whoever makes this result, for it may be a job of a driver that died.
    """
    final = job.out
    results = final.parent.parent
    try:
        with (
            Lock(lock_path(results, job.stage, final.name), f"{job.stage} {final.name}", _patience(job)),
            reported(job.state, job.progress) as status,
        ):
            if is_whole(final):
                _write_records(final, read_record(final))
                job.progress.say(f"is there already and whole; record written again in {final}")
            else:
                earlier = {"earlier_seconds": round(status.spent, 3)} if status.spent else {}
                _make(job, recipe, digest, {"code": code} | earlier, final, begin)
            shutil.rmtree(job.state, ignore_errors=True)
    except OSError as error:
        raise disk_error(error, final) from error
    return final


def _make(
    job: Job, recipe: dict[str, Any], digest: str, told: dict[str, Any], final: Path, begin: Callable[[Job], None]
) -> None:
    """Run the stage in a private folder, record what it wrote, with `told`, and rename the folder to `final`."""
    for leftover in final.parent.glob(f".{final.name}.*.part"):
        shutil.rmtree(leftover)
    job.out = final.parent / f".{final.name}.{os.getpid()}.part"
    try:
        job.out.mkdir(parents=True)
        started, begun = datetime.now(UTC), time.perf_counter()
        begin(job)
        notes = run_stage(job)
        record = {
            "stage": job.stage,
            "label": job.label,
            "digest": digest,
            "recipe": recipe,
            "files": _hashes(job.out),
            "made": _how(job, started, time.perf_counter() - begun, notes) | told,
        }
        _write_records(job.out, record)
        _put_in_place(job, final)
    finally:
        shutil.rmtree(job.out, ignore_errors=True)
        job.out = final


def _patience(job: Job) -> Callable[[str], None] | None:
    return job.progress.say if frozen() else None


def is_whole(folder: Path) -> bool:
    """True when `folder` holds a result whose every file has the hash that its record states."""
    try:
        for file in read_record(folder)["files"]:
            verify_file(folder, file)
    except (UserError, FileNotFoundError, NotADirectoryError):
        return False
    return True


def _write_records(folder: Path, record: dict[str, Any]) -> None:
    """The record twice: one that Snakemake may delete, one that it does not know."""
    write_json(folder / WHOLE, record)
    write_json(folder / RECORD, record)


def run_stage(job: Job) -> dict[str, Any]:
    """Call the function of the job's stage, which fills `job.out`; the notes that it gives for the record."""
    return _entry(job.stage)(job) or {}


def _entry(stage: str):
    module, _, function = STAGES[stage].entry.partition(":")
    return getattr(importlib.import_module(module), function)


def _hashes(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of every file, after it has been flushed to disk."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb") as handle:
                os.fsync(handle.fileno())
            files[path.relative_to(folder).as_posix()] = {"sha256": sha256_file(path), "bytes": path.stat().st_size}
    if not files:
        raise AssertionError(f"the stage wrote nothing into {folder}")
    return files


def _put_in_place(job: Job, final: Path) -> None:
    """Rename the finished folder to its name. What stands there is an empty folder of Snakemake's, or damaged."""
    if is_whole(final):
        job.progress.say(f"was made by another job meanwhile; that result is kept in {final}")
        return
    if final.exists() and any(final.iterdir()):
        aside = final.parent / f".{final.name}.damaged-{time.time_ns()}"
        os.rename(final, aside)
        job.progress.say(f"what stood at {final} was not whole; it is kept at {aside}")
    os.rename(job.out, final)


def disk_error(error: OSError, final: Path) -> Exception:
    """A full disk or a forbidden place as a sentence; any other OSError as it is."""
    place = error.filename2 or error.filename or final
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError(
            f"the disk is full ({error.strerror}: {place}) while {final.name} was made; nothing half-written was kept. "
            "Free some room and start again"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return UserError(
            f"{place}: {error.strerror.lower()}, while {final.name} was made; allow it, or bring the file elsewhere"
        )
    return error


def _how(job: Job, started: datetime, seconds: float, notes: dict[str, Any]) -> dict[str, Any]:
    """How the result came about; none of it decides what the result is."""
    snapshot = frozen()
    how: dict[str, Any] = {
        "started": started.isoformat(timespec="seconds"),
        "wall_seconds": round(seconds, 3),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": _versions(),
        "git_commit": git_commit(),
        "snapshot": None if snapshot is None else snapshot.name,
        "device": job.device,
        "threads": job.run.threads,
        "slurm_job": os.environ.get("SLURM_JOB_ID"),
        "visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "notes": notes,
    }
    if job.device == "cuda" and "torch" in sys.modules:
        torch = sys.modules["torch"]
        how["gpu"] = torch.cuda.get_device_name()
        how["cuda"] = torch.version.cuda
    return how


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions
