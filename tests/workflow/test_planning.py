"""`xsa plan` says what Snakemake then does, and a run says so first: on a finished study, by real runs."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.conftest import RECIPE, STUDY, MiniProject

pytestmark = pytest.mark.workflow

SMALLER = copy.deepcopy(RECIPE)
SMALLER["settings"]["core"] = {"max_per_task": 11}


def xsa(project: MiniProject, *arguments: str) -> str:
    """What a verb prints."""
    command = [str(Path(sys.executable).with_name("xsa")), *arguments]
    run = subprocess.run(command, cwd=project.root, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def planned(project: MiniProject) -> dict[str, int]:
    """How many results of each stage would be made, by `xsa plan`."""
    counts: dict[str, int] = {}
    for row in json.loads(xsa(project, "plan", "mini", "--json"))["results"]:
        if row["action"] in ("run", "resume", "restore"):
            counts[row["stage"]] = counts.get(row["stage"], 0) + 1
    return counts


def one(project: MiniProject, stage: str) -> Path:
    return min((project.root / "results" / stage).glob("*@*"))


def nothing(project):
    pass


def another_alpha(project):
    project.write("config/studies/mini.yaml", {**STUDY, "factors": {"xsa.alpha": [0, 0.5], "seed": [0]}})


def fewer_items(project):
    project.write("config/recipes/mini.yaml", SMALLER)


def a_record_deleted_that_nothing_needs(project):
    (one(project, "pretrain") / "record.json").unlink()


def a_record_deleted_that_core_needs(project):
    fewer_items(project)
    (one(project, "pretrain") / "record.json").unlink()


def records_of_data_deleted_behind_a_missing_training(project):
    for stage in ("rows", "shard"):
        (one(project, stage) / "record.json").unlink()
    (one(project, "pretrain") / "record.json").unlink()
    fewer_items(project)


def a_page_lost_with_its_report(project):
    (one(project, "report") / "record.json").unlink()
    (project.root / "results/mini/report.html").unlink()


def a_published_figure_lost_with_the_report(project):
    (one(project, "report") / "record.json").unlink()
    min((project.root / "results/mini/figures").glob("*.svg")).unlink()


@pytest.mark.parametrize(
    "change",
    [
        nothing,
        another_alpha,
        fewer_items,
        a_record_deleted_that_nothing_needs,
        a_record_deleted_that_core_needs,
        records_of_data_deleted_behind_a_missing_training,
        a_page_lost_with_its_report,
        a_published_figure_lost_with_the_report,
    ],
    ids=lambda change: change.__name__,
)
def test_the_plan_is_what_snakemake_does(mini, change):
    change(mini)
    jobs = mini.jobs()
    jobs.pop("publish", None)
    assert planned(mini) == jobs


def test_a_run_says_first_what_it_will_do_and_a_dry_run_does_not(mini):
    a_page_lost_with_its_report(mini)
    said = "restore, its record is missing"
    assert said not in mini.snakemake("--dry-run").stderr
    run = mini.snakemake()
    assert run.returncode == 0 and run.stderr.count(said) == 1


def test_a_limit_stops_a_run_before_its_first_job_and_raising_it_makes_nothing_again(mini):
    fewer_items(mini)
    jobs = mini.jobs()
    before = set((mini.root / "results").rglob("*.json"))
    mini.write("config/studies/mini.yaml", {**STUDY, "limits": {"cpu_hours": 0}})
    assert mini.jobs() == jobs
    run = mini.snakemake()
    assert run.returncode != 0 and "Raise limits.cpu_hours" in run.stderr and "Traceback" not in run.stderr
    assert set((mini.root / "results").rglob("*.json")) == before
    mini.write("config/studies/mini.yaml", {**STUDY, "limits": {"cpu_hours": 1000}})
    assert mini.jobs() == jobs


def test_another_torch_is_warned_of_and_makes_again_only_what_the_study_asks_for(mini):
    for path in (mini.root / "results").glob("*/*@*/*record.json"):
        record = json.loads(path.read_text())
        record["made"]["packages"]["torch"] = "1.0.0"
        path.write_text(json.dumps(record))
    assert mini.jobs() == {}
    assert "another torch than" in xsa(mini, "plan", "mini")
    mini.write("config/studies/mini.yaml", {**STUDY, "identity": {"torch": True}})
    jobs = mini.jobs()
    assert jobs["pretrain"] == 2 and not {"shard", "tokenizer", "tokens", "rows"} & jobs.keys()
    jobs.pop("publish")
    assert planned(mini) == jobs
