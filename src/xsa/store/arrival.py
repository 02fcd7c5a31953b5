"""Results that come from elsewhere: checked as a whole in a private folder, then renamed into place; nothing is overwritten."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xsa.store.crate import Entry, is_place
from xsa.store.errors import UserError
from xsa.store.files import write_json, write_text
from xsa.store.record import RECORD, WHOLE, check_record, read_record, verify_file
from xsa.study.stages import STAGES

# Folders of imports that run, or were killed, begin so.
STAGING = ".import-"


@dataclass
class Arrival:
    """One result in the private folder `staged`, to be put at `final`. `adding`: a part of it is there, this completes it."""

    stage: str
    key: str
    staged: Path
    final: Path
    record: dict[str, Any]
    files: set[str] = field(default_factory=set)
    adding: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return f"{self.stage}/{self.key}"

    @property
    def lacking(self) -> set[str]:
        """Files of the record that did not come along, as checkpoints do not with what the report needs."""
        return self.record["files"].keys() - self.files


@contextmanager
def staging(results: Path) -> Iterator[Path]:
    """A private folder on the disk of the results, gone afterwards."""
    results.mkdir(parents=True, exist_ok=True)
    folder = results / f"{STAGING}{socket.gethostname()}-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def arrivals(staged: Path, entries: dict[str, Entry], results: Path, archive: str) -> list[Arrival]:
    """The results among the unpacked `entries`, each checked against its record and its place, and against what is there.

    UserError, before anything is visible, where a record is missing, disagrees with its path or its recipe, states another
    hash than the description, or where another result of the same name is there already.
    """
    found: dict[tuple[str, str], set[str]] = {}
    for path in entries:
        parts = path.split("/", 3)
        if parts[0] == "results":
            found.setdefault((parts[1], parts[2]), set()).add(parts[3])
    checked = [_arrival(staged, entries, results, archive, *place, files) for place, files in found.items()]
    for arrival in checked:
        if arrival.final.exists() and any(arrival.final.iterdir()):
            arrival.adding = _completes(arrival)
    return checked


def _arrival(
    staged: Path, entries: dict[str, Entry], results: Path, archive: str, stage: str, key: str, files: set[str]
) -> Arrival:
    place = f"results/{stage}/{key}"
    if stage not in STAGES:
        raise UserError(f"{archive}: {place} is of no stage of this version; nothing was imported")
    if RECORD not in files:
        raise UserError(f"{archive}: {place} has no {RECORD}, so it is no finished result; nothing was imported")
    path = f"{archive}: {place}/{RECORD}"
    try:
        record = json.loads((staged / place / RECORD).read_text(encoding="utf-8"))
        # Both copies, now: a text that cannot be written (NaN, half a character) is refused before anything is visible.
        for copy in (WHOLE, RECORD):
            write_json(staged / place / copy, record)
        recorded = {file: (known["bytes"], known["sha256"]) for file, known in record["files"].items()}
        complete = all(isinstance(record[name], dict) and record[name] for name in ("recipe", "made"))
        complete &= {"stage", "label", "digest"} <= record.keys() and all(
            is_place(f"{place}/{file}") for file in recorded
        )
        complete &= _is_told(record["made"]) and isinstance(record.get("adopted", {}), dict)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        complete = False
    if not complete:
        raise UserError(f"{path} is no record; nothing was imported")
    check_record(record, path, stage, key)
    for file in sorted(files - {RECORD}):
        entry = entries[f"{place}/{file}"]
        if recorded.get(file) != (entry.bytes, entry.sha256):
            said = recorded[file][1] if file in recorded else "nothing"
            raise UserError(
                f"{archive}: {place}/{file} has SHA-256 {entry.sha256}, its record says {said}; nothing was imported"
            )
    return Arrival(stage, key, staged / place, results / stage / key, record, files - {RECORD})


def _is_told(made: dict[str, Any]) -> bool:
    """Whether what a record says of its making has the types that its readers rely on, where it says it."""
    types = {"started": str, "host": str, "packages": dict, "notes": dict, "wall_seconds": int | float}
    return all(made.get(name) is None or isinstance(made[name], kind) for name, kind in types.items())


def _completes(arrival: Arrival) -> tuple[str, ...]:
    """The files that the result in place lacks and this one brings; none where it is whole.

    UserError where the two are not one result, or the one in place is damaged.
    """
    there = read_record(arrival.final)
    for file, known in sorted(arrival.record["files"].items()):
        here = there["files"].get(file, {}).get("sha256")
        if here != known["sha256"]:
            raise UserError(
                f"{arrival.final} is there already and is another result of the same recipe: its {file} has SHA-256 "
                f"{here}, the one that would be imported has {known['sha256']}. Nothing was imported; move the one that you do "
                "not want away"
            )
    missing = []
    for file in sorted(there["files"]):
        if (arrival.final / file).exists():
            verify_file(arrival.final, file)
        elif file in arrival.files:
            missing.append(file)
    return tuple(missing)


def settle(arrival: Arrival) -> bool:
    """Put one checked result in place; False where it was there already, with all that this one brings."""
    if arrival.adding is None:
        arrival.final.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(arrival.staged, arrival.final)
            return True
        except OSError:
            # Made, or imported, by another job since it was looked for; the check says whether that is the same result.
            if not arrival.final.is_dir() or not any(arrival.final.iterdir()):
                raise
            arrival.adding = _completes(arrival)
    for file in arrival.adding:
        target = arrival.final / file
        target.parent.mkdir(parents=True, exist_ok=True)
        # Unlike a rename, a link never takes the place of a file that has come meanwhile.
        try:
            os.link(arrival.staged / file, target)
        except FileExistsError:
            verify_file(arrival.final, file)
    return bool(arrival.adding)


def settle_text(text: str, target: Path) -> bool:
    """Put one small file of an archive in place where there is none; False where there is one."""
    if target.exists():
        return False
    write_text(target, text)
    return True
