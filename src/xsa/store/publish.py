"""Putting a finished page where people look for it: results/<study>/, beside its tables and figures."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

from xsa.store.files import write_json
from xsa.store.record import read_record, verify_file

PUBLISHED = "published.json"
_MARKS = re.compile(r"([\\`*_|<>\[\]:])")


def publish(report: Path, folder: Path) -> Path:
    """Copy the files of a report's result into `folder`, each whole; return the page's path.

    Files of the report published before that the new one lacks are removed; nothing else in `folder` is touched.
    """
    record = read_record(report)
    before = published(folder).get("files", [])
    # The page goes last: it is what a workflow waits for.
    files = sorted(record["files"], key=lambda file: (file == "report.html", file))
    for file in files:
        verify_file(report, file)
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            shutil.copyfile(report / file, temporary)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    for file in set(before) - set(files):
        (folder / file).unlink(missing_ok=True)
    write_json(folder / PUBLISHED, {"report": report.name, "files": sorted(files)})
    return folder / "report.html"


class Captions(dict):
    """`title` and `caption` by figure. Snakemake prints it beside every figure, so what it prints is short."""

    def __repr__(self) -> str:
        return f"captions of {len(self)} figures"


def figure_captions(folder: Path | str) -> Captions:
    """Those of the figures published into `folder`, as reStructuredText; empty before there are any."""
    try:
        figures = json.loads((Path(folder) / "figures" / "figures.json").read_text(encoding="utf-8"))
        words = ("title", "caption")
        return Captions({one["name"]: {key: _MARKS.sub(r"\\\1", one[key]) for key in words} for one in figures})
    except (OSError, ValueError, KeyError, TypeError):
        return Captions()  # a report without captions is better than none


def published(folder: Path) -> dict:
    """What was published into `folder` last: `report` (label@digest) and `files`; empty when nothing was."""
    try:
        told = json.loads((folder / PUBLISHED).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def is_published(folder: Path, report: str) -> bool:
    """Whether the page of `report` (label@digest) was published into `folder` last, and all its files are there still."""
    told = published(folder)
    files = ["report.html", *told.get("files", [])]
    return told.get("report") == report and all((folder / file).exists() for file in files)
