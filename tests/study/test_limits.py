"""A run that would cost more than its study allows is refused, in a sentence; limits are no part of identity."""

from __future__ import annotations

import copy

import pytest

from tests.study.conftest import STUDY
from tests.study.recording import record_all
from xsa.store.errors import UserError
from xsa.study.limits import check_limits, exceeded
from xsa.study.outlook import outlook
from xsa.study.show_outlook import outlook_as_text
from xsa.study.workflow import Workflow

GPU = {"run": {"requires": "cuda", "gpu": "H100"}}


def ahead(project, **changes):
    project.study({**copy.deepcopy(STUDY), **changes})
    return outlook(project.plan(), project.root / "results")


@pytest.mark.parametrize(
    ("name", "unit"), [("gpu_hours", "GPU-hours"), ("cost", "in cost"), ("cpu_hours", "CPU-hours"), ("disk_gb", "GB")]
)
def test_each_limit_names_prediction_limit_and_what_takes_most(project, name, unit):
    (sentence,) = exceeded(ahead(project, limits={name: 1e-9}, **GPU))
    assert unit in sentence and f"limits.{name}" in sentence and "tiny.yaml" in sentence and "Most of it: " in sentence
    with pytest.raises(UserError, match=f"Raise limits.{name}"):
        check_limits(ahead(project, limits={name: 1e-9}, **GPU))


def test_the_greatest_part_is_named_first(project):
    (sentence,) = exceeded(ahead(project, limits={"gpu_hours": 1e-9}, **GPU))
    assert "Most of it: finetune d2w32h2 (4)" in sentence  # an epoch of the published mixture


def test_a_limit_that_holds_lets_the_run_start(project):
    check_limits(ahead(project, limits={"gpu_hours": 1e6, "disk_gb": 1e6, "cost": 1e6, "cpu_hours": 1e6}, **GPU))


def test_what_is_there_already_counts_nothing(project):
    record_all(project.plan(), project.root / "results")
    check_limits(ahead(project, limits={"cpu_hours": 0, "disk_gb": 0}))


def test_limits_price_and_gpu_change_no_digest(project):
    before = set(project.plan().results)
    told = ahead(project, limits={"gpu_hours": 1}, run={"gpu": "A100", "gpu_hour_price": 1.5})
    assert set(told.plan.results) == before


def test_plan_says_that_a_limit_would_be_exceeded(project):
    assert "limit: this run of the study 'tiny' would take" in outlook_as_text(ahead(project, limits={"cpu_hours": 0}))


def test_a_run_is_told_of_before_its_first_job_and_stopped_by_its_limit(project, monkeypatch, capsys):
    monkeypatch.chdir(project.root)
    project.study({**copy.deepcopy(STUDY), "limits": {"cpu_hours": 0}})
    flow = Workflow("tiny", "results")
    monkeypatch.setattr(flow.project.lock, "check", lambda stages: None)
    jobs = [(stage, key) for stage, key in flow.project.plan("tiny").results if stage != "core"] + [("publish", None)]
    with pytest.raises(UserError, match=r"limits\.cpu_hours"):
        flow.check_start(jobs, local=True)
    told = capsys.readouterr()
    assert told.out == "" and "run, new cell: 4 pretrain" in told.err and " core" not in told.err


def test_a_limit_below_zero_is_refused(project):
    with pytest.raises(UserError, match=r"limits\.gpu_hours"):
        ahead(project, limits={"gpu_hours": -1})
