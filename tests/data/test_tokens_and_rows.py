"""The stages `tokens` and `rows`, and the reader of rows."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from xsa.data.packing import Packing
from xsa.data.rows import Rows, write_rows
from xsa.data.tokenizer import Tokenizer
from xsa.data.tokens import count_documents, row_groups
from xsa.store.errors import UserError
from xsa.study.stages import RowsStage, TokensStage


def test_tokens_are_the_encoded_documents_by_row_group(tokenized, sentences):
    texts = ["", *sentences(120, 7), "naïve 👍"]
    folder, tokenizer_folder = tokenized(texts, row_group_size=50)
    tokenizer = Tokenizer.load(tokenizer_folder / "tokenizer.json")
    groups = [[document.tolist() for document in group] for group in row_groups(folder / "tokens.arrow")]
    assert [len(group) for group in groups] == [50, 50, 22]
    assert [ids for group in groups for ids in group] == [tokenizer.encode(text) for text in texts]
    with pa.ipc.open_file(folder / "tokens.arrow") as reader:
        assert reader.schema.field("tokens").type == pa.list_(pa.uint16())
        assert reader.num_record_batches == 3
    assert count_documents(folder / "tokens.arrow") == 122


def test_a_row_group_of_many_documents_stays_one_row_group(tokenized):
    folder, _ = tokenized([f"{n}" for n in range(2100)], row_group_size=2050)
    assert [sum(1 for _ in group) for group in row_groups(folder / "tokens.arrow")] == [2050, 50]


def test_threads_do_not_change_the_tokens(tokenized, run_stage, local_shard, sentences):
    from xsa.study.settings import RunSettings

    first, tokenizer = tokenized(sentences(60, 1))
    shard = local_shard(sentences(60, 1))
    second = run_stage("tokens", TokensStage(), run=RunSettings(threads=2), shard=shard, tokenizer=tokenizer)
    assert (first / "tokens.arrow").read_bytes() == (second / "tokens.arrow").read_bytes()


def test_rows_are_the_packed_documents_and_the_counts_add_up(tokenized, run_stage, sentences):
    folder, tokenizer_folder = tokenized(sentences(150, 3), row_group_size=64)
    settings = RowsStage(sequence_len=32, buffer_size=20, tokenizer_batch=8)
    out = run_stage("rows", settings, tokens=folder, tokenizer=tokenizer_folder)
    tokenizer = Tokenizer.load(tokenizer_folder / "tokenizer.json")
    packing = Packing(
        row_groups(folder / "tokens.arrow"), capacity=33, buffer_size=20, tokenizer_batch=8, bos=tokenizer.bos
    )
    expected = np.stack(list(packing))
    read = Rows([out / "rows.arrow"])
    np.testing.assert_array_equal(read.slice(0, len(read)), expected)
    assert read.dtype == np.uint16 and read.sequence_len == 32
    assert (expected[:, 0] == tokenizer.bos).all()
    counts = json.loads((out / "rows.json").read_text())
    assert counts["documents"] == 150
    assert counts["tokens_kept"] == expected.size
    assert counts["tokens_in"] == counts["tokens_kept"] + counts["cropped"] + counts["left"]


def test_rows_may_be_longer_than_any_document(tokenized, run_stage):
    folder, tokenizer = tokenized(["a b c"] * 100)
    out = run_stage(
        "rows", RowsStage(sequence_len=200, buffer_size=10, tokenizer_batch=4), tokens=folder, tokenizer=tokenizer
    )
    row = Rows([out / "rows.arrow"])[0]
    assert len(row) == 201
    assert (row == row[0]).sum() > 20


def test_too_little_text_for_one_row_is_an_error_with_the_numbers(tokenized, run_stage):
    folder, tokenizer = tokenized(["a", "b"])
    with pytest.raises(UserError, match=r"4 tokens in 2 documents.*one row takes 65.*sequence_len below 4"):
        run_stage(
            "rows", RowsStage(sequence_len=64, buffer_size=10, tokenizer_batch=4), tokens=folder, tokenizer=tokenizer
        )


@pytest.fixture
def several(tmp_path, monkeypatch):
    """Three files of 10, 1 and 7 rows in batches of 4, and all their rows."""
    monkeypatch.setattr("xsa.data.rows.BATCH_BYTES", 4 * 5 * 2)
    rng = np.random.default_rng(0)
    paths, rows = [], []
    for number, count in enumerate((10, 1, 7)):
        block = rng.integers(0, 60_000, (count, 5)).astype(np.uint16)
        paths.append(tmp_path / f"{number}.arrow")
        assert list(write_rows(paths[-1], iter(block), 5, np.dtype(np.uint16)))[-1] == count
        rows.append(block)
    return paths, np.concatenate(rows)


def test_any_slice_across_files_is_the_rows_in_order(several):
    paths, rows = several
    read = Rows(paths)
    assert len(read) == len(rows)
    for start in range(len(rows) + 1):
        for stop in range(start, len(rows) + 1):
            np.testing.assert_array_equal(read.slice(start, stop), rows[start:stop])
    for index in range(len(rows)):
        np.testing.assert_array_equal(read[index], rows[index])
    assert sum(1 for _ in read) == len(rows)


def test_the_order_of_files_is_the_order_given(several):
    paths, rows = several
    np.testing.assert_array_equal(Rows(paths[::-1]).slice(0, 7), rows[11:])
    np.testing.assert_array_equal(Rows([paths[1]] * 3).slice(0, 3), rows[[10, 10, 10]])


def test_more_files_than_are_mapped_at_a_time_read_alike(several, monkeypatch):
    monkeypatch.setattr("xsa.data.rows._OPEN", 1)
    paths, rows = several
    read = Rows(paths)
    for index in (0, 17, 10, 3, 16):
        np.testing.assert_array_equal(read[index], rows[index])


def test_rows_past_the_end_are_refused(several):
    read = Rows(several[0])
    with pytest.raises(IndexError, match="of 18"):
        read.slice(10, 19)
    with pytest.raises(IndexError):
        read[18]


def test_a_truncated_file_of_rows_is_refused(several):
    paths, _ = several
    paths[0].write_bytes(paths[0].read_bytes()[:-20])
    with pytest.raises(UserError, match=r"0\.arrow is no whole"):
        Rows(paths)


def test_rows_of_another_length_are_refused(several, tmp_path):
    odd = tmp_path / "odd.arrow"
    list(write_rows(odd, iter(np.zeros((2, 9), np.uint16)), 9, np.dtype(np.uint16)))
    with pytest.raises(UserError, match=r"odd\.arrow has rows of 9"):
        Rows([*several[0], odd])
