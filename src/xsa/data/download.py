"""Downloading one published file: retried, resumed, and checked against `config/data.lock`.

One client for the hub and for all other hosts. Addresses, tokens, offline mode and cache of the hub are `huggingface_hub`'s
(`xsa.data.hub`); its downloader is not used, for it does not try again when a server answers 500, resumes without asking
whether the file is still the same, and knows no other host.

A part stays in the job's state folder, so that a killed job goes on where it was. A file that was brought by hand, into
the folder that the environment variable XSA_DOWNLOADS names, is taken instead of the network.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from xsa.data.datalock import DataLock
from xsa.store.errors import UserError
from xsa.store.files import sha256_file, write_text
from xsa.store.progress import Progress

CHUNK = 1 << 20
TRIES = 6
TIMEOUT_SECONDS = 60
LONGEST_WAIT_SECONDS = 120.0


@dataclass(frozen=True)
class Published:
    """A file that is published somewhere.

    name: its key in the data lock, and its path under $XSA_DOWNLOADS. headers: sent to the url's own host only.
    branch: `dataset@branch` where the url names a branch that the lock has no commit of yet. copy: a verified or unverified copy on this machine, such as in the hub's cache. offline: why the network must not
    be used. bring: one more way to bring the file, for the error message.
    """

    name: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    branch: str | None = None
    copy: Path | None = None
    offline: str | None = None
    bring: str = ""


class _Broken(Exception):
    """This try failed, another may not. `wait`: seconds that the server asks for."""

    def __init__(self, why: str, wait: float | None = None):
        super().__init__(why)
        self.wait = wait


@dataclass
class _Said:
    """What a server tells of a file besides its bytes (the hub does, before it sends one on to where they lie)."""

    commit: str | None = None
    sha256: str | None = None

    def hear(self, headers) -> None:
        self.commit = self.commit or _hexadecimal(headers.get("X-Repo-Commit"), 40)
        self.sha256 = self.sha256 or _hexadecimal((headers.get("X-Linked-Etag") or "").strip('"'), 64)


def _hexadecimal(text: str | None, length: int) -> str | None:
    return text if text and len(text) == length and not text.strip("0123456789abcdef") else None


def download(
    published: Published,
    target: Path,
    state: Path,
    lock: DataLock,
    progress: Progress,
    validate: Callable[[Path], object],
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Put the file at `target`, checked against the lock; returns where it came from: a path or the url.

    A file that is new to the lock has to pass `validate` first, so that no error page or cut-off copy is ever kept.
    Raises UserError: not to be had (which file, why, how to bring it), not the content that the lock knows, or not valid.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    brought, said = _brought(published), _Said()
    if brought is not None:
        shutil.copyfile(brought, target)
    elif published.offline:
        raise _unavailable(published, published.offline)
    else:
        part = state / f"{hashlib.sha256(published.name.encode()).hexdigest()[:16]}.part"
        part.parent.mkdir(parents=True, exist_ok=True)
        said = _retried(published, part, progress, sleep)
        shutil.move(part, target)
        _etag_file(part).unlink(missing_ok=True)
    origin = str(brought) if brought is not None else published.url
    try:
        sha256 = sha256_file(target)
        if not lock.knows(published.name, sha256, origin):
            _check_said(published, said, sha256, lock)
            validate(target)
            lock.keep(published.name, sha256, target.stat().st_size)
    except UserError:
        target.unlink()
        raise
    return origin


def _check_said(published: Published, said: _Said, sha256: str, lock: DataLock) -> None:
    """Hold a new file against the hash that the server gave with it, and keep the commit that its branch stood for."""
    if said.sha256 and said.sha256 != sha256:
        raise UserError(
            f"{published.url} was to have SHA-256 {said.sha256} by what its server says, what came has {sha256}; it was damaged "
            "on the way or by a proxy. Run again, or bring it another way"
        )
    if published.branch and said.commit and (pinned := lock.pin(published.branch, said.commit)) != said.commit:
        raise UserError(
            f"{published.branch} moved from commit {pinned} to {said.commit} while its files were downloaded; run again, which "
            f"takes all of them from {pinned}"
        )


def _brought(published: Published) -> Path | None:
    folder = os.environ.get("XSA_DOWNLOADS")
    if folder and (Path(folder) / published.name).is_file():
        return Path(folder) / published.name
    return published.copy


def _unavailable(published: Published, why: str) -> UserError:
    also = f", or {published.bring}" if published.bring else ""
    return UserError(
        f"{published.name} is needed and cannot be downloaded: {why}. On a machine with a network fetch {published.url}, put "
        f"it at <folder>/{published.name} here and set XSA_DOWNLOADS=<folder>{also}"
    )


def _retried(published: Published, part: Path, progress: Progress, sleep: Callable[[float], None]) -> _Said:
    """Try until the part is whole. Tries that brought something new are not counted against the limit."""
    failures = 0
    while True:
        before = _size(part)
        try:
            return _try(published, part, progress)
        except _Broken as error:
            grown = _etag_file(part).exists() and _size(part) > before
            failures = 1 if grown else failures + 1
            if failures >= TRIES:
                raise _unavailable(published, f"{TRIES} tries failed, the last with: {error}") from None
            wait = min(LONGEST_WAIT_SECONDS, max(error.wait or 0.0, 2.0 ** (failures - 1)))
            progress.say(f"{published.name}: {error}; trying again in {wait:.0f} s")
            sleep(wait)


def _try(published: Published, part: Path, progress: Progress) -> _Said:
    """One request, going on behind what the part has when the server still has the same file."""
    have, etag, said = _size(part), _etag_file(part), _Said()
    headers = {"User-Agent": "xsa", "Accept-Encoding": "identity", **published.headers}
    if have and etag.exists():
        headers |= {"Range": f"bytes={have}-", "If-Range": etag.read_text()}
    try:
        opener = urllib.request.build_opener(_Redirects(said))  # with the proxies of the environment
        with opener.open(urllib.request.Request(published.url, headers=headers), timeout=TIMEOUT_SECONDS) as reply:
            said.hear(reply.headers)
            total = _total(reply, have)
            if reply.status == 206 and _goes_on(reply, have, headers.get("If-Range")):
                mode = "ab"
            elif reply.status == 200:
                mode, have = "wb", 0
            else:
                part.unlink(missing_ok=True)
                raise _Broken("the server sent another part than was asked for")
            # A weak tag does not promise the same bytes, so it cannot be resumed on.
            tag = reply.headers.get("ETag", "")
            if tag and not tag.startswith("W/"):
                write_text(etag, tag)
            else:
                etag.unlink(missing_ok=True)
            _copy(reply, part, mode, have, total, progress)
        return said
    except urllib.error.HTTPError as error:
        if error.code == 416 and _is_whole(error.headers, have, headers.get("If-Range")):
            return said
        raise _refused(published, error, part) from None
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(str(getattr(error, "reason", error)) or type(error).__name__) from None


def _is_whole(reply_headers, have: int, etag: str | None) -> bool:
    """True where nothing follows the part, for it is the whole file: the job was killed after the last byte."""
    if etag is None or reply_headers.get("Content-Range") != f"bytes */{have}":
        return False
    return reply_headers.get("ETag", etag) == etag


def _goes_on(reply, have: int, etag: str | None) -> bool:
    """True where the reply is what follows in the same file; some servers do not look at If-Range."""
    place = reply.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    return place and reply.headers.get("ETag", etag) == etag


def _copy(reply, part: Path, mode: str, have: int, total: int | None, progress: Progress) -> None:
    with open(part, mode) as handle:
        while chunk := reply.read(CHUNK):
            handle.write(chunk)
            have += len(chunk)
            if total is not None:
                progress.step(have, max(total, have), unit="byte")
    if total is not None and have != total:
        if have > total:
            part.unlink()
        raise _Broken(f"the connection ended after {have:,} of {total:,} bytes")


def _total(reply, have: int) -> int | None:
    length = reply.headers.get("Content-Length")
    return None if length is None else int(length) + (have if reply.status == 206 else 0)


def _refused(published: Published, error: urllib.error.HTTPError, part: Path) -> Exception:
    """What a status of the server's means: worth another try, or for the user to mend."""
    why = f"{error.url} answered {error.code} {error.headers.get('X-Error-Message') or error.reason}"
    if error.code == 416:
        part.unlink(missing_ok=True)
        return _Broken("the server's file is shorter than the part we have")
    if error.code in (408, 425, 429) or error.code >= 500:
        asked = error.headers.get("Retry-After", "")
        return _Broken(why, float(asked) if asked.isdigit() else None)
    if error.code in (401, 403):
        why += "; if the dataset asks for terms or a login, accept them and set HF_TOKEN"
    if error.code == 404:
        why += "; check dataset, revision and file name"
    return _unavailable(published, why)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects, but show a token to nobody but the host it was meant for, and to nobody unencrypted."""

    def __init__(self, said: _Said):
        self.said = said

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        self.said.hear(headers)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and (request.host != req.host or (req.type, request.type) == ("https", "http")):
            request.remove_header("Authorization")
        return request


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _etag_file(part: Path) -> Path:
    return part.with_suffix(".etag")
