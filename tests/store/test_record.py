"""A record is held against its place, its recipe and its files, and says both sides where they disagree."""

from __future__ import annotations

import json
import os

import pytest

from xsa.store import record as record_module
from xsa.store.errors import UserError
from xsa.store.files import sha256_file, write_json
from xsa.store.record import read_record, verify_file
from xsa.study.result import digest_of

RECIPE = {"stage": "bpb", "version": 1, "settings": {"rows": 8}, "inputs": {}}
DIGEST = digest_of(RECIPE)


@pytest.fixture
def result(tmp_path):
    """A result with one file, and a way to edit its record."""
    folder = tmp_path / "results" / "bpb" / f"d2@{DIGEST}"
    folder.mkdir(parents=True)
    (folder / "bpb.json").write_text("{}")
    files = {"bpb.json": {"bytes": 2, "sha256": sha256_file(folder / "bpb.json")}}
    record = {"stage": "bpb", "label": "d2", "digest": DIGEST, "recipe": RECIPE, "files": files, "made": {}}
    write_json(folder / "record.json", record)
    return folder


def edit(folder, **values) -> None:
    record = json.loads((folder / "record.json").read_text())
    write_json(folder / "record.json", record | values)


def test_a_record_in_its_place_is_read(result):
    assert read_record(result)["label"] == "d2"


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("digest", "0123456789", f"says digest 0123456789, its folder says {DIGEST}"),
        ("label", "d3", "says label d3, its folder says d2"),
        ("stage", "core", "says stage core, its folder says bpb"),
    ],
)
def test_a_record_that_disagrees_with_its_place_names_both(result, key, value, sentence):
    edit(result, **{key: value})
    with pytest.raises(UserError, match=sentence):
        read_record(result)


def test_a_result_moved_to_another_stages_folder_is_refused(result):
    other = result.parents[1] / "core" / result.name
    other.parent.mkdir()
    result.rename(other)
    with pytest.raises(UserError, match="says stage bpb, its folder says core"):
        read_record(other)


def test_a_recipe_that_was_edited_is_found_by_its_digest(result):
    edited = RECIPE | {"settings": {"rows": 9}}
    edit(result, recipe=edited)
    with pytest.raises(UserError, match=f"says digest {DIGEST}, but its recipe has digest {digest_of(edited)}"):
        read_record(result)


def test_a_recipe_that_has_no_digest_is_refused(result):
    text = (result / "record.json").read_text().replace('"rows": 8', '"rows": NaN')
    (result / "record.json").write_text(text)
    with pytest.raises(UserError, match="its recipe has no digest"):
        read_record(result)


def test_a_stages_folder_may_be_a_link_to_another_disk(result):
    disk = result.parents[2] / "big disk"
    result.parent.rename(disk)
    result.parent.symlink_to(disk)
    assert read_record(result)["label"] == "d2"


def test_a_missing_file_is_named_with_its_hash_and_the_ways_out(result):
    expected = read_record(result)["files"]["bpb.json"]["sha256"]
    (result / "bpb.json").unlink()
    with pytest.raises(
        UserError, match=rf"bpb\.json is missing .*{expected}.*bring the file back.*delete .*record\.json"
    ):
        verify_file(result, "bpb.json")


def test_a_file_is_hashed_once_and_again_when_it_has_changed(result, monkeypatch):
    hashed = []
    monkeypatch.setattr(record_module, "sha256_file", lambda path: hashed.append(path) or sha256_file(path))
    verify_file(result, "bpb.json")
    verify_file(result, "bpb.json")
    assert len(hashed) == 1
    content = (result / "bpb.json").read_bytes()
    (result / "bpb.json").unlink()
    (result / "bpb.json").write_bytes(content)
    os.utime(result / "bpb.json", (1, 1))
    verify_file(result, "bpb.json")
    assert len(hashed) == 2
