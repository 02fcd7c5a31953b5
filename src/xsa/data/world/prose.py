"""Documents and shards: the text that a newcomer's first model reads."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from xsa.data.world import lessons, letters, portraits, scraps, stories
from xsa.data.world.world import World, make_world, stream

ROW_GROUP = 1024

# How often each kind of document is drawn.
KINDS = {
    portraits.people: 20,
    portraits.villages: 9,
    portraits.crafts: 7,
    portraits.animals: 6,
    portraits.roads: 4,
    portraits.riddles: 5,
    letters.letters: 22,
    stories.gifts: 9,
    stories.strangers: 14,
    stories.lost: 6,
    stories.workdays: 5,
    stories.market: 5,
    stories.talk: 5,
    letters.diary: 5,
    scraps.recipes: 3,
    scraps.songs: 2,
    scraps.notices: 4,
    scraps.weather: 3,
    lessons.sums: 6,
    lessons.spellings: 7,
    lessons.questions: 9,
    lessons.quiz: 8,
}


def document(world: World, rng: Random) -> str:
    """One document: a kind of text drawn by its weight, at a length that is mostly short and now and then long."""
    kind = rng.choices(list(KINDS), weights=list(KINDS.values()))[0]
    size = min(12, 2 + int(rng.expovariate(0.4)))
    return kind(world, rng, size)


def write_shard(path: Path, seed: int, index: int, shards: int, documents: int) -> None:
    """Shard `index` of `shards`, `documents` texts long, about the world of `seed`.

    Parquet as ClimbMix is published: one string column `text`, row groups of 1024, zstd. A shard depends on
    (`seed`, `index`, `documents`) alone, so that no shard waits for another and more shards change none of them.
    """
    if not 0 <= index < shards:
        raise ValueError(f"shard {index} of {shards} does not exist; shards are numbered 0 to {shards - 1}")
    world, rng = make_world(seed), stream("shard", seed, index)
    table = pa.table({"text": pa.array((document(world, rng) for _ in range(documents)), pa.string())})
    pq.write_table(table, path, row_group_size=ROW_GROUP, compression="zstd")
