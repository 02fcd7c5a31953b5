"""`config/data.lock`: the SHA-256 of every downloaded file, and the commit of every branch, kept when first seen.

Both are held to ever after: a file must have its hash, and a dataset's branch means the commit that it meant at first.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from xsa.store.errors import UserError
from xsa.store.files import write_json
from xsa.store.lock import Lock

WAIT_SECONDS = 60.0


class DataLock:
    """A JSON file: name of a published file -> {sha256, bytes}, `dataset@branch` -> {commit}. Several jobs may add at once."""

    def __init__(self, path: Path):
        self.path = Path(path)

    def knows(self, name: str, sha256: str, origin: str) -> bool:
        """True when this is the hash kept for a file, False when the file is new; UserError when it has changed.

        origin: where the file came from, for the message.
        """
        entry = self._read().get(name)
        if entry is not None and entry["sha256"] != sha256:
            raise UserError(
                f"{name} has changed since {self.path} was written: it says SHA-256 {entry['sha256']}, what came from "
                f"{origin} has {sha256}. Pin the dataset's revision to the commit you want, or, if the new content is meant, "
                "delete the entry from the lock"
            )
        return entry is not None

    def keep(self, name: str, sha256: str, size: int) -> None:
        """Add a file."""
        self._add(name, {"sha256": sha256, "bytes": size})

    def commit(self, branch: str) -> str | None:
        """The commit that `dataset@branch` stands for, or None where it has not been seen."""
        return self._read().get(branch, {}).get("commit")

    def pin(self, branch: str, commit: str) -> str:
        """Keep the commit of `dataset@branch`, unless one is kept; returns the one that is."""
        return self._add(branch, {"commit": commit}, replace=False)["commit"]

    def _add(self, name: str, entry: dict, replace: bool = True) -> dict:
        with _Turn(self.path.with_name(f".{self.path.name}.lock")):
            entries = self._read()
            if name in entries and not replace:
                return entries[name]
            entries[name] = entry
            try:
                write_json(self.path, entries)
            except OSError as error:
                raise UserError(
                    f"{self.path} cannot be written ({error.strerror}), and what {name} is must be kept there; "
                    "make its folder writable"
                ) from None
            return entry

    def _read(self) -> dict[str, dict]:
        try:
            entries = json.loads(self.path.read_text(encoding="utf-8"))
            if all(
                len(entry["commit"]) == 40 if "commit" in entry else len(entry["sha256"]) == 64
                for entry in entries.values()
            ):
                return entries
            problem = "an entry has no SHA-256 and no commit"
        except FileNotFoundError:
            return {}
        except (json.JSONDecodeError, UnicodeDecodeError, AttributeError, KeyError, TypeError) as error:
            problem = str(error)
        raise UserError(f"{self.path} is not as `xsa` writes it ({problem}); bring it back from version control")


class _Turn(Lock):
    """The store's lock, waited for."""

    def __init__(self, path: Path):
        super().__init__(path, what="the data lock")

    def __enter__(self) -> Lock:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return super().__enter__()
            except UserError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
