import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from xsa.data.icl import read_tasks
from xsa.evaluate import scoring
from xsa.evaluate.core import evaluate_task
from xsa.evaluate.core_prompts import Prompt
from xsa.evaluate.scoring import score, token_budget

LABELS = [f"{kind}_{shots}shot" for kind in ("mc", "schema", "lm") for shots in (0, 3, 10)]


@pytest.fixture(scope="module")
def evaluated(reference, core_model, core_tokenizer):
    """`evaluated(label, budget, alpha)`: the stored reference of a task, and our prompts and scores."""
    folder = reference("core")
    tasks = {task.label: task for task in read_tasks(folder / "bundle" / "core.yaml")}
    done = {}

    def evaluate(label: str, budget: int = 4096, alpha: float = 0.0):
        if (label, budget, alpha) not in done:
            stored = json.loads((folder / f"{label}.json").read_text())
            model = core_model(alpha)
            pairs = evaluate_task(model, core_tokenizer, tasks[label], stored["data_shuffled"], budget)
            done[label, budget, alpha] = (stored, *map(list, zip(*pairs, strict=True)))
        return done[label, budget, alpha]

    return evaluate


def plain(model, prompt: Prompt) -> tuple[list[float], list[bool]]:
    """Mean losses and exactness of an item's options, each run whole and alone."""
    losses, exact = [], []
    for option, start, end in zip(prompt.options, prompt.starts, prompt.ends, strict=True):
        with torch.no_grad():
            logits_TV = model(torch.tensor([option]))[0, start - 1 : end - 1].double()
        targets = torch.tensor(option[start:end])
        losses.append(torch.nn.functional.cross_entropy(logits_TV, targets).item())
        exact.append(bool((logits_TV.argmax(-1) == targets).all()))
    return losses, exact


@pytest.mark.parametrize("label", LABELS)
def test_losses_predictions_and_accuracy_are_the_reference_ones(reference, evaluated, label):
    stored, _, scores = evaluated(label)
    for one, ours in zip(stored["examples"], scores, strict=False):
        assert ours.correct == one["correct"]
        assert ours.prediction == one.get("predicted")
        np.testing.assert_allclose(ours.losses, one["mean_loss"], rtol=0, atol=5e-5)
    summary = json.loads((reference("core") / "summary.json").read_text())["tasks"][label]
    assert (sum(one.correct for one in scores), len(scores)) == (summary["correct"], summary["n"])


@pytest.mark.parametrize("label", LABELS)
def test_scores_do_not_depend_on_the_batch_or_the_order(core_model, evaluated, monkeypatch, label):
    model, (_, prompts, _) = core_model(), evaluated(label)
    one_by_one = {prompt.index: score(model, [prompt], 1)[0] for prompt in prompts}
    shuffled = [prompts[place] for place in np.random.default_rng(1).permutation(len(prompts))]
    monkeypatch.setattr(scoring, "CACHED", 10**9)
    together = [score(model, shuffled[start : start + 64], 10**9) for start in range(0, len(shuffled), 64)]
    for other in [one for batch in together for one in batch]:
        one = one_by_one[other.index]
        assert (one.prediction, one.correct) == (other.prediction, other.correct)
        np.testing.assert_allclose(one.losses, other.losses, rtol=0, atol=1e-5)


class Watched:
    """What a model is given at one time: tokens, places that attention compares, logits."""

    def __init__(self, model, monkeypatch):
        self.tokens, self.seen, self.logits = [], [], []
        hidden, logits = model.hidden, model.logits

        def watched_hidden(tokens_1N, packed):
            self.tokens.append(tokens_1N.numel())
            self.seen.append(packed.seen)
            return hidden(tokens_1N, packed=packed)

        def watched_logits(h_AD):
            self.logits.append(len(h_AD) * model.config.vocab_size)
            return logits(h_AD)

        monkeypatch.setattr(model, "hidden", watched_hidden)
        monkeypatch.setattr(model, "logits", watched_logits)


@pytest.mark.parametrize("budget", [150, 400, 2000])
def test_no_batch_is_larger_than_the_budget_whatever_the_items(core_model, evaluated, monkeypatch, budget):
    model = core_model()
    watched = Watched(model, monkeypatch)
    monkeypatch.setitem(scoring.HEAD, "cpu", 50 * model.config.vocab_size)
    draw = np.random.default_rng(2)
    stem = tuple(draw.integers(2, 900, 60).tolist())
    options = tuple((*stem, number, *draw.integers(2, 900, draw.integers(1, 80)).tolist()) for number in range(2, 62))
    many = Prompt(0, options, (60,) * 60, tuple(map(len, options)), 3)  # 60 options, some 2,400 tokens in all
    prompts = [many] + [replace(prompt, index=1 + prompt.index) for prompt in evaluated("mc_0shot")[1]]
    scores = score(model, prompts, budget)
    assert max(watched.tokens) <= max(watched.seen) <= budget
    assert max(watched.logits) <= 50 * model.config.vocab_size
    monkeypatch.undo()
    for option in (0, 31, 59):
        (alone,) = score(
            core_model(), [replace(many, options=(options[option],), starts=(60,), ends=(len(options[option]),))], 1
        )
        assert scores[0].losses[option] == pytest.approx(alone.losses[0], abs=1e-5)


def test_an_option_longer_than_the_budget_is_run_alone(core_model, evaluated, monkeypatch):
    model = core_model()
    watched = Watched(model, monkeypatch)
    prompts = evaluated("lm_3shot")[1]
    score(model, prompts, 1)
    assert sorted(watched.tokens) == sorted(max(prompt.ends) - 1 for prompt in prompts)


@pytest.mark.parametrize("label", ["mc_10shot", "schema_3shot"])
def test_a_shared_context_gives_what_whole_prompts_give_under_exclusive_attention(core_model, evaluated, label):
    _, prompts, scores = evaluated(label, alpha=1.0)
    model = core_model(1.0)
    for prompt, ours in list(zip(prompts, scores, strict=True))[:6]:
        losses, _ = plain(model, prompt)
        np.testing.assert_allclose(ours.losses, losses, rtol=0, atol=1e-5)
        assert ours.prediction == int(np.argmin(losses))


def test_scores_come_in_the_order_of_the_prompts_whatever_it_is(core_model, evaluated):
    _, prompts, scores = evaluated("mc_0shot")
    shuffled = [prompts[place] for place in np.random.default_rng(0).permutation(len(prompts))]
    again = score(core_model(), shuffled, 4096)
    assert [one.index for one in again] == [prompt.index for prompt in shuffled]
    for one in again:
        assert one.prediction == scores[one.index].prediction


def test_of_equal_options_the_first_wins(core_model):
    long = tuple(range(2, 40))
    prompt = Prompt(0, ((*long, 7, 8), (*long, 5, 6), (*long, 5, 6), (*long, 7, 8)), (38,) * 4, (40,) * 4, 3)
    (one,) = score(core_model(), [prompt], 4096)
    assert one.losses[0] == one.losses[3] and one.losses[1] == one.losses[2]
    assert one.prediction == (0 if one.losses[0] <= one.losses[1] else 1)
    assert not one.correct
    (all_equal,) = score(core_model(), [replace(prompt, options=(prompt.options[0],) * 4)], 4096)
    assert all_equal.prediction == 0


def test_prompts_of_all_shapes_may_share_a_call(core_model, evaluated):
    model = core_model()
    mixed = []
    for label in ("mc_0shot", "mc_3shot", "schema_0shot", "lm_3shot"):
        mixed += [replace(prompt, index=len(mixed) + place) for place, prompt in enumerate(evaluated(label)[1][:4])]
    for prompt, ours in zip(mixed, score(model, mixed, 900), strict=True):
        losses, exact = plain(model, prompt)
        np.testing.assert_allclose(ours.losses, losses, rtol=0, atol=1e-5)
        if prompt.gold is None:
            assert ours.correct == exact[0]


def test_the_budget_is_micro_batch_rows_where_that_is_set():
    assert token_budget(512, 3, "cpu") == 1536
    assert token_budget(512, None, "cuda") > token_budget(512, None, "cpu")
