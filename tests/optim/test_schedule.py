"""Schedules against nanochat's own values, step by step."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from xsa.optim.schedule import (
    finetune_lr_multiplier,
    finetune_momentum,
    lr_multiplier,
    momentum,
    warmdown_steps,
    weight_decay,
)
from xsa.study.stages import ScheduleStage

TOLERANCE = {"rel": 0, "abs": 1e-12}


@pytest.fixture
def runs(reference):
    folder = reference("schedule")
    defaults = json.loads((folder / "base_train.json").read_text())["runs"]
    return [*defaults, json.loads((folder / "base_train_nondefault.json").read_text())]


def settings_of(run) -> ScheduleStage:
    return ScheduleStage(**{name: run[name] for name in ScheduleStage.model_fields})


def test_rates_are_nanochats(runs):
    for run in runs:
        settings, steps = settings_of(run), run["num_iterations"]
        mine = [lr_multiplier(step, steps, settings) for step in range(steps)]
        assert mine == pytest.approx(run["lr_multiplier"], **TOLERANCE)


def test_momentum_is_nanochats(runs):
    for run in runs:
        settings, steps = settings_of(run), run["num_iterations"]
        mine = [momentum(step, steps, settings) for step in range(steps)]
        assert mine == pytest.approx(run["muon_momentum"], **TOLERANCE)


def test_weight_decay_is_nanochats(runs):
    for run in runs:
        steps = run["num_iterations"]
        mine = [weight_decay(step, steps, run["weight_decay_scaled"]) for step in range(steps)]
        assert mine == pytest.approx(run["weight_decay"], **TOLERANCE)


def test_the_fall_is_as_long_as_nanochats(runs):
    for run in (run for run in runs if "warmdown_iters" in run):
        assert warmdown_steps(run["num_iterations"], settings_of(run)) == run["warmdown_iters"]


def test_fine_tuning_is_nanochats(reference):
    for run in json.loads((reference("schedule") / "sft.json").read_text())["runs"]:
        ratios = (run["warmup_ratio"], run["warmdown_ratio"], run["final_lr_frac"])
        mine = [finetune_lr_multiplier(progress, *ratios) for progress in run["progress"]]
        assert mine == pytest.approx(run["lr_multiplier"], **TOLERANCE)
        mine = [finetune_momentum(step) for step in run["muon_momentum_step"]]
        assert mine == pytest.approx(run["muon_momentum"], **TOLERANCE)


def test_fine_tuning_past_the_end_of_the_mixture_does_not_climb():
    assert finetune_lr_multiplier(1.3) == 0.0


def test_without_warmup_or_warmdown_the_rates_stay_at_one():
    settings = ScheduleStage(warmup_steps=0, warmdown_ratio=0.0, final_lr_frac=0.05)
    assert {lr_multiplier(step, 500, settings) for step in range(500)} == {1.0}
    assert momentum(499, 500, settings) == 0.97


def test_schedules_need_no_torch():
    check = "import sys, xsa.optim.schedule; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0
