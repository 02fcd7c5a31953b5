"""The record beside every result: what it is, the hash of each of its files, and how it was made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xsa.store.errors import UserError
from xsa.store.files import sha256_file

RECORD = "record.json"
# A copy that no rule declares: Snakemake deletes a declared output before it runs a job again, never this one.
WHOLE = ".record.json"

_verified: dict[tuple[str, int, int, int], str] = {}


def read_record(folder: Path) -> dict[str, Any]:
    """The record of the result in `folder`, from whichever of its two copies is whole, checked against the folder's name."""
    unreadable = ""
    for path in (Path(folder) / RECORD, Path(folder) / WHOLE):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            unreadable = f"{path} is not readable JSON ({error}); bring a whole copy back or delete {folder}"
            continue
        if not isinstance(record, dict) or not isinstance(record.get("files"), dict):
            unreadable = f"{path} is no record (it lists no files); bring a whole copy back or delete {folder}"
            continue
        digest = Path(folder).resolve().name.rpartition("@")[2]
        if record.get("digest") != digest:
            raise UserError(
                f"{path} says digest {record.get('digest')}, its folder says {digest}; one of them was renamed or edited"
            )
        return record
    raise UserError(
        unreadable or f"{folder} has no record.json, so it is no finished result; run the stage that makes it"
    )


def verify_file(folder: Path, file: str) -> None:
    """Compare a file with the SHA-256 in its record; remembered per process by inode, size and time."""
    path = Path(folder) / file
    stat = path.stat()
    key = (str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns)
    expected = read_record(folder)["files"].get(file, {}).get("sha256")
    if expected is None:
        raise UserError(f"{path} is not in its record; the stage that made {folder} did not write it")
    found = _verified.get(key)
    if found is None:
        found = _verified[key] = sha256_file(path)
    if found != expected:
        raise UserError(
            f"{path} has changed since it was made: its record says SHA-256 {expected}, the file has {found}. "
            f"Bring the file back, or delete {folder} to make it again"
        )
