"""Losses of the scored spans of many prompts, with as little work as they need.

What makes it fast, against one item at a time:
- the tokens that all options of an item share are run once, and their keys and values are reused for each option;
- items of like length go through the model together;
- only scored positions go through the output head, which at 32,768 entries costs as much as many layers;
- equal options are scored once (which also makes them tie exactly).

Axes: B rows, T tokens, D width, N scored positions of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xsa.evaluate.core_prompts import Prompt, common_prefix
from xsa.model.cache import KVCache
from xsa.model.nanochat import NanoChat

MIN_SHARED = 16  # a shorter common context is not worth a pass of its own
HEAD_POSITIONS = 1024  # positions whose logits exist at one time


@dataclass(frozen=True)
class Score:
    """An item's outcome. `losses` are mean nats over each option's span; `prediction` is None for language modelling."""

    index: int
    losses: tuple[float, ...]
    prediction: int | None
    correct: bool


@dataclass(frozen=True)
class _Work:
    """An item's distinct options, and how many leading tokens are run once for all of them (0: none)."""

    prompt: Prompt
    distinct: tuple[int, ...]  # option numbers
    same_as: tuple[int, ...]  # for each option, its place in `distinct`
    shared: int

    @property
    def rows(self) -> int:
        return len(self.distinct)

    @property
    def length(self) -> int:
        """Tokens of the longest option that are run; the last one only ever is a target."""
        return max(self.prompt.ends) - 1


def token_budget(sequence_len: int, micro_batch: int | None, device: str) -> int:
    """Tokens that a batch may have: `micro_batch` full rows where that is set, else what a small machine or GPU holds."""
    if micro_batch is not None:
        return micro_batch * sequence_len
    return 32768 if device.startswith("cuda") else 8192


@torch.no_grad()
def score(model: NanoChat, prompts: Sequence[Prompt], budget: int) -> list[Score]:
    """The outcome of each prompt, in the given order.

    budget: tokens of a batch, padding included; a single item may exceed it. What an item scores does not depend on
    what else is in its batch, up to rounding (about 1e-6 of a loss in float32, 1e-2 in bfloat16, which can turn a
    prediction whose margin is no larger). Of equal losses the first option wins.
    """
    scores = {}
    for batch in _batches([_work(prompt) for prompt in prompts], budget):
        run = _run_shared if batch[0].shared else _run_whole
        for work, losses, hits in zip(batch, *run(model, batch), strict=True):
            scores[work.prompt.index] = _outcome(work, losses, hits)
    return [scores[prompt.index] for prompt in prompts]


def _work(prompt: Prompt) -> _Work:
    places: dict[tuple, int] = {}
    for option, start in zip(prompt.options, prompt.starts, strict=True):
        places.setdefault((option, start), len(places))
    same_as = tuple(places[key] for key in zip(prompt.options, prompt.starts, strict=True))
    distinct = tuple(same_as.index(place) for place in range(len(places)))
    options = [prompt.options[number] for number in distinct]
    # The token before a span is what predicts its first, so it has to be run with the span.
    shared = min(common_prefix(options), min(prompt.starts) - 1) if len(options) > 1 else 0
    return _Work(prompt, distinct, same_as, shared if shared >= MIN_SHARED else 0)


def _batches(works: Sequence[_Work], budget: int) -> Iterator[list[_Work]]:
    """Works of like length together, the longest first so that too large a budget fails at once."""
    batch: list[_Work] = []
    rows = 0
    for work in sorted(works, key=lambda work: (work.shared > 0, -work.length, work.prompt.index)):
        fits = batch and (work.shared > 0) == (batch[0].shared > 0) and (rows + work.rows) * batch[0].length <= budget
        if not fits and batch:
            yield batch
            batch, rows = [], 0
        batch.append(work)
        rows += work.rows
    if batch:
        yield batch


def _run_whole(model: NanoChat, batch: Sequence[_Work]):
    rows = [work.prompt.options[number][:-1] for work in batch for number in work.distinct]
    return _spans(model, batch, model.hidden(_padded(rows, model)))


def _run_shared(model: NanoChat, batch: Sequence[_Work]):
    contexts = [work.prompt.options[0][: work.shared] for work in batch]
    rests = [work.prompt.options[number][work.shared : -1] for work in batch for number in work.distinct]
    device = next(model.parameters()).device
    longest = max(map(len, contexts)) + max(map(len, rests))
    cache = KVCache(model.config, len(batch), longest, device, model.compute_dtype)
    model.hidden(_padded(contexts, model), cache=cache, lengths=[len(context) for context in contexts])
    cache = cache.select([place for place, work in enumerate(batch) for _ in work.distinct])
    rests_BT = _padded(rests, model)
    return _spans(model, batch, model.hidden(rests_BT, cache=cache, lengths=[len(rest) for rest in rests]))


def _spans(model: NanoChat, batch: Sequence[_Work], h_BTD: Tensor) -> tuple[list[list[float]], list[list[bool]]]:
    """For each work and each of its distinct options: mean loss of the span, and whether every argmax is right.

    h_BTD stands at the tokens from `shared` on.
    """
    rows, places, targets, counts = [], [], [], []
    for work in batch:
        for number in work.distinct:
            start, end = work.prompt.starts[number], work.prompt.ends[number]
            rows += [len(counts)] * (end - start)
            places += range(start - 1 - work.shared, end - 1 - work.shared)
            targets += work.prompt.options[number][start:end]
            counts.append(end - start)
    losses_N, hits_N = token_losses(model, h_BTD[rows, places], torch.tensor(targets, device=h_BTD.device))
    begins = np.cumsum([0, *counts[:-1]])
    means = iter(np.add.reduceat(losses_N, begins) / counts)
    right = iter(np.logical_and.reduceat(hits_N, begins))
    return (
        [[float(next(means)) for _ in work.distinct] for work in batch],
        [[bool(next(right)) for _ in work.distinct] for work in batch],
    )


def token_losses(model: NanoChat, h_ND: Tensor, targets_N: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Cross-entropy of each position in nats (float64), and whether its argmax is the target."""
    losses, hits = [], []
    for h, targets in zip(h_ND.split(HEAD_POSITIONS), targets_N.split(HEAD_POSITIONS), strict=True):
        logits_NV = model.logits(h)
        losses.append(torch.nn.functional.cross_entropy(logits_NV, targets, reduction="none").double())
        hits.append(logits_NV.argmax(-1) == targets)
    return torch.cat(losses).cpu().numpy(), torch.cat(hits).cpu().numpy()


def _outcome(work: _Work, losses: Sequence[float], hits: Sequence[bool]) -> Score:
    gold = work.prompt.gold
    every = tuple(losses[place] for place in work.same_as)
    if gold is None:
        return Score(work.prompt.index, every, None, hits[0])
    prediction = every.index(min(every))
    return Score(work.prompt.index, every, prediction, prediction == gold)


def _padded(rows: Iterable[Sequence[int]], model: NanoChat) -> Tensor:
    """Rows padded on the right with token 0; causal attention keeps padding out of what is read."""
    rows = list(rows)
    tokens_BT = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    for place, row in enumerate(rows):
        tokens_BT[place, : len(row)] = row
    return torch.from_numpy(tokens_BT).to(next(model.parameters()).device)
