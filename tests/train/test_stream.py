"""Step s reads rows [s·R, (s+1)·R) of the files in their order, whatever else; and what it reads is checked."""

from __future__ import annotations

import hashlib
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from xsa.store.errors import UserError
from xsa.train.stream import STREAM_START, PretrainBatches, RowStream, chain


@pytest.fixture
def paths(results):
    """Three files of 5, 1 and 6 rows."""
    return [results.rows(count, seed=count) / "rows.arrow" for count in (5, 1, 6)]


def test_a_step_reads_its_rows_across_files(paths):
    stream = RowStream(paths, 32, 265)
    rows_RT = np.concatenate(
        [RowStream([path], 32, 265).take(0, count) for path, count in zip(paths, (5, 1, 6), strict=True)]
    )
    batches = PretrainBatches(stream, 4)
    for step in (2, 0, 1):
        batch = batches.read(step)
        expected = rows_RT[4 * step : 4 * step + 4]
        assert np.array_equal(batch.inputs_RT, expected[:, :-1]) and np.array_equal(batch.targets_RT, expected[:, 1:])
        assert batch.content == expected.astype("<u4").tobytes()


def test_order_of_files_is_order_of_rows(paths):
    first, last = RowStream(paths, 32, 265).take(0, 12), RowStream(paths[::-1], 32, 265).take(0, 12)
    assert np.array_equal(first[:5], last[-5:]) and not np.array_equal(first, last)


def test_an_id_outside_the_vocabulary_is_refused(paths):
    with pytest.raises(UserError, match=r"token id \d+, but the model's vocabulary ends at 99"):
        RowStream(paths, 32, 100).take(0, 2)


def test_the_chain_depends_on_content_and_order():
    a = chain(chain(STREAM_START, b"one"), b"two")
    assert a == hashlib.sha256(hashlib.sha256(bytes(32) + b"one").digest() + b"two").hexdigest()
    assert a != chain(chain(STREAM_START, b"two"), b"one")


def test_reading_holds_no_more_than_a_few_batches_whatever_the_size_of_the_corpus(results):
    peaks = {}
    for count in (64, 16_384):
        stream = RowStream([results.rows(count, seed=1, sequence_len=256) / "rows.arrow"], 256, 265)
        batches, before = PretrainBatches(stream, 16), pa.total_allocated_bytes()
        tracemalloc.start()
        for step in range(count // 16):
            batch = batches.read(step)
        peaks[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert pa.total_allocated_bytes() == before, "pages of the file, no copies"
    one = batch.inputs_RT.nbytes + len(batch.content)
    assert peaks[16_384] < min(4 * one, 1.5 * peaks[64])
