"""Stage `shard`: one parquet file of text, from the hub, from your own folder, or made by the built-in generator."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from xsa.data.datalock import DataLock
from xsa.data.download import CHUNK, download
from xsa.data.parquet import check_shard
from xsa.store.errors import UserError
from xsa.store.job import Job


def shard(job: Job) -> dict[str, Any]:
    """Stage `shard`: bring the file, check it (hash, schema, every document), and write it as settings.name.

    Notes: documents, row_groups, characters, and where it came from.
    """
    settings = job.settings
    target = job.out / Path(settings.name).name
    origin = {"builtin": _builtin, "local": _local, "hub": _hub}[settings.kind](job, target)
    # A local file is checked where it lies, so that an error names the user's own file.
    counts = check_shard(Path(origin) if settings.kind == "local" else target)
    job.progress.say(f"{target.name}: {counts['documents']:,} documents, {counts['characters']:,} characters")
    return counts | {"origin": origin}


def _builtin(job: Job, target: Path) -> str:
    from xsa.data.world import write_shard

    settings = job.settings
    write_shard(target, settings.seed, settings.index, settings.shards, settings.documents)
    return "builtin"


def _local(job: Job, target: Path) -> str:
    source = Path(job.source["path"])
    if source.is_dir():
        source = source / job.settings.name
    found = copy_hashed(source, target)
    if found != job.settings.sha256:
        raise UserError(
            f"{source} has changed since the plan was made: SHA-256 {job.settings.sha256} was planned, the file has {found}. "
            "Bring the file back, or plan again"
        )
    return str(source)


def _hub(job: Job, target: Path) -> str:
    from xsa.data.hub import hub_file

    settings = job.settings
    lock = DataLock(job.source["data_lock"])
    published = hub_file(settings.dataset, settings.revision, settings.name, lock)
    return download(published, target, job.state, lock, job.progress, check_shard)


def copy_hashed(source: Path, target: Path) -> str:
    """Copy a file and return the SHA-256 of what was copied (UserError when it cannot be read)."""
    digest = hashlib.sha256()
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = open(source, "rb")  # noqa: SIM115 - reading and writing fail for different reasons
    except OSError as error:
        raise UserError(f"{source} cannot be read: {error.strerror}; bring the file back or make it readable") from None
    with handle, open(target, "wb") as out:
        while chunk := handle.read(CHUNK):
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest()
