"""What a folder of results holds, told by the records alone: every recipe that was ever made there, and how."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xsa.store.record import RECORD, WHOLE


@dataclass(frozen=True)
class Recorded:
    """One recorded result. `declared` says that the record is there that Snakemake looks for, and not only its copy."""

    stage: str
    folder: Path
    declared: bool
    recipe: dict[str, Any]
    files: dict[str, dict[str, Any]]
    made: dict[str, Any]
    adopted: bool = False  # made elsewhere, whatever `made` says

    @property
    def key(self) -> str:
        """label@digest."""
        return self.folder.name

    @property
    def digest(self) -> str:
        return self.folder.name.rpartition("@")[2]

    def lacking(self) -> list[str]:
        """Files that are gone, or have another size than the record states; nothing is hashed."""
        return [name for name, known in self.files.items() if _size(self.folder / name) != known.get("bytes")]


def recorded_results(results: Path, stages: Iterable[str]) -> dict[tuple[str, str], Recorded]:
    """The recorded results of `stages` below `results`, by stage and label@digest.

    A folder without a readable record, or with that of another digest, is passed over: who reads such a result is told
    what is wrong with it (`xsa.store.record.read_record`).
    """
    return {(one.stage, one.key): one for stage in stages for one in _of_stage(results / stage, stage)}


def _of_stage(place: Path, stage: str) -> Iterator[Recorded]:
    if not place.is_dir():
        return
    for folder in sorted(place.iterdir()):
        if folder.name.startswith(".") or "@" not in folder.name:
            continue
        for name in (RECORD, WHOLE):
            record = _read(folder / name)
            if record is not None and record.get("digest") == folder.name.rpartition("@")[2]:
                made = record.get("made")
                yield Recorded(
                    stage,
                    folder,
                    (folder / RECORD).exists(),
                    record["recipe"],
                    record["files"],
                    made if isinstance(made, dict) else {},
                    "adopted" in record,
                )
                break


def _read(path: Path) -> dict[str, Any] | None:
    """A record of the form that `xsa.store.produce` writes; None where there is none."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and _is_whole(record) else None


def _is_whole(record: dict[str, Any]) -> bool:
    """Whether recipe, inputs and files have the types that their readers rely on."""
    recipe, files = record.get("recipe"), record.get("files")
    if not isinstance(recipe, dict) or not isinstance(files, dict) or not isinstance(recipe.get("stage"), str):
        return False
    inputs = recipe.get("inputs", {})
    if not isinstance(inputs, dict) or not isinstance(recipe.get("settings", {}), dict):
        return False
    read = [digest for given in inputs.values() for digest in (given if isinstance(given, list) else [given])]
    return all(isinstance(digest, str) for digest in read) and all(isinstance(file, dict) for file in files.values())


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
