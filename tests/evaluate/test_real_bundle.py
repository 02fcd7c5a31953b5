"""CORE on the published sets, where they are at hand."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from xsa.data.icl import choose_tasks, order_items, read_items, read_tasks
from xsa.evaluate.centred import TaskScore, aggregate, baseline_table, published_items
from xsa.evaluate.core import make_prompts
from xsa.study.stages import CoreStage

ITEMS = 11  # one more than the examples of a task


@pytest.fixture
def bundle(published_sets) -> Path:
    return published_sets("eval_bundle")


@pytest.mark.parametrize("size", ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"])
def test_published_accuracies_give_the_published_metric_under_v1(bundle, size):
    path = bundle / "reference" / f"openai-community-{size}.csv"
    if not path.exists():
        pytest.skip(f"no published results at {path}")
    with open(path, encoding="utf-8", newline="") as handle:
        rows = [[cell.strip() for cell in row] for row in csv.reader(handle)][1:]
    table, _ = baseline_table("v1", None)
    published = {label: (float(accuracy), float(centred)) for label, accuracy, centred in rows if accuracy}
    assert published.keys() == table.keys()
    scores = {label: TaskScore(10**6, round(10**6 * value), table[label]) for label, (value, _) in published.items()}
    for label, score in scores.items():
        assert score.centred == pytest.approx(published[label][1], abs=2e-6)
    (metric,) = [float(centred) for label, _, centred in rows if label == "CORE"]
    assert aggregate(scores)["mean"] == pytest.approx(metric, abs=2e-6)


def test_items_of_piqa_whose_one_choice_begins_the_other_are_all_scored(bundle, core_tokenizer):
    (task,) = choose_tasks(read_tasks(bundle / "core.yaml"), ("piqa",), bundle)
    items = order_items(read_items(bundle / "eval_data" / task.file, task.kind), None)
    begins = []
    for prompt in make_prompts(core_tokenizer, task, items, range(len(items)), 10**6):
        one, other = sorted(prompt.options)
        if other[: len(one)] == one:
            begins.append(prompt)
        assert prompt.widened == (other[: len(one)] == one)
        assert all(start < end for start, end in zip(prompt.starts, prompt.ends, strict=True))
    assert len(begins) >= 3  # 4 by most vocabularies


def test_all_22_tasks_run_under_v1(bundle, run_stage, made, core_config):
    def whole(folder: Path) -> None:
        for path in [bundle / "core.yaml", bundle / "eval_meta_data.csv", *bundle.glob("eval_data/*/*.jsonl")]:
            target = folder / path.relative_to(bundle)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(path.resolve(), target)

    folder = run_stage(
        "core",
        CoreStage(tasks="all", max_per_task=ITEMS, baselines="v1", dtype="float32"),
        checkpoint=made.checkpoint(core_config()),
        bundle=made.result("bundle", whole),
        tokenizer=made.tokenizer(),
    )
    result = json.loads((folder / "core.json").read_text())
    assert set(result["tasks"]) == set(baseline_table("v1", None)[0])
    assert (result["baselines"], result["max_per_task"]) == ("v1", ITEMS)
    for label in result["partial"]:
        assert result["tasks"][label]["items"] < published_items()[label]
    rows = pq.read_table(folder / "items.parquet").to_pylist()
    assert len(rows) == 22 * ITEMS
    for row in rows:
        if row["gold"] is None:
            assert row["prediction"] is None and len(row["losses"]) == 1
        else:
            assert row["prediction"] == row["losses"].index(min(row["losses"]))
            assert row["correct"] == (row["prediction"] == row["gold"])
