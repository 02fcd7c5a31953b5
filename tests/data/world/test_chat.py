"""The chat sets of the made-up world."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xsa.data.chat import CategoricalItem, chat_items, mixture
from xsa.data.world import write_chatsets
from xsa.study.settings import MixtureItem

TEXT = pa.string()
SCHEMAS = {
    "arc_easy/test": {"id": TEXT, "question": TEXT, "choices": None, "answerKey": TEXT},
    "arc_challenge/test": {"id": TEXT, "question": TEXT, "choices": None, "answerKey": TEXT},
    "mmlu/test": {"question": TEXT, "subject": TEXT, "choices": pa.list_(TEXT), "answer": pa.int64()},
    "mmlu/auxiliary_train": {"question": TEXT, "subject": TEXT, "choices": pa.list_(TEXT), "answer": pa.int64()},
    "gsm8k/test": {"question": TEXT, "answer": TEXT},
    "gsm8k/train": {"question": TEXT, "answer": TEXT},
    "humaneval/test": dict.fromkeys(("task_id", "prompt", "canonical_solution", "test", "entry_point"), TEXT),
    "smoltalk/train": {"messages": None, "source": TEXT},
    "smoltalk/test": {"messages": None, "source": TEXT},
}


def rows(folder, name):
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_file_has_the_published_columns(chatsets, name):
    file = pq.ParquetFile(chatsets / f"{name}.parquet")
    columns = {field.name: field.type for field in file.schema_arrow}
    assert list(columns) == list(SCHEMAS[name])
    assert all(kind is None or columns[column] == kind for column, kind in SCHEMAS[name].items())
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("task", ["arc_easy", "arc_challenge", "mmlu", "gsm8k", "humaneval", "spellingbee"])
def test_every_item_is_read_as_the_published_sets_are(chatsets, task):
    drawn = [item for item in chat_items(task, chatsets, 40)]
    assert len(drawn) == 40
    for item in drawn:
        if isinstance(item, CategoricalItem):
            assert item.gold in item.letters


def test_choices_differ_and_the_right_one_is_among_them(chatsets):
    for name in ("mmlu/test", "mmlu/auxiliary_train"):
        for row in rows(chatsets, name):
            assert len(set(row["choices"])) == 4
            assert 0 <= row["answer"] < 4
    for name in ("arc_easy/test", "arc_challenge/test"):
        for row in rows(chatsets, name):
            assert len(set(row["choices"]["text"])) == len(row["choices"]["label"]) == 4
            assert row["answerKey"] in row["choices"]["label"]


def test_every_step_of_a_word_problem_is_true_and_the_last_is_the_answer(chatsets):
    for name in ("gsm8k/test", "gsm8k/train"):
        for row in rows(chatsets, name):
            steps = re.findall(r"<<(\d+)([-+*])(\d+)=(-?\d+)>>(-?\d+)\.", row["answer"])
            assert steps
            for left, sign, right, result, said in steps:
                assert {"+": int(left) + int(right), "-": int(left) - int(right), "*": int(left) * int(right)}[
                    sign
                ] == int(result)
                assert result == said
            assert row["answer"].endswith(f"\n#### {steps[-1][3]}")


def test_the_canonical_solution_of_every_program_passes_its_tests(chatsets):
    for row in rows(chatsets, "humaneval/test"):
        names: dict = {}
        exec(row["prompt"] + row["canonical_solution"] + "\n" + row["test"], names)
        names["check"](names[row["entry_point"]])


def test_a_wrong_solution_of_a_program_fails_its_tests(chatsets):
    for row in rows(chatsets, "humaneval/test"):
        names: dict = {}
        exec(row["prompt"] + "    return 'nothing'\n" + row["test"], names)
        with pytest.raises(AssertionError):
            names["check"](names[row["entry_point"]])


def test_what_is_asked_is_not_learnt_from(chatsets):
    for asked, learnt in (
        ("mmlu/test", "mmlu/auxiliary_train"),
        ("gsm8k/test", "gsm8k/train"),
        ("smoltalk/test", "smoltalk/train"),
    ):
        known = {json.dumps(row) for row in rows(chatsets, learnt)}
        assert len(known) == len(rows(chatsets, learnt))
        assert not any(json.dumps(row) in known for row in rows(chatsets, asked))


def test_words_are_one_a_line_in_order_with_the_published_line_ends(chatsets):
    text = (chatsets / "spellingbee" / "words_alpha.txt").read_bytes().decode()
    words = text.removesuffix("\r\n").split("\r\n")
    assert words == sorted(set(words))
    assert all(re.fullmatch("[a-z]+", word) for word in words)


def test_the_mixture_of_all_sets_can_be_read(chatsets):
    sets = ("smoltalk", "identity", "mmlu", "gsm8k", "simplespelling", "spellingbee")
    mixed = mixture([MixtureItem(set=name, limit=20) for name in sets], chatsets, seed=0)
    assert len(mixed) == 120
    for conversation in mixed:
        assert [message["role"] for message in conversation["messages"]][:2] == ["user", "assistant"]


def test_the_same_arguments_give_the_same_bytes(chatsets, tmp_path):
    write_chatsets(tmp_path, 5, 40)
    for path in chatsets.rglob("*"):
        if path.is_file():
            assert (tmp_path / path.relative_to(chatsets)).read_bytes() == path.read_bytes()
