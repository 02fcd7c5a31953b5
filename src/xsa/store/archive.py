"""An archive of results: one tar file, written and read from front to end, its description first.

Every byte is hashed while it passes. Writing refuses a file that is not what its record says; reading refuses whatever the
description does not list, and everything that is no plain file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from xsa.store.crate import METADATA, Entry, listed
from xsa.store.errors import UserError

CHUNK = 1 << 20
_LARGEST_DESCRIPTION = 256 << 20


@dataclass(frozen=True)
class Member:
    """A file to be put into an archive: what it must be, and where its bytes are."""

    entry: Entry
    source: Path | bytes


def text_member(path: str, content: bytes) -> Member:
    """A member whose bytes are at hand."""
    return Member(Entry(path, len(content), hashlib.sha256(content).hexdigest()), content)


def write_archive(
    target: Path, description: dict[str, Any], members: list[Member], done: Callable[[int], None]
) -> None:
    """Write an archive to `target`, whole or not at all. `done(bytes)` is called as bytes are written.

    The same members give the same bytes. UserError where a file has changed since its record was written.
    """
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as handle:
            with tarfile.open(fileobj=handle, mode="w|", format=tarfile.PAX_FORMAT) as tar:
                text = json.dumps(description, indent=1, ensure_ascii=False).encode()
                for member in [text_member(METADATA, text), *members]:
                    _add(tar, member, done)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def _add(tar: tarfile.TarFile, member: Member, done: Callable[[int], None]) -> None:
    info = tarfile.TarInfo(member.entry.path)
    info.size, info.mode = member.entry.bytes, 0o644
    with _opened(member) as handle:
        reader = _Hashing(handle, done)
        try:
            tar.addfile(info, reader)
            whole = not handle.read(1)
        except OSError as error:
            # The only error without a number: the file ended before the size that its record states.
            if error.errno is not None:
                raise
            whole = False
    if not whole or reader.sha256 != member.entry.sha256:
        found = reader.sha256 if whole else "another, for its size is another"
        raise UserError(
            f"{member.source} has changed since it was made: its record says SHA-256 {member.entry.sha256}, the file has "
            f"{found}. Nothing was written; bring the file back, or delete its folder to make the result again"
        )


@contextmanager
def _opened(member: Member) -> Iterator[BinaryIO]:
    if isinstance(member.source, bytes):
        yield io.BytesIO(member.source)
    else:
        with open(member.source, "rb") as handle:
            yield handle


class _Hashing:
    """A file whose bytes are hashed and counted as they are read."""

    def __init__(self, handle: BinaryIO, done: Callable[[int], None]):
        self._handle, self._hash, self._done = handle, hashlib.sha256(), done

    def read(self, size: int) -> bytes:
        content = self._handle.read(size)
        self._hash.update(content)
        self._done(len(content))
        return content

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def unpack(archive: Path, into: Path, done: Callable[[int], None]) -> dict[str, Entry]:
    """Write every file of an archive below the empty folder `into`; return what its description lists, by path.

    UserError, before anything else is believed, where the archive is cut short, holds what its description does not list
    or lacks what it does, or where a file is not of the size and hash stated there.
    """
    try:
        with tarfile.open(archive, mode="r|") as tar:
            members = iter(tar)
            entries = _description(tar, next(members, None), archive)
            missing = dict(entries)
            for member in members:
                _unpack(tar, member, missing, into, archive, done)
    except (FileExistsError, NotADirectoryError) as error:
        raise UserError(f"{archive} lists {error.filename} as a file and as a folder; nothing was imported") from None
    except tarfile.TarError as error:
        raise UserError(f"{archive} is no whole archive ({error}); copy it again. Nothing was imported") from None
    if missing:
        raise UserError(
            f"{archive} lacks {next(iter(missing))}, which its description lists; copy it again. Nothing was imported"
        )
    return entries


def _description(tar: tarfile.TarFile, first: tarfile.TarInfo | None, archive: Path) -> dict[str, Entry]:
    if first is None or first.name != METADATA or not _plain(first) or first.size > _LARGEST_DESCRIPTION:
        raise UserError(f"{archive} does not begin with {METADATA}; give a file that `xsa export` wrote")
    return listed(tar.extractfile(first).read(), str(archive))


def _unpack(
    tar: tarfile.TarFile,
    member: tarfile.TarInfo,
    missing: dict[str, Entry],
    into: Path,
    archive: Path,
    done: Callable[[int], None],
) -> None:
    entry = missing.pop(member.name, None)
    if not _plain(member):
        raise UserError(f"{archive} holds {member.name!r}, which is no plain file; nothing was imported")
    if entry is None:
        raise UserError(
            f"{archive} holds {member.name!r}, which its description does not list once; nothing was imported"
        )
    if member.size != entry.bytes:
        raise UserError(
            f"{archive}: {entry.path} has {member.size} bytes, its description says {entry.bytes}; nothing was imported"
        )
    target = into / entry.path
    target.parent.mkdir(parents=True, exist_ok=True)
    reader = _Hashing(tar.extractfile(member), done)
    with open(target, "xb") as handle:
        while content := reader.read(CHUNK):
            handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
    if reader.sha256 != entry.sha256:
        raise UserError(
            f"{archive}: {entry.path} has SHA-256 {reader.sha256}, its description says {entry.sha256}; copy the archive "
            "again. Nothing was imported"
        )


def _plain(member: tarfile.TarInfo) -> bool:
    return member.isreg() and not member.issparse()
