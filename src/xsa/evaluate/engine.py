"""Greedy answers to many prompts at once, with the calculator at hand.

A row ends at the token that ends the assistant's turn, at BOS, or after `max_new_tokens`. Between python_start and
python_end its tokens are an expression; when that has a value (`xsa.evaluate.calculator`), the tokens output_start, the
value's text and output_end are put in place of what the model says next, and count as not sampled. A row that has
ended leaves the batch and a waiting prompt takes its place, so that nothing is computed that is not still to be said.

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

AHEAD = 8  # prompts that are read together, before their places are free


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
    """What gives logits: a model with its cache, or a script in its place. It holds a batch of `width` rows."""

    def read(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Logits (n, V) after each prompt. The prompts wait beside the batch, in the place of those read before."""
        ...

    def put(self, places: Sequence[int], waiting: Sequence[int]) -> None:
        """Give these places of the batch to waiting prompts, by their number in the last `read`."""
        ...

    def keep(self, places: Sequence[int]) -> None:
        """Make the batch smaller: these places stay, in this order."""
        ...

    def go_on(self, tokens: Sequence[int]) -> Tensor:
        """Logits (B, V) after one more token for each row of the batch."""
        ...


class Cached:
    """A model as a source: prompts are read once, then each token alone. `max_len`: tokens of the longest row."""

    def __init__(self, model: NanoChat, width: int, max_len: int):
        self.model, self.max_len = model, max_len
        self.device = next(model.parameters()).device
        self.cache = self._empty(width)

    def _empty(self, rows: int) -> KVCache:
        return KVCache(self.model.config, rows, self.max_len, self.device, self.model.compute_dtype)

    def read(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        lengths = [len(prompt) for prompt in prompts]
        longest = max(lengths)
        tokens_BT = torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts], device=self.device)
        self.waiting = self._empty(len(prompts))
        h_BTD = self.model.hidden(tokens_BT, cache=self.waiting, lengths=lengths)
        last_B = torch.tensor(lengths, device=self.device) - 1
        return self.model.logits(h_BTD[torch.arange(len(prompts), device=self.device), last_B])

    def put(self, places: Sequence[int], waiting: Sequence[int]) -> None:
        self.cache.put(places, self.waiting, waiting)

    def keep(self, places: Sequence[int]) -> None:
        self.cache = self.cache.select(places)

    def go_on(self, tokens: Sequence[int]) -> Tensor:
        tokens_B1 = torch.tensor(tokens, device=self.device)[:, None]
        return self.model.logits(self.model.hidden(tokens_B1, cache=self.cache)[:, -1])


class _Row:
    """One row's state: what it has said, the expression it is in, what the tool still has to say."""

    def __init__(self, tool: Tool, max_new_tokens: int):
        self.tool, self.max_new_tokens = tool, max_new_tokens
        self.answer = Answer()
        self.expression: list[int] | None = None
        self.forced: deque[int] = deque()

    def take(self, token: int) -> int | None:
        """The next token given the sampled one (the tool's goes first), or None where the row ends."""
        marks, sampled = self.tool.marks, not self.forced
        if not sampled:
            token = self.forced.popleft()
        if token in (marks.assistant_end, marks.bos):
            self.answer.ended = "bos" if token == marks.bos else "assistant_end"
            return None
        self.answer.ids.append(token)
        self.answer.sampled.append(sampled)
        if token == marks.python_start:
            self.expression = []
        elif token == marks.python_end:
            self.forced.extend(self.tool.call(self.expression))
            self.expression = None
        elif self.expression is not None:
            self.expression.append(token)
        return token if len(self.answer.ids) < self.max_new_tokens else None


@dataclass(frozen=True)
class Tool:
    """The calculator, in tokens."""

    marks: Marks
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]

    def call(self, expression: list[int] | None) -> list[int]:
        """What is put into the answer after an expression: nothing where it has no value."""
        value = calculate(self.decode(expression)) if expression else None
        if value is None:
            return []
        return [self.marks.output_start, *self.encode(str(value)), self.marks.output_end]


class Batch:
    """Up to `width` rows that say their answers at once: the likeliest token each time, of equal ones the lowest id.

    It is full while prompts wait: a row that ends gives its place to the next, and when none waits, the batch shrinks.
    Prompts are read in groups of `AHEAD`, in the given order. done(n) is called as rows end.
    """

    def __init__(
        self,
        source: Source,
        tool: Tool,
        prompts: Sequence[Sequence[int]],
        width: int,
        max_new_tokens: int,
        done: Callable[[int], None] = lambda count: None,
    ):
        self.source, self.prompts, self.done = source, prompts, done
        self._rows = [_Row(tool, max_new_tokens) for _ in prompts]
        self._unread = deque(range(len(prompts)))
        self._ready: deque[tuple[int, int, int]] = deque()  # number in the group that was read, row, its next token
        self._living: list[int] = [0] * width  # the row at each place
        self._next: list[int | None] = [None] * width  # its next token; None for a free place
        self._ended = 0

    @torch.no_grad()
    def answers(self) -> list[Answer]:
        """All answers, in the order of the prompts."""
        while True:
            self._fill()
            if not self._next:
                return [row.answer for row in self._rows]
            logits_BV = self.source.go_on(self._next)
            self._next = [
                self._take(row, token) for row, token in zip(self._living, logits_BV.argmax(-1).tolist(), strict=True)
            ]

    def _take(self, row: int, token: int) -> int | None:
        taken = self._rows[row].take(token)
        if taken is None:
            self._ended += 1
            self.done(self._ended)
        return taken

    def _fill(self) -> None:
        """Give free places to prompts that wait; where none does, take the places away."""
        free = [place for place, token in enumerate(self._next) if token is None]
        while free and (self._ready or self._unread):
            if not self._ready:
                self._read()
            moved = [(place, *self._ready.popleft()) for place in free[: len(self._ready)]]
            free = free[len(moved) :]
            if moved:
                self.source.put([place for place, *_ in moved], [number for _, number, *_ in moved])
            for place, _, row, token in moved:
                self._living[place], self._next[place] = row, token
        if free:
            stay = [place for place, token in enumerate(self._next) if token is not None]
            self._living, self._next = ([held[place] for place in stay] for held in (self._living, self._next))
            if stay:
                self.source.keep(stay)

    def _read(self) -> None:
        group = [self._unread.popleft() for _ in range(min(AHEAD, len(self._unread)))]
        first = self.source.read([self.prompts[row] for row in group]).argmax(-1).tolist()
        for number, (row, token) in enumerate(zip(group, first, strict=True)):
            taken = self._take(row, token)
            if taken is not None:  # else its first token has ended it
                self._ready.append((number, row, taken))


def answer_all(
    model: NanoChat,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    budget: int,
    done: Callable[[int], None] = lambda count: None,
) -> list[Answer]:
    """The answers to any number of prompts. The batch has as many rows as `budget` tokens hold with their answers, or one."""
    if not prompts:
        return []
    # The longest first: memory is known from the start, and prompts that are read together are of like length.
    order = sorted(range(len(prompts)), key=lambda number: (-len(prompts[number]), number))
    max_len = len(prompts[order[0]]) + max_new_tokens
    width = min(len(prompts), max(1, budget // max_len))
    tool = Tool(Marks.of(tokenizer), tokenizer.encode, tokenizer.decode)
    source = Cached(model, width, max_len)
    said = Batch(source, tool, [prompts[number] for number in order], width, max_new_tokens, done).answers()
    return [answer for _, answer in sorted(zip(order, said, strict=True), key=lambda pair: pair[0])]
