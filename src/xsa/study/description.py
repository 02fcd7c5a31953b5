"""A record as a person reads it: what it is, how it came about, its settings, its files, and what it is made from."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from xsa.store.errors import UserError
from xsa.store.progress import duration
from xsa.store.record import read_record
from xsa.study.flat import flat, word
from xsa.study.locate import Shelf
from xsa.study.settings import CellSettings

WIDTH = 110
# Of a list of upstream results so many are shown, and of everything below them the first branch alone.
SHOWN = 3
# Settings of a stage that a study file calls otherwise.
_NAMES = {
    "model.alpha": "xsa.alpha",
    "model.xsa_value": "xsa.value",
    "model.vocab_size": "tokenizer.vocab_size",
    "validation_every": "validation.every",
    "validation_rows": "validation.rows",
}
_KNOWN = ("started", "wall_seconds", "host", "platform", "python", "packages", "git_commit", "device", "threads")
_KNOWN += ("slurm_job", "notes", "code", "gpu", "cuda")


def describe(folder: Path, shelf: Shelf, numbers: Sequence[Any] = ()) -> str:
    """The result in `folder`, with what it measured (`name`, `value`, `unit`, `interval`), as text."""
    record = read_record(folder)
    stage, made = record["stage"], record.get("made", {})
    lines = [click.style(f"{stage} {record['label']}@{record['digest']}", bold=True), *_how(folder, record, made)]
    if numbers:
        lines += ["", click.style("measured", bold=True), *_numbers(numbers)]
    lines += ["", click.style("settings", bold=True), *_settings(stage, record["recipe"].get("settings", {}))]
    lines += ["", click.style("files", bold=True), *_files(folder, record["files"])]
    notes = flat(made.get("notes") or {})
    if notes:
        lines += [
            "",
            click.style("notes of the run", bold=True),
            *_table([(k, _clip(word(v))) for k, v in notes.items()]),
        ]
    rest = {
        name: value
        for name, value in record.items()
        if name not in ("stage", "label", "digest", "recipe", "files", "made")
    }
    rest |= {name: value for name, value in made.items() if name not in _KNOWN}
    if rest:
        lines += ["", click.style("besides", bold=True), *_table([(k, _clip(word(v))) for k, v in flat(rest).items()])]
    tree = _tree(record, shelf, set())
    lines += ["", click.style("made from", bold=True), *(f"  {line}" for line in tree or ["nothing but its settings"])]
    return "\n".join(lines)


def described(folder: Path, shelf: Shelf) -> dict[str, Any]:
    """The record with its folder and, in place of the digests that it reads, the same of each that is there."""
    record = read_record(folder)
    return {"folder": str(folder), **record, "upstream": _upstream_values(record, shelf)}


def one_line(folder: Path) -> str:
    """A result among several: when and where it was made, and how long that took."""
    try:
        return _when(read_record(folder).get("made", {}))
    except UserError as error:
        return str(error)


# --- parts ---


def _how(folder: Path, record: dict[str, Any], made: dict[str, Any]) -> list[str]:
    device = made.get("gpu") or made.get("device")
    lines = [f"  made      {_when(made)}"]
    how = [device, f"{made['threads']} thread{'s' if made['threads'] > 1 else ''}" if made.get("threads") else None]
    how += [f"SLURM job {made['slurm_job']}" if made.get("slurm_job") else None, made.get("platform")]
    lines.append("  on        " + ", ".join(str(part) for part in how if part))
    commit = made.get("git_commit")
    dirty = " with changes" if commit and commit.endswith("+") else ""
    code = [f"{record['stage']} version {record['recipe'].get('version')}", f"fingerprint {made.get('code')}"]
    code += [f"commit {commit.rstrip('+')}{dirty}"] if commit else []
    lines.append("  code      " + ", ".join(code))
    versions = [f"Python {made.get('python')}", *(f"{k} {v}" for k, v in (made.get("packages") or {}).items())]
    versions += [f"CUDA {made['cuda']}"] if made.get("cuda") else []
    lines += textwrap.wrap(", ".join(versions), WIDTH, initial_indent="  packages  ", subsequent_indent=" " * 12)
    return [*lines, f"  folder    {folder}"]


def _when(made: dict[str, Any]) -> str:
    try:
        at = datetime.fromisoformat(made["started"]).astimezone().strftime("%d %b %Y %H:%M")
    except (KeyError, TypeError, ValueError):
        at = "at an unknown time"
    took = f" in {duration(made['wall_seconds'])}" if made.get("wall_seconds") is not None else ""
    return f"{at} on {made.get('host') or 'an unknown host'}{took}"


def _numbers(numbers: Sequence[Any]) -> list[str]:
    rows = []
    for one in numbers:
        text = word(one.value)
        if one.interval:
            text += f"  [{word(one.interval[0])}, {word(one.interval[1])}]"
        rows.append((one.name, f"{text}  {one.unit}".rstrip()))
    return _table(rows)


def _settings(stage: str, settings: dict[str, Any]) -> list[str]:
    """Those that differ from the defaults of a study's settings, or have none there; then the others, in short."""
    chosen, usual = [], []
    for path, value in flat(settings).items():
        default = _default(stage, path)
        if default is not PydanticUndefined and word(default) == word(value):
            usual.append(f"{path} {word(value)}")
        elif value is not None:
            told = default not in (PydanticUndefined, None, "auto", value)
            chosen.append((path, _clip(word(value)) + (f"   (default {word(default)})" if told else "")))
    lines = _table(chosen) if chosen else ["  none of its own"]
    if usual:
        lines += textwrap.wrap("as by default: " + ", ".join(usual), WIDTH, initial_indent="  ", subsequent_indent="  ")
    return lines


def _default(stage: str, path: str) -> Any:
    """The default of the setting of a cell that a stage's setting comes from; undefined where there is none."""
    for name in (_NAMES.get(path, path), f"{stage}.{path}"):
        model: Any = CellSettings
        *groups, last = name.split(".")
        for group in groups:
            field = model.model_fields.get(group) if model else None
            annotation = field.annotation if field else None
            model = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
        if model and last in model.model_fields and not _is_group(model.model_fields[last].annotation):
            default = model.model_fields[last].default
            return default.model_dump(mode="json") if isinstance(default, BaseModel) else default
    return PydanticUndefined


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _files(folder: Path, files: dict[str, dict[str, Any]]) -> list[str]:
    rows = []
    for name, known in files.items():
        try:
            size = (folder / name).stat().st_size
            state = "" if size == known["bytes"] else click.style(f"   has {_bytes(size)} now", fg="red")
        except OSError:
            state = click.style("   is gone", fg="yellow")
        rows.append((name, f"{_bytes(known['bytes']):>9}{state}"))
    total = sum(known["bytes"] for known in files.values())
    return [*_table(rows), *([f"  {len(files)} files, {_bytes(total)}"] if len(files) > 1 else [])]


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _table(rows: list[tuple[str, str]]) -> list[str]:
    width = min(max((len(name) for name, _ in rows), default=0), 40)
    return [f"  {name:<{width}}  {value}" for name, value in rows]


def _clip(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


# --- upstream ---


def _tree(record: dict[str, Any], shelf: Shelf, seen: set[str]) -> list[str]:
    """A line for each result that was read, those behind it indented; what was shown above is not opened again."""
    lines: list[str] = []
    inputs = list(record["recipe"].get("inputs", {}).items())
    for index, (name, given) in enumerate(inputs):
        digests = given if isinstance(given, list) else [given]
        shown = digests[:SHOWN]
        last_name = index == len(inputs) - 1
        for number, digest in enumerate(shown):
            last = last_name and number == len(digests) - 1
            lines += _branch(name, digest, shelf, seen, last)
        if len(digests) > SHOWN:
            lines.append(f"{'└─' if last_name else '├─'} {name}: {len(digests) - SHOWN} more")
    return lines


def _branch(name: str, digest: str, shelf: Shelf, seen: set[str], last: bool) -> list[str]:
    turn, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
    folder = shelf.of_digest(digest)
    if folder is None:
        return [f"{turn}{name}: @{digest}  {click.style('is not here', fg='yellow')}"]
    title = f"{turn}{name}: {folder.parent.name} {folder.name}"
    if digest in seen:
        return [f"{title}  (above)"]
    seen.add(digest)
    try:
        record = read_record(folder)
    except UserError as error:
        return [f"{title}  {error}"]
    return [f"{title}  {_when(record.get('made', {}))}", *(below + line for line in _tree(record, shelf, seen))]


def _upstream_values(record: dict[str, Any], shelf: Shelf) -> dict[str, Any]:
    """By input name: stage, key, when and where each was made, and the same of what it read."""
    return {
        name: [_upstream_value(one, shelf) for one in given]
        if isinstance(given, list)
        else _upstream_value(given, shelf)
        for name, given in record["recipe"].get("inputs", {}).items()
    }


def _upstream_value(digest: str, shelf: Shelf) -> dict[str, Any]:
    folder = shelf.of_digest(digest)
    if folder is None:
        return {"digest": digest, "there": False}
    record = read_record(folder)
    made = {name: record.get("made", {}).get(name) for name in ("started", "wall_seconds", "host", "slurm_job")}
    return {
        "digest": digest,
        "there": True,
        "stage": record["stage"],
        "key": folder.name,
        "made": made,
        "upstream": _upstream_values(record, shelf),
    }
