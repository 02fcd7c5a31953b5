"""A checkpoint goes to nanochat's files and back without losing a bit, and is measured as the cell that it is."""

from __future__ import annotations

import json
import os
import pickle

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.train.small_project import SmallProject
from xsa.data.tokenizer import Tokenizer
from xsa.store.errors import UserError
from xsa.train.nanochat_export import export_nanochat
from xsa.train.nanochat_import import import_nanochat


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A project with the cell of alpha 1 pretrained and fine-tuned, exported to nanochat's files and imported as `back`."""
    torch.set_num_threads(1)
    project = SmallProject.new(tmp_path_factory.mktemp("small") / "project")
    cell = project.cell(1)
    for stage in ("pretrain", "finetune"):
        project.make(cell.results[stage])
        project.said = []
        export_nanochat(project.folder(stage, 1), project.root / f"nanochat_{stage}", say=project.said.append)
    import_nanochat(
        project.root,
        "back",
        project.root / "nanochat_pretrain",
        chat=project.root / "nanochat_finetune",
        recipe="mini",
        say=project.said.append,
    )
    study = yaml.safe_load((project.root / "config/studies/back.yaml").read_text())
    project.study(
        study
        | {"settings": study["settings"] | {"chatcore": project.cell(1).settings.chatcore.model_dump(mode="json")}}
    )
    return project


def test_what_was_exported_comes_back_bit_for_bit(small):
    back = small.root / "imported/back"
    for stage, kind in (("pretrain", "base"), ("finetune", "chat")):
        for file in ("model.safetensors", "config.json"):
            assert (back / kind / file).read_bytes() == (small.folder(stage, 1) / file).read_bytes()
    tokenizer = small.make(small.cell(1).results["pretrain"].inputs["tokenizer"])
    for file in ("tokenizer.json", "token_bytes.json"):
        assert (back / "tokenizer" / file).read_bytes() == (tokenizer / file).read_bytes()


def test_exported_files_are_those_that_nanochat_reads(small):
    folder = small.root / "nanochat_pretrain"
    weights = torch.load(folder / "model_000006.pt", weights_only=True)
    ours = load_file(small.folder("pretrain", 1) / "model.safetensors")
    assert weights.keys() == ours.keys() and all(weights[name].equal(ours[name]) for name in ours)
    meta = json.loads((folder / "meta_000006.json").read_text())
    assert set(meta["model_config"]) == {
        "sequence_len", "vocab_size", "n_layer", "n_head", "n_kv_head", "n_embd", "window_pattern",
    }  # fmt: skip
    assert (meta["step"], meta["max_seq_len"], meta["total_batch_size"]) == (6, 128, 512)
    encoding = pickle.loads((folder / "tokenizer.pkl").read_bytes())
    assert encoding.n_vocab == 400 and encoding.encode_single_token("<|bos|>") == 391
    lengths = torch.load(folder / "token_bytes.pt", weights_only=True)
    assert lengths.dtype == torch.int32 and lengths.sum() == sum(map(len, encoding.token_byte_values()))


def test_an_alpha_that_nanochat_ignores_is_stated_and_warned_of(small):
    meta = json.loads((small.root / "nanochat_pretrain/meta_000006.json").read_text())
    assert meta["xsa"]["alpha"] == 1.0 and meta["xsa"]["layers"] == [0, 1]
    assert any("which nanochat ignores" in sentence for sentence in small.said)


@pytest.mark.parametrize("stage", ["bpb", "core", "chatcore", "attention"])
def test_an_imported_cell_is_measured_as_the_cell_that_it_was(small, stage):
    there = small.make(small.cell(1).results[stage])
    imported = small.make(small.open().plan("back").cells[0].results[stage], study="back")
    assert (imported / f"{stage}.json").read_bytes() == (there / f"{stage}.json").read_bytes()


def test_the_report_of_an_imported_cell_says_that_it_was_not_trained_here(small):
    page = small.make(small.open().plan("back").report, study="back") / "report.html"
    text = page.read_text(encoding="utf-8")
    assert "0, and 1 imported" in text and "it was not trained here" in text and "no curve can be drawn" in text


def test_a_model_that_does_not_fit_its_tokenizer_is_refused_with_the_hash(small, tmp_path):
    other = Tokenizer([bytes([byte]) for byte in range(256)])
    other.save(tmp_path / "tokenizer.json")
    with pytest.raises(UserError, match=rf"says vocab_size 400, .*has 265 entries \(SHA-256 {other.sha256}\)"):
        import_nanochat(small.root, "wrong", small.root / "nanochat_pretrain", tokenizer=tmp_path, recipe="mini")
    assert not list(small.root.glob("imported/*wrong*")) and not (small.root / "config/studies/wrong.yaml").exists()


def test_what_is_no_checkpoint_is_not_exported(small, tmp_path):
    with pytest.raises(UserError, match=r"has no model\.safetensors; give the folder of a pretrain or finetune result"):
        export_nanochat(small.make(small.cell(1).results["bpb"]), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(small):
    with pytest.raises(UserError, match=r"imported/back is there already and is not overwritten"):
        import_nanochat(small.root, "back", small.root / "nanochat_pretrain", recipe="mini")
    with pytest.raises(UserError, match="is there already and is not overwritten"):
        export_nanochat(small.folder("pretrain", 1), small.root / "nanochat_pretrain")
    with pytest.raises(UserError, match=r"config/studies/mini\.yaml is there already"):
        import_nanochat(small.root, "mini", small.root / "nanochat_pretrain", recipe="mini")


@pytest.mark.parametrize("name", ["a/b", "../up", "", ".hidden", "pretrain"])
def test_a_name_that_cannot_be_a_studys_is_refused(small, name):
    with pytest.raises(UserError, match="cannot name a study"):
        import_nanochat(small.root, name, small.root / "nanochat_pretrain", recipe="mini")


def test_lengths_that_nanochat_counted_otherwise_are_remarked(small, tmp_path):
    folder = small.root / "nanochat_pretrain"
    for file in folder.iterdir():
        os.link(file, tmp_path / file.name)
    lengths = torch.load(tmp_path / "token_bytes.pt", weights_only=True)
    lengths[128:131] = 3  # bytes that are no UTF-8 by themselves, counted as replacement characters
    (tmp_path / "token_bytes.pt").unlink()
    torch.save(lengths, tmp_path / "token_bytes.pt")
    (tmp_path / "optim_000006_rank0.pt").write_bytes(b"")
    said = []
    import_nanochat(small.root, "counted", tmp_path, recipe="mini", say=said.append)
    (small.root / "config/studies/counted.yaml").unlink()
    assert any("counts other bytes for 3 of 400 tokens" in sentence for sentence in said)
    assert any("optimizer's state (1 optim_000006_rank*.pt) was left out" in sentence for sentence in said)


def test_a_checkpoint_that_nanochat_trained_keeps_what_its_meta_says(small, tmp_path):
    folder = small.root / "nanochat_pretrain"
    for file in folder.iterdir():
        os.link(file, tmp_path / file.name)
    meta = json.loads((tmp_path / "meta_000006.json").read_text())
    del meta["xsa"]
    meta["user_config"] = {"depth": 2}
    (tmp_path / "meta_000006.json").unlink()
    (tmp_path / "meta_000006.json").write_text(json.dumps(meta))
    target, study = import_nanochat(small.root, "theirs", tmp_path, recipe="mini", say=lambda sentence: None)
    config = json.loads((target / "base/config.json").read_text())
    assert (config["model"]["alpha"], config["tokens"], config["data_stream_sha256"]) == (0.0, 6 * 512, None)
    assert config["training"]["nanochat"]["user_config"] == {"depth": 2}
    assert yaml.safe_load(study.read_text())["settings"]["evaluate"]["chatcore"] is False
    # and goes back as it came
    export_nanochat(target / "base", tmp_path / "again", say=lambda sentence: None)
    again = json.loads((tmp_path / "again/meta_000006.json").read_text())
    assert {name: value for name, value in again.items() if name != "xsa"} == meta
