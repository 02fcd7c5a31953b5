"""One thread, and small models with gradients to move."""

from __future__ import annotations

import pytest
import torch

from xsa.model.nanochat import NanoChat
from xsa.optim.adamw import AdamW
from xsa.optim.muon import Muon
from xsa.optim.muon_adamw import MuonAdamW
from xsa.study.architecture import ModelConfig
from xsa.study.stages import OptimStage


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def rates(**changes) -> OptimStage:
    settings = {
        "matrix": "muon",
        "version": "may2026",
        "matrix_lr": 0.02,
        "embedding_lr": 0.3,
        "unembedding_lr": 0.008,
        "scalar_lr": 0.5,
        "weight_decay": 0.28,
    }
    return OptimStage(**{**settings, **changes})


def small_model(dtype: torch.dtype = torch.float32, seed: int = 0) -> NanoChat:
    config = ModelConfig(
        vocab_size=60,
        sequence_len=64,
        n_layer=3,
        n_head=4,
        n_kv_head=2,
        n_embd=32,
        window_pattern="L",
        alpha=1.0,
        xsa_layers=(0, 1, 2),
    )
    model = NanoChat(config, dtype=dtype)
    model.init_weights(seed)
    return model


def train_step(model: NanoChat, optimizer: MuonAdamW, seed: int) -> float:
    tokens = torch.randint(0, 60, (2, 33), generator=torch.Generator().manual_seed(seed))
    optimizer.zero_grad()
    loss = model(tokens[:, :-1], tokens[:, 1:])
    loss.backward()
    optimizer.step()
    return loss.item()


def move(group: AdamW | Muon, *rates: float) -> None:
    """One update of a group by itself, as `MuonAdamW` makes it of all."""
    group.start_sum()
    group.finish_sum()
    group.start_step(*rates)
    group.finish_step()
