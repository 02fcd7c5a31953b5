import json
import os
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from xsa.data.icl import read_tasks
from xsa.evaluate import core as module
from xsa.evaluate.core import make_prompts
from xsa.store.errors import UserError
from xsa.study.settings import RunSettings
from xsa.study.stages import CoreStage


def settings(**changes) -> CoreStage:
    return CoreStage(**{"tasks": "all", "max_per_task": None, "baselines": "bundle", "dtype": "float32"} | changes)


@pytest.fixture
def inputs(made, core_config):
    return {"checkpoint": made.checkpoint(core_config()), "bundle": made.bundle(), "tokenizer": made.tokenizer()}


def read(folder):
    return json.loads((folder / "core.json").read_text()), pq.read_table(folder / "items.parquet").to_pylist()


def test_the_metric_of_all_tasks_is_the_reference_one(run_stage, reference, inputs):
    result, items = read(run_stage("core", settings(), **inputs))
    summary = json.loads((reference("core") / "summary.json").read_text())
    assert result["core"] == pytest.approx(summary["core_metric"], abs=1e-6)
    for label, one in summary["tasks"].items():
        assert result["tasks"][label]["accuracy"] == pytest.approx(one["accuracy"], abs=1e-6)
        assert result["tasks"][label]["centred"] == pytest.approx(one["centered"], abs=1e-6)
        assert result["tasks"][label]["items"] == one["n"]
        assert sum(item["correct"] for item in items if item["task"] == label) == one["correct"]
    low, high = result["interval"]
    assert high - low == pytest.approx(2 * 1.959964 * result["standard_error"], rel=1e-6)
    assert (result["partial"], result["cropped"], result["widened"]) == ([], {}, {})
    assert result["baselines"] == "bundle"


def test_a_limit_gives_the_reference_metric_of_the_first_17_items(run_stage, reference, inputs):
    result, items = read(run_stage("core", settings(max_per_task=17), **inputs))
    wanted = json.loads((reference("core") / "summary.json").read_text())["max_per_task_17"]
    assert result["core"] == pytest.approx(wanted["core_metric"], abs=1e-6)
    for label, accuracy in wanted["results"].items():
        assert result["tasks"][label]["accuracy"] == pytest.approx(accuracy, abs=1e-6)
        assert result["tasks"][label]["centred"] == pytest.approx(wanted["centered_results"][label], abs=1e-6)
    assert result["max_per_task"] == 17
    assert len(items) == 17 * len(result["tasks"])


def test_every_item_is_a_row_with_its_losses(run_stage, reference, inputs):
    _, items = read(run_stage("core", settings(tasks=("lm_0shot", "mc_0shot")), **inputs))
    assert [item["task"] for item in items] == ["mc_0shot"] * 30 + ["lm_0shot"] * 30  # the bundle's order
    assert [item["item"] for item in items] == 2 * list(range(30))
    stored = json.loads((reference("core") / "mc_0shot.json").read_text())
    for item, one, row in zip(items, stored["examples"], stored["data_shuffled"], strict=False):
        assert (item["gold"], item["prediction"]) == (row["gold"], one["predicted"])
        assert item["losses"] == pytest.approx(one["mean_loss"], abs=5e-5)
    assert items[30]["gold"] is None and items[30]["prediction"] is None and len(items[30]["losses"]) == 1


def test_the_next_prompts_are_under_way_before_scores_are_waited_for(
    reference, core_model, core_tokenizer, monkeypatch
):
    steps, launch = [], module.launch

    def watched(model, prompts, budget):
        pending = launch(model, prompts, budget)
        steps.append(f"launch {len(prompts)}")
        collect = pending.collect
        object.__setattr__(pending, "collect", lambda: steps.append("collect") or collect())
        return pending

    monkeypatch.setattr(module, "launch", watched)
    monkeypatch.setattr(module, "CHUNK", 12)
    task = next(task for task in read_tasks(reference("core") / "bundle" / "core.yaml") if task.label == "mc_0shot")
    items = json.loads((reference("core") / "mc_0shot.json").read_text())["data_shuffled"]
    pairs = list(module.evaluate_task(core_model(), core_tokenizer, task, items, 4096))
    assert steps == ["launch 12", "launch 12", "collect", "launch 6", "collect", "collect"]
    assert [score.index for _, score in pairs] == [prompt.index for prompt, _ in pairs] == list(range(30))


def test_predictions_do_not_depend_on_the_micro_batch(run_stage, inputs):
    rows = []
    for micro_batch in (1, 20):
        folder = run_stage("core", settings(max_per_task=12), run=RunSettings(micro_batch=micro_batch), **inputs)
        rows.append([item["prediction"] for item in read(folder)[1]])
    assert rows[0] == rows[1]


KILLED = """
import os, signal, sys
from pathlib import Path
from xsa.evaluate import core as module
from xsa.store.job import Job
from xsa.study.stages import CoreStage

root, checkpoint, bundle, tokenizer, when = sys.argv[1:]
evaluate, begun = module.evaluate_task, []

def watched(model, tokenizer, task, *args):
    if len(begun) == int(when):
        os.kill(os.getpid(), signal.SIGKILL)
    begun.append(task.label)
    print(task.label, flush=True)
    return evaluate(model, tokenizer, task, *args)

module.evaluate_task = watched
settings = CoreStage(tasks=("mc_0shot", "schema_0shot", "lm_0shot"), max_per_task=None, baselines="bundle", dtype="float32")
inputs = {"checkpoint": Path(checkpoint), "bundle": Path(bundle), "tokenizer": Path(tokenizer)}
(Path(root) / "out").mkdir(parents=True, exist_ok=True)
module.core(Job("core", "test", settings, inputs, Path(root) / "out", Path(root) / "state"))
"""


def test_finished_tasks_are_kept_when_the_process_is_killed_and_the_rest_goes_on(inputs, tmp_path):
    def begun(root, when):
        where = [tmp_path / root, inputs["checkpoint"], inputs["bundle"], inputs["tokenizer"]]
        command = [sys.executable, "-c", KILLED, *map(str, where), str(when)]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout.split()

    assert begun("killed", 2) == (-signal.SIGKILL, ["mc_0shot", "schema_0shot"])
    assert not (tmp_path / "killed" / "out" / "core.json").exists()
    (tmp_path / "killed" / "state" / "001.json").write_text('{"scores": [')  # half a file is as good as none
    assert begun("killed", 9) == (0, ["schema_0shot", "lm_0shot"])
    assert begun("whole", 9) == (0, ["mc_0shot", "schema_0shot", "lm_0shot"])
    for name in ("core.json", "items.parquet"):
        assert (tmp_path / "killed/out" / name).read_bytes() == (tmp_path / "whole/out" / name).read_bytes()


def test_prompts_beyond_the_trained_context_are_read_and_those_beyond_the_limit_cut_and_both_are_counted(
    run_stage, made, reference, core_config, core_tokenizer
):
    config = core_config().model_copy(update={"sequence_len": 30})
    inputs = {"checkpoint": made.checkpoint(config), "bundle": made.bundle(), "tokenizer": made.tokenizer()}
    result, _ = read(run_stage("core", settings(tasks=("mc_0shot", "mc_10shot")), **inputs))
    counts = {}
    for task in read_tasks(reference("core") / "bundle" / "core.yaml"):
        label = task.label
        if label not in ("mc_0shot", "mc_10shot"):
            continue
        items = json.loads((reference("core") / f"{label}.json").read_text())["data_shuffled"]
        lengths = [max(one.ends) for one in make_prompts(core_tokenizer, task, items, range(len(items)), 10_000)]
        counts[label] = sum(length > 30 for length in lengths), sum(length > 300 for length in lengths)
    assert any(cropped for _, cropped in counts.values())
    assert result["max_tokens"] == 300
    assert result["beyond"] == {label: beyond for label, (beyond, _) in counts.items() if beyond}
    assert result["cropped"] == {label: cropped for label, (_, cropped) in counts.items() if cropped}


def test_a_choice_that_begins_another_is_counted(run_stage, made, core_config):
    def change(folder):
        path = folder / "eval_data" / "mc.jsonl"
        rows = path.read_text().splitlines()
        rows[3] = json.dumps({"query": "Question: Which?", "choices": ["a dog", "a dog that barks"], "gold": 0})
        path.write_text("\n".join(rows))

    inputs = {
        "checkpoint": made.checkpoint(core_config()),
        "bundle": made.bundle(change),
        "tokenizer": made.tokenizer(),
    }
    result, items = read(run_stage("core", settings(tasks=("mc_0shot",)), **inputs))
    assert result["widened"] == {"mc_0shot": 1}
    assert all(loss == loss for item in items for loss in item["losses"])


def test_a_file_with_fewer_items_than_published_makes_its_task_partial(run_stage, made, core_config):
    def change(folder):
        text = (folder / "core.yaml").read_text().replace("mc_0shot", "copa")
        (folder / "core.yaml").write_text(text)

    inputs = {
        "checkpoint": made.checkpoint(core_config()),
        "bundle": made.bundle(change),
        "tokenizer": made.tokenizer(),
    }
    result, _ = read(run_stage("core", settings(tasks=("copa",), baselines="v1"), **inputs))
    assert result["partial"] == ["copa"]
    assert result["tasks"]["copa"]["baseline"] == 0.5


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"tasks": ("mc_1shot",)},
            r"core.tasks has 'mc_1shot', which .*core.yaml does not know; the nearest known is 'mc_",
        ),
        ({"max_per_task": 10}, r"task mc_10shot shows 10 examples .* raise core.max_per_task to at least 11"),
        ({"baselines": "v1"}, r"v1.csv has no baseline for mc_0shot, schema_0shot"),
    ],
)
def test_settings_that_cannot_be_are_refused(run_stage, inputs, changes, fault):
    with pytest.raises(UserError, match=fault):
        run_stage("core", settings(**changes), **inputs)


def test_a_malformed_file_stops_before_anything_is_evaluated(run_stage, made, core_config, monkeypatch):
    def change(folder):
        with open(folder / "eval_data" / "lm.jsonl", "a") as handle:
            handle.write('{"context": "no continuation"}\n')

    inputs = {
        "checkpoint": made.checkpoint(core_config()),
        "bundle": made.bundle(change),
        "tokenizer": made.tokenizer(),
    }
    monkeypatch.setattr(module, "evaluate_task", lambda *_: pytest.fail("evaluated"))
    with pytest.raises(UserError, match=r"lm.jsonl, line 31: no field `continuation`"):
        run_stage("core", settings(), **inputs)


def test_a_model_of_nan_is_an_error_and_not_a_score(run_stage, inputs, made):
    import torch
    from safetensors.torch import load_file, save_file

    path = inputs["checkpoint"] / "model.safetensors"
    weights = load_file(path)
    weights["lm_head.weight"] = torch.full_like(weights["lm_head.weight"], float("nan"))
    os.unlink(path)
    save_file(weights, path)
    made.record(inputs["checkpoint"])
    with pytest.raises(UserError, match="is not finite"):
        run_stage("core", settings(tasks=("mc_0shot",)), **inputs)
