"""Where text and test sets come from: made here, from a local folder, or published."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from xsa.study.fields import Settings


class BuiltinData(Settings):
    """Text that this project writes itself about a small made-up world; the same text for the same seed."""

    kind: Literal["builtin"]
    seed: int = Field(0, ge=0, description="seed of the made-up world and its text")
    shards: int = Field(3, ge=2, description="how many shards exist; the last one is for validation")
    documents_per_shard: int = Field(2048, ge=64, description="documents in each shard")
    tokens_per_shard: int = Field(
        ge=1, description="the least number of training tokens a shard gives; decides how many shards a cell reads"
    )


class LocalData(Settings):
    """Your own parquet files: one string column `text`, files read in name order, the last one for validation."""

    kind: Literal["local"]
    path: str = Field(description="folder with at least two parquet files")
    tokens_per_shard: int = Field(
        ge=1, description="the least number of training tokens a shard gives; decides how many shards a cell reads"
    )


class HubData(Settings):
    """A dataset on the Hugging Face hub, pinned to a revision."""

    kind: Literal["hub"]
    dataset: str = Field("karpathy/climbmix-400b-shuffle", description="owner/name on the hub")
    revision: str = Field("main", description="commit, tag or branch; pin a commit for work that is published")
    file_pattern: str = Field("shard_{index:05d}.parquet", description="name of shard number `index`")
    shards: int = Field(6543, ge=2, description="how many shards are published; the last one is for validation")
    tokens_per_shard: int = Field(
        45_000_000, ge=1, description="the least number of training tokens a shard gives after packing"
    )

    @field_validator("file_pattern")
    @classmethod
    def _numbers(cls, pattern: str) -> str:
        try:
            names = {pattern.format(index=index) for index in (0, 1)}
        except (KeyError, IndexError, ValueError):
            names = set()
        if len(names) != 2:
            raise ValueError(
                f"is {pattern!r}, which names no shard by its number; write {{index}} or {{index:05d}} where it stands"
            )
        return pattern


Data = Annotated[BuiltinData | LocalData | HubData, Field(discriminator="kind")]


class BuiltinSets(Settings):
    """Evaluation or chat sets about the made-up world of the built-in data."""

    kind: Literal["builtin"]
    seed: int = Field(0, ge=0, description="seed of the made-up world; use the data's")
    items: int = Field(200, ge=16, description="items a task")


class LocalSets(Settings):
    """A folder in the published layout."""

    kind: Literal["local"]
    path: str = Field(description="folder")


class PublishedSets(Settings):
    """The published sets, downloaded once and checked by hash ever after (`config/data.lock`)."""

    kind: Literal["published"]


Sets = Annotated[BuiltinSets | LocalSets | PublishedSets, Field(discriminator="kind")]
