"""The record beside every result: what it is, the hash of each of its files, and how it was made."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from xsa.store.errors import UserError
from xsa.store.files import sha256_file
from xsa.study.result import digest_of

RECORD = "record.json"
# A copy that no rule declares: Snakemake deletes a declared output before it runs a job again, never this one.
WHOLE = ".record.json"

_verified: dict[tuple[str, int, int, int], str] = {}


def read_record(folder: Path) -> dict[str, Any]:
    """The record of the result in `folder`, from whichever of its two copies is whole.

    UserError where there is none, or where it disagrees with its place or with itself (`check_record`).
    """
    folder, unreadable = Path(folder), ""
    for path in (folder / RECORD, folder / WHOLE):
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
        # Not resolved: a stage's folder may be a link to another disk, where it has another name.
        place = Path(os.path.abspath(folder))
        check_record(record, str(path), place.parent.name, place.name)
        return record
    raise UserError(
        unreadable or f"{folder} has no record.json, so it is no finished result; run the stage that makes it"
    )


def check_record(record: dict[str, Any], path: str, stage: str, key: str) -> None:
    """UserError, naming both sides, where a record says otherwise than its place, or its digest is not its recipe's.

    The place is that of the result `key` (label@digest) of `stage`; `path` is what the message calls the record.
    """
    label, _, digest = key.rpartition("@")
    for name, there in (("digest", digest), ("label", label), ("stage", stage)):
        if name == "digest" or name in record:
            said = record.get(name)
            if said != there:
                raise UserError(
                    f"{path} says {name} {said}, its folder says {there}; one of them was renamed or edited. Give the folder "
                    "its name back, or bring the record back"
                )
    if record.get("recipe"):
        try:
            found = digest_of(record["recipe"])
        except ValueError:
            found = None
        if found != digest:
            raise UserError(
                f"{path} says digest {digest}, but its recipe has {f'digest {found}' if found else 'no digest'}; the recipe was edited. Bring the record "
                "back, or delete the folder to make the result again"
            )


def verify_file(folder: Path, file: str) -> None:
    """Compare a file with the SHA-256 in its record; remembered per process by inode, size and time.

    UserError where the file is missing, is not in the record, or has another hash.
    """
    path = Path(folder) / file
    expected = read_record(folder)["files"].get(file, {}).get("sha256")
    if expected is None:
        raise UserError(f"{path} is not in its record; the stage that made {folder} did not write it")
    try:
        stat = path.stat()
    except FileNotFoundError:
        raise UserError(
            f"{path} is missing (its record says SHA-256 {expected}); bring the file back, by `xsa import` or by hand, or "
            f"delete {Path(folder) / RECORD} to make this result again"
        ) from None
    key = (str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns)
    found = _verified.get(key)
    if found is None:
        found = _verified[key] = sha256_file(path)
    if found != expected:
        raise UserError(
            f"{path} has changed since it was made: its record says SHA-256 {expected}, the file has {found}. "
            f"Bring the file back, or delete {folder} to make it again"
        )
