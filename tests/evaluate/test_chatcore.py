import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from xsa.data.chat import CategoricalItem, GeneratedItem, humaneval
from xsa.data.conversation import render_prompt
from xsa.evaluate import chatcore as module
from xsa.evaluate.centred import centre, chat_table
from xsa.evaluate.chatcore import choose_letters, grade
from xsa.evaluate.engine import Answer
from xsa.evaluate.sandbox import Limits, Sandbox
from xsa.store.errors import UserError
from xsa.study.settings import ChatcoreSettings
from xsa.study.stages import ChatcoreStage

ASK = (
    "Multiple Choice question: {}\n- blue=A\n- green=B\n- red=C\n\nRespond only with the letter of the correct answer."
)
PROBLEM = {
    "task_id": "HumanEval/0",
    "prompt": 'def double(x):\n    """Twice x."""\n',
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(3) == 6\n",
    "entry_point": "double",
}


def settings(**changes) -> ChatcoreStage:
    default = {
        "tasks": ("arc_easy",),
        "max_per_task": None,
        "spellingbee_items": 4,
        "max_new_tokens": 8,
        "sandbox_seconds": 5.0,
        "dtype": "float32",
    }
    return ChatcoreStage(**default | changes)


@pytest.fixture
def chatsets(made):
    """A small set of each task, as published."""

    def fill(folder):
        def write(name, rows):
            (folder / name).mkdir()
            pq.write_table(pa.Table.from_pylist(rows), folder / name / "test.parquet")

        choices = {"text": ["blue", "green", "red"], "label": ["A", "B", "C"]}
        arc = [
            {"id": str(n), "question": f"Colour {n}?", "choices": choices, "answerKey": "ABC"[n % 3]} for n in range(9)
        ]
        write("arc_easy", arc)
        mmlu = {"question": "Which?", "choices": ["a", "b", "c", "d"], "subject": "", "answer": 2}
        write("mmlu", [mmlu] * 5)
        write("gsm8k", [{"question": f"1 + {n}?", "answer": f"<<1+{n}={1 + n}>>#### {1 + n}"} for n in range(5)])
        write("humaneval", [PROBLEM] * 2)
        (folder / "spellingbee").mkdir()
        (folder / "spellingbee" / "words_alpha.txt").write_text("apple\nbee\ncherry\n")

    return made.result("chatsets", fill)


@pytest.fixture
def inputs(made, chatsets, core_config):
    return {
        "checkpoint": made.checkpoint(core_config(), "finetune"),
        "chatsets": chatsets,
        "tokenizer": made.tokenizer(),
    }


def read(folder):
    return json.loads((folder / "chatcore.json").read_text()), pq.read_table(folder / "items.parquet").to_pylist()


@pytest.mark.parametrize("budget", [1, 4096])
def test_the_choice_is_the_likeliest_allowed_letter_after_the_prompt(core_model, core_tokenizer, budget):
    model = core_model()
    letters = ("A", "B", "C")
    items = [
        CategoricalItem(
            str(n), {"messages": [{"role": "user", "content": ASK.format("sky " * n)}]}, letters[: 2 + n % 2], "A"
        )
        for n in range(7)
    ]
    prompts = [render_prompt(core_tokenizer, item.conversation) for item in items]
    for item, prompt, row in zip(
        items, prompts, choose_letters(model, core_tokenizer, items, prompts, budget), strict=True
    ):
        with torch.no_grad():
            logits_V = model(torch.tensor([prompt]))[0, -1]
        scores = [logits_V[core_tokenizer.encode(letter)[0]].item() for letter in item.letters]
        assert row["prediction"] == item.letters[scores.index(max(scores))]
        assert row["correct"] == (row["prediction"] == "A")


def test_a_choice_of_several_tokens_is_refused(core_model, core_tokenizer):
    item = CategoricalItem("arc/7", {"messages": [{"role": "user", "content": "?"}]}, ("A", "all of them"), "A")
    with pytest.raises(UserError, match=r"item arc/7: the answer 'all of them' is \d+ tokens"):
        choose_letters(core_model(), core_tokenizer, [item], [[1, 2]], 100)


def test_a_number_is_right_when_it_is_the_gold_one():
    item = GeneratedItem("gsm8k/0", {"messages": []}, "1234", "number")
    texts = ["so #### 1,234", "#### 1235", "1234", "#### 1234\n#### 5"]
    rows = grade([item] * 4, texts, [3] * 4, None, 1)
    assert [row["correct"] for row in rows] == [True, False, False, True]
    assert [row["prediction"] for row in rows] == ["1234", "1235", "", "1234"]
    assert rows[2]["detail"] == "no number after ####"


def test_a_program_is_right_when_it_passes_its_tests():
    item = GeneratedItem("HumanEval/0", {"messages": []}, "double", "program", program=PROBLEM)
    texts = [
        f"```python\n{PROBLEM['prompt']}{PROBLEM['canonical_solution']}```",
        "def double(x): return x",
        "sorry",
        "import sys; sys.exit(0)",
    ]
    rows = grade([item] * 4, texts, [1] * 4, Sandbox(Limits(seconds=2)), 2)
    assert [row["correct"] for row in rows] == [True, False, False, False]
    assert rows[0]["detail"] == "passed" and rows[1]["detail"] == "AssertionError"
    assert [row["item"] for row in rows] == [0, 1, 2, 3]
    assert [row["kind"] for row in rows] == ["passed", "wrong", "error", "left early"]


def test_the_stage_runs_every_kind_of_task(run_stage, inputs):
    tasks = ("arc_easy", "mmlu", "gsm8k", "humaneval", "spellingbee")
    result, items = read(run_stage("chatcore", settings(tasks=tasks), **inputs))
    assert {task: one["items"] for task, one in result["tasks"].items()} == {
        "arc_easy": 9,
        "mmlu": 5,
        "gsm8k": 5,
        "humaneval": 2,
        "spellingbee": 4,
    }
    assert {one["kind"] for task, one in result["tasks"].items() if task in ("arc_easy", "mmlu")} == {"categorical"}
    assert {task: one["items"] for task, one in result["partial"].items()} == {
        task: one["items"] for task, one in result["tasks"].items()
    }
    assert result["partial"]["gsm8k"] == {"items": 5, "published": 1319}
    assert result["baselines"] == "chat6"
    assert result["source"] == {
        "checkpoint": "chat",
        "tasks": "5 of 6",
        "items": "full, 5 sets smaller than published",
        "taken": "in a run of its own, on the finished checkpoint",
    }
    for task, one in result["tasks"].items():
        rows = [item for item in items if item["task"] == task]
        assert [item["item"] for item in rows] == list(range(one["items"]))
        right = sum(item["correct"] for item in rows)
        assert one["accuracy"] == right / one["items"]
        baseline = 0.25 if one["kind"] == "categorical" else 0.0
        assert one["baseline"] == baseline
        assert one["centred"] == pytest.approx((right / one["items"] - baseline) / (1 - baseline))
        assert 0 <= one["truncated"] <= one["items"]
        assert sum(one["ended"].values()) == one["items"]
    assert result["chatcore"] == pytest.approx(sum(one["centred"] for one in result["tasks"].values()) / len(tasks))


def test_answers_cut_at_the_limit_are_counted_and_a_task_without_right_answers_scores_its_centred_zero(
    run_stage, inputs, monkeypatch
):
    answers = [Answer([65], [True], ended) for ended in ("limit", "assistant_end", "bos", "limit", "assistant_end")]
    monkeypatch.setattr(module, "answer_all", lambda *_: answers)
    result, items = read(run_stage("chatcore", settings(tasks=("gsm8k",)), **inputs))
    assert result["tasks"]["gsm8k"]["truncated"] == 2
    assert (result["chatcore"], result["standard_error"]) == (0.0, 0.0)
    assert {item["tokens"] for item in items} == {1}


def test_a_limit_takes_the_first_items_and_does_not_make_a_set_partial(run_stage, inputs, monkeypatch):
    monkeypatch.setattr(module, "published_items", lambda: {"arc_easy": 9})
    result, items = read(run_stage("chatcore", settings(max_per_task=4), **inputs))
    assert [item["gold"] for item in items] == ["A", "B", "C", "A"]
    assert result["partial"] == {}
    assert result["max_per_task"] == 4
    assert result["source"]["items"] == "limited to 4 a task"


def test_prompts_beyond_the_context_are_counted(run_stage, inputs, made, core_config):
    config = core_config().model_copy(update={"sequence_len": 16})
    result, _ = read(
        run_stage("chatcore", settings(max_per_task=3), **inputs | {"checkpoint": made.checkpoint(config, "finetune")})
    )
    assert result["tasks"]["arc_easy"]["beyond_context"] == 3


def test_a_finished_task_is_not_asked_again(run_stage, inputs, monkeypatch):
    calls = []
    choose = module.choose_letters

    def counting(*args):
        calls.append(1)
        return choose(*args)

    def state(job):
        (job.state / "arc_easy.json").parent.mkdir(parents=True, exist_ok=True)
        if kept:
            (job.state / "arc_easy.json").write_text(kept[0])
        notes = entry(job)
        kept.append((job.state / "arc_easy.json").read_text())
        return notes

    kept, entry = [], module.chatcore
    monkeypatch.setattr(module, "choose_letters", counting)
    monkeypatch.setattr(module, "chatcore", state)
    first = run_stage("chatcore", settings(), **inputs)
    second = run_stage("chatcore", settings(), **inputs)
    assert len(calls) == 1
    for name in ("chatcore.json", "items.parquet"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_the_later_form_leaves_spellingbee_out_and_the_name_stands_in_the_result(run_stage, inputs):
    chosen = ChatcoreSettings(baselines="chat5")
    assert chosen.tasks == ("arc_easy", "arc_challenge", "mmlu", "gsm8k", "humaneval")
    assert set(chat_table("chat6")) - set(chat_table("chat5")) == {"spellingbee"}
    result, _ = read(run_stage("chatcore", settings(baselines="chat5"), **inputs))
    assert (result["baselines"], result["source"]["tasks"]) == ("chat5", "1 of 5")
    with pytest.raises(ValueError, match="chat5 has no task spellingbee"):
        ChatcoreSettings(baselines="chat5", tasks=("gsm8k", "spellingbee"))


def test_the_published_example_gives_its_chatcore():
    accuracies = dict(zip(chat_table("chat6"), (0.6263, 0.4881, 0.3724, 0.0735, 0.1280, 0.9961), strict=True))
    centred = [centre(accuracies[task], baseline) for task, baseline in chat_table("chat6").items()]
    assert round(sum(centred) / 6, 4) == 0.3633


def test_every_published_solution_passes_in_the_sandbox(published_sets):
    items = humaneval.items(published_sets("chat"))
    assert len(items) == 164
    texts = [item.program["prompt"] + item.program["canonical_solution"] for item in items]
    rows = grade(items, texts, [1] * 164, Sandbox(), 2)
    assert [(row["item"], row["detail"]) for row in rows if not row["correct"]] == []
