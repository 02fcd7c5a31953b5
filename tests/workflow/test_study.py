"""A whole study through Snakemake, and the commands of the README."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import html5lib
import pandas as pd
import pytest

from tests.workflow.conftest import ROOT, STUDY, MiniProject
from xsa.study.stages import STAGES

pytestmark = pytest.mark.workflow


def test_every_stage_leaves_a_record_of_its_files(finished):
    for stage in (name for name in STAGES if not name.startswith("imported")):
        records = list((finished.root / "results" / stage).glob("*@*/record.json"))
        assert records, stage
        for record in map(lambda path: json.loads(path.read_text()), records):
            assert record["stage"] == stage and record["files"] and record["recipe"]["settings"] is not None


def test_nothing_but_results_is_left_behind(finished):
    results = finished.root / "results"
    assert not list(results.rglob("*.part")) and not list((results / ".locks").glob("*.lock"))


def test_the_page_is_valid_html_and_needs_no_network(finished):
    text = (finished.root / "results/mini/report.html").read_text(encoding="utf-8")
    html5lib.HTMLParser(strict=True).parse(text)
    assert "The miniature" in text
    fetched = re.findall(r"""(?:src|href)\s*=\s*["']?(https?:|//)""", re.sub(r"<a [^>]*>", "", text))
    assert not fetched and "@import" not in text and "url(http" not in text


def test_tables_come_as_csv_and_tex_and_figures_as_svg(finished):
    folder = finished.root / "results/mini"
    cells = pd.read_csv(folder / "tables/cells.csv")
    assert len(cells) == 2
    assert (folder / "tables/cells.tex").exists() and list((folder / "figures").glob("*.svg"))


def test_a_run_tells_where_it_is(finished):
    log = next((finished.root / "results/.logs/pretrain").glob("*.log")).read_text()
    assert "step" in log and "loss" in log and "tok/s" in log


def test_a_verb_runs_by_hand(mini):
    import shutil

    folder = next((mini.root / "results/bpb").glob("*-a0-*"))
    before = json.loads((folder / "bpb.json").read_text())
    shutil.rmtree(folder)
    xsa = [str(Path(sys.executable).with_name("xsa"))]
    run = subprocess.run(
        [*xsa, "bpb", "mini", folder.name.partition("@")[0]], cwd=mini.root, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert json.loads((folder / "bpb.json").read_text()) == before


def test_a_verb_whose_input_is_missing_names_the_verb_that_makes_it(mini):
    import shutil

    shutil.rmtree(mini.root / "results/pretrain")
    shutil.rmtree(mini.root / "results/bpb")
    xsa = str(Path(sys.executable).with_name("xsa"))
    run = subprocess.run([xsa, "bpb", "mini", "d2w32h2-muon-a0-s0"], cwd=mini.root, capture_output=True, text=True)
    assert (
        run.returncode == 2 and "xsa pretrain mini d2w32h2-muon-a0-s0@" in run.stderr and "Traceback" not in run.stderr
    )


def test_the_paper_study_is_the_default_and_plans_here(tmp_path):
    run = subprocess.run(
        [str(Path(sys.executable).with_name("snakemake")), "-n", "results/report.html"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert re.search(r"^pretrain +18$", run.stdout, re.MULTILINE)


def test_the_paper_study_without_cuda_stops_before_the_first_job_and_names_the_demo(tmp_path):
    from xsa.study.machine import has_cuda

    if has_cuda():
        pytest.skip("this machine has a GPU")
    project = MiniProject.new(tmp_path / "project")
    import shutil

    shutil.copy(ROOT / "config/recipes/nanochat.yaml", project.root / "config/recipes/nanochat.yaml")
    shutil.copy(ROOT / "config/studies/paper.yaml", project.root / "config/studies/paper.yaml")
    snakemake = str(Path(sys.executable).with_name("snakemake"))
    run = subprocess.run(
        [snakemake, "--cores", "2", "results/report.html"], cwd=project.root, capture_output=True, text=True
    )
    text = run.stdout + run.stderr
    assert run.returncode != 0 and "run `make demo`" in text and "Traceback" not in text
    assert not list((project.root / "results").glob("*/*@*/*"))


@pytest.mark.parametrize("verb", [name for name, stage in STAGES.items() if not stage.torch])
def test_a_verb_that_needs_no_torch_does_not_import_it(verb):
    entry = STAGES[verb].entry.partition(":")[0]
    code = f"import sys, {entry}, xsa.cli, xsa.study.execute; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("arguments", [["--unlock"], ["--profile", "slurm", "--unlock"]], ids=" ".join)
def test_the_workflow_loads_where_no_cores_are_given(tmp_path, arguments):
    project = MiniProject.new(tmp_path / "project")
    (project.root / "slurm").symlink_to("profiles/slurm")
    snakemake = str(Path(sys.executable).with_name("snakemake"))
    run = subprocess.run(
        [snakemake, *arguments, "--config", "study=mini"], cwd=project.root, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


def test_a_results_folder_may_have_a_blank_in_its_name(tmp_path):
    project = MiniProject.new(tmp_path / "project")
    run = project.snakemake("--until", "bundle", config=["results=my results"])
    assert run.returncode == 0, run.stderr
    assert list((project.root / "my results" / "bundle").glob("*/record.json"))


def test_a_read_only_page_of_other_settings_is_said_to_be_old(mini):
    import os
    import subprocess as shell

    if os.geteuid() != 0:
        pytest.skip("needs root to mount results read-only")
    results = mini.root / "results"
    if shell.run(["mount", "--bind", str(results), str(results)], capture_output=True).returncode:
        pytest.skip("this machine does not allow bind mounts")
    try:
        shell.run(["mount", "-o", "remount,ro,bind", str(results)], check=True)
        assert mini.jobs() == {}
        mini.write("config/studies/mini.yaml", {**STUDY, "title": "Another title"})
        run = mini.snakemake("--dry-run")
        assert run.returncode != 0 and "cannot be written" in run.stderr
    finally:
        shell.run(["umount", str(results)], check=True)
