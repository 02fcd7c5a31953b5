"""The conversations that fine-tuning reads: several sets, each as often as the settings say, in one shuffled order."""

from __future__ import annotations

import random
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from xsa.data.chat import gsm8k, identity, mmlu, smoltalk, spellingbee
from xsa.data.chat.items import Conversation
from xsa.store.errors import UserError
from xsa.store.record import read_record
from xsa.study.settings import MixtureItem

# Sizes of the generated sets in nanochat's mixture, for an entry without a limit.
GENERATED = {"simplespelling": 200_000, "spellingbee": 80_000}
# Training rows of the published sets (of SmolTalk the thousands that nanochat states).
PUBLISHED = {"smoltalk": 460_000, "identity": 1000, "mmlu": 99_842, "gsm8k": 7473}


class Mixture(Sequence[Conversation]):
    """One epoch. `mixture[i]` reads or makes conversation i of the shuffled order.

    sizes: conversations by set, repeats included. notes: sentences on sets that are not the published ones.
    """

    def __init__(self, parts: list[tuple[str, Sequence[Conversation], int, int]], seed: int, notes: list[str]):
        self.notes = notes
        self.sizes: dict[str, int] = {}
        self._sets: list[Sequence[Conversation]] = []
        self._starts = [0]
        for name, rows, size, repeat in parts:
            self.sizes[name] = self.sizes.get(name, 0) + size * repeat
            for _ in range(repeat):
                self._sets.append(rows)
                self._starts.append(self._starts[-1] + size)
        # The standard library's shuffle, for its order has stayed the same over versions; numpy promises no such thing.
        order = list(range(self._starts[-1]))
        random.Random(seed).shuffle(order)
        self._order = array("l", order)

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> Conversation:
        place = self._order[index]
        number = bisect_right(self._starts, place) - 1
        return self._sets[number][place - self._starts[number]]


def mixture(items: Sequence[MixtureItem], folder: Path, seed: int, split: str = "train") -> Mixture:
    """The mixture of `items` in an order that `seed` decides; `folder` is the result of the stage `chatsets`.

    split: `test` gives the sets' test rows instead, for watching a fine-tuning; sets without such are left out there.
    Raises UserError for a set that is missing, and on access for a row that is not as its schema says.
    """
    parts, notes = [], []
    for item in items:
        rows = _rows(item, folder, split)
        if rows is None:
            continue
        parts.append((item.set, rows, min(item.limit or len(rows), len(rows)), item.repeat))
        published = PUBLISHED.get(item.set, 0)
        if split == "train" and len(rows) < published and not _made_up(folder):
            notes.append(f"{item.set} is partial: {len(rows):,} conversations, {published:,} are published")
    return Mixture(parts, seed, notes)


def _made_up(folder: Path) -> bool:
    """True where the sets are the built-in ones, of which no other size is published."""
    try:
        return read_record(folder)["recipe"]["settings"]["kind"] == "builtin"
    except (UserError, KeyError, TypeError):
        return False


def _rows(item: MixtureItem, folder: Path, split: str) -> Sequence[Conversation] | None:
    if item.set == "identity":
        return identity.conversations(folder) if split == "train" else None
    if item.set in GENERATED:
        make = spellingbee.spelling if item.set == "simplespelling" else spellingbee.conversations
        return make(folder, item.limit or GENERATED[item.set], split)
    return {"smoltalk": smoltalk, "mmlu": mmlu, "gsm8k": gsm8k}[item.set].conversations(folder, split)
