"""What every number was made of: the cells' settings and results, the records beside them, the rows that they read."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from xsa.report.gaps import STAGES
from xsa.report.numbers import listed, setting
from xsa.report.reading import Analysis
from xsa.study.architecture import ModelConfig, parameter_counts

_HEAVY = ("model.safetensors", "config.json", "log.parquet", "core.json", "chatcore.json", "bpb.json")


def cells(analysis: Analysis) -> list[dict[str, Any]]:
    """Every cell with its anchor on the page, its results, and `own`: the settings that not all cells share."""
    shared = set(common_settings(analysis))
    return [
        cell
        | {
            "anchor": f"cell-{number}",
            "tokens": trained_tokens(cell["settings"]),
            "own": [pair for pair in flat(cell["settings"]) if pair not in shared],
            "made": [_result(analysis, stage, name) for stage, name in _in_order(cell["results"])],
        }
        for number, cell in enumerate(analysis.summary["cells"], start=1)
    ]


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
        "seconds": made.get("wall_seconds"),
        "device": made.get("gpu") or made.get("device"),
        "threads": made.get("threads"),
        "platform": made.get("platform"),
        "commit": made.get("git_commit"),
        "slurm": made.get("slurm_job"),
        "version": record.get("recipe", {}).get("version"),
        "inputs": _inputs(record.get("recipe", {}).get("inputs", {})),
        "notes": flat(made.get("notes") or {}),
        "files": [(file, files[file]["sha256"], files[file]["bytes"]) for file in _HEAVY if file in files],
    }


def _inputs(inputs: dict[str, Any]) -> list[tuple[str, str]]:
    """Digests of what a result read, by the name of the input."""
    return [(name, listed(given) if isinstance(given, list) else str(given)) for name, given in inputs.items()]


def flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as (dotted name, shown value)."""
    pairs = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            pairs += flat(value, f"{prefix}{name}.")
        else:
            pairs.append((prefix + name, setting(value)))
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
                "batch_tokens": settings.get("batch_rows", 0) * model.sequence_len,
            }
        )
    return found


def common_settings(analysis: Analysis) -> list[tuple[str, str]]:
    """Settings that all cells of the study share."""
    every = [dict(flat(cell["settings"])) for cell in analysis.summary["cells"]]
    return [pair for pair in every[0].items() if all(one.get(pair[0]) == pair[1] for one in every)] if every else []


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
