"""What softmax rows look like, against whole matrices in float64 and hand calculations."""

from __future__ import annotations

import math

import pytest
import torch

from xsa.model.softmax import softmax_facts, uniform_facts


@pytest.mark.parametrize("window", [5, 100])
@pytest.mark.parametrize("block", [7, 64])
def test_facts_in_blocks_are_those_of_the_whole_softmax(window, block):
    torch.manual_seed(0)
    B, T, H, G, K = 2, 40, 4, 2, 8
    q, k = torch.randn(B, T, H, K) * 3, torch.randn(B, T, G, K)
    keys = k.repeat_interleave(H // G, dim=2).double()
    scores = torch.einsum("bihk,bjhk->bhij", q.double(), keys) / math.sqrt(K)
    distance = torch.arange(T)[:, None] - torch.arange(T)
    a = scores.masked_fill((distance < 0) | (distance > window), -math.inf).softmax(-1)
    expected = {
        "diagonal": a.diagonal(dim1=-2, dim2=-1),
        "first": a[..., 0],
        "entropy": -torch.special.xlogy(a, a).sum(-1),
    }
    found = softmax_facts(q, k, window, block)
    assert set(found) == set(expected)
    for name, whole in expected.items():
        torch.testing.assert_close(found[name].double(), whole.transpose(1, 2), atol=2e-6, rtol=1e-5)


def test_even_attention_is_the_hand_calculation():
    # positions 0 … 3 see 1, 2, 3 and (window 2) 3 tokens; position 3 no longer the first
    even = uniform_facts(4, window=2)
    assert even["diagonal"].tolist() == pytest.approx([1, 1 / 2, 1 / 3, 1 / 3])
    assert even["first"].tolist() == pytest.approx([1, 1 / 2, 1 / 3, 0])
    assert even["entropy"].tolist() == pytest.approx([0, math.log(2), math.log(3), math.log(3)])
    assert uniform_facts(4, window=9)["diagonal"].tolist() == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])
