"""The chat sets' readers, on files in the published schema and on broken ones; and the mixture."""

from __future__ import annotations

import json
import re
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xsa.data.chat import chat_items, final_answer, mixture
from xsa.data.chat import gsm8k as gsm8k_set
from xsa.data.chat.check import check_chatsets
from xsa.data.conversation import render
from xsa.store.errors import UserError
from xsa.store.files import write_json
from xsa.store.progress import Progress
from xsa.study.result import digest_of
from xsa.study.settings import MixtureItem

ROWS = {
    "arc_easy/test": [
        {
            "id": "M1",
            "question": "Why?",
            "choices": {"text": ["so", "thus", "hence"], "label": ["1", "2", "3"]},
            "answerKey": "3",
        }
    ],
    "mmlu/test": [{"question": "Which?", "subject": "s", "choices": ["w", "x", "y", "z"], "answer": 2}],
    "mmlu/auxiliary_train": [{"question": "Who?", "subject": "", "choices": ["w", "x", "y", "z"], "answer": 0}],
    "gsm8k/train": [
        {"question": f"{n} and 1?", "answer": f"It is <<{n}+1={n + 1}>>{n + 1}.\n#### {n + 1}"} for n in range(5)
    ],
    "gsm8k/test": [{"question": "999+1?", "answer": "#### 1,000"}],
    "humaneval/test": [
        {
            "task_id": "HumanEval/0",
            "prompt": "def one():\n",
            "canonical_solution": "    return 1\n",
            "test": "def check(candidate):\n    assert candidate() == 1\n",
            "entry_point": "one",
        }
    ],
    "smoltalk/train": [
        {
            "messages": [
                {"content": "Be brief.", "role": "system"},
                {"content": f"Say {n}.", "role": "user"},
                {"content": f"{n}.", "role": "assistant"},
            ],
            "source": "x",
        }
        for n in range(7)
    ],
}


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


@pytest.fixture
def sets(tmp_path):
    """A folder of small sets in the published layout."""
    for name, rows in ROWS.items():
        write(tmp_path / f"{name}.parquet", rows)
    messages = [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": "A model."}]
    (tmp_path / "identity").mkdir()
    (tmp_path / "identity" / "identity_conversations.jsonl").write_text(json.dumps(messages) + "\n\n")
    (tmp_path / "spellingbee").mkdir()
    (tmp_path / "spellingbee" / "words_alpha.txt").write_bytes(b"apple\r\nstrawberry\r\nox\r\n")
    return tmp_path


def user(conversation):
    return conversation["messages"][-1]["content"]


def test_multiple_choice_has_the_letter_directly_after_the_choice(sets):
    (item,) = chat_items("arc_easy", sets)
    assert item.letters == ("1", "2", "3") and item.gold == "3"
    assert user(item.conversation) == (
        "Multiple Choice question: Why?\n- so=1\n- thus=2\n- hence=3\n\nRespond only with the letter of the correct answer."
    )
    (item,) = chat_items("mmlu", sets)
    assert item.letters == ("A", "B", "C", "D") and item.gold == "C"


def test_a_number_answer_loses_its_thousands_separator(sets):
    (item,) = chat_items("gsm8k", sets)
    assert (item.gold, item.check) == ("1000", "number")
    assert final_answer("So\n#### -1,234.5\n") == "-1234.5"
    assert final_answer("no answer") is None


def test_a_program_item_has_all_that_grading_needs(sets):
    (item,) = chat_items("humaneval", sets)
    row = ROWS["humaneval/test"][0]
    assert item.check == "program" and item.gold == "one"
    assert user(item.conversation) == row["prompt"]
    assert item.program == {name: row[name] for name in ("prompt", "canonical_solution", "test", "entry_point")}


def test_calculator_notes_become_tool_calls():
    assert gsm8k_set.parts("a <<1+1=2>>2 b<<3=3=3>>\n#### 2") == [
        {"type": "text", "text": "a "},
        {"type": "python", "text": "1+1"},
        {"type": "python_output", "text": "2"},
        {"type": "text", "text": "2 b"},
        {"type": "python", "text": "3=3"},
        {"type": "python_output", "text": "3"},
        {"type": "text", "text": "\n#### 2"},
    ]


def test_spelling_items_are_counted_right_and_the_same_every_time(sets):
    items = list(chat_items("spellingbee", sets, 40))
    assert items == list(chat_items("spellingbee", sets, 40))
    assert len({item.id for item in items}) == 40
    rows = mixture([MixtureItem(set="spellingbee", limit=60)], sets, 0)
    for conversation in rows:
        parts = conversation["messages"][1]["content"]
        code = next(part["text"] for part in parts if part["type"] == "python")
        word, letter = re.fullmatch(r"'([a-z]+)'\.count\('([a-z])'\)", code).groups()
        output = next(part["text"] for part in parts if part["type"] == "python_output")
        assert output == str(word.count(letter)) == final_answer(parts[-1]["text"])
        assert f"{word}:{','.join(word)}" in parts[0]["text"]
        assert word in user({"messages": conversation["messages"][:1]})


def test_training_words_and_test_words_are_drawn_apart(sets):
    words = [f"{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(600)]
    (sets / "spellingbee" / "words_alpha.txt").write_text("\n".join(words))
    asked = [user(item.conversation) for item in chat_items("spellingbee", sets, 30)]
    learned = mixture([MixtureItem(set="spellingbee", limit=30)], sets, 0)
    assert asked != [conversation["messages"][0]["content"] for conversation in learned]


MIXTURE = (
    MixtureItem(set="smoltalk", limit=5),
    MixtureItem(set="identity", repeat=2),
    MixtureItem(set="mmlu", repeat=3),
    MixtureItem(set="gsm8k", repeat=2),
    MixtureItem(set="simplespelling", limit=4),
    MixtureItem(set="spellingbee", limit=3),
)


def test_a_mixture_has_every_set_as_often_as_asked_and_renders(sets, small_tokenizer):
    mixed = mixture(MIXTURE, sets, 0)
    assert mixed.sizes == {"smoltalk": 5, "identity": 2, "mmlu": 3, "gsm8k": 10, "simplespelling": 4, "spellingbee": 3}
    assert len(mixed) == 27 and len(mixed.notes) == 4
    counted = Counter(conversation["messages"][-2]["content"] for conversation in mixed)
    assert counted["Who are you?"] == 2 and counted["3 and 1?"] == 2 and counted["Say 4."] == 1
    assert "Say 5." not in counted
    for conversation in mixed:
        ids, mask = render(small_tokenizer, conversation)
        assert len(ids) == len(mask) and any(mask)


def test_a_mixtures_order_is_decided_by_the_seed(sets):
    first, again, other = (list(mixture(MIXTURE, sets, seed)) for seed in (0, 0, 1))
    assert first == again and first != other
    assert sorted(map(json.dumps, first)) == sorted(map(json.dumps, other))


def test_a_set_that_is_missing_says_which_file(sets):
    (sets / "smoltalk" / "train.parquet").unlink()
    with pytest.raises(UserError, match=r"smoltalk/train\.parquet is missing"):
        mixture(MIXTURE, sets, 0)


def test_the_stand_in_for_auxiliary_train_is_taken_and_noted(sets):
    train = sets / "mmlu" / "auxiliary_train.parquet"
    train.rename(sets / "mmlu" / "auxiliary_train_standin.parquet")
    mixed = mixture([MixtureItem(set="mmlu")], sets, 0)
    assert len(mixed) == 1
    assert mixed.notes == ["mmlu is partial: 1 conversations, 99,842 are published"]


def test_sets_smaller_than_published_are_used_and_noted_unless_they_are_the_builtin_ones(sets):
    mixed = mixture([MixtureItem(set="smoltalk"), MixtureItem(set="gsm8k")], sets, 0)
    assert [note.split(":")[0] for note in mixed.notes] == ["smoltalk is partial", "gsm8k is partial"]
    recipe = {"settings": {"kind": "builtin"}}
    made = sets.rename(sets.with_name(f"made@{digest_of(recipe)}"))
    write_json(made / "record.json", {"digest": digest_of(recipe), "files": {}, "recipe": recipe})
    assert mixture([MixtureItem(set="gsm8k")], made, 0).notes == []


def test_auxiliary_train_may_be_inside_a_struct_as_the_hub_also_has_it(sets):
    write(sets / "mmlu" / "auxiliary_train.parquet", [{"train": row} for row in ROWS["mmlu/auxiliary_train"]])
    (conversation,) = mixture([MixtureItem(set="mmlu")], sets, 0)
    assert conversation["messages"][1]["content"] == "A"


def test_test_rows_may_be_mixed_too(sets):
    mixed = mixture([MixtureItem(set="mmlu"), MixtureItem(set="identity")], sets, 0, split="test")
    assert [conversation["messages"][1]["content"] for conversation in mixed] == ["C"]


@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        ("arc_easy/test", {"answerKey": "4"}, "'4' is none of the labels 1, 2, 3"),
        ("arc_easy/test", {"question": None}, "'question' must be text, it is missing"),
        ("mmlu/test", {"answer": 4}, "from 0 to 3, it is 4"),
        ("mmlu/test", {"choices": ["a", "b"]}, "'choices' must be a list of 4"),
        ("gsm8k/train", {"answer": "It is 4."}, "no number after"),
        ("humaneval/test", {"test": None}, "'test' must be text"),
        ("smoltalk/train", {"messages": [{"content": "a", "role": "user"}]}, "needs a message"),
        (
            "smoltalk/train",
            {"messages": [{"content": "a", "role": "assistant"}, {"content": "b", "role": "user"}]},
            "message 0 is of 'assistant'",
        ),
        ("smoltalk/train", {"messages": [{"content": None, "role": "user"}] * 2}, "'content' must be text"),
    ],
)
def test_a_row_that_is_not_as_its_schema_says_is_named(sets, name, change, what):
    good = ROWS[name][0]
    write(sets / f"{name}.parquet", [good, good | change, good])
    with pytest.raises(UserError, match=rf"{name}\.parquet, row 1 \(counted from 0\): .*{what}"):
        check_chatsets(sets, Progress())


def test_a_missing_column_is_named_with_those_that_are_there(sets):
    write(sets / "gsm8k" / "test.parquet", [{"question": "a", "solution": "b"}])
    with pytest.raises(
        UserError, match=r"gsm8k/test\.parquet has no column 'answer'; its columns are question, solution"
    ):
        chat_items("gsm8k", sets)


def test_a_broken_line_of_the_identity_set_is_named(sets):
    path = sets / "identity" / "identity_conversations.jsonl"
    path.write_text(path.read_text() + '[{"role": "user"}]\n')
    with pytest.raises(UserError, match=r"identity_conversations\.jsonl:3: .*'content' must be text"):
        check_chatsets(sets, Progress())
    path.write_text("{nothing\n")
    with pytest.raises(UserError, match=r"identity_conversations\.jsonl:1: not valid JSON"):
        check_chatsets(sets, Progress())


def test_a_word_that_is_no_word_is_named_with_its_line(sets):
    (sets / "spellingbee" / "words_alpha.txt").write_text("apple\nit's\n")
    with pytest.raises(UserError, match=r"words_alpha\.txt:2"):
        check_chatsets(sets, Progress())


def test_the_check_counts_rows_and_lists_what_is_missing(sets):
    found = check_chatsets(sets, Progress())
    assert found["rows"]["gsm8k/train.parquet"] == 5
    assert found["missing"] == ["arc_challenge/test.parquet", "smoltalk/test.parquet"]


def test_a_folder_without_any_set_is_an_error(tmp_path):
    with pytest.raises(UserError, match="none of the chat sets"):
        check_chatsets(tmp_path, Progress())
