"""What a page is made of, read from the result of `analyse` and from the records of the study's other results."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xsa.store.errors import UserError
from xsa.store.record import read_record

_SUMMARY_KEYS = [
    "study",
    "title",
    "question",
    "factors",
    "baseline",
    "shapes",
    "arms",
    "cells",
    "metrics",
    "tasks",
    "attention",
    "overhead",
    "equivalence",
    "stability",
    "streams",
    "environment",
    "missing",
    "not_taken",
    "uncompared",
    "method",
]
BUILTIN = "builtin"


@dataclass(frozen=True)
class Analysis:
    """One analysed study: `summary` and `figures` as `xsa.analyse` wrote them, and the folder they lie in."""

    folder: Path
    summary: dict[str, Any]
    figures: list[dict[str, str]]

    @property
    def results(self) -> Path:
        """The folder of all results, where the records of the study's cells lie."""
        return self.folder.resolve().parents[1]

    @property
    def data_kinds(self) -> set[str]:
        """`builtin`, `local`, `hub`: where the text of the cells came from; empty where nothing says so."""
        return {cell["data"] for cell in self.summary["cells"] if cell.get("data")}

    @property
    def made_up(self) -> bool:
        """Whether the numbers are about the made-up world of the built-in data."""
        return self.data_kinds == {BUILTIN}

    def record(self, stage: str, result: str) -> dict[str, Any] | None:
        """The record of a result of the study, or None where it is not here (a copy may leave some behind)."""
        folder = self.results / stage / result
        # a name with a path in it would read elsewhere
        if folder.parent != self.results / stage:
            return None
        try:
            return read_record(folder)
        except UserError:
            return None

    def figure(self, name: str) -> str:
        """The SVG text of a figure."""
        path = self.folder / "figures" / f"{name}.svg"
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path} cannot be read ({error}); delete {self.folder} and run analyse again") from None


def read_analysis(folder: Path) -> Analysis:
    """Read and check the result of `analyse` in `folder`. Raises UserError for what is missing or of another form."""
    summary = _read_json(folder / "summary.json", dict)
    lacking = [key for key in _SUMMARY_KEYS if key not in summary]
    if lacking:
        raise UserError(
            f"{folder / 'summary.json'} lacks {', '.join(lacking)}; it was written by another version: run analyse again"
        )
    return Analysis(folder, summary, _read_json(folder / "figures" / "figures.json", list))


def _read_json(path: Path, kind: type) -> Any:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no {path}; run analyse before the report") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}); delete {path.parent} and run analyse again") from None
    if not isinstance(value, kind):
        raise UserError(f"{path} does not hold what analyse writes; run analyse again")
    return value
