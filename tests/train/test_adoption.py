"""A checkpoint takes a cell's place only after every field was compared, and never without a trace."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from tests.train.small_project import SmallProject
from xsa.store.errors import UserError
from xsa.store.produce import is_whole
from xsa.train.adoption import adopt
from xsa.train.expected_stream import expected_stream
from xsa.train.nanochat_export import export_nanochat
from xsa.train.nanochat_import import import_nanochat


def silent(sentence):
    """Says nothing."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project whose cell of alpha 1 is trained in `results`; `imported/back` is an export of it."""
    torch.set_num_threads(1)
    project = SmallProject.new(tmp_path_factory.mktemp("adoption") / "project")
    project.make(project.cell(1).results["finetune"])
    export_nanochat(project.folder("pretrain", 1), project.root / "nanochat", say=silent)
    import_nanochat(project.root, "back", project.root / "nanochat", recipe="mini", say=silent)
    return project


@pytest.fixture
def elsewhere(trained, tmp_path):
    """A copy of the project with data and no checkpoints in `results`, and the trained results in `other`."""
    shutil.copytree(trained.root, tmp_path / "project")
    project = SmallProject(tmp_path / "project")
    shutil.copytree(project.root / "results", project.root / "other")
    for stage in ("pretrain", "finetune"):
        shutil.rmtree(project.root / "results" / stage)
    return project


def take(project, alpha, folder, **options):
    name = project.cell(alpha).label
    return adopt(project.open(), "mini", name, folder, **{"say": silent, **options})


def record(folder):
    return json.loads((folder / "record.json").read_text())


def test_a_checkpoint_that_is_what_the_recipe_says_needs_no_reason(elsewhere):
    source = elsewhere.folder("pretrain", 1, results="other")
    place = take(elsewhere, 1, source)
    assert place == elsewhere.folder("pretrain", 1) and is_whole(place)
    assert record(place)["adopted"]["differences"] == [] and record(place)["adopted"]["from"] == str(source)
    assert (place / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes()
    assert record(place)["made"] == record(source)["made"]


def test_every_difference_is_listed_and_refused_without_a_reason(elsewhere):
    path = elsewhere.root / "config/studies/mini.yaml"
    path.write_text(
        path.read_text().replace("settings:", "settings:\n  horizon: {steps: 5}\n  optim: {matrix_lr: 0.5}", 1)
    )
    with pytest.raises(UserError) as refused:
        take(elsewhere, 0, elsewhere.folder("pretrain", 1, results="other").parent / "missing")
    assert "is missing" in str(refused.value)
    (source,) = (elsewhere.root / "other/pretrain").iterdir()
    with pytest.raises(UserError) as refused:
        take(elsewhere, 0, source)
    text = str(refused.value)
    for line in (
        "model.alpha: the cell says 0.0, the checkpoint 1.0",
        "steps: the cell says 5, the checkpoint 6",
        "optim.matrix_lr: the cell says",
        "data stream SHA-256: the cell says",
    ):
        assert line in text
    assert "seed" not in text and "--why" in text
    assert not elsewhere.folder("pretrain", 0).exists()


def test_a_reason_is_kept_with_the_differences(elsewhere):
    place = take(elsewhere, 0, elsewhere.folder("pretrain", 1, results="other"), why="  to see what a swap does ")
    kept = record(place)["adopted"]
    assert kept["why"] == "to see what a swap does"
    assert kept["differences"] == [{"field": "model.alpha", "cell": "0.0", "checkpoint": "1.0"}]
    assert record(place)["recipe"] == elsewhere.cell(0).results["pretrain"].recipe


def test_an_adopted_checkpoint_is_fine_tuned_and_measured_like_any(elsewhere):
    take(elsewhere, 1, elsewhere.folder("pretrain", 1, results="other"))
    again = elsewhere.make(elsewhere.cell(1).results["finetune"])
    there = elsewhere.folder("finetune", 1, results="other")
    assert (again / "model.safetensors").read_bytes() == (there / "model.safetensors").read_bytes()


def test_a_fine_tuned_checkpoint_takes_the_fine_tuned_place_alone(elsewhere):
    source = elsewhere.folder("finetune", 1, results="other")
    with pytest.raises(UserError, match="is of a finetune result, and cannot be one of pretrain; say --stage finetune"):
        take(elsewhere, 1, source)
    place = take(elsewhere, 1, source, stage="finetune")
    assert record(place)["adopted"]["differences"] == [] and is_whole(place)


def test_an_import_of_nanochat_takes_a_place_and_what_is_unknown_counts_as_a_difference(elsewhere):
    base, said = elsewhere.root / "imported/back/base", []
    with pytest.raises(UserError, match="version of the code: the cell says 1, the checkpoint not known"):
        take(elsewhere, 1, base)
    place = take(elsewhere, 1, base, why="the same weights", say=said.append)
    assert not (place / "log.parquet").exists()
    assert any("without its log" in one for one in said) and any("cannot be fine-tuned" in one for one in said)


def test_the_same_vocabulary_in_another_file_is_the_same_vocabulary(elsewhere):
    tokenizer = elsewhere.root / "imported/back/tokenizer/tokenizer.json"
    tokenizer.write_text(json.dumps(json.loads(tokenizer.read_text()) | {"training": {"nanochat": "tokenizer.pkl"}}))
    config = elsewhere.root / "imported/back/base/config.json"
    from xsa.data.tokenizer import Tokenizer

    theirs = Tokenizer.load(tokenizer).sha256
    config.write_text(json.dumps(json.loads(config.read_text()) | {"vocab_sha256": theirs}))
    place = take(elsewhere, 1, config.parent, why="the same weights")
    assert record(place)["adopted"]["vocab_sha256"] == theirs
    elsewhere.make(elsewhere.cell(1).results["bpb"])


def test_another_vocabulary_is_refused_whatever_the_reason(elsewhere):
    config = elsewhere.root / "imported/back/base/config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"vocab_sha256": "f" * 64}))
    shutil.rmtree(elsewhere.root / "imported/back/tokenizer")
    with pytest.raises(UserError, match=rf"another vocabulary \(vocab_sha256 {'f' * 64}\)"):
        take(elsewhere, 1, config.parent, why="I insist")


def test_a_place_that_is_taken_is_never_overwritten(elsewhere):
    source = elsewhere.folder("pretrain", 1, results="other")
    place = take(elsewhere, 1, source)
    before = (place / "model.safetensors").stat()
    with pytest.raises(UserError, match="a result is never overwritten"):
        take(elsewhere, 1, source, why="again")
    assert (place / "model.safetensors").stat() == before


def test_a_place_is_refused_whose_old_checkpoint_was_measured(elsewhere):
    source = elsewhere.folder("finetune", 1, results="other")
    shutil.copytree(source, elsewhere.folder("finetune", 1))
    with pytest.raises(UserError, match="was made of the checkpoint that stood at"):
        take(elsewhere, 1, elsewhere.folder("pretrain", 1, results="other"))


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "optimizer.safetensors"])
def test_a_damaged_checkpoint_leaves_nothing_behind(elsewhere, file):
    source = elsewhere.folder("pretrain", 1, results="other")
    content = (source / file).read_bytes()
    (source / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=rf"{file} has changed since it was made"):
        take(elsewhere, 1, source)
    assert not list((elsewhere.root / "results").glob("pretrain/*")) and not list(elsewhere.root.rglob("*.part"))


def test_weights_of_another_shape_than_the_configuration_says_are_refused(elsewhere):
    config = elsewhere.root / "imported/back/base/config.json"
    values = json.loads(config.read_text())
    values["model"]["n_embd"] = 64
    config.write_text(json.dumps(values))
    with pytest.raises(UserError, match=r"has shape .* the model of its config\.json needs"):
        take(elsewhere, 1, config.parent, why="I insist")


def test_an_unknown_cell_names_the_nearest(elsewhere):
    with pytest.raises(UserError, match=f"did you mean '{elsewhere.cell(1).label}'"):
        adopt(elsewhere.open(), "mini", elsewhere.cell(1).label + "x", elsewhere.root)


def test_the_stream_expected_of_a_cell_is_the_one_that_training_reads(elsewhere):
    plan, results = elsewhere.open().plan("mini"), elsewhere.root / "results"
    config = json.loads((elsewhere.folder("pretrain", 1, results="other") / "config.json").read_text())
    pretrain = elsewhere.cell(0).results["pretrain"]
    assert expected_stream(plan, pretrain, results) == config["data_stream_sha256"]
    # of a finished cell that reads the same, where the rows are gone
    shutil.rmtree(results / "rows")
    assert expected_stream(plan, pretrain, results) is None
    assert expected_stream(plan, pretrain, elsewhere.root / "other") == config["data_stream_sha256"]
