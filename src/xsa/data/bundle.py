"""CORE's evaluation bundle: taken from its archive with care, and its task files checked line by line."""

from __future__ import annotations

import csv
import shutil
import zipfile
from pathlib import Path, PurePosixPath

from xsa.data.icl import read_items, read_tasks
from xsa.store.errors import UserError

# The published bundle unpacks to about 160 MB; far more would not be it.
LARGEST = 2 << 30
ROOT = "eval_bundle"


def unzip_bundle(archive: Path, folder: Path) -> None:
    """Write core.yaml, eval_meta_data.csv and eval_data/** of `eval_bundle.zip` under `folder`, and nothing else.

    Raises UserError for what is no such archive: unreadable, too large, with paths that leave it, or without core.yaml.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            wanted = {name: member for member in opened.infolist() if (name := _wanted(member, archive))}
            if "core.yaml" not in wanted:
                raise UserError(f"{archive} has no {ROOT}/core.yaml; it is not the CORE bundle. Download it again")
            if sum(member.file_size for member in wanted.values()) > LARGEST:
                raise UserError(f"{archive} would unpack to more than {LARGEST >> 30} GiB; it is not the CORE bundle")
            for name, member in wanted.items():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with opened.open(member) as source, open(target, "wb") as out:
                    shutil.copyfileobj(source, out)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{archive} is no whole zip file ({error}); download it again") from None


def _wanted(member: zipfile.ZipInfo, archive: Path) -> str | None:
    """Where a member goes, None for one that is not needed. A link is a member like any other: its text is not followed."""
    path = PurePosixPath(member.filename)
    if path.is_absolute() or ".." in path.parts or "\\" in member.filename:
        raise UserError(f"{archive} has a member {member.filename!r} that leads out of it; it is not the CORE bundle")
    if member.is_dir() or path.parts[0] != ROOT:
        return None
    inside = path.relative_to(ROOT)
    needed = inside.parts[:1] == ("eval_data",) or str(inside) in ("core.yaml", "eval_meta_data.csv")
    return str(inside) if needed else None


def check_bundle(folder: Path) -> dict[str, int]:
    """Items of each task file. Raises UserError, with file and line, for whatever no evaluation could use (`xsa.data.icl`)."""
    path = folder / "core.yaml"
    tasks = read_tasks(path)
    named = _tasks_with_baseline(folder / "eval_meta_data.csv")
    counts: dict[tuple[str, str], int] = {}
    for task in tasks:
        if task.label not in named:
            raise UserError(
                f"{folder / 'eval_meta_data.csv'} has no row for the task {task.label!r}; its random baseline is needed"
            )
        file = folder / "eval_data" / task.file
        if (task.file, task.kind) not in counts:
            counts[task.file, task.kind] = len(read_items(file, task.kind))
        found = counts[task.file, task.kind]
        if found <= task.num_fewshot:
            raise UserError(
                f"{file} holds {found} items, but the task {task.label} shows {task.num_fewshot} examples before each, so it "
                f"needs {task.num_fewshot + 1}; complete the file, or take the task out of {path}"
            )
    return {file: count for (file, _), count in counts.items()}


def _tasks_with_baseline(path: Path) -> set[str]:
    """Tasks of eval_meta_data.csv; UserError when it has no baselines, or one that is no percentage below 100."""
    try:
        with open(path, encoding="utf-8", newline="") as handle:
            rows = list(csv.DictReader(handle))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read ({error}); bring the published file") from None
    for number, row in enumerate(rows, 2):
        value = row.get("Random baseline")
        try:
            good = 0 <= float(value) < 100
        except (TypeError, ValueError):
            good = False
        if not good:
            raise UserError(
                f"{path}, row {number}: Random baseline is {value!r}; it must be a percentage from 0 to below 100"
            )
    return {row.get("Eval Task") for row in rows}
