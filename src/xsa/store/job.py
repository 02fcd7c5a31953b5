"""What a stage's function is given: its settings, its verified inputs, an empty folder to fill, and a voice."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from xsa.store.errors import UserError
from xsa.store.progress import Progress
from xsa.store.record import read_record, verify_file
from xsa.study.settings import RunSettings


@dataclass
class Job:
    """One run of one stage.

    settings: the stage's settings object (`xsa.study.stages`), all that may decide the result besides the inputs.
    inputs:   folders of upstream results by name; a list where a stage reads several.
    out:      private empty folder; it becomes the result when the stage's function returns.
    state:    folder for resume state; it survives a kill and is removed once the result is whole.
    source:   where outside data lie (paths, addresses); never part of the identity.
    """

    stage: str
    label: str
    settings: BaseModel
    inputs: dict[str, Path | list[Path]]
    out: Path
    state: Path
    run: RunSettings = field(default_factory=RunSettings)
    device: str = "cpu"
    source: dict[str, Any] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)

    def input(self, name: str) -> Path:
        """The folder of the one upstream result called `name`."""
        folder = self.inputs[name]
        assert isinstance(folder, Path), f"{self.stage} has several inputs called {name}"
        return folder

    def folder(self, name: str) -> Path:
        """The folder of the upstream result `name`, the hash of every file in it checked against its record."""
        folder = self.input(name)
        for file in read_record(folder)["files"]:
            checked_file(folder, file)
        return folder

    def inputs_of(self, name: str) -> list[Path]:
        """The folders of the upstream results called `name`, in order."""
        folders = self.inputs[name]
        return folders if isinstance(folders, list) else [folders]

    def file(self, name: str, file: str) -> Path:
        """A file of the upstream result `name`, its hash checked against the record there."""
        return checked_file(self.input(name), file)

    def files(self, name: str, file: str) -> list[Path]:
        """The same file of each upstream result called `name`, in order."""
        return [checked_file(folder, file) for folder in self.inputs_of(name)]


def checked_file(folder: Path, file: str) -> Path:
    """`folder/file`, after its SHA-256 was compared with the folder's record (once per process and file state)."""
    path = folder / file
    if file not in read_record(folder)["files"]:
        raise UserError(
            f"{folder} has no {file}, and had none when it was made: the source of its data lacks it. Add the file there, or "
            "leave out the tasks and sets that need it"
        )
    verify_file(folder, file)
    return path
