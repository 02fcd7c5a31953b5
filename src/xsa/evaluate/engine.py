"""Greedy answers to many prompts at once, with the calculator at hand.

A row ends at the token that ends the assistant's turn, at BOS, or after `max_new_tokens`. Between python_start and
python_end its tokens are an expression; when that has a value (`xsa.evaluate.calculator`), the tokens output_start, the
value's text and output_end are put in place of what the model says next, and count as not sampled. A row that has
ended leaves the batch, so that the batch is never larger than what is still to be said.

The state machine is nanochat's at commit dc54a1a: python_start inside a block begins the block anew, python_end
outside of one means nothing, an ended row never calls the tool.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from xsa.data.tokenizer import Tokenizer
from xsa.evaluate.calculator import calculate
from xsa.model.cache import KVCache
from xsa.model.nanochat import NanoChat


@dataclass(frozen=True)
class Marks:
    """The special tokens that the engine acts on."""

    bos: int
    assistant_end: int
    python_start: int
    python_end: int
    output_start: int
    output_end: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Marks:
        names = ("assistant_end", "python_start", "python_end", "output_start", "output_end")
        return cls(tokenizer.bos, *(tokenizer.special(f"<|{name}|>") for name in names))


@dataclass
class Answer:
    """What a row said. `sampled[i]` is False where token i was put there by the tool; `ids` has no end token.

    ended: "assistant_end", "bos", or "limit" where the answer was cut at `max_new_tokens`.
    """

    ids: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    ended: str = "limit"


class Source(Protocol):
    """What gives logits: a model with its cache, or a script in its place."""

    def start(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Logits (B, V) after each prompt."""
        ...

    def go_on(self, rows: Sequence[int], tokens: Sequence[int]) -> Tensor:
        """Logits after one more token each of the rows that go on; `rows` are places in the current batch."""
        ...


class Cached:
    """A model as a source: prompts are read once, then each token alone."""

    def __init__(self, model: NanoChat, max_new_tokens: int):
        self.model, self.room = model, max_new_tokens
        self.device = next(model.parameters()).device

    def start(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        lengths = [len(prompt) for prompt in prompts]
        longest = max(lengths)
        tokens_BT = torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts], device=self.device)
        self.cache = KVCache(
            self.model.config, len(prompts), longest + self.room, self.device, self.model.compute_dtype
        )
        h_BTD = self.model.hidden(tokens_BT, cache=self.cache, lengths=lengths)
        last_B = torch.tensor(lengths, device=self.device) - 1
        return self.model.logits(h_BTD[torch.arange(len(prompts), device=self.device), last_B])

    def go_on(self, rows: Sequence[int], tokens: Sequence[int]) -> Tensor:
        if len(rows) < self.cache.batch:
            self.cache = self.cache.select(rows)
        return self.model.logits(
            self.model.hidden(torch.tensor(tokens, device=self.device)[:, None], cache=self.cache)[:, -1]
        )


class _Row:
    """One row's state: what it has said, the expression it is in, what the tool still has to say."""

    def __init__(self, marks: Marks, encode: Callable[[str], list[int]], decode: Callable[[list[int]], str]):
        self.marks, self.encode, self.decode = marks, encode, decode
        self.answer = Answer()
        self.expression: list[int] | None = None
        self.forced: deque[int] = deque()

    def take(self, token: int) -> int | None:
        """The next token given the sampled one (the tool's goes first), or None where it ends the row."""
        sampled = not self.forced
        if not sampled:
            token = self.forced.popleft()
        if token in (self.marks.assistant_end, self.marks.bos):
            self.answer.ended = "bos" if token == self.marks.bos else "assistant_end"
            return None
        self.answer.ids.append(token)
        self.answer.sampled.append(sampled)
        if token == self.marks.python_start:
            self.expression = []
        elif token == self.marks.python_end:
            self._call(self.expression)
            self.expression = None
        elif self.expression is not None:
            self.expression.append(token)
        return token

    def _call(self, expression: list[int] | None) -> None:
        value = calculate(self.decode(expression)) if expression else None
        if value is not None:
            self.forced.extend([self.marks.output_start, *self.encode(str(value)), self.marks.output_end])


@torch.no_grad()
def answer(
    source: Source,
    marks: Marks,
    encode: Callable[[str], list[int]],
    decode: Callable[[list[int]], str],
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
) -> list[Answer]:
    """The answers to one batch of prompts: the likeliest token each time, of equal ones the lowest id."""
    rows = [_Row(marks, encode, decode) for _ in prompts]
    living = list(range(len(prompts)))
    logits_BV = source.start(prompts)
    for step in range(max_new_tokens):
        taken = [rows[row].take(token) for row, token in zip(living, logits_BV.argmax(-1).tolist(), strict=True)]
        stay = [place for place, token in enumerate(taken) if token is not None]
        if not stay or step == max_new_tokens - 1:
            break
        living = [living[place] for place in stay]
        logits_BV = source.go_on(stay, [taken[place] for place in stay])
    return [row.answer for row in rows]


def answer_all(
    model: NanoChat,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    budget: int,
    done: Callable[[int], None] = lambda count: None,
) -> list[Answer]:
    """The answers to any number of prompts, in batches of like length and at most `budget` tokens with their answers.

    done: called after each batch with the number of prompts answered so far.
    """
    marks = Marks.of(tokenizer)
    answers: list[Answer] = [Answer() for _ in prompts]
    order = sorted(range(len(prompts)), key=lambda number: (-len(prompts[number]), number))
    at = 0
    while at < len(order):
        rows = max(1, budget // (len(prompts[order[at]]) + max_new_tokens))
        batch = order[at : at + rows]
        said = answer(
            Cached(model, max_new_tokens),
            marks,
            tokenizer.encode,
            tokenizer.decode,
            [prompts[number] for number in batch],
            max_new_tokens,
        )
        for number, one in zip(batch, said, strict=True):
            answers[number] = one
        at += len(batch)
        done(at)
    return answers
