"""What a model is, before any tensor exists: its shape, windows, sizes and cost.

Free of torch, so that a plan of a thousand cells resolves in a second. The numbers are those of nanochat at
commit dc54a1a; `docs/numerics.md` lists them with their sources.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

GATE_CHANNELS = 24  # of a token's embedding, read by the gate that smears it with its predecessor


class ModelConfig(BaseModel):
    """Everything needed to build a model. Stored in every checkpoint, complete, so that nothing is assumed when it is read.

    `xsa_layers` are the layers (0-based) from which the exclusive projection removes `alpha` of the own value's share;
    `xsa_value` is the value it removes: `attended`, after the value-embedding mix, or `plain`, before it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    architecture: Literal["nanochat"] = "nanochat"
    vocab_size: int = Field(ge=1)
    sequence_len: int = Field(ge=1)
    n_layer: int = Field(ge=1)
    n_head: int = Field(ge=1)
    n_kv_head: int = Field(ge=1)
    n_embd: int = Field(ge=1)
    window_pattern: str = Field(pattern="^[SL]+$")
    alpha: float = Field(ge=0, le=1)
    xsa_layers: tuple[int, ...]
    xsa_value: Literal["attended", "plain"] = "attended"

    @model_validator(mode="after")
    def _consistent(self) -> ModelConfig:
        if self.n_embd % self.n_head:
            raise ValueError(
                f"n_head = {self.n_head} does not divide n_embd = {self.n_embd}; choose a head count that divides the width"
            )
        if (self.n_embd // self.n_head) % 2:
            raise ValueError(f"head_dim = {self.n_embd // self.n_head} is odd; rotary positions need pairs of channels")
        if self.n_head % self.n_kv_head:
            raise ValueError(f"n_kv_head = {self.n_kv_head} does not divide n_head = {self.n_head}")
        if self.n_embd < GATE_CHANNELS:
            raise ValueError(
                f"n_embd = {self.n_embd} is below {GATE_CHANNELS}, the channels that the smear's gate reads; choose a greater width"
            )
        bad = [layer for layer in self.xsa_layers if not 0 <= layer < self.n_layer]
        if bad:
            raise ValueError(f"xsa_layers has {bad}, outside 0 … {self.n_layer - 1}")
        return self

    @property
    def head_dim(self) -> int:
        return self.n_embd // self.n_head

    @property
    def max_tokens(self) -> int:
        """Tokens of the longest text that is read whole: ten times the trained context, where nanochat's positions end."""
        return 10 * self.sequence_len

    @property
    def padded_vocab(self) -> int:
        """Rows of the embedding and the head: the vocabulary rounded up to a multiple of 64."""
        return -(-self.vocab_size // 64) * 64

    def windows(self) -> list[int]:
        """Earlier tokens each layer may see besides the token itself; the last layer always sees all.

        A short window is a quarter of the sequence rounded up to 128 (nanochat: 2048 -> 512).
        """
        short = math.ceil(self.sequence_len / 4 / 128) * 128
        tiled = [self.window_pattern[i % len(self.window_pattern)] for i in range(self.n_layer)]
        windows = [short if letter == "S" else self.sequence_len for letter in tiled]
        windows[-1] = self.sequence_len
        return windows

    def has_value_embedding(self, layer: int) -> bool:
        """Value embeddings sit on the layers of the last layer's parity."""
        return layer % 2 == (self.n_layer - 1) % 2

    def alpha_of(self, layer: int) -> float:
        return self.alpha if layer in self.xsa_layers else 0.0


def parameter_counts(config: ModelConfig) -> dict[str, int]:
    """Parameters by group, padding rows of the vocabulary included."""
    d, kv = config.n_embd, config.n_kv_head * config.head_dim
    value_layers = [layer for layer in range(config.n_layer) if config.has_value_embedding(layer)]
    block = d * d + 2 * kv * d + d * d + 8 * d * d
    counts = {
        "wte": config.padded_vocab * d,
        "value_embeds": len(value_layers) * config.padded_vocab * kv,
        "lm_head": config.padded_vocab * d,
        "transformer_matrices": config.n_layer * block + len(value_layers) * config.n_kv_head * 12,
        "scalars": 2 * config.n_layer + 24 + 2,
    }
    counts["total"] = sum(counts.values())
    return counts


def flops_per_token(config: ModelConfig) -> int:
    """Training FLOPs per token: 6 a matrix parameter, and attention's 12·width·window a layer."""
    counts = parameter_counts(config)
    matrices = counts["transformer_matrices"] + counts["lm_head"]
    attention = sum(12 * config.n_embd * min(window, config.sequence_len) for window in config.windows())
    return 6 * matrices + attention
