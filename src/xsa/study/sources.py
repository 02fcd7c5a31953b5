"""Data that the user brings: which files there are, and their content's hash, before anything is read from them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from xsa.store.errors import UserError
from xsa.store.files import sha256_file, write_json


def local_shards(folder: Path) -> list[Path]:
    """The parquet files of a folder in name order; the last one is for validation.

    Raises UserError when the folder is missing, holds no parquet file, or holds one alone.
    """
    if not folder.is_dir():
        raise UserError(
            f"data.path: there is no folder {folder}; point it at a folder of parquet files with a column `text`"
        )
    shards = sorted(path for path in folder.glob("*.parquet") if path.is_file())
    if not shards:
        raise UserError(f"data.path: {folder} holds no .parquet file; each needs one string column `text`")
    if len(shards) == 1:
        raise UserError(
            f"data.path: {folder} holds one shard, {shards[0].name}, and at least two are needed: the last one in name order "
            "is for validation and is never trained on. Split the file in two"
        )
    return shards


class HashCache:
    """SHA-256 of local files, remembered by path, inode, size and modification time in a JSON file."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self._known: dict[str, list] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            self._known = {}
        self._new = False

    def sha256(self, file: Path) -> str:
        """The hash of a file's content; read only when the file is not the one remembered."""
        stat = file.stat()
        state = [stat.st_ino, stat.st_size, stat.st_mtime_ns]
        known = self._known.get(str(file.resolve()))
        if known is None or known[:3] != state:
            known = self._known[str(file.resolve())] = [*state, sha256_file(file)]
            self._new = True
        return known[3]

    def folder_sha256(self, folder: Path, key: str) -> str:
        """One hash over the names and contents of all files below a folder; `key` is the setting that named it."""
        if not folder.is_dir():
            raise UserError(f"{key}: there is no folder {folder}")
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        if not files:
            raise UserError(f"{key}: the folder {folder} is empty")
        text = "".join(f"{path.relative_to(folder).as_posix()}\0{self.sha256(path)}\n" for path in files)
        return hashlib.sha256(text.encode()).hexdigest()

    def save(self) -> None:
        """Write what was learnt. A place that cannot be written (a read-only mount) only means hashing again."""
        if self._new:
            try:
                write_json(self.path, self._known)
            except OSError:
                return
            self._new = False
