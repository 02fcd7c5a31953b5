from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xsa.store.errors import UserError
from xsa.store.snapshot import frozen, take_snapshot


@pytest.fixture
def root(tmp_path) -> Path:
    root = tmp_path / "project"
    for name in ("config/studies/a.yaml", "config/data.lock", "rules/data.smk", "report/page.html", "Snakefile"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def test_the_same_code_and_configuration_give_one_snapshot(root):
    first = take_snapshot(root, root / "results")
    (root / "results" / "other").write_text("no part of it")
    assert take_snapshot(root, root / "results") == first
    assert [path.name for path in first.parent.iterdir()] == [first.name]


def test_a_snapshot_that_is_used_again_is_as_young_as_its_last_use(root):
    first = take_snapshot(root, root / "results")
    os.utime(first, (0, 0))
    before = time.time()
    assert take_snapshot(root, root / "results").stat().st_mtime >= before - 1


def test_an_edited_study_gives_another_snapshot_and_leaves_the_first(root):
    first = take_snapshot(root, root / "results")
    (root / "config/studies/a.yaml").write_text("edited")
    assert take_snapshot(root, root / "results") != first
    assert (first / "config/studies/a.yaml").read_text() == "config/studies/a.yaml"


def test_the_data_lock_stays_the_projects_own(root):
    first = take_snapshot(root, root / "results")
    (root / "config/data.lock").write_text("a shard was brought")
    assert take_snapshot(root, root / "results") == first
    assert not (first / "config/data.lock").exists()


def test_a_folder_that_is_a_link_is_frozen_with_what_is_in_it(root, tmp_path):
    (root / "config/studies").rename(tmp_path / "kept")
    (root / "config/studies").symlink_to(tmp_path / "kept")
    first = take_snapshot(root, root / "results")
    (tmp_path / "kept/a.yaml").write_text("edited")
    assert (first / "config/studies/a.yaml").read_text() == "config/studies/a.yaml"
    assert take_snapshot(root, root / "results") != first


def test_code_knows_that_it_is_frozen_by_where_it_lies(root):
    assert frozen() is None
    snapshot = take_snapshot(root, root / "results")
    command = "from xsa.store.snapshot import frozen; print(frozen())"
    run = subprocess.run(
        [sys.executable, "-c", command], env={"PYTHONPATH": str(snapshot / "src")}, capture_output=True, text=True
    )
    assert run.stdout.strip() == str(snapshot), run.stderr
    assert "git_commit" in json.loads((snapshot / "snapshot.json").read_text())


def test_an_altered_snapshot_is_refused(root):
    snapshot = take_snapshot(root, root / "results")
    study = snapshot / "config/studies/a.yaml"
    study.chmod(0o644)
    study.write_text("altered")
    with pytest.raises(UserError, match="was altered"):
        take_snapshot(root, root / "results")
