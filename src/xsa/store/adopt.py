"""Putting files that were made elsewhere in the place of a result, with a record that says so."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from xsa.store.errors import UserError
from xsa.store.files import sha256_file, write_json
from xsa.store.lock import Lock, lock_path
from xsa.store.record import RECORD, WHOLE

ADOPTED = "adopted"  # the record's entry


def place_adopted(final: Path, files: dict[str, Path | str], record: dict[str, Any]) -> Path:
    """Copy `files` (name: path, or text of its own) to the result `final` and write `record` with their hashes.

    The result appears whole or not at all. UserError where something stands at `final`, or someone makes it now.
    """
    stage, results = final.parent.name, final.parent.parent
    part = final.parent / f".{final.name}.{os.getpid()}.part"
    with Lock(lock_path(results, stage, final.name), what=f"{stage} {final.name}"):
        refuse_occupied(final)
        try:
            part.mkdir(parents=True)
            for name, source in files.items():
                (part / name).parent.mkdir(parents=True, exist_ok=True)
                if isinstance(source, str):
                    (part / name).write_text(source, encoding="utf-8")
                else:
                    shutil.copyfile(source, part / name)
            hashes = {name: _state(part / name) for name in sorted(files)}
            for name in (WHOLE, RECORD):
                write_json(part / name, record | {"files": hashes})
            if final.exists():
                final.rmdir()
            os.rename(part, final)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return final


def refuse_occupied(final: Path) -> None:
    """UserError where anything stands at the place of a result."""
    if final.exists() and any(final.iterdir()):
        raise UserError(f"{final} is there already, and a result is never overwritten; move it away first")


def _state(path: Path) -> dict[str, Any]:
    with open(path, "rb") as handle:
        os.fsync(handle.fileno())
    return {"sha256": sha256_file(path), "bytes": path.stat().st_size}
