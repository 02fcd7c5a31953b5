"""Data that the user brings: which files there are, and their content's hash, before anything is read from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

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
    shards = sorted(path for path in folder.glob("*.parquet") if path.is_file() and not path.name.startswith("."))
    if not shards:
        raise UserError(
            f"data.path: {folder} holds no .parquet file (names are looked at in this folder alone, with the ending in small "
            "letters); each needs one string column `text`"
        )
    if len(shards) == 1:
        raise UserError(
            f"data.path: {folder} holds one shard, {shards[0].name}, and at least two are needed: the last one in name order "
            "is for validation and is never trained on. Split the file in two"
        )
    return shards


# In the folder of results, and not hidden there: a copy of the results is to bring it along.
HASHES = "hashes.json"


class HashCache:
    """SHA-256 of local files, remembered in a JSON file under the results.

    `files` remembers by path, inode, size and modification time, so that nothing is hashed twice. `folders` remembers by
    the path that a study names what was last found there, so that finished results can be read where the data are not.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            known = {}
        if not isinstance(known, dict):
            known = {}
        self._files: dict[str, list] = known.get("files", {})
        self._folders: dict[str, Any] = known.get("folders", {})
        self._new = False

    def sha256(self, file: Path) -> str:
        """The hash of a file's content; read only when the file is not the one remembered."""
        _plain_name(file)
        stat = file.stat()
        state = [stat.st_ino, stat.st_size, stat.st_mtime_ns]
        known = self._files.get(str(file.resolve()))
        if known is None or known[:3] != state:
            known = self._files[str(file.resolve())] = [*state, sha256_file(file)]
            self._new = True
        return known[3]

    def shards(self, root: Path, path: str) -> list[tuple[str, str]]:
        """Name and hash of each parquet file of the folder that `data.path` names, in name order."""
        folder = root / path
        if not folder.is_dir() and path in self._folders:
            return [(name, sha256) for name, sha256 in self._folders[path]]
        found = [(_plain_name(file), self.sha256(file)) for file in local_shards(folder)]
        validation, sha256 = found[-1]
        twin = next((name for name, other in found[:-1] if other == sha256), None)
        if twin is not None:
            raise UserError(
                f"data.path: in {folder} the validation shard {validation} is the same file as the training shard {twin}; "
                "a study that trains on its validation text measures nothing. Bring another file as the last one"
            )
        self._remember(path, [list(pair) for pair in found])
        return found

    def sets(self, root: Path, path: str, key: str) -> str:
        """One hash of all files of the folder that the setting `key` names."""
        folder = root / path
        if not folder.is_dir() and path in self._folders:
            return self._folders[path]
        found = self.folder_sha256(folder, key)
        self._remember(path, found)
        return found

    def imported(self, root: Path, path: str, key: str) -> dict[str, Any]:
        """Of the imported folder that the setting `key` names: `sha256` of its tokenizer, base and chat, and their `models`."""
        folder = root / path
        if not folder.is_dir() and path in self._folders:
            return self._folders[path]
        kinds = ["base", *(["chat"] if (folder / "chat").is_dir() else [])]
        found = {
            "sha256": {kind: self.folder_sha256(folder / kind, key) for kind in ("tokenizer", *kinds)},
            "models": {kind: _model_of(folder / kind / "config.json", key) for kind in kinds},
        }
        self._remember(path, found)
        return found

    def folder_sha256(self, folder: Path, key: str) -> str:
        """One hash over the names and contents of all files below a folder, hidden ones left out.

        Raises UserError, naming the setting `key`, when the folder is missing or empty.
        """
        if not folder.is_dir():
            raise UserError(f"{key}: there is no folder {folder}")
        files = visible_files(folder)
        if not files:
            raise UserError(f"{key}: the folder {folder} is empty")
        text = "".join(f"{_plain_name(path.relative_to(folder))}\0{self.sha256(path)}\n" for path in files)
        return hashlib.sha256(text.encode()).hexdigest()

    def remembered(self, paths: Iterable[str]) -> dict[str, Any]:
        """What is known of the content of the folders that a study names by `paths`: shards as [name, hash], sets as one hash."""
        return {path: self._folders[path] for path in sorted(paths) if path in self._folders}

    def learn(self, told: dict[str, Any], root: Path) -> None:
        """Remember what another machine knew of folders. A folder that is here is looked at itself, so it is passed over.

        UserError where something else is remembered of a folder that is not here.
        """
        for path, content in told.items():
            if (root / path).is_dir():
                continue
            if self._folders.get(path, content) != content:
                raise UserError(
                    f"{self.path} remembers other data in {path} than the archive was made with; nothing was imported. Put the "
                    "data there, or give the study's data another path"
                )
            self._remember(path, content)

    def save(self) -> None:
        """Write what was learnt, beside what others have written meanwhile.

        A place that cannot be written (a read-only mount) only means hashing again.
        """
        if self._new:
            there = HashCache(self.path)
            known = {"files": there._files | self._files, "folders": there._folders | self._folders}
            try:
                write_json(self.path, known)
            except OSError:
                return
            self._new = False

    def _remember(self, path: str, value: Any) -> None:
        if self._folders.get(path) != value:
            self._folders[path] = value
            self._new = True


def _model_of(path: Path, key: str) -> dict[str, Any]:
    """The model that a checkpoint's config.json names, unchecked."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))["model"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{key}: {path} cannot be read ({error!r}); import the checkpoint again") from None


def _plain_name(path: Path) -> str:
    """A file's path as text; UserError where it is none (bytes that are no UTF-8)."""
    name = path.as_posix() if not path.is_absolute() else path.name
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UserError(f"the file name {name!r} is no valid UTF-8; rename the file") from None
    return name


def visible_files(folder: Path) -> list[Path]:
    """All files below a folder in order, without hidden ones (editors' and systems' droppings)."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
