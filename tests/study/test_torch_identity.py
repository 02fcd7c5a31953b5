"""Torch's version is recorded and no part of a result, unless the study asks for it."""

from __future__ import annotations

import copy

import pytest

from tests.study.conftest import STUDY
from tests.study.recording import record_all
from xsa.store.errors import UserError
from xsa.study import execute as execute_module
from xsa.study import plan as plan_module
from xsa.study.outlook import outlook
from xsa.study.project import Project
from xsa.study.stages import STAGES

OF_TORCH = {name for name, stage in STAGES.items() if stage.torch}


def asked(project, monkeypatch, torch, installed="2.13.0"):
    """The results of a study that asks for `torch`, where `installed` is there."""
    monkeypatch.setattr(plan_module, "torch_version", lambda: installed)
    project.study({**copy.deepcopy(STUDY), "identity": {"torch": torch}})
    return project.plan()


def test_an_upgrade_changes_no_digest_unless_asked(project, monkeypatch):
    before = set(project.plan().results)
    assert set(asked(project, monkeypatch, False, "2.12.0").results) == before
    assert set(asked(project, monkeypatch, False, "9.9.9").results) == before


def test_asked_for_the_version_enters_the_recipes_of_training_and_measurement_alone(project, monkeypatch):
    before = set(project.plan().results)
    plan = asked(project, monkeypatch, True)
    for (stage, _), result in plan.results.items():
        assert result.recipe.get("torch") == ("2.13.0" if stage in OF_TORCH else None)
    kept = {stage for stage, _ in set(plan.results) & before}
    assert kept == {"shard", "tokenizer", "tokens", "rows", "bundle", "chatsets"}


def test_asked_for_an_upgrade_makes_the_results_again_and_says_why(project, monkeypatch):
    results = project.root / "results"
    record_all(asked(project, monkeypatch, True, "2.12.0"), results)
    shown = outlook(asked(project, monkeypatch, True, "2.13.0"), results)
    told = {(line.result.stage, line.action.name, line.action.reason) for line in shown.lines}
    for stage in OF_TORCH & {stage for stage, _ in shown.plan.results}:
        assert (stage, "run", "torch 2.12.0 → 2.13.0") in told
    assert ("rows", "reuse", "") in told


def test_a_stated_version_is_the_same_on_every_machine(project, monkeypatch):
    here = set(asked(project, monkeypatch, "2.12.0", "2.12.0").results)
    assert set(asked(project, monkeypatch, "2.12.0", "2.13.0").results) == here
    assert set(asked(project, monkeypatch, "2.12.0", None).results) == here


def test_true_needs_a_torch_to_take_the_version_of(project, monkeypatch):
    with pytest.raises(UserError, match=r"no torch is installed here.*give the version"):
        asked(project, monkeypatch, True, None)


@pytest.mark.parametrize("wrong", ["2.13", "latest", 2.13])
def test_a_version_has_three_numbers(project, monkeypatch, wrong):
    with pytest.raises(UserError, match=r"identity\.torch"):
        asked(project, monkeypatch, wrong)


def test_a_job_refuses_another_torch_than_its_recipe_names(project, monkeypatch):
    asked(project, monkeypatch, "2.12.0")
    monkeypatch.setattr(execute_module, "torch_version", lambda: "2.13.0")
    own = Project(project.root, project.root / "results")
    monkeypatch.setattr(own.lock, "check", lambda stages: None)
    with pytest.raises(UserError, match=r"is to be made by torch 2\.12\.0 .* and 2\.13\.0 is installed"):
        execute_module.execute(own, "tiny", "pretrain", "d2w32h2-muon-a0-s0")
