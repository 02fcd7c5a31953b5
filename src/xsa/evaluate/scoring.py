"""Losses of the scored spans of many prompts, with as little work as they need.

What makes it fast, against one item at a time:
- the tokens that all options of an item share are run once, and options branch off them (`xsa.model.packed`);
- items of like length go through the model together, laid end to end, so that nothing is padded;
- the last layer and the output head, which at 32,768 entries costs as much as many layers, run at scored positions alone;
- equal options are scored once (which also makes them tie exactly);
- results stay on the device until the next prompts are under way.

Axes: A positions whose logits are needed, M scored tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from xsa.evaluate.core_prompts import Prompt, common_prefix
from xsa.model.nanochat import NanoChat
from xsa.model.packed import Packed, Tree, to_device

HEAD = {"cpu": 2**22, "cuda": 2**27}  # logits that exist at one time
CACHED = 2048  # tokens of a batch on a CPU; with more, its caches no longer hold a layer's activations


@dataclass(frozen=True)
class Score:
    """An item's outcome. `losses` are mean nats over each option's span; `prediction` is None for language modelling."""

    index: int
    losses: tuple[float, ...]
    prediction: int | None
    correct: bool


@dataclass(frozen=True)
class _Work:
    """Options of one prompt that are run together, and what is read off: token `targets[m]` at the tree's output `at[m]`.

    Targets follow one another option by option, `counts` of them each.
    """

    place: int  # of the prompt
    options: tuple[int, ...]
    tree: Tree
    at: tuple[int, ...]
    targets: tuple[int, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Pending:
    """Scores that the device may still be at work on; only `collect` waits for it."""

    prompts: Sequence[Prompt]
    works: list[_Work]
    losses: list[Tensor]
    hits: list[Tensor]

    def collect(self) -> list[Score]:
        """The outcome of each prompt, in the order in which they were given. Of equal losses the first option wins."""
        losses_M, hits_M = torch.cat(self.losses).cpu().numpy(), torch.cat(self.hits).cpu().numpy()
        counts = [count for work in self.works for count in work.counts]
        begins = np.cumsum([0, *counts[:-1]])
        means = np.add.reduceat(losses_M, begins) / counts
        exact = np.logical_and.reduceat(hits_M, begins)
        owners = [(work.place, option) for work in self.works for option in work.options]
        results = dict(zip(owners, zip(means.tolist(), exact.tolist(), strict=True), strict=True))
        return [
            _outcome(prompt, [results[place, option] for option in _alike(prompt)])
            for place, prompt in enumerate(self.prompts)
        ]


def token_budget(sequence_len: int, micro_batch: int | None, device: str) -> int:
    """Tokens that a batch may have: `micro_batch` full rows where that is set, else what a small machine or GPU holds."""
    if micro_batch is not None:
        return micro_batch * sequence_len
    return 32768 if device.startswith("cuda") else 8192


def score(model: NanoChat, prompts: Sequence[Prompt], budget: int) -> list[Score]:
    """The outcome of each prompt, in the given order; `launch` says how."""
    return launch(model, prompts, budget).collect()


@torch.no_grad()
def launch(model: NanoChat, prompts: Sequence[Prompt], budget: int) -> Pending:
    """Set the model to work on the prompts, and do not wait for it.

    budget: the most tokens of a batch, attention's padding included. The options of an item that has more are run in
    several parts; only a single option that is longer exceeds it, and is run alone. What an item scores does not depend on
    what else is in its batch, up to rounding (about 1e-6 of a loss in float32, 1e-2 in bfloat16, which can turn a
    prediction whose margin is no larger).
    """
    device = model.resid_lambdas.device
    budget = min(budget, CACHED) if device.type == "cpu" else budget
    pending = Pending(prompts, [], [], [])
    works = [work for place, prompt in enumerate(prompts) for work in _works(prompt, place, budget)]
    for batch in _batches(works, budget):
        packed = Packed([work.tree for work in batch], device)
        h_AD = model.hidden(packed.tokens_1N, packed=packed)[0]
        firsts = np.cumsum([0, *(len(work.tree.asked) for work in batch[:-1])])
        at_M = np.concatenate([np.asarray(work.at) + first for work, first in zip(batch, firsts, strict=True)])
        targets_M = np.concatenate([work.targets for work in batch])
        of_language = any(prompts[work.place].gold is None for work in batch)
        losses_M, hits_M = token_losses(model, h_AD, at_M, targets_M, of_language)
        pending.works.extend(batch)
        pending.losses.append(losses_M)
        pending.hits.append(hits_M)
    return pending


def _alike(prompt: Prompt) -> list[int]:
    """For each option, the first that has the same tokens and span."""
    first: dict[tuple, int] = {}
    keys = zip(prompt.options, prompt.starts, strict=True)
    return [first.setdefault(key, number) for number, key in enumerate(keys)]


def _works(prompt: Prompt, place: int, budget: int) -> Iterator[_Work]:
    """The prompt's distinct options, in as few parts as the budget allows."""
    options = sorted(set(_alike(prompt)))
    stem = common_prefix([prompt.options[option] for option in options])
    part: list[int] = []
    size = stem
    for option in options:
        more = max(0, prompt.ends[option] - 1 - stem)
        if part and size + more > budget:
            yield _work(prompt, place, part)
            part, size = [], stem
        part.append(option)
        size += more
    yield _work(prompt, place, part)


def _work(prompt: Prompt, place: int, options: Sequence[int]) -> _Work:
    ids = [prompt.options[option] for option in options]
    # An option's last token is only ever a target; unless another goes on from it, it is not run.
    stem = common_prefix(ids) if len(ids) > 1 else len(ids[0]) - 1
    branches = [option[stem:-1] for option in ids]
    asked: dict[int, int] = {}
    at, targets, counts, begin = [], [], [], stem
    for option, tokens, branch in zip(options, ids, branches, strict=True):
        start, end = prompt.starts[option], prompt.ends[option]
        for position in range(start - 1, end - 1):  # the token before a target predicts it
            where = position if position < stem else begin + position - stem
            at.append(asked.setdefault(where, len(asked)))
        targets += tokens[start:end]
        counts.append(end - start)
        begin += len(branch)
    tree = Tree(ids[0][:stem], branches, tuple(asked))
    return _Work(place, tuple(options), tree, tuple(at), tuple(targets), tuple(counts))


def _batches(works: Sequence[_Work], budget: int) -> Iterator[list[_Work]]:
    """Works of like length together, the longest first so that too large a budget fails at once."""
    batch: list[_Work] = []
    stem = rest = 0
    for work in sorted(works, key=lambda work: (-len(work.tree.stem), -work.tree.tokens, work.place)):
        length = len(work.tree.stem)
        longest = max(stem, length), max(rest, work.tree.tokens - length)
        if batch and (len(batch) + 1) * sum(longest) > budget:
            yield batch
            batch, longest = [], (length, work.tree.tokens - length)
        batch.append(work)
        stem, rest = longest
    if batch:
        yield batch


def token_losses(
    model: NanoChat, h_AD: Tensor, at_M: np.ndarray, targets_M: np.ndarray, exact: bool
) -> tuple[Tensor, Tensor]:
    """Of each scored token: its cross-entropy in nats (float64) at the position `at_M`, and whether it is the argmax there.

    Where `exact` is false nobody asks for the argmax, and it is not looked for.
    """
    order = np.argsort(at_M, kind="stable")
    chunk = max(1, HEAD[h_AD.device.type] // model.config.vocab_size)
    edges = np.searchsorted(at_M[order], range(0, len(h_AD) + chunk, chunk))
    at, targets, back = to_device([at_M[order], targets_M[order], np.argsort(order)], h_AD.device)
    losses, hits = [], []
    for number, (first, last) in enumerate(pairwise(edges.tolist())):
        logits_AV = model.logits(h_AD[number * chunk : (number + 1) * chunk])
        rows, columns = at[first:last] - number * chunk, targets[first:last]
        losses.append((logits_AV.logsumexp(-1)[rows] - logits_AV[rows, columns]).double())
        if exact:
            hits.append(logits_AV.argmax(-1)[rows] == columns)
    losses_M = torch.cat(losses)[back]
    return losses_M, torch.cat(hits)[back] if exact else torch.zeros_like(losses_M, dtype=torch.bool)


def _outcome(prompt: Prompt, options: Sequence[tuple[float, bool]]) -> Score:
    losses = tuple(loss for loss, _ in options)
    if prompt.gold is None:
        return Score(prompt.index, losses, None, options[0][1])
    prediction = losses.index(min(losses))
    return Score(prompt.index, losses, prediction, prediction == prompt.gold)
