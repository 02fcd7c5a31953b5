"""CORE's evaluation bundle: taken from its archive with care, and its task files checked line by line."""

from __future__ import annotations

import csv
import json
import shutil
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from xsa.store.errors import UserError

# The published bundle unpacks to about 160 MB; far more would not be it.
LARGEST = 2 << 30
ROOT = "eval_bundle"
FIELDS = {
    "multiple_choice": {"query": str, "choices": list, "gold": int},
    "schema": {"context_options": list, "continuation": str, "gold": int},
    "language_modeling": {"context": str, "continuation": str},
}


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
    """Items of each task file. Raises UserError for a missing file or a line without its task's fields (file and line)."""
    tasks = read_tasks(folder)
    meta = folder / "eval_meta_data.csv"
    try:
        with open(meta, encoding="utf-8", newline="") as handle:
            named = {row.get("Eval Task") for row in csv.DictReader(handle)}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{meta} cannot be read ({error}); bring the published file") from None
    counts: dict[str, int] = {}
    for task in tasks:
        if task["label"] not in named:
            raise UserError(f"{meta} has no row for the task {task['label']!r}; its random baseline is needed")
        if task["dataset_uri"] not in counts:
            path = folder / "eval_data" / task["dataset_uri"]
            counts[task["dataset_uri"]] = _check_lines(path, task["icl_task_type"])
    return counts


def read_tasks(folder: Path) -> list[dict[str, Any]]:
    """The entries of core.yaml (UserError: missing, not YAML, or an entry without label, dataset_uri, type or shots)."""
    path = folder / "core.yaml"
    try:
        tasks = yaml.safe_load(path.read_text(encoding="utf-8"))["icl_tasks"]
    except FileNotFoundError:
        raise UserError(f"{path} is missing; a bundle has core.yaml, eval_meta_data.csv and eval_data/") from None
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is not as published ({' '.join(str(error).split())}); bring the published file"
        ) from None
    for number, task in enumerate(tasks):
        for key in ("label", "dataset_uri", "icl_task_type", "num_fewshot"):
            if key not in task:
                raise UserError(f"{path}: task {number} (counted from 0) has no {key!r}; bring the published file")
        if task["icl_task_type"] not in FIELDS:
            raise UserError(
                f"{path}: {task['label']} is of type {task['icl_task_type']!r}; known are {', '.join(FIELDS)}"
            )
    return tasks


def _check_lines(path: Path, kind: str) -> int:
    count = 0
    try:
        with open(path, encoding="utf-8") as handle:
            for number, line in enumerate(handle, 1):
                if line.strip():
                    _check_line(json.loads(line), kind, f"{path}:{number}")
                    count += 1
    except FileNotFoundError:
        raise UserError(f"{path} is missing; core.yaml names it. Bring the published bundle") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}:{count + 1}: not valid JSON ({error}); bring the published bundle") from None
    if not count:
        raise UserError(f"{path} has no items; bring the published bundle")
    return count


def _check_line(item: Any, kind: str, where: str) -> None:
    for field, expected in FIELDS[kind].items():
        if not isinstance(item, dict) or not isinstance(item.get(field), expected):
            raise UserError(
                f"{where}: a {kind} item needs {field!r} ({expected.__name__}); mend the line or take it out"
            )
    options = item.get("choices", item.get("context_options"))
    if options is not None and not 0 <= item["gold"] < len(options):
        raise UserError(
            f"{where}: gold is {item['gold']}, but there are {len(options)} options; mend the line or take it out"
        )
