"""The shards of the built-in data."""

from __future__ import annotations

import statistics
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xsa.data.world import write_shard
from xsa.data.world.letters import letter_body
from xsa.data.world.prose import KINDS, document
from xsa.data.world.world import make_world, stream


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    for index in range(3):
        write_shard(folder / f"{index}.parquet", 5, index, 3, 1100)
    return [folder / f"{index}.parquet" for index in range(3)]


def texts(path):
    return pq.read_table(path)["text"].to_pylist()


def test_a_shard_is_one_text_column_in_zstd_row_groups_of_1024_documents(shards):
    file = pq.ParquetFile(shards[0])
    assert file.schema_arrow == pa.schema([("text", pa.string())])
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [1024, 76]
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert all(text.strip() == text and text for text in texts(shards[0]))


def test_the_same_arguments_give_the_same_bytes_in_another_process(tmp_path, shards):
    code = "import sys; from xsa.data.world import write_shard; write_shard(sys.argv[1], 5, 1, 3, 1100)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "again.parquet")], check=True)
    assert (tmp_path / "again.parquet").read_bytes() == shards[1].read_bytes()


def test_a_shard_stays_the_same_when_there_are_more_shards(tmp_path, shards):
    write_shard(tmp_path / "of_nine.parquet", 5, 1, 9, 1100)
    assert texts(tmp_path / "of_nine.parquet") == texts(shards[1])


def test_the_validation_shard_shares_hardly_a_document_with_training_but_the_world(shards):
    training, validation = set(texts(shards[0])) | set(texts(shards[1])), texts(shards[2])
    shared = sum(text in training for text in validation)
    assert shared / len(validation) < 0.03
    for person in make_world(5).people:
        assert any(f"{person.name} lives in {person.home}" in text for text in validation)


def test_documents_are_mostly_short_and_now_and_then_long(shards):
    lengths = [len(text) for path in shards for text in texts(path)]
    assert 400 <= statistics.median(lengths) <= 800
    assert 2000 <= max(lengths) <= 4000


def test_what_a_letter_asks_for_at_its_end_only_its_first_sentence_and_its_middle_tell():
    world = make_world(5)
    for number in range(200):
        body, words, _ = letter_body(world, stream("letter", number), 4)
        first = body.split("\n\n")[1].split(".")[0]
        assert words in first
        assert not body.endswith(words)


def test_every_kind_of_document_can_be_written_at_every_length():
    for seed in range(5):
        world = make_world(seed)
        for kind in KINDS:
            for size in range(1, 13):
                text = kind(world, stream("test", seed, size), size)
                assert text
                assert "{" not in text
                assert "  " not in text


def test_documents_differ():
    world, rng = make_world(5), stream("test")
    drawn = [document(world, rng) for _ in range(500)]
    assert len(set(drawn)) > 490


def test_a_shard_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ValueError, match="shard 3 of 3 does not exist"):
        write_shard(tmp_path / "x.parquet", 5, 3, 3, 64)
