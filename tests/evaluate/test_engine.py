import json
import random

import pytest
import torch
from safetensors.torch import load_file

from xsa.evaluate.engine import Batch, Cached, Marks, Tool, answer_all
from xsa.model.nanochat import NanoChat
from xsa.study.architecture import ModelConfig


class Script:
    """In place of a model: after k tokens of row r the likeliest is script[r][k], after its end `end`."""

    def __init__(self, script: list[list[int]], end: int, vocab_size: int):
        self.script, self.end, self.vocab_size = script, end, vocab_size
        self.seen, self.batch = 0, {}  # rows read so far; (row, tokens said) at each place
        self.sizes: list[int] = []

    def read(self, prompts):
        self.waiting = [(self.seen + number, 0) for number in range(len(prompts))]
        self.seen += len(prompts)
        return self._logits(self.waiting)

    def put(self, places, waiting):
        self.batch |= {place: self.waiting[number] for place, number in zip(places, waiting, strict=True)}

    def keep(self, places):
        self.batch = {new: self.batch[place] for new, place in enumerate(places) if place in self.batch}

    def go_on(self, tokens):
        assert sorted(self.batch) == list(range(len(tokens))) and None not in tokens
        self.sizes.append(len(tokens))
        self.batch = {place: (row, said + 1) for place, (row, said) in self.batch.items()}
        return self._logits([self.batch[place] for place in range(len(tokens))])

    def _logits(self, rows):
        logits_BV = torch.zeros(len(rows), self.vocab_size)
        for place, (row, said) in enumerate(rows):
            script = self.script[row]
            logits_BV[place, script[said] if said < len(script) else self.end] = 1.0
        return logits_BV


def say(script, tokenizer, limit, width=None, prompt=(1,)):
    """Answers of a batch that follows a script, and the script."""
    tool = Tool(Marks.of(tokenizer), tokenizer.encode, tokenizer.decode)
    source = Script(script, tool.marks.assistant_end, tokenizer.vocab_size)
    batch = Batch(source, tool, [list(prompt)] * len(script), width or len(script), limit)
    return batch.answers(), source


@pytest.fixture(scope="module")
def tool_use(reference):
    return json.loads((reference("engine") / "tool_use.json").read_text())


@pytest.fixture(scope="module")
def greedy(reference):
    return json.loads((reference("engine") / "generation.json").read_text())["greedy"]


@pytest.mark.parametrize("width", [1, 2, 8])
def test_the_tool_s_state_machine_is_the_reference_one(tool_use, core_tokenizer, width):
    for case in tool_use["cases"]:
        script = case["scripted_argmax_by_generation_index"]
        answers, _ = say(script, core_tokenizer, 100, width, case["prompt_ids"])
        for one, ids, mask in zip(answers, case["batch_result"], case["batch_mask"], strict=True):
            begin = len(case["prompt_ids"])
            assert one.ids == ids[begin:], case["case"]
            assert [int(sampled) for sampled in one.sampled] == mask[begin:], case["case"]
            assert one.ended == ("bos" if "bos" in case["case"] else "assistant_end")


def test_special_tokens_are_those_of_the_reference(tool_use, core_tokenizer):
    marks = Marks.of(core_tokenizer)
    assert {name: getattr(marks, name) for name in tool_use["special_ids"]} == tool_use["special_ids"]


@pytest.mark.parametrize("budget", [1, 1 << 20])
def test_greedy_answers_are_the_reference_ones_alone_and_in_a_ragged_batch(greedy, core_model, core_tokenizer, budget):
    limit = max(len(case["generated_ids"]) for case in greedy)
    ends = {core_tokenizer.bos: "bos", core_tokenizer.special("<|assistant_end|>"): "assistant_end"}
    answered = []
    for alpha in {case["alpha"] for case in greedy}:
        cases = [case for case in greedy if case["alpha"] == alpha]
        prompts = [case["prompt_ids"] for case in cases]
        answered += zip(cases, answer_all(core_model(alpha), core_tokenizer, prompts, limit, budget), strict=True)
    for case, one in answered:
        assert case["min_top2_gap"] > 1e-4
        assert case["prompt_ids"] + one.ids == case["generate_batch_ids"]
        assert [0] * len(case["prompt_ids"]) + [int(s) for s in one.sampled] == case["generate_batch_mask"]
        assert one.ended == ends.get(case["generated_ids"][-1], "limit")
        assert core_tokenizer.decode(case["generated_ids"]).startswith(core_tokenizer.decode(one.ids))


def test_logits_on_the_way_are_the_reference_ones(reference, greedy, core_model):
    stored = load_file(reference("engine") / "logits.safetensors")
    for case in greedy:
        model = core_model(case["alpha"])
        name = f"alpha{case['alpha']:g}.prompt{case['prompt_index']}"
        wanted = dict(zip(stored[f"{name}.steps"].tolist(), stored[f"{name}.logits_at_steps"], strict=True))
        source = Cached(model, 1, len(case["prompt_ids"]) + len(case["generated_ids"]))
        with torch.no_grad():
            logits_BV = source.read([case["prompt_ids"]])
            source.put([0], [0])
            for step, token in enumerate(case["generated_ids"]):
                if step in wanted:
                    torch.testing.assert_close(logits_BV[0], wanted.pop(step), rtol=0, atol=1e-4)
                logits_BV = source.go_on([token])
        assert not wanted


def test_an_answer_is_cut_at_the_limit(core_tokenizer):
    (cut, whole), _ = say([[5, 6, 7, 8], [5, core_tokenizer.bos]], core_tokenizer, 3)
    assert (cut.ids, cut.ended) == ([5, 6, 7], "limit")
    assert (whole.ids, whole.ended) == ([5], "bos")


def test_a_row_that_has_ended_leaves_the_batch(core_tokenizer):
    _, source = say([[5], [5] * 10, [5] * 4], core_tokenizer, 50)
    assert source.sizes == [3] + [2] * 3 + [1] * 6


def test_a_waiting_prompt_takes_the_place_of_a_row_that_has_ended(core_tokenizer):
    lengths = [3, 9, 1, 0, 4, 0, 0, 7, 2, 5, 1, 1, 0, 6, 3, 3, 8, 2, 2, 2]
    script = [[5 + row] * length for row, length in enumerate(lengths)]
    answers, source = say(script, core_tokenizer, 50, width=4)
    assert [answer.ids for answer in answers] == script
    assert {answer.ended for answer in answers} == {"assistant_end"}
    # A token said is a row of one step; the batch is only ever smaller than its width when no prompt waits any more.
    assert sum(source.sizes) == sum(lengths)
    assert source.sizes == sorted(source.sizes, reverse=True) and source.sizes[0] == 4
    assert len(source.sizes) <= sum(lengths) / 4 + 9


def test_ended_rows_are_counted_one_by_one(core_tokenizer):
    tool = Tool(Marks.of(core_tokenizer), core_tokenizer.encode, core_tokenizer.decode)
    source, counts = Script([[5] * n for n in (4, 0, 2)], tool.marks.assistant_end, core_tokenizer.vocab_size), []
    Batch(source, tool, [[1]] * 3, 2, 9, counts.append).answers()
    assert counts == [1, 2, 3]


def lively(alpha: float, n_kv_head: int, pattern: str) -> NanoChat:
    """A small model of which every matrix is drawn, so that no layer is idle."""
    config = ModelConfig(
        vocab_size=320, sequence_len=512, n_layer=3, n_head=4, n_kv_head=n_kv_head, n_embd=32, window_pattern=pattern,
        alpha=alpha, xsa_layers=(0, 1, 2),
    )  # fmt: skip
    model = NanoChat(config)
    model.init_weights(7)
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.copy_(torch.randn(parameter.shape, generator=draw) / parameter.size(1) ** 0.5)
        model.smear_lambda.fill_(0.3)
    return model.eval()


@torch.no_grad()
def one_at_a_time(model: NanoChat, prompt: list[int], ends: set[int], limit: int) -> list[int]:
    """Greedy ids by running the whole row anew for each token, without a cache."""
    row = list(prompt)
    while len(row) - len(prompt) < limit:
        token = int(model(torch.tensor([row]))[0, -1].argmax())
        if token in ends:
            break
        row.append(token)
    return row[len(prompt) :]


@pytest.mark.parametrize("pattern", ["L", "SSL"])
@pytest.mark.parametrize("n_kv_head", [4, 2, 1])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_batched_ids_of_random_prompts_are_those_of_one_at_a_time(alpha, n_kv_head, pattern):
    model, rng = lively(alpha, n_kv_head, pattern), random.Random(11)
    assert ("S" in pattern) == (128 in model.config.windows())
    lengths = [rng.choice([1, 2, rng.randint(3, 60), rng.randint(120, 250)]) for _ in range(64)]
    prompts = [[rng.randrange(300) for _ in range(length)] for length in lengths]
    tool = Tool(Marks(*range(310, 316)), lambda text: [1], lambda ids: "")
    source, limit = Cached(model, 7, max(lengths) + 10), 10
    answers = Batch(source, tool, prompts, 7, limit).answers()
    ends = {tool.marks.bos, tool.marks.assistant_end}
    for prompt, said in zip(prompts, answers, strict=True):
        assert said.ids == one_at_a_time(model, prompt, ends, limit)
    assert len({tuple(said.ids) for said in answers}) > 50  # no answer that all prompts share


def test_no_prompts_have_no_answers(core_model, core_tokenizer):
    assert answer_all(core_model(), core_tokenizer, [], 8, 100) == []
