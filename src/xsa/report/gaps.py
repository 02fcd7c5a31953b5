"""What is missing: everything that a reader could take for granted and this study does not hold."""

from __future__ import annotations

from typing import Any

from xsa.report.answer import FEW_SEEDS, seed_counts
from xsa.report.numbers import counted, listed
from xsa.report.reading import Analysis

# In the order in which a cell goes through them.
STAGES = {
    "pretrain": "pretraining",
    "imported": "the imported checkpoint",
    "bpb": "bits per byte",
    "core": "CORE",
    "finetune": "fine-tuning",
    "imported_chat": "the imported chat model",
    "chatcore": "ChatCORE",
    "attention": "the attention diagnostics",
    "overhead": "the overhead",
    "equivalence": "the equivalence at α = 0",
}

_NAMED = 6  # cells told by name; more are counted


def gaps(analysis: Analysis, cells: list[dict[str, Any]]) -> list[str]:
    """Sentences, one a gap; `cells` as `provenance.cells` gives them."""
    summary, found = analysis.summary, []
    if analysis.made_up:
        found.append("Real text and real tests: the data are the project's own made-up world.")
    counts = seed_counts(summary)
    if counts and counts[0] == 1:
        found.append("More seeds: with one seed in some comparison, no interval over seeds can be given there.")
    elif counts and counts[0] < FEW_SEEDS:
        found.append(
            f"More seeds: {counted(counts[0], 'paired seed')} in some comparison give a wide interval over seeds."
        )
    lacking = _by_stage(summary.get("lacking", []))
    for stage, names in lacking.items():
        told = listed(names) if len(names) <= _NAMED else counted(len(names), "cell")
        found.append(f"Not there yet: {stage_name(stage)} of {told}.")
    not_taken = [stage for stage in summary["not_taken"] if stage not in lacking]
    if not_taken:
        found.append(f"Not measured in this study: {listed([stage_name(stage) for stage in not_taken])}.")
    for stage, names in _by_stage(summary["missing"]).items():
        left = [name for name in names if name not in lacking.get(stage, [])]
        if left:
            found.append(f"Measured in other cells, not here: {stage_name(stage)} of {listed(left)}.")
    for arm in summary["uncompared"]:
        found.append(f"{arm['shape']}, {arm['arm']}: has no baseline to be held against.")
    if any(stream["equal"] is None for stream in summary["streams"]):
        found.append("Proof of equal data: fewer than two cells of a shape say which rows they read.")
    lost = sum(result["record"] is None for cell in cells for result in cell["made"])
    if lost:
        found.append(
            f"Records: {counted(lost, 'record')} of this study's results {'is' if lost == 1 else 'are'} not in this copy of "
            "the results folder, so how they were made is not told here."
        )
    if not any(row["mode"] == "compiled" for row in summary["overhead"]) and summary["overhead"]:
        found.append("Overhead of compiled steps: only eager ones were timed, which cost more.")
    return found


def _by_stage(gaps: list[dict[str, str]]) -> dict[str, list[str]]:
    cells: dict[str, list[str]] = {}
    for gap in gaps:
        cells.setdefault(gap["stage"], []).append(gap["cell"])
    return cells


def stage_name(stage: str) -> str:
    """A stage in words."""
    return STAGES.get(stage, stage)
