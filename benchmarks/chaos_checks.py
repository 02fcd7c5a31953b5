"""What must hold while a study is hit, and once it is done."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
from chaos_scene import TRAINING, Scene, alive

from xsa.store.files import canonical_json, sha256_file
from xsa.store.produce import is_whole
from xsa.store.record import RECORD, WHOLE

Hashes = dict[str, dict[str, str]]
# How long it took differs from run to run: a table of its own, the page, and some of the summary.
TIMES = ("timing.parquet", "report.html")
SUMMARY = "summary.json"
LEAVING_SECONDS = 5.0
# Ends of a driver that was hit itself, and of one whose disk was full or whose code could not be frozen.
CODES = {0, 1, -2, -9, -15, 130}


def hashes(results: Path) -> Hashes:
    """SHA-256 of each result's files by its record, without what says how long it took."""
    found = {}
    for path in sorted(results.glob("*/*@*/record.json")):
        files = json.loads(path.read_text())["files"]
        mine = {name: told["sha256"] for name, told in files.items() if name not in TIMES}
        if SUMMARY in mine:
            mine[SUMMARY] = _untimed(path.parent / SUMMARY)
        found["/".join(path.parts[-3:-1])] = mine
    return found


def _untimed(summary: Path) -> str:
    """Hash of a study's summary without times and speeds."""

    def clean(value):
        if isinstance(value, dict):
            return {
                name: clean(one)
                for name, one in value.items()
                if name not in ("tokens_per_second", "started", "wall_seconds")
            }
        return [clean(one) for one in value] if isinstance(value, list) else value

    return hashlib.sha256(canonical_json(clean(json.loads(summary.read_text()))).encode()).hexdigest()


class Watcher:
    """Looks at results while they are made; `faults` are sentences on what it saw that must not be."""

    def __init__(self, scene: Scene):
        self.results = scene.results
        self.faults: list[str] = []
        self._first: dict[Path, dict[str, tuple[int, str]]] = {}
        self._makers: dict[str, dict[int, float]] = {}

    def look(self) -> None:
        """Remember results that are new; see that nobody makes one that another makes."""
        for record in self.results.glob("*/*@*/record.json"):
            folder = record.parent
            if folder not in self._first and not folder.name.startswith("."):
                with suppress(OSError):
                    self._first[folder] = _content(folder)
        now = time.monotonic()
        for part in self.results.glob("*/.*@*.part"):
            key, pid = re.fullmatch(r"\.(.+)\.(\d+)\.part", part.name).groups()
            self._makers.setdefault(f"{part.parent.name}/{key}", {}).setdefault(int(pid), now)
        for result, since in self._makers.items():
            # The next may begin while the one before leaves.
            if sum(alive(pid) for pid in since) > 1 and now - max(since.values()) > LEAVING_SECONDS:
                self._fault(f"{result} was made by processes {sorted(filter(alive, since))} at once")

    def changed(self) -> Iterator[str]:
        """Sentences on results that are not what they were when their records came."""
        for folder, first in self._first.items():
            now = _content(folder) if folder.exists() else {}
            if now != first:
                names = sorted(name for name in first.keys() | now.keys() if first.get(name) != now.get(name))
                yield f"{folder} was changed after its record was there: {', '.join(names)}"

    def _fault(self, sentence: str) -> None:
        if sentence not in self.faults:
            self.faults.append(sentence)


def differences(scene: Scene, undisturbed: Hashes) -> Iterator[str]:
    """Sentences on finished results that differ from an undisturbed run's, or are not whole, or hold a row twice."""
    here = hashes(scene.results)
    for result in sorted(here.keys() | undisturbed.keys()):
        folder = scene.results / result
        if here.get(result) != undisturbed.get(result):
            mine, other = here.get(result, {}), undisturbed.get(result, {})
            names = sorted(name for name in mine.keys() | other.keys() if mine.get(name) != other.get(name))
            yield f"{result} differs from the undisturbed run in {', '.join(names)}"
        elif not is_whole(folder):
            yield f"the files of {folder} do not have the hashes of its record"
        elif result.startswith(TRAINING):
            yield from _rows(folder)
    page, report = scene.results / "mini" / "report.html", next(scene.results.glob("report/*@*/report.html"), None)
    if report is None or not page.exists() or page.read_bytes() != report.read_bytes():
        yield "the page published is not the report's"


def leftovers(scene: Scene) -> Iterator[str]:
    """Sentences on what would hinder or mislead whoever comes next."""
    for lock in (scene.results / ".locks").glob("*.lock"):
        if not lock.name.startswith("."):
            yield f"the lock {lock} was left behind"
    for state in (scene.results / ".state").glob("*/*@*"):
        yield f"{state} was left behind, though the result is there"
    for part in scene.results.glob("*/.*@*.part"):
        yield f"{part} was left behind, though the result is there"


def said_badly(text: str, code: int, hit: bool) -> Iterator[str]:
    """Sentences on how a driver ended: `code`, and what it printed. `hit` where it was a victim itself or its disk was full."""
    if code not in (CODES if hit else {0}):
        yield f"a driver{'' if hit else ' that nothing hit'} ended with {code}"
    for error in re.findall(r"^Traceback.*\n(?:[ \t].*\n|\n)*(.*(?:\n[ \t].*)*)", text, re.MULTILINE):
        # Ctrl-C while Python still loads its modules is told by Python itself.
        if "KeyboardInterrupt" not in error:
            yield f"a traceback was shown, which ends in {error!r}"


def _content(folder: Path) -> dict[str, tuple[int, str]]:
    """Inode and hash of a result's files, and of its folder; of its records, which may be written again, the hash alone."""
    found = {".": (folder.stat().st_ino, "")}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != RECORD:
            inode = 0 if path.name == WHOLE else path.stat().st_ino
            found[path.relative_to(folder).as_posix()] = (inode, sha256_file(path))
    return found


def _rows(folder: Path) -> Iterator[str]:
    for name in ("log", "validation", "timing"):
        steps = pq.read_table(folder / f"{name}.parquet")["step"].to_pylist()
        wanted = list(range(1, len(steps) + 1)) if name != "validation" else sorted(set(steps))
        if steps != wanted:
            yield f"{folder}/{name}.parquet holds steps twice or not at all: {steps}"
