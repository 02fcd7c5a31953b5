"""Batch, steps, rates and weight decay against nanochat's own statements."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.study.test_architecture import config_of
from xsa.store.errors import UserError
from xsa.study.architecture import flops_per_token
from xsa.study.scaling import batch_law, horizon, rate_scale, reference_model, scaling_parameters
from xsa.study.settings import HorizonSettings, OptimSettings

EXACT = {"rel": 1e-12, "abs": 0}


def arguments(entry: dict, defaults: dict) -> dict:
    """nanochat's arguments in a case: its defaults, and those that the case names with their numbers."""
    named = re.findall(r"(\w+) ([\d.]+(?:e\d+)?)", entry.get("case", ""))
    return defaults | {name: type(defaults[name])(float(value)) for name, value in named if name in defaults}


@pytest.fixture
def published(reference):
    """(entry, config, horizon) of every case in the reference numbers, under the arguments that it names."""
    scaling = json.loads((reference("scaling") / "scaling.json").read_text())
    cases = []
    for entry in [entry for group in ("default_depths", "paper_shapes", "other") for entry in scaling[group]]:
        told = arguments(entry, scaling["base_train_defaults"])
        optim = OptimSettings(**{name: told[name] for name in OptimSettings.model_fields if name in told})
        config, steps = config_of(entry), None
        if told["target_flops"] > 0:
            steps = round(told["target_flops"] / (flops_per_token(config) * entry["total_batch_size"]))
        settings = HorizonSettings(
            ratio=entry["target_param_data_ratio"],
            steps=steps,
            batch_tokens=None if entry["predicted_batch_size"] else entry["total_batch_size"],
        )
        anchor = reference_model(entry["vocab_size"], told["aspect_ratio"], told["head_dim"])
        cases.append((entry, config, horizon(config, settings, optim, anchor)))
    return cases


def test_tokens_batch_and_steps_are_nanochats(published):
    for entry, config, mine in published:
        assert scaling_parameters(config) == entry["scaling_params"]
        assert (mine.target_tokens, mine.reference_tokens) == (entry["target_tokens"], entry["D_REF"])
        assert (mine.batch_tokens, mine.steps) == (entry["total_batch_size"], entry["num_iterations"])
        assert mine.tokens == entry["total_tokens"]
        assert mine.tokens * flops_per_token(config) == entry["total_flops"]


def test_a_fraction_of_a_token_is_dropped_from_the_horizon_and_kept_in_its_anchor():
    config = reference_model(2048)
    mine = horizon(config, HorizonSettings(ratio=4.3), OptimSettings())
    asked = 4.3 * scaling_parameters(config)
    assert asked != int(asked)
    assert (mine.target_tokens, mine.reference_tokens) == (int(asked), asked)
    assert mine.weight_decay == pytest.approx(0.28 * asked / int(asked), **EXACT)


def test_the_batch_before_rounding_is_nanochats(published):
    for entry, _, mine in published:
        if entry["predicted_batch_size"] is not None:
            law = batch_law(mine.target_tokens, mine.reference_tokens)
            assert law == pytest.approx(entry["predicted_batch_size"], **EXACT)


def test_rates_and_weight_decay_are_nanochats(published):
    for entry, config, mine in published:
        rates, width = entry["group_lrs"], (config.n_embd / 768) ** -0.5
        assert rate_scale(mine.batch_tokens) == pytest.approx(entry["batch_lr_scale"], **EXACT)
        assert mine.weight_decay == pytest.approx(entry["weight_decay_scaled"], **EXACT)
        assert mine.matrix_lr == pytest.approx(rates["matrix_before_shape_factor"], **EXACT)
        assert mine.embedding_lr * width == pytest.approx(rates["wte"], **EXACT)
        assert mine.unembedding_lr * width == pytest.approx(rates["lm_head"], **EXACT)
        assert mine.scalar_lr == pytest.approx(rates["x0_lambdas"], **EXACT)


def test_the_anchor_is_nanochats_depth_12_by_default(published):
    for entry, config, mine in published:
        if "case" not in entry:
            own = horizon(config, HorizonSettings(ratio=entry["target_param_data_ratio"]), OptimSettings())
            assert own == mine


def test_steps_given_leave_batch_rates_and_weight_decay(published):
    _, config, _ = published[0]
    plain, short = (horizon(config, HorizonSettings(steps=steps), OptimSettings()) for steps in (None, 7))
    assert short.steps == 7 and short.tokens == 7 * plain.batch_tokens
    assert (short.batch_tokens, short.matrix_lr, short.weight_decay) == (
        plain.batch_tokens,
        plain.matrix_lr,
        plain.weight_decay,
    )


def test_a_horizon_below_one_batch_is_refused(published):
    _, config, _ = published[0]
    with pytest.raises(UserError, match=r"less than one batch of 1073741824; raise horizon\.ratio"):
        horizon(config, HorizonSettings(batch_tokens=2**30), OptimSettings())


def test_scaling_needs_no_torch():
    check = "import sys, xsa.study.scaling; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0
