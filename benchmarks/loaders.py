"""The loader's part of benchmarks/train.py: rows from a mapped file against tokenising and packing on the fly."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from turns import ratios, speeds

from xsa.data.packing import Packing
from xsa.data.parquet import documents
from xsa.data.rows import write_rows
from xsa.data.tokenizer import Tokenizer
from xsa.train.stream import STREAM_START, PretrainBatches, RowStream, chain

BUFFER, TOKENIZER_BATCH = 1000, 128  # nanochat's loader's defaults, and ours
Pair = tuple[torch.Tensor, torch.Tensor]
ROWS = 32  # rows of a batch
OURS, THEIRS = 50, 4  # batches in a turn; ours alone is too short to time, theirs differ in what they tokenise
MADE_UP_VOCAB = 1024  # the made-up text has too few words for more


def run_loaders(args: argparse.Namespace, shard: Path, packed: Path) -> None:
    """Pack `shard` into the file `packed`, then read batches of both loaders in turns and print tokens/s and ratio."""
    texts = [text for _, texts in documents(shard) for text in texts]
    tokenizer = Tokenizer.train(texts, args.vocab if args.text else MADE_UP_VOCAB)
    if args.against:
        name, theirs = "nanochat", nanochat_batches(tokenizer, ROWS, args.sequence_len, args.threads)
    else:
        plain = Plain(shard, tokenizer, args.threads)
        name, theirs = "plain loader", plain.batches(ROWS, args.sequence_len)
    started = time.perf_counter()
    pack(shard, tokenizer, args.sequence_len, args.threads, packed)
    seconds = time.perf_counter() - started
    rows = RowStream([packed], args.sequence_len, tokenizer.vocab_size)
    ours = PretrainBatches(rows, ROWS)
    tokens, whole = ROWS * args.sequence_len, len(rows) // ROWS
    print(
        f"loader, ours ahead: {tokens * whole:,} tokens in {seconds:.1f} s, {tokens * whole / seconds:,.0f} tokens/s, once"
    )
    for number in range(min(2, whole)):
        inputs, targets = (part.numpy() for part in next(theirs))
        mine = ours.read(number)
        assert np.array_equal(mine.inputs_RT, inputs) and np.array_equal(mine.targets_RT, targets), "other rows"
    times: list[tuple[float, float]] = []
    for turn in range(args.pairs):
        first = lambda turn=turn: read(ours, range(turn * OURS, (turn + 1) * OURS), whole)  # noqa: E731
        sides = [(first, OURS), (lambda: [next(theirs) for _ in range(THEIRS)], THEIRS)]
        found = [0.0, 0.0]
        for side in (0, 1) if turn % 2 else (1, 0):
            work, batches = sides[side]
            started = time.perf_counter()
            work()
            found[side] = (time.perf_counter() - started) / batches
        times.append((found[0], found[1]))
    seconds_ours, seconds_theirs = zip(*times, strict=True)
    speed = speeds(name, tokens, seconds_ours, seconds_theirs)
    print(f"loader by the clock, a batch{'':12s} {ratios(seconds_ours, seconds_theirs)}   {speed}")


def read(batches: PretrainBatches, numbers: range, whole: int) -> None:
    """What a training run does to have a batch and to hash the stream."""
    stream = STREAM_START
    for number in numbers:
        batch = batches.read(number % whole)
        torch.from_numpy(batch.inputs_RT), torch.from_numpy(batch.targets_RT)
        stream = chain(stream, batch.content)


class Plain:
    """Tokenise and pack on the fly in the plainest way: a list that is searched through for each document placed."""

    def __init__(self, shard: Path, tokenizer: Tokenizer, threads: int):
        self.shard, self.tokenizer, self.threads = shard, tokenizer, threads

    def batches(self, rows: int, sequence_len: int) -> Iterator[Pair]:
        waiting, buffer = self._documents(), []
        while True:
            out = np.empty((rows, sequence_len + 1), dtype=np.int64)
            for row in out:
                filled = 0
                while filled < len(row):
                    while len(buffer) < BUFFER:
                        buffer.extend(next(waiting))
                    room = len(row) - filled
                    fitting = [place for place, document in enumerate(buffer) if len(document) <= room]
                    if fitting:
                        place = max(fitting, key=lambda place: len(buffer[place]))
                    else:
                        place = min(range(len(buffer)), key=lambda place: len(buffer[place]))
                    document = buffer.pop(place)[:room]
                    row[filled : filled + len(document)] = document
                    filled += len(document)
            yield torch.from_numpy(out[:, :-1]), torch.from_numpy(out[:, 1:])

    def _documents(self) -> Iterator[list[list[int]]]:
        while True:
            for _, texts in documents(self.shard):
                for start in range(0, len(texts), TOKENIZER_BATCH):
                    ids = self.tokenizer.encode_batch(texts[start : start + TOKENIZER_BATCH], self.threads)
                    yield [[self.tokenizer.bos, *document] for document in ids]


def nanochat_batches(tokenizer: Tokenizer, rows: int, sequence_len: int, threads: int) -> Iterator[Pair]:
    """Batches of nanochat's own loader, from the shards under NANOCHAT_BASE_DIR, with our tokenizer's merges."""
    from nanochat.dataloader import tokenizing_distributed_data_loader_bos_bestfit as loader
    from nanochat.tokenizer import RustBPETokenizer

    theirs = RustBPETokenizer(tokenizer._encoding, "<|bos|>")
    settings = {"tokenizer_threads": threads, "tokenizer_batch_size": TOKENIZER_BATCH, "buffer_size": BUFFER}
    yield from loader(theirs, rows, sequence_len, "train", device="cpu", **settings)


def pack(shard: Path, tokenizer: Tokenizer, sequence_len: int, threads: int, path: Path) -> None:
    """What the stages tokens and rows do, once for all trainings."""
    by_group: dict[int, list[np.ndarray]] = {}
    for group, texts in documents(shard):
        ids = tokenizer.encode_batch(texts, threads)
        by_group.setdefault(group, []).extend(np.array(document, dtype=tokenizer.dtype) for document in ids)
    packing = Packing(
        by_group.values(),
        capacity=sequence_len + 1,
        buffer_size=BUFFER,
        tokenizer_batch=TOKENIZER_BATCH,
        bos=tokenizer.bos,
        dtype=tokenizer.dtype,
    )
    for _ in write_rows(path, packing, sequence_len + 1, tokenizer.dtype):
        pass
