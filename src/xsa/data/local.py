"""Copying a folder of the user's own into a result."""

from __future__ import annotations

from pathlib import Path

from xsa.data.shard import copy_hashed
from xsa.store.errors import UserError
from xsa.store.job import Job
from xsa.study.sources import HashCache, visible_files


def copy_folder(job: Job, if_empty: str) -> None:
    """Copy the folder that `job.source` names; what was copied must be what the plan hashed.

    UserError where it is not, or where there are no files; `if_empty` then says what to do.
    """
    source = Path(job.source["path"])
    files = visible_files(source) if source.is_dir() else []
    if not files:
        raise UserError(f"{source} has no files; {if_empty}")
    for done, path in enumerate(files, 1):
        copy_hashed(path, job.out / path.relative_to(source))
        job.progress.step(done, len(files), unit="file")
    found = HashCache(job.state / "hashes.json").folder_sha256(job.out, str(source))
    if found != job.settings.sha256:
        raise UserError(
            f"{source} has changed since the plan was made: SHA-256 {job.settings.sha256} was planned, its files now have {found}. "
            "Bring them back, or plan again"
        )
