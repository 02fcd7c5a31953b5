"""What the study's work was predicted to take beside what it took, so that a reader knows how far to trust `xsa plan`.

The prediction is the one that rests on no record: operations at a stated rate of the device.
"""

from __future__ import annotations

from typing import Any

from xsa.report.reading import Analysis
from xsa.study.cost import Costs
from xsa.study.forecast import device_name, device_seconds, estimate
from xsa.study.stages import STAGES


def forecasts(analysis: Analysis) -> list[dict[str, Any]]:
    """A row for each stage and device: results, predicted and actual seconds of one device, their ratio, and the rate used.

    A CPU counts by threads. Left out are results without a record, adopted ones, and those whose recipe does not tell
    what was computed.
    """
    records = _records(analysis)
    recipes = {digest: record["recipe"] for digest, record in records.items()}
    costs = Costs(recipes | _sets(analysis, recipes))
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records.values():
        made, stage = record.get("made") or {}, record["stage"]
        actual, cost = device_seconds(stage, made), costs.of(record["recipe"])
        if not actual or not cost.flops or "adopted" in record or stage not in STAGES:
            continue
        gpu = device_name(made)
        told = estimate(stage, cost, "cpu" if gpu == "cpu" else "gpu", gpu)
        row = rows.setdefault((stage, gpu), _empty(stage, gpu, told.said))
        row["results"] += 1
        row["predicted"] += told.seconds
        row["actual"] += actual
    order = list(STAGES)
    return [
        row | {"ratio": row["actual"] / row["predicted"]}
        for row in sorted(rows.values(), key=lambda row: order.index(row["stage"]))
    ]


def _empty(stage: str, device: str, said: str) -> dict[str, Any]:
    name = "CPU, a core" if device == "cpu" else device
    return {"stage": stage, "device": name, "said": said, "results": 0, "predicted": 0.0, "actual": 0.0}


def _records(analysis: Analysis) -> dict[str, dict[str, Any]]:
    """The records of the cells' results that are here, by digest, in the order of the stages of a cell."""
    names: dict[tuple[str, str], None] = {}
    for cell in analysis.summary["cells"]:
        names |= dict.fromkeys(cell["results"].items())
    found = {}
    for stage, name in names:
        record = analysis.record(stage, name)
        if record is not None and isinstance(record.get("recipe"), dict):
            found[name.rpartition("@")[2]] = record
    return found


def _sets(analysis: Analysis, recipes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Recipes of the test sets that were read: how many items they have decides what a measurement computes."""
    found = {}
    for recipe in recipes.values():
        for name in ("bundle", "chatsets"):
            digest = recipe.get("inputs", {}).get(name)
            if isinstance(digest, str) and digest.isalnum() and digest not in found:
                for folder in (analysis.results / name).glob(f"*@{digest}"):
                    record = analysis.record(name, folder.name)
                    found[digest] = record["recipe"] if record else {}
    return found
