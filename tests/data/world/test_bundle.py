"""The CORE bundle of the made-up world."""

from __future__ import annotations

import csv
import json

import pytest
import yaml

from xsa.data.world import write_bundle
from xsa.data.world.tasks import TASKS, draw_items
from xsa.data.world.world import make_world, stream

FIELDS = {
    "multiple_choice": {"query", "choices", "gold"},
    "schema": {"context_options", "continuation", "gold"},
    "language_modeling": {"context", "continuation"},
}
HEADER = "Eval Task,Task Category,Task Type,#shots,#datapoints,Random baseline,Centered Metric?,Description"


def listed(bundle):
    return yaml.safe_load((bundle / "core.yaml").read_text())["icl_tasks"]


def items(bundle, task):
    return [json.loads(line) for line in (bundle / "eval_data" / task["dataset_uri"]).read_text().splitlines()]


def options(item):
    return item.get("choices") or item.get("context_options")


def test_all_three_kinds_and_0_3_and_10_shots_are_there(bundle):
    tasks = listed(bundle)
    assert {task["icl_task_type"] for task in tasks} == set(FIELDS)
    assert {shots for task in tasks for shots in task["num_fewshot"]} == {0, 3, 10}


def test_every_item_has_the_fields_of_its_kind(bundle):
    for task in listed(bundle):
        for item in items(bundle, task):
            assert set(item) == FIELDS[task["icl_task_type"]]


def test_options_differ_and_the_right_one_is_among_them(bundle):
    for task in listed(bundle):
        for item in items(bundle, task):
            if options(item):
                assert len(set(options(item))) == len(options(item))
                assert 0 <= item["gold"] < len(options(item))


def test_items_are_more_than_the_worked_examples_and_no_two_alike(bundle):
    for task in listed(bundle):
        drawn = [json.dumps(item) for item in items(bundle, task)]
        assert len(drawn) >= task["num_fewshot"][0] + 1
        assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("seed", range(10))
def test_every_seed_has_enough_items_of_every_task(seed):
    for task in TASKS:
        drawn = draw_items(task, make_world(seed), stream("bundle", seed, task.label), 16)
        assert len(drawn) == 16


def test_the_table_of_baselines_has_the_published_header_and_one_row_a_task(bundle):
    text = (bundle / "eval_meta_data.csv").read_text()
    assert text.splitlines()[0] == HEADER
    rows = {row["Eval Task"]: row for row in csv.DictReader(text.splitlines())}
    for task in listed(bundle):
        assert int(rows[task["label"]]["#datapoints"]) == len(items(bundle, task))
        assert [int(rows[task["label"]]["#shots"])] == task["num_fewshot"]


def test_baselines_are_what_a_guess_among_the_options_scores(bundle):
    rows = {row["Eval Task"]: row for row in csv.DictReader((bundle / "eval_meta_data.csv").read_text().splitlines())}
    for task in listed(bundle):
        baseline = float(rows[task["label"]]["Random baseline"])
        for item in items(bundle, task):
            assert baseline == (100 / len(options(item)) if options(item) else 0)


def test_the_right_option_is_in_no_favoured_place(tmp_path):
    write_bundle(tmp_path, 6, 200)
    for task in listed(tmp_path):
        golds = [item["gold"] for item in items(tmp_path, task) if options(item)]
        if golds:
            count = len(options(items(tmp_path, task)[0]))
            assert max(golds.count(i) for i in range(count)) / len(golds) < 1 / count + 0.25


def test_home_questions_are_answered_by_the_world(bundle):
    world = make_world(5)
    task = next(task for task in listed(bundle) if task["label"] == "questions")
    asked = [
        item
        for item in items(bundle, task)
        if item["query"].startswith("Question: Where does ") and " live?" in item["query"]
    ]
    assert asked
    for item in asked:
        name = item["query"].removeprefix("Question: Where does ").removesuffix(" live?")
        assert item["choices"][item["gold"]] == world.person(name).home


def test_the_same_arguments_give_the_same_bytes(bundle, tmp_path):
    write_bundle(tmp_path, 5, 40)
    for path in bundle.rglob("*"):
        if path.is_file():
            assert (tmp_path / path.relative_to(bundle)).read_bytes() == path.read_bytes()
