"""Stage `imported_tokenizer`: a tokenizer that was made elsewhere, as it lies in an imported folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xsa.data.shard import copy_hashed
from xsa.data.tokenizer import Tokenizer
from xsa.store.errors import UserError
from xsa.store.job import Job
from xsa.study.sources import HashCache, visible_files


def imported_tokenizer(job: Job) -> dict[str, Any]:
    """Copy tokenizer.json and what is beside it. UserError where it is not whole, or not what was planned."""
    copy_imported(job)
    tokenizer = Tokenizer.load(job.out / "tokenizer.json")
    return {"vocab_size": tokenizer.vocab_size, "origin": job.source["path"]}


def copy_imported(job: Job) -> None:
    """Copy the folder that `job.source` names; what was copied must be what the plan hashed."""
    source = Path(job.source["path"])
    files = visible_files(source) if source.is_dir() else []
    if not files:
        raise UserError(f"{source} has no files; import the checkpoint again, or name another folder in imported.path")
    for done, path in enumerate(files, 1):
        copy_hashed(path, job.out / path.relative_to(source))
        job.progress.step(done, len(files), unit="file")
    found = HashCache(job.state / "hashes.json").folder_sha256(job.out, str(source))
    if found != job.settings.sha256:
        raise UserError(
            f"{source} has changed since the plan was made: SHA-256 {job.settings.sha256} was planned, its files now have {found}. "
            "Bring them back, or plan again"
        )
