"""The conversations of a fine-tuning, rendered and packed once, before the first step.

Packed ahead and to disk, the number of steps of an epoch is known from the start, every process reads the same bytes, and
step s reads batch s wherever a run was resumed. A mixture of nanochat's size takes some minutes and a few gigabytes.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xsa.data.chat import mixture
from xsa.data.conversation import render
from xsa.data.finetune_packing import ConversationPacking
from xsa.data.tokenizer import Tokenizer
from xsa.store.errors import UserError
from xsa.store.files import sha256_file, write_json
from xsa.store.progress import Progress
from xsa.study.stages import FinetuneStage
from xsa.train.stream import Batch

Render = Callable[[dict[str, Any]], tuple[list[int], list[int]]]


class PackedBatches:
    """Packed batches in `folder`: `batches.bin`, int32 [steps, 2, R, T] of inputs and targets, and `packed.json`."""

    def __init__(self, folder: Path, batch_rows: int, sequence_len: int):
        self.batch_rows, self.sequence_len = batch_rows, sequence_len
        self.packed: dict[str, Any] = json.loads((folder / "packed.json").read_text(encoding="utf-8"))
        self.steps: int = self.packed["steps"]
        shape = (self.steps, 2, batch_rows, sequence_len)
        self._batches = np.memmap(folder / "batches.bin", dtype="<i4", mode="r", shape=shape)

    def read(self, step: int) -> Batch:
        """Inputs and targets of one step; the hash covers both."""
        inputs_RT, targets_RT = self._batches[step].astype(np.int64)
        return Batch(inputs_RT, targets_RT, self._batches[step].tobytes())


def pack_ahead(
    folder: Path, settings: FinetuneStage, sets: Path, tokenizer: Tokenizer, T: int, progress: Progress
) -> None:
    """Pack the mixture into `folder` unless an earlier run did so: `settings.steps` batches, or one epoch of them.

    UserError where the mixture gives no token to learn.
    """
    if _whole(folder):
        return
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    conversations = mixture(settings.mixture, sets, settings.seed)
    for note in conversations.notes:
        progress.say(note)
    packing = _packing(conversations, settings, tokenizer, T)
    steps = 0
    with open(part / "batches.bin", "wb") as file:
        while packing.consumed < len(conversations) if settings.steps is None else steps < settings.steps:
            file.write(np.stack(packing.next_batch(settings.batch_rows)).astype("<i4").tobytes())
            steps += 1
            if settings.steps is None:
                done = min(packing.consumed, len(conversations))
                progress.step(done, len(conversations), unit="conversation", batches=steps)
            else:
                progress.step(steps, settings.steps, unit="batch")
        file.flush()
        os.fsync(file.fileno())
    counts = packing.counts
    if not counts["learned"]:
        raise UserError(
            f"the fine-tuning mixture gives nothing to learn: no token of an assistant in {counts['placed']:,} conversations "
            f"placed, {counts['truncated']:,} truncated to {T} tokens and {counts['dropped']:,} dropped. Give finetune.mixture "
            "sets whose assistants answer within a row, or train a model of longer sequences"
        )
    write_json(
        part / "packed.json",
        {
            "steps": steps,
            "conversations": len(conversations),
            "sizes": conversations.sizes,
            "notes": list(conversations.notes),
            "counts": counts,
            "sha256": sha256_file(part / "batches.bin"),
        },
    )
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(part, folder)


def held_out(settings: FinetuneStage, sets: Path, tokenizer: Tokenizer, T: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets, int64 (rows, T), of the mixture's test splits: one pass, at most as many rows as a step has.

    UserError where the sets have no test split with something to measure.
    """
    conversations = mixture(settings.mixture, sets, settings.seed, split="test")
    if not len(conversations):
        raise UserError("none of the mixture's sets has a test split")
    packing = _packing(conversations, settings, tokenizer, T)
    rows = []
    while len(rows) < settings.batch_rows and packing.consumed < len(conversations):
        rows.append(packing.next_batch(1))
    inputs, targets = (np.concatenate(parts).astype(np.int64) for parts in zip(*rows, strict=True))
    if not (tokenizer.token_bytes[targets[targets >= 0]] > 0).any():
        raise UserError("the test splits have no assistant's words")
    return inputs, targets


def _packing(conversations: Sequence, settings: FinetuneStage, tokenizer: Tokenizer, T: int) -> ConversationPacking:
    return ConversationPacking(
        conversations,
        _rendering(tokenizer),
        sequence_len=T,
        buffer_size=settings.buffer_size,
        bos=tokenizer.bos,
        overlong=settings.overlong,
    )


def _rendering(tokenizer: Tokenizer) -> Render:
    """Rendering that says which conversation was not of the known form."""

    def rendered(conversation: dict[str, Any]) -> tuple[list[int], list[int]]:
        try:
            return render(tokenizer, conversation, max_tokens=None)
        except (ValueError, KeyError, TypeError) as error:
            text = json.dumps(conversation, ensure_ascii=False)[:120]
            raise UserError(
                f"a conversation of the fine-tuning mixture cannot be used ({error}); it begins {text}"
            ) from None

    return rendered


def _whole(folder: Path) -> bool:
    """True where an earlier run finished packing and the file has kept its hash."""
    try:
        packed = json.loads((folder / "packed.json").read_text(encoding="utf-8"))
        return sha256_file(folder / "batches.bin") == packed["sha256"]
    except (OSError, ValueError, KeyError):
        return False
