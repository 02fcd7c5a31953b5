"""One training step: the batch's mean, however it is cut; and nothing that is not finite gets past it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from xsa.model.nanochat import NanoChat
from xsa.optim.muon_adamw import MuonAdamW
from xsa.store.errors import UserError
from xsa.study.settings import RunSettings
from xsa.train.distributed import Ranks
from xsa.train.step import NotFiniteError, Rates, Trainer, micro_batch
from xsa.train.stream import Batch


class Fixed:
    """Random batches, the same for the same step; a share of the targets is masked, unevenly over rows."""

    batch_rows, sequence_len = 4, 32

    def read(self, step: int) -> Batch:
        rng = np.random.default_rng(step)
        rows_RT = rng.integers(0, 265, size=(4, 33))
        targets_RT = rows_RT[:, 1:].copy()
        for row, share in enumerate((0, 0.2, 0.5, 0.9)):
            targets_RT[row, : int(share * 32)] = -1
        return Batch(rows_RT[:, :-1], targets_RT, rows_RT.tobytes())


def trainer(tiny, micro: int, seed: int = 0, rates=lambda step: Rates(1.0, 0.9, 0.05)) -> Trainer:
    config = tiny.model()
    model = NanoChat(config)
    # No zero matrices, so that no update rests on rounding.
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))

    def loss_sum(tokens_BT, targets_BT):
        return model(tokens_BT, targets_BT, reduction="sum")

    return Trainer(model, MuonAdamW(model, tiny.optim()), Fixed(), rates, loss_sum, micro)


@pytest.mark.parametrize("micro", [1, 2, 3])
def test_any_cut_into_micro_batches_has_the_same_loss_and_gradient(tiny, micro, monkeypatch):
    whole, cut = trainer(tiny, 4), trainer(tiny, micro)
    for one in (whole, cut):
        monkeypatch.setattr(one.optimizer, "zero_grad", lambda: None)
    a, b = whole.step(0), cut.step(0)
    assert b.loss == pytest.approx(a.loss, abs=1e-6)
    assert b.grad_norm == pytest.approx(a.grad_norm, rel=1e-5)
    for name, parameter in whole.model.named_parameters():
        torch.testing.assert_close(cut.model.get_parameter(name).grad, parameter.grad, rtol=0, atol=1e-6 * a.grad_norm)


def test_the_last_micro_batch_has_a_loss_of_its_own_that_depends_on_the_cut(tiny):
    inputs_RT, targets_RT, _ = Fixed().read(0)
    cut = trainer(tiny, 3)
    with torch.no_grad():
        alone = (
            cut.loss_sum(torch.from_numpy(inputs_RT[3:]), torch.from_numpy(targets_RT[3:]))
            / (targets_RT[3:] >= 0).sum()
        )
    assert cut.step(0).last_micro_loss == pytest.approx(alone.item(), rel=1e-5)
    whole = trainer(tiny, 4).step(0)
    assert whole.last_micro_loss == pytest.approx(whole.loss, rel=1e-6)


def test_loss_is_the_mean_over_all_targets_of_the_batch_not_of_the_last_micro_batch(tiny):
    one = trainer(tiny, 1)
    batch = one.batches.read(0)
    with torch.no_grad():
        logits = one.model(torch.from_numpy(batch.inputs_RT)).double()
    targets = torch.from_numpy(batch.targets_RT)
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="none").view(4, 32)
    update = one.step(0)
    assert update.loss == pytest.approx(losses.sum().item() / (targets >= 0).sum().item(), abs=1e-6)
    per_row = losses.sum(1) / (targets >= 0).sum(1)
    assert abs(update.loss - per_row[-1].item()) > 1e-2
    # Rows with few targets weigh less than a mean of means would give them.
    assert abs(update.loss - per_row.mean().item()) > 1e-3


def test_rates_of_the_step_are_set_before_the_update(tiny):
    seen = []
    one = trainer(tiny, 4, rates=lambda step: Rates(0.0, 0.9, 0.0) if step == 0 else Rates(1.0, 0.9, 0.0))
    for step in range(2):
        before = one.model.lm_head.weight.clone()
        one.step(step)
        seen.append(not torch.equal(before, one.model.lm_head.weight))
    assert seen == [False, True]


def test_a_gradient_that_is_not_finite_stops_before_the_update_and_is_named(tiny):
    one = trainer(tiny, 2)
    one.model.transformer.h[1].mlp.c_fc.weight.register_hook(lambda gradient: gradient * float("nan"))
    before = {name: tensor.clone() for name, tensor in one.model.state_dict().items()}
    with pytest.raises(NotFiniteError, match=r"step 8 .*the gradient of transformer\.h\.1\.mlp\.c_fc\.weight"):
        one.step(7)
    assert all(torch.equal(before[name], tensor) for name, tensor in one.model.state_dict().items())


def test_a_weight_that_is_not_finite_is_named(tiny):
    one = trainer(tiny, 4)
    with torch.no_grad():
        one.model.x0_lambdas[1] = float("inf")
    with pytest.raises(NotFiniteError, match="x0_lambdas") as caught:
        one.step(0)
    assert "loss is nan" in str(caught.value)


def test_a_batch_that_ranks_do_not_divide_is_refused():
    assert Ranks(rank=1, world=2).part(6) == (3, 6)
    with pytest.raises(UserError, match="4 rows cannot be split over 3 processes"):
        Ranks(rank=0, world=3).part(4)


def test_default_micro_batch_divides_the_rows(tiny):
    cpu = torch.device("cpu")
    assert micro_batch(RunSettings(), tiny.model(), 24, cpu) == 12
    assert micro_batch(RunSettings(), tiny.model(), 4, cpu) == 4
    assert micro_batch(RunSettings(micro_batch=8), tiny.model(), 4, cpu) == 4
    assert micro_batch(RunSettings(micro_batch=3), tiny.model(), 4, cpu) == 3


def out_of_memory_above(one: Trainer, rows: int) -> None:
    """Let the trainer's device hold only so many rows at a time: memory runs out after the forward pass."""
    loss_sum = one.loss_sum

    def limited(tokens_BT, targets_BT):
        loss = loss_sum(tokens_BT, targets_BT)
        if len(tokens_BT) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss

    one.loss_sum = limited


@pytest.mark.parametrize(("fits", "halved"), [(2, [(4, 2)]), (1, [(4, 2), (2, 1)])])
def test_where_memory_runs_out_the_step_starts_again_with_half_the_rows(tiny, fits, halved):
    plain, short = trainer(tiny, fits), trainer(tiny, 4)
    out_of_memory_above(short, fits)
    for step in (5, 6):
        a, b = plain.step(step), short.step(step)
        assert (a.loss, a.grad_norm) == (b.loss, b.grad_norm)
    assert short.halved == [{"step": 6, "from": before, "to": after} for before, after in halved]
    for name, parameter in plain.model.named_parameters():
        assert torch.equal(short.model.get_parameter(name), parameter), "nothing of the failed try is left"


def test_memory_that_runs_out_in_the_middle_of_a_step_leaves_no_gradient_behind(tiny):
    plain, short = trainer(tiny, 1), trainer(tiny, 2)
    loss_sum, calls = short.loss_sum, []

    def second_fails(tokens_BT, targets_BT):
        calls.append(len(tokens_BT))
        if len(calls) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss_sum(tokens_BT, targets_BT)

    short.loss_sum = second_fails
    assert plain.step(0).grad_norm == short.step(0).grad_norm and calls == [2, 2, 1, 1, 1, 1]


def test_a_row_that_does_not_fit_is_a_sentence(tiny):
    one = trainer(tiny, 4)
    out_of_memory_above(one, 0)
    with pytest.raises(UserError, match="one row does not fit into the memory of cpu"):
        one.step(0)
