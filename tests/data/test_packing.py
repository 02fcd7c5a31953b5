"""The packer, against rows of nanochat's own loader and against its rule written plainly."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from xsa.data.packing import Buffer, Packing, tokenizer_batches


@pytest.fixture(scope="module")
def cases(reference):
    """(settings, tensors) of every case that is there."""
    files = sorted(reference("packing").glob("pretrain_*.json"))
    assert files
    return [(json.loads(file.read_text()), load_file(file.with_suffix(".safetensors"))) for file in files]


def groups(case: dict, shards: str, rank: int = 0, ranks: int = 1) -> list[tuple[int, int, list]]:
    """(shard, row group, documents) that a rank reads, once through."""
    return [
        (shard, number, [np.array(case["documents_without_bos"][i], dtype=np.int32) for i in group])
        for shard in case[shards]
        for number, group in enumerate(case["shards_row_groups"][shard])
        if number % ranks == rank
    ]


def pack(case: dict, endless, expected: np.ndarray) -> np.ndarray:
    packing = Packing(
        endless,
        capacity=case["row_capacity"],
        buffer_size=case["buffer_size"],
        tokenizer_batch=case["tokenizer_batch_size"],
        bos=case["bos_token_id"],
    )
    rows = list(itertools.islice(packing, expected.shape[0] * expected.shape[1]))
    return np.stack(rows).reshape(expected.shape)


@pytest.mark.parametrize(
    ("name", "shards", "rank", "ranks"),
    [
        ("train_rows", "train_shards", 0, 1),
        ("val_rows", "val_shards", 0, 1),
        ("train_rows_rank0_of_2", "train_shards", 0, 2),
        ("train_rows_rank1_of_2", "train_shards", 1, 2),
    ],
)
def test_rows_are_those_of_nanochat(cases, name, shards, rank, ranks):
    for settings, tensors in cases:
        read = [documents for _, _, documents in groups(settings, shards, rank, ranks)]
        np.testing.assert_array_equal(pack(settings, itertools.cycle(read), tensors[name]), tensors[name])


def test_rows_after_a_resume_are_those_of_nanochat(cases):
    for settings, tensors in cases:
        read = groups(settings, "train_shards")
        state = settings["resumed_from_state"]
        place = next(i for i, (s, g, _) in enumerate(read) if (s, g) == (state["pq_idx"], state["rg_idx"]))
        rest = [documents for _, _, documents in read[place + 1 :]]
        again = itertools.chain(rest, itertools.cycle([documents for _, _, documents in read]))
        np.testing.assert_array_equal(pack(settings, again, tensors["resumed_rows"]), tensors["resumed_rows"])


def plain_rows(read: list[list[list[int]]], capacity: int, buffer_size: int, batch: int, bos: int) -> list[list[int]]:
    """The rule in its plainest form: a list that is searched through."""
    waiting = [group[i : i + batch] for group in read for i in range(0, len(group), batch)]
    buffer: list[list[int]] = []
    rows = []
    while True:
        row: list[int] = []
        while len(row) < capacity:
            while len(buffer) < buffer_size and waiting:
                buffer += [[bos, *document] for document in waiting.pop(0)]
            if not buffer:
                return rows
            fitting = [document for document in buffer if len(document) <= capacity - len(row)]
            chosen = max(fitting, key=len) if fitting else min(buffer, key=len)
            buffer.pop(next(i for i, document in enumerate(buffer) if document is chosen))
            row += chosen[: capacity - len(row)]
        rows.append(row)


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_one_shard_follow_the_plain_rule_to_the_last_document(seed):
    rng = np.random.default_rng(seed)
    read = [
        [rng.integers(1, 99, rng.integers(0, 60)).tolist() for _ in range(rng.integers(0, 40))]
        for _ in range(rng.integers(1, 5))
    ]
    capacity, buffer_size, batch = int(rng.integers(2, 90)), int(rng.integers(1, 50)), int(rng.integers(1, 20))
    packing = Packing(
        [[np.array(document, dtype=np.int32) for document in group] for group in read],
        capacity=capacity,
        buffer_size=buffer_size,
        tokenizer_batch=batch,
        bos=0,
    )
    rows = [row.tolist() for row in packing]
    assert rows == plain_rows(read, capacity, buffer_size, batch, 0)
    assert packing.documents == sum(map(len, read))
    assert packing.tokens_in == sum(len(document) + 1 for group in read for document in group)
    assert packing.tokens_in == packing.rows * capacity + packing.cropped + packing.left


def test_rows_longer_than_any_document_hold_several():
    packing = Packing(
        [[np.array([7, 8]), np.array([9])]], capacity=4, buffer_size=10, tokenizer_batch=10, bos=0, dtype=np.uint16
    )
    assert [row.tolist() for row in packing] == [[0, 7, 8, 0]]
    assert (packing.cropped, packing.left) == (1, 0)


def test_a_shard_without_a_whole_row_gives_none_and_counts_what_was_left():
    packing = Packing([[np.array([7, 8])]], capacity=9, buffer_size=10, tokenizer_batch=10, bos=0)
    assert list(packing) == []
    assert (packing.rows, packing.left) == (0, 3)


def test_batches_never_span_row_groups():
    assert list(tokenizer_batches([[1, 2, 3], [], [4, 5]], 2)) == [[1, 2], [3], [4, 5]]


def test_the_buffer_gives_the_first_of_equals():
    buffer: Buffer[str] = Buffer()
    for length, name in [(3, "a"), (2, "b"), (3, "c"), (2, "d")]:
        buffer.add(length, name)
    assert list(buffer) == ["a", "b", "c", "d"]
    assert buffer.longest(1) is None
    assert [buffer.longest(9), buffer.shortest(), buffer.longest(9), buffer.shortest()] == ["a", "b", "c", "d"]
    assert not len(buffer)
