"""A model with random weights whose attention, options and losses differ, for benchmarks that need no training."""

from __future__ import annotations

import math

import torch

from xsa.model.nanochat import NanoChat
from xsa.study.architecture import ModelConfig


def lively_model(
    vocab: int,
    context: int,
    depth: int,
    width: int,
    *,
    kv_heads: int | None = None,
    alpha: float = 0.0,
    dtype: torch.dtype = torch.float32,
) -> NanoChat:
    """Every matrix is drawn, also those that training starts at zero. `kv_heads`: as many as query heads if None."""
    heads = width // min(128, width // 2)
    config = ModelConfig(
        vocab_size=vocab,
        sequence_len=context,
        n_layer=depth,
        n_head=heads,
        n_kv_head=kv_heads or heads,
        n_embd=width,
        window_pattern="SSSL",
        alpha=alpha,
        xsa_layers=tuple(range(depth)),
    )
    model = NanoChat(config, dtype=dtype)
    model.init_weights(1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("c_proj.weight"):
                weight.normal_(0, 0.5 / math.sqrt(weight.size(1)), generator=generator)
        model.lm_head.weight.normal_(0, 0.1, generator=generator)
        model.smear_lambda.fill_(0.5)
    return model.eval()
