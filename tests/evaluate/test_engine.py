import json

import pytest
import torch
from safetensors.torch import load_file

from xsa.evaluate.engine import Cached, Marks, answer, answer_all


class Script:
    """In place of a model: after k tokens of row r the likeliest is script[r][k], after its end `end`."""

    def __init__(self, script: list[list[int]], end: int, vocab_size: int):
        self.script, self.end, self.vocab_size = script, end, vocab_size

    def start(self, prompts):
        self.rows, self.said = list(range(len(prompts))), 0
        return self._logits()

    def go_on(self, rows, tokens):
        assert len(rows) == len(tokens)
        self.rows, self.said = [self.rows[row] for row in rows], self.said + 1
        return self._logits()

    def _logits(self):
        logits_BV = torch.zeros(len(self.rows), self.vocab_size)
        for place, row in enumerate(self.rows):
            script = self.script[row]
            logits_BV[place, script[self.said] if self.said < len(script) else self.end] = 1.0
        return logits_BV


@pytest.fixture(scope="module")
def tool_use(reference):
    return json.loads((reference("engine") / "tool_use.json").read_text())


@pytest.fixture(scope="module")
def greedy(reference):
    return json.loads((reference("engine") / "generation.json").read_text())["greedy"]


def test_the_tool_s_state_machine_is_the_reference_one(tool_use, core_tokenizer):
    marks = Marks.of(core_tokenizer)
    for case in tool_use["cases"]:
        script = case["scripted_argmax_by_generation_index"]
        source = Script(script, marks.assistant_end, core_tokenizer.vocab_size)
        prompts = [case["prompt_ids"]] * len(script)
        answers = answer(source, marks, core_tokenizer.encode, core_tokenizer.decode, prompts, 100)
        for one, ids, mask in zip(answers, case["batch_result"], case["batch_mask"], strict=True):
            begin = len(case["prompt_ids"])
            assert one.ids == ids[begin:], case["case"]
            assert [int(sampled) for sampled in one.sampled] == mask[begin:], case["case"]
            assert one.ended == ("bos" if "bos" in case["case"] else "assistant_end")


def test_special_tokens_are_those_of_the_reference(tool_use, core_tokenizer):
    marks = Marks.of(core_tokenizer)
    assert {name: getattr(marks, name) for name in tool_use["special_ids"]} == tool_use["special_ids"]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("budget", [1, 1 << 20])
def test_greedy_answers_are_the_reference_ones_alone_and_in_a_ragged_batch(
    greedy, core_model, core_tokenizer, alpha, budget
):
    cases = [case for case in greedy if case["alpha"] == alpha]
    limit = max(len(case["generated_ids"]) for case in cases)
    answers = answer_all(core_model(alpha), core_tokenizer, [case["prompt_ids"] for case in cases], limit, budget)
    ends = {core_tokenizer.bos: "bos", core_tokenizer.special("<|assistant_end|>"): "assistant_end"}
    for one, case in zip(answers, cases, strict=True):
        assert case["min_top2_gap"] > 1e-4
        assert case["prompt_ids"] + one.ids == case["generate_batch_ids"]
        assert [0] * len(case["prompt_ids"]) + [int(s) for s in one.sampled] == case["generate_batch_mask"]
        assert one.ended == ends.get(case["generated_ids"][-1], "limit")
        assert core_tokenizer.decode(case["generated_ids"]).startswith(core_tokenizer.decode(one.ids))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_logits_on_the_way_are_the_reference_ones(reference, greedy, core_model, alpha):
    stored = load_file(reference("engine") / "logits.safetensors")
    model = core_model(alpha)
    for case in greedy:
        if case["alpha"] != alpha:
            continue
        name = f"alpha{int(alpha)}.prompt{case['prompt_index']}"
        wanted = dict(zip(stored[f"{name}.steps"].tolist(), stored[f"{name}.logits_at_steps"], strict=True))
        source = Cached(model, len(case["generated_ids"]))
        with torch.no_grad():
            logits_BV = source.start([case["prompt_ids"]])
            for step, token in enumerate(case["generated_ids"]):
                if step in wanted:
                    torch.testing.assert_close(logits_BV[0], wanted.pop(step), rtol=0, atol=1e-4)
                logits_BV = source.go_on([0], [token])
        assert not wanted


def test_an_answer_is_cut_at_the_limit(core_tokenizer):
    marks = Marks.of(core_tokenizer)
    source = Script([[5, 6, 7, 8], [5, marks.bos]], marks.assistant_end, core_tokenizer.vocab_size)
    cut, whole = answer(source, marks, core_tokenizer.encode, core_tokenizer.decode, [[1], [1]], 3)
    assert (cut.ids, cut.ended) == ([5, 6, 7], "limit")
    assert (whole.ids, whole.ended) == ([5], "bos")


def test_a_row_that_has_ended_leaves_the_batch(core_tokenizer):
    marks = Marks.of(core_tokenizer)
    source = Script([[5], [5] * 10, [5] * 4], marks.assistant_end, core_tokenizer.vocab_size)
    sizes, go_on = [], source.go_on

    def counting(rows, tokens):
        sizes.append(len(rows))
        return go_on(rows, tokens)

    source.go_on = counting
    answer(source, marks, core_tokenizer.encode, core_tokenizer.decode, [[1]] * 3, 50)
    assert sizes == [3] + [2] * 3 + [1] * 6
