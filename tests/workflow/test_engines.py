"""The same study by other engines: a scheduler that has only a submit command, and one machine whose GPUs are handed out."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from tests.workflow.conftest import MiniProject

pytestmark = pytest.mark.workflow


@pytest.fixture
def project(tmp_path) -> MiniProject:
    """The miniature study with nothing made, its lock settled on the present code."""
    project = MiniProject.new(tmp_path / "project")
    project.settle_lock()
    return project


def records(project: MiniProject, stage: str) -> list[dict]:
    return [json.loads(path.read_text())["made"] for path in (project.root / "results" / stage).glob("*@*/record.json")]


def test_a_scheduler_that_has_only_a_submit_command_makes_the_study(project):
    pytest.importorskip("snakemake_executor_plugin_cluster_generic", reason="pip install -e '.[generic]'")
    submit = project.root / "submit.sh"
    submit.write_text('#!/bin/sh\necho "$1 $2 $3 $4" >> asked\nsh "$5" > job.log 2>&1\necho 17\n')
    submit.chmod(0o755)
    asked = "./submit.sh {rule} {threads} {resources.devices} {resources.runtime}"
    run = project.snakemake(
        *("--profile", "profiles/generic", "--cluster-generic-submit-cmd", asked),
        *("--latency-wait", "5", "--until", "equivalence"),
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(records(project, "equivalence")) == 1
    lines = (project.root / "asked").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("equivalence")]
    assert line == "equivalence 1 0 11", "CPUs, GPUs, and a forecast of seconds with its ten minutes"


def test_jobs_on_one_machine_wait_for_its_one_gpu_and_get_it(project, monkeypatch, tmp_path):
    environment = {**project.environment(), "XSA_DEVICES": "5", "TMPDIR": str(tmp_path)}
    monkeypatch.setattr(project, "environment", lambda: environment)
    run = project.snakemake("--until", "pretrain", "overhead")
    assert run.returncode == 0, run.stdout + run.stderr
    made = [*records(project, "pretrain"), *records(project, "overhead")]
    assert [one["visible_devices"] for one in made] == ["5"] * 3
    spans = sorted((datetime.fromisoformat(one["started"]), one["wall_seconds"]) for one in made)
    for (begun, seconds), (following, _) in pairwise(spans):
        # Starts are told in whole seconds.
        assert begun + timedelta(seconds=seconds - 1) <= following, "no two had it at one time"
    assert {one["visible_devices"] for one in records(project, "rows")} == {None}


def test_a_study_that_asks_for_two_devices_trains_by_two_processes(project):
    study = project.root / "config/studies/mini.yaml"
    study.write_text(study.read_text() + "run: {gpus: 2}\n")
    run = project.snakemake("--until", "pretrain")
    assert run.returncode == 0, run.stdout + run.stderr
    assert [one["notes"]["processes"] for one in records(project, "pretrain")] == [2, 2]
