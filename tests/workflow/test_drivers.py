"""Two drivers on one folder of results make each result once, and neither breaks what the other made."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.conftest import MiniProject
from xsa.store.produce import is_whole

pytestmark = pytest.mark.workflow


def start(project: MiniProject, command: str, *arguments: str) -> subprocess.Popen:
    program = str(Path(sys.executable).with_name(command))
    return subprocess.Popen(
        [program, *arguments],
        cwd=project.root,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=project.environment(),
    )


def all_whole(results: Path) -> bool:
    folders = [path for path in results.glob("*/*@*") if not path.name.startswith(".")]
    return bool(folders) and all((one / "record.json").exists() and is_whole(one) for one in folders)


def test_two_verbs_that_make_one_result_make_it_once(mini):
    """One trains; the other is told who does, or finds it whole. The weights are those of the first time."""
    (folder,) = (mini.root / "results/pretrain").glob("*-a1-*")
    before = json.loads((folder / "record.json").read_text())["files"]["model.safetensors"]["sha256"]
    shutil.rmtree(folder)
    jobs = [start(mini, "xsa", "pretrain", "mini", folder.name) for _ in range(2)]
    said = [job.communicate(timeout=300)[0] for job in jobs]
    codes = sorted(job.returncode for job in jobs)
    assert codes in ([0, 0], [0, 2]), said
    made = [text for text in said if "step 6/6" in text]
    other = [text for text in said if "is being made by process" in text or "is there already and whole" in text]
    assert len(made) == 1 and len(other) == 1, said
    after = json.loads((folder / "record.json").read_text())["files"]["model.safetensors"]["sha256"]
    assert is_whole(folder) and after == before
    assert not list((mini.root / "results").rglob("*.part")) and not list((mini.root / "results/.locks").glob("*.lock"))


def test_two_snakemakes_of_two_clones_share_results(finished, tmp_path):
    """Each may be refused jobs that the other runs; together they finish, and what is there then is whole."""
    clones = [MiniProject.new(tmp_path / name) for name in ("one", "two")]
    results = tmp_path / "shared"
    wanted = [path.name for path in (finished.root / "results/rows").iterdir()]
    targets = [f"{results}/rows/{name}/record.json" for name in wanted]
    command = ["--cores", "1", "--keep-going", *targets, "--config", "study=mini", f"results={results}"]
    for _ in range(4):
        drivers = [start(clone, "snakemake", *command) for clone in clones]
        said = [driver.communicate(timeout=300)[0] for driver in drivers]
        assert not any("Traceback" in text for text in said), said
        if all(driver.returncode == 0 for driver in drivers):
            break
    assert [driver.returncode for driver in drivers] == [0, 0], said
    assert all_whole(results) and {path.name for path in (results / "rows").iterdir()} == set(wanted)
    for name in wanted:
        records = [
            json.loads((place / "rows" / name / "record.json").read_text())
            for place in (results, finished.root / "results")
        ]
        assert records[0]["files"] == records[1]["files"]
    for clone in clones:
        assert clone.jobs(*targets, config=[f"results={results}"]) == {}
