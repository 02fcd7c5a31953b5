"""Overhead, the equivalence at alpha = 0, the data streams, where it all ran, and what was not measured."""

from __future__ import annotations

from typing import Any

from xsa.analyse.arms import Arm, Grid
from xsa.analyse.results import MEASUREMENTS, Results

TRAINED = ("pretrain", "finetune")  # what an imported checkpoint stands in for
_PHASES = ("step", "forward", "backward")


def overhead_rows(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """One row per shape, arm, mode and phase: ratio of median times to the baseline's, interval, more than noise.

    Beside it the null (the baseline's second take over its first), seconds added and the least that moving the bytes of the
    projection takes, tokens/s and, on a GPU, the peak of memory in bytes; None where a timing came without them. Cells may share a timing;
    each is listed once for an arm.
    """
    rows = []
    for arm, seed, timing in _once(results, grid, "overhead", "overhead.json"):
        for mode, phases in sorted(timing["ratio"].items()):
            for phase, found in sorted(phases.items(), key=lambda item: _PHASES.index(item[0])):
                lo, hi = found["interval"]
                rows.append(
                    {
                        "shape": arm.shape,
                        "arm": arm.label,
                        "mode": mode,
                        "phase": phase,
                        "ratio": found["ratio"],
                        "lo": lo,
                        "hi": hi,
                        "exceeds_noise": found["exceeds_noise"],
                        **_beside(timing, mode, phase),
                        "device": timing["device"],
                        "result": arm.cells[seed].results["overhead"],
                    }
                )
    return rows


def _beside(timing: dict[str, Any], mode: str, phase: str) -> dict[str, float | None]:
    """What a ratio of times is to be read beside; timings of an earlier form lack some of it."""
    found = timing["ratio"][mode][phase]
    null = timing.get("null", {}).get(mode, {}).get(phase, {})
    null_lo, null_hi = null.get("interval", (None, None))
    baseline, traffic = found.get("baseline_seconds"), timing.get("traffic", {})
    speed = timing["tokens_per_second"][mode] if phase == "step" else {}
    peaks = (timing.get("peak_bytes") or {}).get(mode) or {}
    return {
        "null_ratio": null.get("ratio"),
        "null_lo": null_lo,
        "null_hi": null_hi,
        "added_seconds": None if baseline is None else baseline * (found["ratio"] - 1),
        "least_seconds": traffic.get("seconds", {}).get(phase),
        "bytes": traffic.get("bytes", {}).get(phase),
        "bytes_per_second": traffic.get("bytes_per_second"),
        "baseline_tokens_per_second": speed.get("baseline"),
        "arm_tokens_per_second": speed.get("xsa"),
        "baseline_peak_bytes": peaks.get("baseline", {}).get(phase),
        "arm_peak_bytes": peaks.get("xsa", {}).get(phase),
    }


def equivalence_rows(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """One row per equivalence check: the greatest differences between standard attention and the path at alpha 0."""
    seen, rows = set(), []
    for arm, seed, found in _once(results, grid, "equivalence", "equivalence.json"):
        result = arm.cells[seed].results["equivalence"]
        if result not in seen:
            seen.add(result)
            rows.append({"shape": arm.shape, "result": result} | found)
    return rows


def _once(results: Results, grid: Grid, stage: str, file: str):
    """Each result of a stage once for an arm, by the first seed that has it."""
    for arm in (arm for shape in grid.shapes for arm in grid.arms_of(shape)):
        seen = set()
        for seed in arm.seeds:
            cell = arm.cells[seed]
            content = results.json(cell, stage, file)
            if content is not None and cell.results[stage] not in seen:
                seen.add(cell.results[stage])
                yield arm, seed, content


def data_streams(results: Results, grid: Grid) -> list[dict[str, Any]]:
    """Per shape, the hash of the training rows that each cell read, and whether they are all one.

    `equal` is None where fewer than two hashes are known.
    """
    streams = []
    for shape in grid.shapes:
        hashes = {}
        for cell in (cell for cell in grid.cells if cell.shape == shape):
            config = results.json(cell, "pretrain", "config.json")
            if config is not None and config.get("data_stream_sha256"):
                hashes[cell.name] = config["data_stream_sha256"]
        equal = len(set(hashes.values())) == 1 if len(hashes) > 1 else None
        streams.append({"shape": shape, "equal": equal, "hashes": hashes})
    return streams


def missing(grid: Grid) -> list[dict[str, str]]:
    """Measurements that some cell of the study has and this one lacks.

    Overhead is a matter of the arms that are no baseline, and one cell of a shape is enough for the equivalence.
    """
    taken = {stage for cell in grid.cells for stage in cell.results}
    gaps = []
    for arm in grid.arms:
        for cell in arm.cells.values():
            for stage in MEASUREMENTS:
                asked = stage in taken and stage != "equivalence" and not (stage == "overhead" and arm.is_baseline)
                asked = asked and not (stage in TRAINED and "imported" in cell.results)
                if asked and stage not in cell.results:
                    gaps.append({"cell": cell.name, "shape": cell.shape, "stage": stage})
    return gaps


def not_taken(grid: Grid) -> list[str]:
    """Measurements that no cell of the study has."""
    taken = {stage for cell in grid.cells for stage in cell.results}
    brought = TRAINED if "imported" in taken else ()
    return [stage for stage in MEASUREMENTS if stage not in taken and stage not in brought]


def environment(results: Results) -> dict[str, Any]:
    """Where the results came from, by their records: hosts, devices, versions, commits, first and last start, and seconds by stage."""
    found: dict[str, set[str]] = {name: set() for name in ("hosts", "devices", "platforms", "pythons", "commits")}
    packages: dict[str, set[str]] = {}
    seconds: dict[str, float] = {}
    started: list[str] = []
    for stage, folder in results.folders():
        made = results.record_in(folder).get("made", {})
        device = made.get("gpu") or made.get("device")
        for name, value in (
            ("hosts", made.get("host")),
            ("devices", device),
            ("platforms", made.get("platform")),
            ("pythons", made.get("python")),
            ("commits", made.get("git_commit")),
        ):
            if value:
                found[name].add(str(value))
        if made.get("started"):
            started.append(str(made["started"]))
        for package, version in made.get("packages", {}).items():
            packages.setdefault(package, set()).add(str(version))
        took = sum(float(made.get(name) or 0.0) for name in ("wall_seconds", "earlier_seconds"))
        seconds[stage] = seconds.get(stage, 0.0) + took
    return {
        **{name: sorted(values) for name, values in found.items()},
        "packages": {name: sorted(versions) for name, versions in sorted(packages.items())},
        "wall_seconds": {stage: round(total, 3) for stage, total in sorted(seconds.items())},
        "started": [min(started), max(started)] if started else [],
        "results": len(results.folders()),
    }


def training_notes(results: Results, arm: Arm) -> dict[int, dict[str, Any]]:
    """What the training of each seed of an arm noted about how it ran, by seed."""
    records = {seed: results.record(arm.cells[seed], "pretrain") for seed in arm.seeds}
    return {seed: record["made"].get("notes") or {} for seed, record in records.items() if record}
