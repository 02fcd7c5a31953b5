"""Reading the upstream results of a study, each file checked against its record; a missing measurement is None."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from xsa.analyse.arms import Cell
from xsa.store.errors import UserError
from xsa.store.job import Job, checked_file
from xsa.store.record import read_record

MEASUREMENTS = ("pretrain", "finetune", "bpb", "core", "chatcore", "attention", "overhead", "equivalence")
# Checkpoints that were trained elsewhere; they stand in for the first two.
IMPORTED = ("imported", "imported_chat")


class Results:
    """The files of a study's cells: `results.json(cell, "bpb", "bpb.json")`; each is read once."""

    def __init__(self, job: Job):
        self._folders = {
            (stage, folder.name): folder
            for stage in (*IMPORTED, *MEASUREMENTS)
            if stage in job.inputs
            for folder in job.inputs_of(stage)
        }
        self._read: dict[Path, Any] = {}

    def folder(self, cell: Cell, stage: str) -> Path | None:
        """The result of a stage for a cell; None where the study did not take that measurement."""
        name = cell.results.get(stage)
        if name is None:
            return None
        if (stage, name) not in self._folders:
            raise UserError(f"{stage}/{name} of cell {cell.name} was not handed to the analysis; run the study again")
        return self._folders[stage, name]

    def json(self, cell: Cell, stage: str, file: str) -> Any:
        """A JSON file of a result, or None where there is no such result, or it came without that file."""
        return self._load(cell, stage, file, lambda path: json.loads(path.read_text(encoding="utf-8")))

    def parquet(self, cell: Cell, stage: str, file: str) -> pd.DataFrame | None:
        """A parquet file of a result, or None where there is no such result, or it came without that file."""
        return self._load(cell, stage, file, pd.read_parquet)

    def holds(self, cell: Cell, stage: str, file: str) -> bool:
        """Whether a cell's result has this file, which not every result of its stage has."""
        record = self.record(cell, stage)
        return record is not None and file in record["files"]

    def record(self, cell: Cell, stage: str) -> dict[str, Any] | None:
        """The record of a result, or None where there is no such result."""
        folder = self.folder(cell, stage)
        return None if folder is None else read_record(folder)

    def record_in(self, folder: Path) -> dict[str, Any]:
        """The record of one of `folders`."""
        return read_record(folder)

    def folders(self) -> list[tuple[str, Path]]:
        """Every result that was handed over, with its stage."""
        return [(stage, folder) for (stage, _), folder in self._folders.items()]

    def _load(self, cell: Cell, stage: str, file: str, read) -> Any:
        folder = self.folder(cell, stage)
        if folder is None:
            return None
        record = read_record(folder)
        if "adopted" in record and file not in record["files"]:
            return None  # a checkpoint that was brought may lack its log
        path = checked_file(folder, file)
        if path not in self._read:
            try:
                self._read[path] = read(path)
            except (ValueError, OSError) as error:
                raise UserError(f"{path} cannot be read ({error}); delete {folder} to make it again") from error
        return self._read[path]
