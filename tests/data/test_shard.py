"""Shards from outside: what is refused, and with which words."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xsa.data.parquet import check_shard, documents
from xsa.store.errors import UserError
from xsa.store.files import sha256_file
from xsa.study.sources import HashCache, local_shards
from xsa.study.stages import ShardStage


def test_documents_come_in_order_and_large_row_groups_in_pieces(tmp_path, write_shard):
    texts = [f"document {n}" for n in range(2500)]
    path = write_shard(tmp_path / "a.parquet", texts, row_group_size=2000)
    pieces = list(documents(path))
    assert [(group, len(piece)) for group, piece in pieces] == [(0, 1024), (0, 976), (1, 500)]
    assert [text for _, piece in pieces for text in piece] == texts
    assert check_shard(path) == {"documents": 2500, "row_groups": 2, "characters": sum(map(len, texts))}


def test_a_file_without_text_is_refused_with_the_columns_it_has(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"content": ["a"], "url": ["b"]}), path)
    with pytest.raises(UserError, match=r"a\.parquet has no column `text`; its columns are content, url"):
        check_shard(path)


def test_text_that_is_no_string_is_refused_with_its_type(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [1, 2]}), path)
    with pytest.raises(UserError, match="of type int64"):
        check_shard(path)


def test_a_null_is_refused_with_row_group_and_row(tmp_path, write_shard):
    path = write_shard(tmp_path / "a.parquet", ["a", "b", "c", "d", None], row_group_size=3)
    with pytest.raises(UserError, match=r"a\.parquet, row group 1, row 1 of it"):
        check_shard(path)


def test_bytes_that_are_no_utf8_are_refused_with_the_row_group(tmp_path):
    path = tmp_path / "a.parquet"
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")]
    )
    pq.write_table(pa.table({"text": broken}), path)
    with pytest.raises(UserError, match=r"row group 0.*cannot be read"):
        check_shard(path)


def test_a_truncated_file_is_refused(tmp_path, write_shard):
    path = write_shard(tmp_path / "a.parquet", ["a" * 50] * 100)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"a\.parquet is no whole parquet file.*Copy or download"):
        check_shard(path)


def test_damage_inside_a_row_group_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"{n * 7919} and more" for n in range(2000)]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    damaged = bytearray(path.read_bytes())
    damaged[40:400] = bytes(360)
    path.write_bytes(damaged)
    with pytest.raises(UserError, match=r"row group 0.*damaged"):
        check_shard(path)


def test_an_empty_shard_is_refused(tmp_path, write_shard):
    with pytest.raises(UserError, match="no documents"):
        check_shard(write_shard(tmp_path / "a.parquet", []))


def test_a_local_shard_is_copied_byte_for_byte(tmp_path, run_stage, write_shard):
    path = write_shard(tmp_path / "mine.parquet", ["a", "b"])
    settings = ShardStage(kind="local", name=path.name, sha256=sha256_file(path))
    out = run_stage("shard", settings, source={"path": str(path)})
    assert (out / "mine.parquet").read_bytes() == path.read_bytes()


def test_a_local_shard_that_changed_since_the_plan_is_refused(tmp_path, run_stage, write_shard):
    path = write_shard(tmp_path / "mine.parquet", ["a", "b"])
    settings = ShardStage(kind="local", name=path.name, sha256="0" * 64)
    with pytest.raises(UserError, match=f"{'0' * 64} was planned, the file has {sha256_file(path)}"):
        run_stage("shard", settings, source={"path": str(path)})
    assert not list((tmp_path / "results" / "shard").glob("test@*"))


def test_a_builtin_shard_is_the_same_for_the_same_seed(run_stage):
    pytest.importorskip("xsa.data.world")
    settings = ShardStage(kind="builtin", name="shard_00000.parquet", seed=1, index=0, shards=2, documents=64)
    first, second = (sha256_file(run_stage("shard", settings) / settings.name) for _ in range(2))
    assert first == second


def test_a_missing_folder_of_shards_is_an_error(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        local_shards(tmp_path / "nowhere")


def test_a_folder_without_shards_is_an_error(tmp_path):
    (tmp_path / "notes.txt").write_text("no shard")
    with pytest.raises(UserError, match=r"\.parquet"):
        local_shards(tmp_path)


def test_one_shard_leaves_nothing_for_validation(tmp_path, write_shard):
    write_shard(tmp_path / "only.parquet", ["a"])
    with pytest.raises(UserError, match=r"only\.parquet.*two are needed.*validation"):
        local_shards(tmp_path)


def test_shards_are_read_in_name_order(tmp_path, write_shard):
    for name in ("b.parquet", "a.parquet", "c.txt"):
        write_shard(tmp_path / name, ["a"])
    assert [path.name for path in local_shards(tmp_path)] == ["a.parquet", "b.parquet"]


def test_a_files_hash_is_remembered_until_the_file_changes(tmp_path, monkeypatch):
    path, cache = tmp_path / "a.parquet", tmp_path / "hashes.json"
    path.write_bytes(b"one")
    hashes = HashCache(cache)
    before = hashes.sha256(path)
    hashes.save()
    monkeypatch.setattr("xsa.study.sources.sha256_file", lambda path: pytest.fail("hashed again"))
    assert HashCache(cache).sha256(path) == before
    monkeypatch.undo()
    path.write_bytes(b"three")
    assert HashCache(cache).sha256(path) != before


def test_an_error_names_the_users_own_file_and_no_copy_of_it(tmp_path, run_stage, write_shard):
    path = write_shard(tmp_path / "mine.parquet", ["a", None])
    settings = ShardStage(kind="local", name="shard.parquet", sha256=sha256_file(path))
    with pytest.raises(UserError) as error:
        run_stage("shard", settings, source={"path": str(path)})
    assert str(path) in str(error.value) and "results" not in str(error.value)
