"""Finding results, showing one, and telling two results, cells, studies or revisions apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import click
import pytest
import yaml
from click.testing import CliRunner

from tests.study.conftest import STUDY
from tests.study.recording import record_all
from xsa.cli import main
from xsa.store.errors import UserError
from xsa.study.description import describe, described
from xsa.study.differences import differences, same
from xsa.study.flat import ABSENT, changes, flat
from xsa.study.locate import Shelf
from xsa.study.project import Project
from xsa.study.revision import functions_at
from xsa.study.show_differences import differences_text
from xsa.study.sides import Sides

CELL, WITH_XSA = "d2w32h2-muon-a0-s0", "d2w32h2-muon-a1-s0"


@pytest.fixture
def results(project):
    """All results of the study, recorded."""
    record_all(project.plan(), project.root / "results", notes={"micro_batch": 8})
    return project.root / "results"


def git(project, *arguments):
    identity = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    subprocess.run(["git", "-C", project.root, *arguments], check=True, capture_output=True, env=os.environ | identity)


def commit(project):
    git(project, "init", "-q")
    git(project, "add", "config", "report")
    git(project, "commit", "-q", "-m", "x")


def told(project, a, b):
    opened = Project(project.root, project.root / "results")
    sides = Sides(opened)
    return differences(*sides.pair(a, b), project.root, sides.shelf)


def edit(project, results, stage, key, change):
    """Edit the record of a result, both copies."""
    for name in ("record.json", ".record.json"):
        path = results / stage / key / name
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))


# --- paths and changes ---


def test_changes_are_told_by_dotted_paths():
    old, new = {"a": {"b": 1, "c": [1, 2]}, "d": 2}, {"a": {"b": 1.0, "c": (1, 3)}, "e": None}
    assert changes(old, new) == [("a.c", [1, 2], (1, 3)), ("d", 2, ABSENT), ("e", ABSENT, None)]
    assert flat({"a": {}}) == {"a": {}}


# --- names ---


@pytest.mark.parametrize(
    "name",
    ["pretrain/{key}", "pretrain/{label}", "{digest}", "results/pretrain/{key}/record.json", "results/pretrain/{key}"],
)
def test_a_result_is_found_by_any_name_that_tells_it(project, results, monkeypatch, name):
    monkeypatch.chdir(project.root)
    one = project.plan().cells[0].results["pretrain"]
    found = Shelf(results).find(name.format(key=one.key, label=one.label, digest=one.digest))
    assert [folder.resolve() for folder in found] == [one.folder(results)]


def test_a_label_means_all_results_that_are_called_so(project, results):
    assert {folder.parent.name for folder in Shelf(results).find(CELL)} >= {"pretrain", "finetune", "bpb", "core"}


def test_an_unknown_result_is_told_with_the_nearest(results):
    with pytest.raises(UserError, match="did you mean 'd2w32h2-muon-a0-s"):
        Shelf(results).find("d2w32h2-muon-a0-s9")
    with pytest.raises(UserError, match="other stages than 'rows'"):
        Shelf(results).find(f"rows/{CELL}")


# --- show ---


def test_a_record_is_shown_with_settings_files_notes_and_origin(project, results):
    one = project.plan().cells[2].results["pretrain"]
    (one.folder(results) / "optimizer.safetensors").unlink()
    text = click.unstyle(describe(one.folder(results), Shelf(results)))
    assert "model.alpha" in text and "1   (default 0)" in text and "as by default:" in text and "seed 0" in text
    assert "optimizer.safetensors" in text and "is gone" in text and "micro_batch" in text
    assert text.count("(above)") >= 2 and "validation: rows" in text and "shard builtin-s0-00000@" in text


def test_a_result_that_no_study_has_any_more_is_shown(project, results, monkeypatch):
    monkeypatch.chdir(project.root)
    one = project.plan().cells[0].results["pretrain"]
    (project.root / "config/studies/tiny.yaml").unlink()
    shown = CliRunner().invoke(main, ["show", f"pretrain/{one.key}"])
    assert shown.exit_code == 0 and "made from" in shown.output, shown.output


def test_upstream_that_is_gone_is_said_to_be(project, results):
    plan = project.plan()
    core, pretrain = (plan.cells[0].results[stage] for stage in ("core", "pretrain"))
    for name in ("record.json", ".record.json", "model.safetensors", "optimizer.safetensors", "config.json"):
        (pretrain.folder(results) / name).unlink()
    pretrain.folder(results).rmdir()
    assert f"checkpoint: @{pretrain.digest}  is not here" in click.unstyle(
        describe(core.folder(results), Shelf(results))
    )
    assert described(core.folder(results), Shelf(results))["upstream"]["checkpoint"]["there"] is False


def test_several_results_of_a_name_are_listed(project, results, monkeypatch):
    monkeypatch.chdir(project.root)
    shown = CliRunner().invoke(main, ["show", CELL])
    assert shown.exit_code == 0 and f"pretrain/{CELL}@" in shown.output and "results are called so" in shown.output


# --- diff ---


def test_two_cells_differ_by_the_setting_that_tells_them_apart(project, results):
    found = told(project, CELL, WITH_XSA)
    assert [(one["path"], one["old"], one["new"]) for one in found["settings"]] == [("xsa.alpha", 0.0, 1.0)]
    differ = {one["stage"]: one["differ"] for one in found["results"]}
    assert differ["pretrain"] == 1 and differ["equivalence"] == 0 and found["code"] == [] == found["environment"]


def test_two_results_differ_by_their_settings_and_those_of_what_they_read(project, results):
    plan = project.plan()
    pair = [f"core/{plan.cells[index].results['core'].key}" for index in (0, 2)]
    (change,) = told(project, *pair)["settings"]
    assert (change["stage"], change["path"], change["old"], change["new"]) == ("pretrain", "model.alpha", 0.0, 1.0)


def test_the_environment_of_two_results_is_compared(project, results):
    plan = project.plan()
    key = plan.cells[2].results["pretrain"].key

    def elsewhere(content):
        content["made"] |= {"host": "node7", "gpu": "H200"}
        content["made"]["packages"]["torch"] = "2.9.0"

    edit(project, results, "pretrain", key, elsewhere)
    found = {
        one["path"]: (one.get("old"), one.get("new"), one["stages"])
        for one in told(project, CELL, WITH_XSA)["environment"]
    }
    assert found["packages.torch"] == ("2.13.0+cpu", "2.9.0", ["pretrain"]) and found["gpu"] == (
        None,
        "H200",
        ["pretrain"],
    )


def test_functions_that_changed_between_two_results_are_named(project, results):
    """From the lock of the commit that made each, where its fingerprint is the record's."""
    plan = project.plan()
    commits = []
    for index, body in ((0, "a"), (2, "b")):
        lock = yaml.safe_load((project.root / "config/stages.lock").read_text())
        functions = {"xsa.train.loop.Run": body, "xsa.train.step.Trainer": "same"}
        lock["stages"]["pretrain"] |= {"fingerprint": f"print-{body}", "functions": functions}
        (project.root / "config/stages.lock").write_text(yaml.safe_dump(lock))
        commit(project)
        head = subprocess.run(
            ["git", "-C", project.root, "rev-parse", "HEAD"], capture_output=True, text=True
        ).stdout.strip()
        commits.append(head)
        made = {"code": f"print-{body}", "git_commit": head[:12]}
        edit(
            project,
            results,
            "pretrain",
            plan.cells[index].results["pretrain"].key,
            lambda c, made=made: c["made"].update(made),
        )
    pair = [f"pretrain/{plan.cells[index].results['pretrain'].key}" for index in (0, 2)]
    (code,) = told(project, *pair)["code"]
    assert code["functions"] == {"changed": ["xsa.train.loop.Run"], "added": [], "removed": []}
    assert functions_at(commits[0][:12], "pretrain", "another print", project.root) is None


def test_two_studies_differ_in_cells_and_settings(project, results):
    other = STUDY | {
        "name": "other",
        "factors": {"xsa.alpha": [0, 0.5], "seed": [0, 1]},
        "settings": {"horizon": {"steps": 20}},
    }
    project.study(other)
    found = told(project, "tiny", "other")
    assert found["cells"]["both"] == 2 and len(found["cells"]["only_old"]) == len(found["cells"]["only_new"]) == 2
    assert {"path": "horizon.steps", "old": 10, "new": 20, "cells": 2} in found["settings"]
    assert [one["path"] for one in found["study"]] == ["name", "factors.xsa.alpha"]


def test_a_study_is_compared_with_itself_at_a_revision(project, results):
    commit(project)
    assert same(told(project, "HEAD:tiny", "tiny"))
    project.study(STUDY | {"settings": {"schedule": {"warmup_steps": 3}}})
    lock = yaml.safe_load((project.root / "config/stages.lock").read_text())
    kept = [{"fingerprint": "b", "on": "2026-07-01", "why": "a rename"}]
    lock["stages"]["core"] |= {"fingerprint": "b", "functions": {"xsa.evaluate.core.core": "2"}, "kept": kept}
    (project.root / "config/stages.lock").write_text(yaml.safe_dump(lock))
    found = told(project, "HEAD:tiny", "tiny")
    assert [(one["path"], one["new"], one["cells"]) for one in found["settings"]] == [("schedule.warmup_steps", 3, 4)]
    (code,) = found["code"]
    assert code["functions"]["added"] == ["xsa.evaluate.core.core"] and code["kept"] == ["a rename"]
    text = click.unstyle(differences_text(found))
    assert "+ xsa.evaluate.core.core" in text and "kept: a rename" in text and "schedule.warmup_steps: 40 → 3" in text


def test_a_revision_is_read_without_touching_the_working_tree(project, results):
    commit(project)
    (project.root / "config/studies/tiny.yaml").unlink()
    project.study(STUDY | {"name": "now"})
    assert told(project, "HEAD:tiny", "now")["cells"]["both"] == 4
    assert not (project.root / "config/studies/tiny.yaml").exists()


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ("tiny", CELL, "tiny is a study and .* is a cell; compare two of one kind"),
        (f"pretrain/{CELL}", f"core/{CELL}", "are of two stages"),
        (f"tiny/{CELL}", "tiny/d2w32h2-muon-a0-s7", "has no cell 'd2w32h2-muon-a0-s7'; did you mean"),
        ("nothing:tiny", "tiny", "git knows no revision 'nothing'"),
        ("tynai", "tiny", "has no result 'tynai'"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(project, results, a, b, words):
    with pytest.raises(UserError, match=words):
        told(project, a, b)


def test_a_cell_that_two_studies_have_differently_needs_its_study(project, results):
    project.study(STUDY | {"name": "other", "settings": {"horizon": {"steps": 20}}})
    with pytest.raises(UserError, match=f"say tiny/{CELL}|say other/{CELL}"):
        told(project, CELL, WITH_XSA)
    assert told(project, f"tiny/{CELL}", f"other/{CELL}")["settings"][0]["path"] == "horizon.steps"


def test_a_metric_that_cannot_be_read_does_not_hide_the_rest(project, results, monkeypatch):
    """These records list no files of numbers."""
    monkeypatch.chdir(project.root)
    shown = CliRunner().invoke(main, ["diff", CELL, WITH_XSA])
    assert shown.exit_code == 0, shown.output
    assert "xsa.alpha: 0 → 1" in shown.output and "cannot be compared" in shown.output and "bpb.json" in shown.output


@pytest.mark.parametrize("arguments", [["status", "tiny"], ["show", CELL], ["diff", CELL, WITH_XSA]])
def test_looking_imports_no_torch(project, results, arguments):
    code = (
        "import sys; from click.testing import CliRunner; from xsa.cli import main\n"
        "shown = CliRunner().invoke(main, sys.argv[1:]); print(shown.output)\n"
        "assert shown.exit_code == 0 and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, *arguments], cwd=project.root, check=True)


def test_two_that_are_the_same_are_said_to_be(project, results, monkeypatch):
    monkeypatch.chdir(project.root)
    for name in ("tiny", CELL, f"core/{CELL}"):
        shown = CliRunner().invoke(main, ["diff", name, name])
        assert shown.exit_code == 0 and "the same in all" in shown.output, shown.output
