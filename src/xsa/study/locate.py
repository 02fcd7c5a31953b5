"""Results on disk by the names that people give them: a path, `stage/label@digest`, or any part of that which tells it."""

from __future__ import annotations

import re
from pathlib import Path

from xsa.store.errors import UserError
from xsa.store.record import RECORD
from xsa.study.source import nearest

KEY = re.compile(r"(?P<label>[A-Za-z0-9._-]+)@(?P<digest>[0-9a-f]{10})")


class Shelf:
    """The results below one folder, whatever study they belong to, or none. Reads names alone."""

    def __init__(self, results: Path):
        self.results = Path(results)
        self.folders = [
            folder
            for stage in sorted(_visible(self.results))
            for folder in sorted(_visible(stage))
            if KEY.fullmatch(folder.name)
        ]
        self._by_digest = {folder.name.rpartition("@")[2]: folder for folder in self.folders}

    def of_digest(self, digest: str) -> Path | None:
        """The result with a digest; None where it is not there. Stage and label follow, for a digest holds the stage."""
        return self._by_digest.get(digest)

    def find(self, name: str) -> list[Path]:
        """The results that `name` may mean: a folder or its record, or [stage/]label, [stage/]label@digest, or a digest.

        Raises UserError, naming the nearest, where there is none.
        """
        path = Path(name)
        folder = path.parent if path.name == RECORD else path
        if len(folder.parts) > 1 and folder.is_dir() and KEY.fullmatch(folder.resolve().name):
            return [folder]
        stage, _, key = name.strip("/").rpartition("/")
        found = [one for one in self.folders if _means(key, one) and stage in ("", one.parent.name, str(one.parent))]
        if not found:
            known = {one.name for one in self.folders} | {one.name.rpartition("@")[0] for one in self.folders}
            if not known:
                raise UserError(f"{self.results} holds no results; name their folder with --results")
            raise UserError(f"{self.results} has no result {name!r}; {_nearest(key, stage, sorted(known))}")
        return found


def _means(key: str, folder: Path) -> bool:
    label, _, digest = folder.name.rpartition("@")
    return key in (folder.name, label, digest, f"@{digest}")


def _nearest(key: str, stage: str, known: list[str]) -> str:
    close = nearest(key, known)
    if stage and key in known:
        return f"other stages than {stage!r} have a result of that name"
    return close if close.startswith("did you mean") else "`xsa cells STUDY` lists a study's results"


def _visible(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if not path.name.startswith(".") and path.is_dir()]
    except OSError:
        return []
