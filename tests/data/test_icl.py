import json
import random

import pytest

from xsa.data.icl import (
    Task,
    check_enough,
    choose_tasks,
    fewshot_indices,
    order_items,
    read_items,
    read_tasks,
)
from xsa.store.errors import UserError

MC = {"query": "q", "choices": ["a", "b"], "gold": 0}
SCHEMA = {"context_options": ["a", "b"], "continuation": "c", "gold": 1}
LM = {"context": "a", "continuation": "b"}


def references(folder):
    return sorted(folder.glob("*shot.json"))


def test_items_are_shuffled_into_the_reference_order(reference):
    folder = reference("core")
    tasks = {task.label: task for task in read_tasks(folder / "bundle" / "core.yaml")}
    for path in references(folder):
        stored = json.loads(path.read_text())
        task = tasks[stored["label"]]
        items = order_items(read_items(folder / "bundle" / "eval_data" / task.file, task.kind), None)
        assert items == stored["data_shuffled"]
        assert (task.kind, task.num_fewshot, task.delimiter) == (
            stored["task_type"],
            stored["num_fewshot"],
            stored["continuation_delimiter"],
        )


def test_examples_are_the_reference_ones(reference):
    for path in references(reference("core")):
        stored = json.loads(path.read_text())
        for one in stored["examples"]:
            drawn = fewshot_indices(one["index"], len(stored["data_shuffled"]), stored["num_fewshot"])
            assert drawn == one["fewshot_indices"]


@pytest.mark.parametrize("items", [12, 30, 5000])
def test_drawing_positions_equals_drawing_from_the_list_without_the_item(items):
    for index in (0, 1, items // 2, items - 1):
        others = [other for other in range(items) if other != index]
        assert fewshot_indices(index, items, 10) == random.Random(1234 + index).sample(others, 10)


def test_a_limit_cuts_after_the_shuffle():
    items = [LM | {"context": str(number)} for number in range(20)]
    assert order_items(items, 7) == order_items(items, None)[:7]


@pytest.mark.parametrize(
    ("kind", "row", "fault"),
    [
        ("multiple_choice", {"query": "q", "gold": 0}, "no field `choices`"),
        ("multiple_choice", MC | {"gold": "0"}, "`gold` must be a whole number, found '0'"),
        ("multiple_choice", MC | {"gold": True}, "`gold` must be a whole number"),
        ("multiple_choice", MC | {"gold": 2}, "`gold` is 2, outside 0 … 1"),
        ("multiple_choice", MC | {"choices": ["a"]}, "`choices` has 1 entries"),
        ("multiple_choice", MC | {"choices": ["a", 3]}, "`choices` must be a list of texts"),
        ("schema", SCHEMA | {"continuation": None}, "`continuation` must be a text"),
        ("schema", {"context_options": ["a", "b"], "gold": 0}, "no field `continuation`"),
        ("language_modeling", LM | {"continuation": "  "}, "`continuation` is empty"),
        ("language_modeling", [1], "a list, but an item is an object with context, continuation"),
    ],
)
def test_a_wrong_row_is_refused_by_file_and_line(tmp_path, kind, row, fault):
    path = tmp_path / "task.jsonl"
    good = {"multiple_choice": MC, "schema": SCHEMA, "language_modeling": LM}[kind]
    path.write_text(f"{json.dumps(good)}\n\n{json.dumps(row)}\n")
    with pytest.raises(UserError, match=fault) as error:
        read_items(path, kind)
    assert f"{path}, line 3" in str(error.value)


@pytest.mark.parametrize("line", [b'{"context": ', b"\xff\xfe", b"[" * 100_000])
def test_a_line_that_is_not_json_is_refused_by_file_and_line(tmp_path, line):
    path = tmp_path / "task.jsonl"
    path.write_bytes(json.dumps(LM).encode() + b"\n" + line + b"\n")
    with pytest.raises(UserError, match=r"line 2: not a line of JSON"):
        read_items(path, "language_modeling")


def test_a_file_without_items_is_refused(tmp_path):
    (tmp_path / "task.jsonl").write_text("\n")
    with pytest.raises(UserError, match="holds no items"):
        read_items(tmp_path / "task.jsonl", "schema")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: [", "not readable YAML"),
        ("tasks: []", "no list `icl_tasks`"),
        ("icl_tasks: [{dataset_uri: a}]", "task 1: a task needs a `label`"),
        ("icl_tasks: [{label: a, icl_task_type: mc}]", "icl_task_type is 'mc'; known are multiple_choice, schema"),
        (
            "icl_tasks: [{label: a, icl_task_type: schema, dataset_uri: ../x, num_fewshot: [0]}]",
            "dataset_uri is '../x'; it must be a path inside",
        ),
        (
            "icl_tasks: [{label: a, icl_task_type: schema, dataset_uri: x, num_fewshot: [0, 10]}]",
            r"num_fewshot is \[0, 10\]",
        ),
        (
            "icl_tasks:\n" + 2 * "- {label: a, icl_task_type: schema, dataset_uri: x, num_fewshot: [0]}\n",
            "the label a occurs twice",
        ),
    ],
)
def test_a_malformed_task_list_is_refused_by_entry_and_key(tmp_path, text, fault):
    (tmp_path / "core.yaml").write_text(text)
    with pytest.raises(UserError, match=fault):
        read_tasks(tmp_path / "core.yaml")


def test_an_unknown_task_names_the_nearest_known_one(tmp_path):
    tasks = [Task(label, "schema", "x", 0, " ") for label in ("winograd", "hellaswag", "piqa")]
    with pytest.raises(UserError, match=r"'helaswag'.*nearest known is 'hellaswag'"):
        choose_tasks(tasks, ("piqa", "helaswag"), tmp_path / "core.yaml")
    assert [task.label for task in choose_tasks(tasks, ("piqa", "winograd"), tmp_path)] == ["winograd", "piqa"]
    assert choose_tasks(tasks, "all", tmp_path) == tasks


def test_fewer_items_than_examples_and_one_are_refused(tmp_path):
    task = Task("arc", "multiple_choice", "x", 10, " ")
    check_enough(task, 11, None, tmp_path)
    with pytest.raises(UserError, match=r"needs 11 items, but .* holds 10; complete the file"):
        check_enough(task, 10, None, tmp_path)
    with pytest.raises(UserError, match=r"max_per_task = 10 leaves 10; raise core.max_per_task to at least 11"):
        check_enough(task, 10, 10, tmp_path)
