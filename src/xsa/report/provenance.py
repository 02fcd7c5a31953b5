"""What every number was made of: the cells' settings and results, the records beside them, the rows that they read."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from xsa.report.gaps import STAGES, stage_name
from xsa.report.numbers import count, setting
from xsa.report.reading import Analysis
from xsa.study.architecture import ModelConfig, parameter_counts

_HEAVY = ("model.safetensors", "config.json", "log.parquet", "core.json", "chatcore.json", "bpb.json")


def cells(analysis: Analysis) -> list[dict[str, Any]]:
    """Every cell with its anchor on the page, its results, and `own`: the settings that not all cells share."""
    shared = {name for name, _ in common_settings(analysis)}
    return [_cell(analysis, cell, number, shared) for number, cell in enumerate(analysis.summary["cells"], start=1)]


def _cell(analysis: Analysis, cell: dict[str, Any], number: int, shared: set[str]) -> dict[str, Any]:
    made = [_result(analysis, stage, name) for stage, name in _in_order(cell["results"])]
    return cell | {
        "anchor": f"cell-{number}",
        "tokens": trained_tokens(cell["settings"]),
        "adopted": cell.get("adopted", []),
        "own": [(name, setting(value)) for name, value in flat(cell["settings"]) if name not in shared],
        "made": made,
        "notes": [note for result in made for note in result.get("notes", [])],
        "files": [file for result in made for file in result.get("files", [])],
    }


def _in_order(results: dict[str, str]) -> list[tuple[str, str]]:
    order = [*STAGES, *results]
    return sorted(results.items(), key=lambda result: order.index(result[0]))


def _result(analysis: Analysis, stage: str, name: str) -> dict[str, Any]:
    record = analysis.record(stage, name)
    if record is None:
        return {"stage": stage, "name": name, "record": None}
    made, files = record.get("made", {}), record.get("files", {})
    return {
        "stage": stage,
        "name": name,
        "record": record,
        "seconds": made.get("wall_seconds") and made["wall_seconds"] + made.get("earlier_seconds", 0.0),
        "device": made.get("gpu") or made.get("device"),
        "notes": _notes(stage, made.get("notes") or {}),
        "files": [(f"{stage}/{file}", files[file]["sha256"], files[file]["bytes"]) for file in _HEAVY if file in files],
    }


def _notes(stage: str, notes: dict[str, Any]) -> list[str]:
    """What a reader may want to know of how a stage ran; the record holds the rest."""
    told = []
    if notes.get("origin") and stage in ("imported", "imported_chat"):
        source = notes.get("source") or {}
        file = f", file {source['file']}, SHA-256 {source['sha256']}" if source else ""
        told.append(f"{stage_name(stage).capitalize()} is that of {notes['origin']}{file}; it was not trained here.")
    if notes.get("tokens_per_second"):
        how = {True: ", compiled", False: ", not compiled"}.get(notes.get("compiled"), "")
        why = f" ({notes['why']})" if notes.get("compiled") is False and notes.get("why") else ""
        told.append(
            f"{stage_name(stage).capitalize()} ran at {count(notes['tokens_per_second'])} tokens a second{how}{why}."
        )
    if isinstance(notes.get("sandbox"), dict):
        told.append(
            f"Generated programs ran confined: {', '.join(f'{part} {how}' for part, how in notes['sandbox'].items())}."
        )
    mixture = notes.get("mixture") if isinstance(notes.get("mixture"), dict) else {}
    told += [f"{str(note).strip().rstrip('.')}." for note in mixture.get("notes") or []]
    return told


def run_dates(analysis: Analysis) -> str:
    """The day, or first and last day, on which results were started; empty where no record says so."""
    started = analysis.summary["environment"].get("started") or []
    return " to ".join(dict.fromkeys(str(moment)[:10] for moment in started))


def flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested settings as (dotted name, value)."""
    pairs = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            pairs += flat(value, f"{prefix}{name}.")
        else:
            pairs.append((prefix + name, value))
    return pairs


def trained_tokens(settings: dict[str, Any]) -> int | None:
    """Tokens of a cell's pretraining: steps × rows a step × T."""
    try:
        return settings["steps"] * settings["batch_rows"] * settings["model"]["sequence_len"]
    except (KeyError, TypeError):
        return None


def shapes(analysis: Analysis) -> list[dict[str, Any]]:
    """Every shape: size, parameters and how long it was trained, by the first of its cells."""
    found = []
    for shape in analysis.summary["shapes"]:
        settings = next(cell["settings"] for cell in analysis.summary["cells"] if cell["shape"] == shape)
        try:
            model = ModelConfig.model_validate(settings.get("model"))
        except ValidationError:
            continue
        found.append(
            {
                "shape": shape,
                "model": model,
                "parameters": parameter_counts(model)["total"],
                "tokens": trained_tokens(settings),
                "steps": settings.get("steps"),
                "batch_tokens": settings["batch_rows"] * model.sequence_len if "batch_rows" in settings else None,
            }
        )
    return found


def common_settings(analysis: Analysis) -> list[tuple[str, str]]:
    """Settings that all cells of the study share."""
    every = [dict(flat(cell["settings"])) for cell in analysis.summary["cells"]]
    if not every:
        return []
    return [(name, setting(value)) for name, value in every[0].items() if all(one.get(name) == value for one in every)]


def measured_on(analysis: Analysis) -> dict[str, str]:
    """What each test suite was: its number of tasks and items, and a limit where one was set, by metric."""
    told = {}
    for suite in ("core", "chatcore"):
        rows = [row for row in analysis.summary["tasks"] if row["suite"] == suite]
        items = {row["task"]: row["items"] for row in rows}
        if not items:
            continue
        limit = _limit(analysis, suite)
        told[suite] = f"{len(items)} tasks, {sum(items.values()):,} items" + (
            f", at most {limit} a task" if limit else ""
        )
    return told


def _limit(analysis: Analysis, stage: str) -> int | None:
    for cell in analysis.summary["cells"]:
        record = analysis.record(stage, cell["results"].get(stage, ""))
        if record:
            return record["recipe"].get("settings", {}).get("max_per_task")
    return None
