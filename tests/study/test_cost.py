"""Costs by hand: tokens, operations and bytes of each stage."""

from __future__ import annotations

import pytest

from tests.study.conftest import RECIPE
from xsa.study.architecture import ModelConfig
from xsa.study.cost import Cost, Costs, checkpoint_bytes


@pytest.fixture
def plan(project):
    return project.plan()


@pytest.fixture
def costs(plan):
    return Costs({result.digest: result.recipe for result in plan.results.values()})


def of(plan, costs, stage):
    return costs.of(next(result.recipe for (name, _), result in plan.results.items() if name == stage))


# d2, width 32, 300 entries padded to 320: 2 · 12 · 32² of matrices, one value embedding's 12-channel gate of 2 heads, the
# head's 320 · 32, and attention to 64 tokens in both layers.
PER_TOKEN = 6 * (2 * 12 * 32 * 32 + 2 * 12 + 320 * 32) + 12 * 32 * (64 + 64)


def test_training_costs_its_tokens_times_the_operations_of_a_token(plan, costs):
    cost = of(plan, costs, "pretrain")
    assert cost.tokens == 10 * 256 and cost.flops == 10 * 256 * PER_TOKEN


def test_a_forward_pass_costs_a_third(plan, costs):
    assert of(plan, costs, "bpb").flops == pytest.approx(10_240 * 64 * PER_TOKEN / 3)
    assert of(plan, costs, "attention").flops == pytest.approx(16 * 64 * PER_TOKEN / 3)


def test_an_epoch_of_fine_tuning_has_the_tokens_of_its_mixture(project):
    published = {**RECIPE, "settings": RECIPE["settings"] | {"chatsets": {"kind": "published"}}}
    project.recipe(published)
    plan = project.plan()
    costs = Costs({result.digest: result.recipe for result in plan.results.values()})
    smoltalk, identity, mmlu, gsm8k = 460_000 * 1000, 2 * 1000 * 560, 3 * 99_842 * 150, 4 * 7473 * 180
    spelling = 200_000 * 35 + 80_000 * 150
    assert of(plan, costs, "finetune").tokens == smoltalk + identity + mmlu + gsm8k + spelling


def test_core_counts_the_items_of_the_sets_that_are_read(project):
    changed = {**RECIPE, "settings": RECIPE["settings"] | {"core": {"tasks": ["copa", "boolq"], "max_per_task": 10}}}
    project.recipe(changed)
    plan = project.plan()
    costs = Costs({result.digest: result.recipe for result in plan.results.values()})
    assert of(plan, costs, "core").tokens == 10 * 24 + 10 * 1782


def test_rows_and_tokens_are_as_large_as_their_shard_is_said_to_be(plan, costs):
    assert of(plan, costs, "rows").bytes == pytest.approx(2 * 10_000 * 65 / 64)
    assert of(plan, costs, "tokens").bytes == pytest.approx(2 * 10_000 / 0.65)


def test_a_checkpoint_is_as_large_as_one_that_was_written():
    # Model and optimizer state of a d4 of width 128 in float32, as a run left them.
    model = ModelConfig(
        vocab_size=2048,
        sequence_len=512,
        n_layer=4,
        n_head=4,
        n_kv_head=4,
        n_embd=128,
        window_pattern="SSSL",
        alpha=0,
        xsa_layers=(),
    )
    assert checkpoint_bytes(model, "muon", "float32") == pytest.approx(7_343_944 + 11_562_216, rel=0.005)
    assert checkpoint_bytes(model, "muon", "bfloat16") < checkpoint_bytes(model, "muon", "float32")
    assert checkpoint_bytes(model, "adamw", "float32") > checkpoint_bytes(model, "muon", "float32")


def test_the_operations_of_a_token_are_those_that_facts_give():
    costs = Costs({})
    recipe = {
        "stage": "pretrain",
        "settings": {"steps": 1, "batch_rows": 1, "optim": {"matrix": "muon"}, "dtype": "float32"},
    }
    told = [(12, 768, 6, 7.60e8), (24, 1536, 12, 4.78e9), (24, 1024, 16, 2.28e9)]
    for n_layer, n_embd, n_head, flops in told:
        model = ModelConfig(
            vocab_size=32768,
            sequence_len=2048,
            n_layer=n_layer,
            n_head=n_head,
            n_kv_head=n_head,
            n_embd=n_embd,
            window_pattern="SSSL",
            alpha=0,
            xsa_layers=(),
        )
        recipe["settings"]["model"] = model.model_dump(mode="json")
        assert costs.of(recipe).flops / 2048 == pytest.approx(flops, rel=0.005)


def test_a_recipe_of_another_form_costs_nothing_that_is_known(costs):
    assert costs.of({"stage": "pretrain", "settings": {"steps": "many"}}) == Cost()
    assert costs.of({"stage": "bpb", "settings": {"rows": 3}, "inputs": {"checkpoint": "f" * 10}}) == Cost()
