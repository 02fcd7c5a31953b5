"""In-context learning tasks as they lie on disk: the bundle's list of tasks, and each task's items, checked row by row.

The formats are those of the bundle that nanochat evaluates CORE on: `core.yaml`, and one JSON object a line in
`eval_data/`. Three kinds of task:

    multiple_choice     query, choices, gold
    schema              context_options, continuation, gold
    language_modeling   context, continuation
"""

from __future__ import annotations

import difflib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from xsa.store.errors import UserError

FIELDS = {
    "multiple_choice": {"query": str, "choices": list, "gold": int},
    "schema": {"context_options": list, "continuation": str, "gold": int},
    "language_modeling": {"context": str, "continuation": str},
}
OPTIONS = {"multiple_choice": "choices", "schema": "context_options"}
_TYPE_NAMES = {str: "a text", list: "a list of texts", int: "a whole number"}


@dataclass(frozen=True)
class Task:
    """One entry of `core.yaml`; `file` is relative to `eval_data/`."""

    label: str
    kind: str
    file: str
    num_fewshot: int
    delimiter: str


def read_tasks(path: Path) -> list[Task]:
    """The tasks of a `core.yaml`, in its order. Raises UserError with file, entry and key for anything malformed."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); a bundle has core.yaml, eval_meta_data.csv and eval_data/"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not readable YAML: {error}") from None
    entries = document.get("icl_tasks") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{path}: no list `icl_tasks`; this is not the task list of a CORE bundle")
    tasks = [_task(entry, f"{path}, task {number}") for number, entry in enumerate(entries, 1)]
    labels = [task.label for task in tasks]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise UserError(f"{path}: the label {twice[0]} occurs twice; rename or remove one of the two tasks")
    return tasks


def _task(entry: Any, where: str) -> Task:
    if not isinstance(entry, dict) or not isinstance(entry.get("label"), str):
        raise UserError(f"{where}: a task needs a `label`, a text")
    where = f"{where} ({entry['label']})"
    kind, uri, shots = entry.get("icl_task_type"), entry.get("dataset_uri"), entry.get("num_fewshot")
    delimiter = entry.get("continuation_delimiter", " ")
    if kind not in FIELDS:
        raise UserError(f"{where}: icl_task_type is {kind!r}; known are {', '.join(FIELDS)}")
    if not isinstance(uri, str) or PurePosixPath(uri).is_absolute() or ".." in PurePosixPath(uri).parts:
        raise UserError(f"{where}: dataset_uri is {uri!r}; it must be a path inside eval_data/")
    if not (isinstance(shots, list) and len(shots) == 1 and type(shots[0]) is int and shots[0] >= 0):
        raise UserError(f"{where}: num_fewshot is {shots!r}; it must be a list of one number, such as [10]")
    if not isinstance(delimiter, str):
        raise UserError(f"{where}: continuation_delimiter is {delimiter!r}; it must be a text")
    return Task(entry["label"], kind, uri, shots[0], delimiter)


def choose_tasks(tasks: Sequence[Task], wanted: str | Sequence[str], where: Path) -> list[Task]:
    """The tasks whose labels are `wanted` (or `"all"`), in the bundle's order. Names the nearest known for an unknown."""
    if wanted == "all":
        return list(tasks)
    labels = [task.label for task in tasks]
    for label in wanted:
        if label not in labels:
            near = difflib.get_close_matches(label, labels, 1, cutoff=0)[0]
            raise UserError(f"core.tasks has {label!r}, which {where} does not know; the nearest known is {near!r}")
    if not wanted:
        raise UserError("core.tasks is empty; name at least one task, or say `all`")
    return [task for task in tasks if task.label in set(wanted)]


def read_items(path: Path, kind: str) -> list[dict[str, Any]]:
    """A task's items in file order, with the fields of its kind alone. Blank lines are passed over.

    Raises UserError with file and line for text that is not JSON or not UTF-8, and for a missing or wrong field.
    """
    items = []
    try:
        handle = open(path, "rb")  # noqa: SIM115 - only a failure to open is told here
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); core.yaml names it. Bring a whole bundle") from None
    with handle:
        for number, line in enumerate(handle, 1):
            if line.strip():
                items.append(_item(line, kind, f"{path}, line {number}"))
    if not items:
        raise UserError(f"{path} holds no items; bring a whole copy of the bundle back")
    return items


def _item(line: bytes, kind: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{where}: not a line of JSON ({error})") from None
    if not isinstance(row, dict):
        raise UserError(f"{where}: a {type(row).__name__}, but an item is an object with {', '.join(FIELDS[kind])}")
    for field, expected in FIELDS[kind].items():
        if field not in row:
            raise UserError(f"{where}: no field `{field}`; a {kind} item has {', '.join(FIELDS[kind])}")
        value = row[field]
        texts = expected is not list or (isinstance(value, list) and all(isinstance(text, str) for text in value))
        if not isinstance(value, expected) or isinstance(value, bool) or not texts:
            raise UserError(f"{where}: `{field}` must be {_TYPE_NAMES[expected]}, found {str(value)[:60]!r}")
    if kind == "language_modeling" and not row["continuation"].strip():
        raise UserError(f"{where}: `continuation` is empty, so there is nothing to predict")
    if kind in OPTIONS:
        options = row[OPTIONS[kind]]
        if len(options) < 2:
            raise UserError(f"{where}: `{OPTIONS[kind]}` has {len(options)} entries; a choice needs at least 2")
        if not 0 <= row["gold"] < len(options):
            raise UserError(f"{where}: `gold` is {row['gold']}, outside 0 … {len(options) - 1}")
    return {field: row[field] for field in FIELDS[kind]}


def order_items(items: Sequence[dict[str, Any]], limit: int | None) -> list[dict[str, Any]]:
    """The items that are evaluated: shuffled with seed 1337, then the first `limit` of them (nanochat's rule)."""
    ordered = list(items)
    random.Random(1337).shuffle(ordered)
    return ordered[:limit]


def check_enough(task: Task, items: int, limit: int | None, where: Path) -> None:
    """Refuse a task whose items are too few to draw each item's examples from the others."""
    if items > task.num_fewshot:
        return
    why = f"core.max_per_task = {limit} leaves {items}" if limit == items else f"{where} holds {items}"
    remedy = f"raise core.max_per_task to at least {task.num_fewshot + 1}" if limit == items else "complete the file"
    raise UserError(
        f"task {task.label} shows {task.num_fewshot} examples before each item, so it needs {task.num_fewshot + 1} items, "
        f"but {why}; {remedy}, or leave the task out of core.tasks"
    )


def fewshot_indices(index: int, items: int, shots: int) -> list[int]:
    """Positions of the examples shown before item `index`: seed 1234 + index, drawn from all items but that one."""
    # Drawing positions of a list that lacks one entry is the same as drawing from it, without making the list.
    drawn = random.Random(1234 + index).sample(range(items - 1), shots)
    return [position + (position >= index) for position in drawn]
