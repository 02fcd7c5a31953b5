"""Bits per byte against a plain float64 sum, and independent of how rows are cut."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from xsa.model.nanochat import NanoChat
from xsa.train.validate import row_losses


@pytest.fixture
def case(tiny):
    """A model, ten rows of which some targets are masked, and bytes of each token, none for the special ones."""
    model = NanoChat(tiny.model())
    model.init_weights(1)
    rng = np.random.default_rng(0)
    rows_RT = rng.integers(0, 265, size=(10, 33))
    targets_RT = np.where(rng.random((10, 32)) < 0.3, -1, rows_RT[:, 1:])
    token_bytes = np.where(np.arange(265) < 256, rng.integers(1, 9, size=265), 0).astype(np.int32)
    return model, rows_RT[:, :-1], targets_RT, token_bytes


def test_is_nats_over_bytes_of_the_counted_targets(case):
    model, inputs_RT, targets_RT, token_bytes = case
    nats, n_bytes, tokens = np.zeros(10), np.zeros(10, int), np.zeros(10, int)
    for row in range(10):
        with torch.no_grad():
            log_p = F.log_softmax(model(torch.from_numpy(inputs_RT[row : row + 1])).double()[0], -1)
        for position, target in enumerate(targets_RT[row]):
            if target != -1 and token_bytes[target] > 0:
                nats[row] -= log_p[position, target].item()
                n_bytes[row] += token_bytes[target]
                tokens[row] += 1
    found = row_losses(model, inputs_RT, targets_RT, token_bytes, micro_batch=4)
    np.testing.assert_allclose(found.nats_R, nats, rtol=1e-6)
    np.testing.assert_array_equal(found.bytes_R, n_bytes)
    np.testing.assert_array_equal(found.tokens_R, tokens)
    assert found.bpb == pytest.approx(nats.sum() / math.log(2) / n_bytes.sum(), rel=1e-7)


@pytest.mark.parametrize("micro", [1, 3, 10])
def test_does_not_depend_on_the_micro_batch(case, micro):
    whole = row_losses(*case, micro_batch=7)
    assert row_losses(*case, micro_batch=micro).bpb == pytest.approx(whole.bpb, rel=1e-7)


def test_rows_without_a_byte_have_no_bits_per_byte(case):
    model, inputs_RT, targets_RT, token_bytes = case
    nothing = row_losses(model, inputs_RT, np.full_like(targets_RT, -1), token_bytes)
    assert nothing.nats_R.tolist() == [0.0] * 10
    with pytest.raises(ValueError, match="no target carries a byte"):
        _ = nothing.bpb
