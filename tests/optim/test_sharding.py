"""State is cut over ranks: every piece on one rank, and about as much on each. What ranks compute together is in tests/train."""

from __future__ import annotations

import pytest
import torch

from tests.optim.conftest import rates, small_model
from xsa.model.nanochat import NanoChat
from xsa.optim.muon_adamw import MuonAdamW
from xsa.optim.sharding import Sharding
from xsa.study.architecture import ModelConfig


def state_bytes(model: NanoChat, world: int, **changes) -> list[int]:
    """Bytes of optimizer state that each of `world` ranks holds."""
    held = []
    for rank in range(world):
        optimizer = MuonAdamW(model, rates(**changes), Sharding(rank, world))
        tensors = [tensor for group in optimizer.adamw_groups for tensor in (*group.exp_avg, *group.exp_avg_sq)]
        tensors += [tensor for group in optimizer.muon_groups for tensor in (group.momentum_NRC, group.variance)]
        held.append(sum(tensor.nbytes for tensor in tensors))
    return held


@pytest.mark.parametrize("world", range(1, 8))
def test_slices_of_any_axis_follow_one_another_and_miss_nothing(world):
    for length in range(20):
        slices = [Sharding(rank, world).own(length) for rank in range(world)]
        assert [index for one in slices for index in range(length)[one]] == list(range(length))
        assert all(one.stop - one.start <= -(-length // world) for one in slices)


@pytest.mark.parametrize("matrix", ["muon", "adamw"])
@pytest.mark.parametrize("world", [2, 4])
def test_each_rank_holds_its_share_of_the_state(matrix, world):
    shape = {"vocab_size": 32768, "sequence_len": 2048, "n_layer": 12, "n_head": 6, "n_kv_head": 6, "n_embd": 768}
    with torch.device("meta"):  # d12 as it is, without its memory
        model = NanoChat(ModelConfig(**shape, window_pattern="SSSL", alpha=1.0, xsa_layers=range(12)))
    (total,) = state_bytes(model, 1, matrix=matrix)
    held = state_bytes(model, world, matrix=matrix)
    assert sum(held) == total
    assert held == pytest.approx([total / world] * world, rel=0.01)


@pytest.mark.parametrize("world", [3, 5, 40])
def test_where_nothing_divides_every_piece_is_held_once(world):
    model = small_model()
    assert sum(state_bytes(model, world)) == sum(state_bytes(model, 1))
