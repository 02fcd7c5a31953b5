"""What a folder of results holds is told by its records."""

from __future__ import annotations

import json

import pytest

from xsa.store.recorded import recorded_results

DIGEST = "0123456789"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "rows" / f"x@{DIGEST}"
    folder.mkdir(parents=True)
    (folder / "rows.arrow").write_bytes(b"123")
    record = {
        "digest": DIGEST,
        "recipe": {"stage": "rows"},
        "files": {"rows.arrow": {"bytes": 3}},
        "made": {"host": "h"},
    }
    for name in ("record.json", ".record.json"):
        (folder / name).write_text(json.dumps(record))
    return folder


def found(tmp_path):
    return recorded_results(tmp_path, ["rows", "tokens"])


def test_a_result_is_found_by_stage_and_key(folder, tmp_path):
    one = found(tmp_path)["rows", f"x@{DIGEST}"]
    assert (one.digest, one.recipe, one.made, one.declared, one.lacking()) == (
        DIGEST,
        {"stage": "rows"},
        {"host": "h"},
        True,
        [],
    )


def test_the_copy_tells_of_a_result_whose_record_was_deleted(folder, tmp_path):
    (folder / "record.json").unlink()
    assert found(tmp_path)["rows", f"x@{DIGEST}"].declared is False


@pytest.mark.parametrize("change", ["delete", "cut"])
def test_a_file_that_is_gone_or_of_another_size_is_lacking(folder, tmp_path, change):
    file = folder / "rows.arrow"
    file.unlink() if change == "delete" else file.write_bytes(b"12")
    assert found(tmp_path)["rows", f"x@{DIGEST}"].lacking() == ["rows.arrow"]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"digest": "0123456789"}',
        json.dumps({"digest": "9" * 10, "recipe": {"stage": "rows"}, "files": {}}),
        json.dumps({"digest": DIGEST, "recipe": {"stage": "rows", "inputs": {"tokens": [1]}}, "files": {}}),
        json.dumps({"digest": DIGEST, "recipe": {"stage": "rows"}, "files": {"rows.arrow": 3}}),
    ],
)
def test_what_is_no_record_of_its_folder_is_passed_over(folder, tmp_path, text):
    for name in ("record.json", ".record.json"):
        (folder / name).write_text(text)
    assert found(tmp_path) == {}


def test_private_and_damaged_folders_are_no_results(folder, tmp_path):
    folder.rename(folder.with_name(f".x@{DIGEST}.damaged-1"))
    assert found(tmp_path) == {}
