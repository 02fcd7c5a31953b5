"""The evaluation bundle in CORE's own layout: task list, table of baselines, and a file of items for each task."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import yaml

from xsa.data.world.tasks import TASKS, Task, draw_items
from xsa.data.world.world import make_world, stream
from xsa.store.files import write_text

HEADER = (
    "Eval Task", "Task Category", "Task Type", "#shots", "#datapoints", "Random baseline", "Centered Metric?", "Description",
)  # fmt: skip


def write_bundle(folder: Path, seed: int, items: int) -> None:
    """Write `core.yaml`, `eval_meta_data.csv` and `eval_data/<category>/<task>.jsonl` about the world of `seed`.

    A task has `items` different items, or fewer where the world does not hold so many.
    """
    folder, world, counts = Path(folder), make_world(seed), {}
    for task in TASKS:
        drawn = draw_items(task, world, stream("bundle", seed, task.label), items)
        lines = [json.dumps(item, ensure_ascii=False) + "\n" for item in drawn]
        write_text(folder / "eval_data" / task.uri, "".join(lines))
        counts[task.label] = len(drawn)
    listing = {"icl_tasks": [_entry(task) for task in TASKS]}
    write_text(folder / "core.yaml", yaml.safe_dump(listing, sort_keys=False))
    write_text(folder / "eval_meta_data.csv", _metadata(counts))


def _entry(task: Task) -> dict:
    entry = {
        "label": task.label,
        "dataset_uri": task.uri,
        "num_fewshot": [task.shots],
        "icl_task_type": task.kind,
    }
    return entry | ({"continuation_delimiter": task.delimiter} if task.delimiter else {})


def _metadata(counts: dict[str, int]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for task in TASKS:
        kind, about = task.kind.replace("_", " "), " ".join(task.draw.__doc__.split())
        writer.writerow((task.label, task.category, kind, task.shots, counts[task.label], task.baseline, "", about))
    return text.getvalue()
