"""A study's results in another clone: by archive, by a plain copy, by hand; on real Snakemake runs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.workflow.conftest import RECIPE, STUDY, MiniProject
from tests.workflow.test_identity import EVALUATIONS, PAGE, recipe

pytestmark = pytest.mark.workflow

MEASUREMENTS = {rule: 2 for rule in EVALUATIONS if rule != "finetune"} | {"equivalence": 1, "overhead": 1}


@pytest.fixture(scope="module")
def archives(finished, tmp_path_factory) -> dict[str, Path]:
    """Archives of the finished miniature by portion; `all` for the whole."""
    folder = tmp_path_factory.mktemp("archives")
    made = {}
    for only in ("report", "results", "checkpoints", "all"):
        made[only] = folder / f"{only}.tar"
        run = finished.xsa("export", "mini", "-o", str(made[only]), *([] if only == "all" else ["--only", only]))
        assert run.returncode == 0, run.stderr
    return made


@pytest.fixture
def clone(tmp_path) -> MiniProject:
    """Another clone of the project, without results."""
    return MiniProject.new(tmp_path / "another clone")


def bring(project: MiniProject, archive: Path) -> str:
    run = project.xsa("import", str(archive))
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_after_importing_checkpoints_measurements_and_report_run_and_nothing_trains(clone, archives):
    said = bring(clone, archives["checkpoints"])
    assert "uses 9 of the 9" in said
    assert clone.jobs() == MEASUREMENTS | PAGE


def test_a_measurement_of_imported_checkpoints_is_that_of_the_original(clone, archives, finished):
    bring(clone, archives["checkpoints"])
    (measured,) = (finished.root / "results/bpb").glob("*-a1-*")
    run = clone.snakemake(f"results/bpb/{measured.name}/record.json")
    assert run.returncode == 0, run.stderr
    assert (clone.root / "results/bpb" / measured.name / "bpb.json").read_bytes() == (
        measured / "bpb.json"
    ).read_bytes()


def test_after_importing_what_the_report_needs_the_page_builds(clone, archives, finished):
    assert archives["report"].stat().st_size < archives["checkpoints"].stat().st_size
    said = bring(clone, archives["report"])
    assert "without checkpoints" in said
    assert clone.jobs() == PAGE
    run = clone.snakemake("results/mini/report.html")
    assert run.returncode == 0, run.stderr
    tables = "results/mini/tables/cells.csv"
    assert (clone.root / tables).read_bytes() == (finished.root / tables).read_bytes()


def test_after_importing_the_results_the_page_is_only_put_in_its_place(clone, archives, finished):
    bring(clone, archives["results"])
    assert clone.jobs() == {"publish": 1}
    assert clone.snakemake().returncode == 0
    page = "results/mini/report.html"
    assert (clone.root / page).read_bytes() == (finished.root / page).read_bytes()


def test_checkpoints_complete_what_the_report_brought(clone, archives, finished):
    bring(clone, archives["report"])
    before = clone.state()
    said = bring(clone, archives["checkpoints"])
    assert said.startswith("9 results put in place")
    after = clone.state()
    assert all(after[path] == value for path, value in before.items())
    for original in (finished.root / "results/pretrain").glob("*/*.safetensors"):
        copy = clone.root / original.relative_to(finished.root)
        assert copy.read_bytes() == original.read_bytes()
    clone.write("config/recipes/mini.yaml", recipe(attention={"rows": 3}))
    assert clone.jobs() == {"attention": 2, **PAGE}


def test_importing_twice_changes_nothing(clone, archives):
    bring(clone, archives["all"])
    before = clone.state()
    assert bring(clone, archives["all"]).startswith("0 results put in place, 21 were there already")
    assert clone.state() == before


def test_a_study_that_the_clone_lacks_comes_along(clone, archives):
    for path in ("config/studies/mini.yaml", "config/recipes/mini.yaml"):
        (clone.root / path).unlink()
    said = bring(clone, archives["results"])
    assert "config/studies/mini.yaml put in place" in said and clone.jobs() == {"publish": 1}


def test_a_study_that_the_clone_has_is_not_overwritten_and_what_it_does_not_use_is_told(clone, archives):
    clone.write("config/studies/mini.yaml", {**STUDY, "title": "My own title"})
    said = bring(clone, archives["results"])
    assert "My own title" in (clone.root / "config/studies/mini.yaml").read_text()
    assert "uses 14 of the 16" in said


def test_a_study_that_is_no_text_keeps_all_results_out(clone, archives, tmp_path):
    content = b"\xff\xfe"
    with tarfile.open(archives["results"]) as tar:
        members = [(info, tar.extractfile(info).read()) for info in tar]
    crate = json.loads(members[0][1])
    for file in crate["@graph"]:
        if file["@id"] == "config/studies/mini.yaml":
            file |= {"contentSize": str(len(content)), "sha256": hashlib.sha256(content).hexdigest()}
    with tarfile.open(tmp_path / "other.tar", "w") as tar:
        for info, old in members:
            new = {"config/studies/mini.yaml": content, members[0][0].name: json.dumps(crate).encode()}.get(
                info.name, old
            )
            info.size = len(new)
            tar.addfile(info, io.BytesIO(new))
    run = clone.xsa("import", str(tmp_path / "other.tar"))
    assert run.returncode == 2 and "config/studies/mini.yaml is no text" in run.stderr and clone.state() == {}


def test_two_results_of_one_recipe_are_a_conflict_that_names_both(clone, archives):
    bring(clone, archives["report"])
    (folder,) = (clone.root / "results/bpb").glob("*-a1-*")
    record = json.loads((folder / "record.json").read_text())
    theirs, mine = record["files"]["bpb.json"]["sha256"], "0" * 64
    record["files"]["bpb.json"]["sha256"] = mine
    (folder / "record.json").write_text(json.dumps(record))
    before = clone.state()
    run = clone.xsa("import", str(archives["all"]))
    assert run.returncode == 2 and theirs in run.stderr and mine in run.stderr and folder.name in run.stderr
    assert clone.state() == before


def test_an_export_is_the_same_bytes_again(finished, archives, tmp_path):
    assert finished.xsa("export", "mini", "-o", str(tmp_path / "again.tar")).returncode == 0
    assert (tmp_path / "again.tar").read_bytes() == archives["all"].read_bytes()


def test_an_export_of_a_damaged_result_is_refused_and_leaves_no_file(mini, tmp_path):
    checkpoint = next((mini.root / "results/pretrain").glob("*-a1-*/model.safetensors"))
    content = bytearray(checkpoint.read_bytes())
    content[-1] ^= 1
    checkpoint.write_bytes(bytes(content))
    run = mini.xsa("export", "mini", "-o", str(tmp_path / "mini.tar"))
    assert run.returncode == 2 and "model.safetensors has changed since it was made" in run.stderr
    assert not list(tmp_path.glob("*.tar*")) and not list(tmp_path.glob(".*tar*"))


def test_an_export_says_what_is_not_there(mini, tmp_path):
    shutil.rmtree(next((mini.root / "results/bpb").glob("*-a1-*")))
    weights = next((mini.root / "results/pretrain").glob("*-a0-*/model.safetensors"))
    weights.unlink()
    run = mini.xsa("export", "mini", "-o", str(tmp_path / "mini.tar"))
    assert run.returncode == 0 and "20 results" in run.stdout
    assert "not made yet: 1 results, bpb/" in run.stdout and str(weights.relative_to(mini.root)) in run.stdout


def test_local_data_need_not_come_along(tmp_path, finished):
    """The hashes of local files travel, so the study is planned, and its page built, where the data are not."""
    project = MiniProject.new(tmp_path / "project")
    (project.root / "texts").mkdir()
    for source in (finished.root / "results/shard").glob("*/*.parquet"):
        table = pq.read_table(source)
        pq.write_table(pa.table({"text": table["text"]}), project.root / "texts" / source.name)
    settings = RECIPE["settings"] | {"data": {"kind": "local", "path": "texts", "tokens_per_shard": 2_000}}
    project.write("config/recipes/mini.yaml", {**RECIPE, "settings": settings})
    others = ("core", "chatcore", "attention", "overhead", "equivalence")
    project.write("config/studies/mini.yaml", {**STUDY, "settings": {"evaluate": dict.fromkeys(others, False)}})
    run = project.snakemake("--until", "bpb")
    assert run.returncode == 0, run.stderr
    assert project.xsa("export", "mini", "--only", "report").returncode == 0
    other = MiniProject.new(tmp_path / "other")
    for name in ("recipes", "studies"):
        (other.root / "config" / name / "mini.yaml").unlink()
    bring(other, project.root / "mini-report.tar")
    assert not (other.root / "texts").exists() and other.jobs() == PAGE
    # A plain copy without hidden files, as an object store may give it back, knows them too.
    copied = MiniProject.new(tmp_path / "copied")
    shutil.copytree(project.root / "config", copied.root / "config", dirs_exist_ok=True)
    shutil.copytree(project.root / "results", copied.root / "results", ignore=shutil.ignore_patterns(".*"))
    assert copied.jobs() == PAGE


def test_a_copy_without_hidden_files_times_and_empty_folders_runs_nothing(finished, tmp_path):
    copy = MiniProject.new(tmp_path / "copy")
    for number, path in enumerate(sorted((finished.root / "results").rglob("*"), reverse=True)):
        parts = path.relative_to(finished.root).parts
        if path.is_file() and not any(part.startswith(".") for part in parts):
            target = copy.root.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
            os.utime(target, (1_700_000_000 + number, 1_700_000_000 + number))
    assert copy.jobs() == {}
    copy.write("config/recipes/mini.yaml", recipe(attention={"rows": 3}))
    assert copy.jobs() == {"attention": 2, **PAGE}


def test_an_archive_holds_no_names_of_this_machine(archives, finished):
    with tarfile.open(archives["all"]) as tar:
        members = tar.getmembers()
    assert all((one.uid, one.uname, one.mtime, one.isreg()) == (0, "", 0, True) for one in members)
    assert not any(one.name.startswith(("/", "..")) or str(finished.root) in one.name for one in members)
