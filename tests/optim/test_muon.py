"""Muon on stacks of matrices, against a float64 computation written out here."""

from __future__ import annotations

import pytest
import torch

from tests.optim.conftest import move
from xsa.optim.muon import Muon, equilibrate_rows, even_variance, orthogonalise, snap_norm

TRIPLES = [  # Polar Express, arXiv 2505.16932
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
]
SHAPES = {"tall": (64, 16), "wide": (16, 64), "square": (32, 32)}
NEAR_ONE = 0.15  # five iterations of Polar Express leave singular values this far from 1
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


def draw(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def written_out(p, gradient, m, s, version, lr, mu, decay):
    """One step of one float64 matrix by the formulae; returns p, m and s after it."""
    rows, columns = p.shape
    m = m + (1 - mu) * (gradient - m)
    x = (1 - mu) * gradient + mu * m
    if version == "jul2026":
        x = x * (x.norm() / rows**0.5 / x.norm(dim=1, keepdim=True).clamp_min(1e-6))
    x = x / (1.01 * x.norm() + 1e-6)
    for a, b, c in TRIPLES:
        if rows <= columns:
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        else:
            gram = x.T @ x
            x = a * x + x @ (b * gram + c * gram @ gram)
    if version == "jul2026":
        x = x * (min(rows, columns) ** 0.5 / x.norm())
    s = s + (1 - 0.9) * (x.square().mean(dim=1 if rows >= columns else 0, keepdim=True) - s)
    even = x / s.clamp_min(1e-10).sqrt()
    even = even * (x.norm() / even.norm())
    rate = lr * max(1, rows / columns) ** 0.5
    return p - rate * even - rate * decay * p * (even * p >= 0), m, s


@every_shape
@pytest.mark.parametrize("version", ["may2026", "jul2026"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_steps_are_those_of_the_formulae(shape, version, dtype, tolerance):
    start = [draw(*shape, seed=seed) for seed in range(3)]
    matrices = [torch.nn.Parameter(p.to(dtype)) for p in start]
    muon = Muon(["a", "b", "c"], matrices, 0.02, version, dtype)
    assert muon.variance.shape[1:] == ((shape[0], 1) if shape[0] >= shape[1] else (1, shape[1]))
    state = [(p.double(), torch.zeros(shape, dtype=torch.float64), 0.0) for p in start]
    for step, (multiplier, mu, decay) in enumerate([(0.5, 0.85, 0.3), (1.0, 0.9, 0.2), (0.7, 0.97, 0.0)]):
        for index, matrix in enumerate(matrices):
            gradient = draw(*shape, seed=100 + 10 * step + index)
            matrix.grad = gradient.to(dtype)
            state[index] = written_out(
                state[index][0], gradient.double(), *state[index][1:], version, 0.02 * multiplier, mu, decay
            )
        move(muon, multiplier, mu, decay)
        for matrix, (expected, _, _) in zip(matrices, state, strict=True):
            assert (matrix.double() - expected).abs().max() <= tolerance * expected.abs().max()


@every_shape
def test_singular_values_come_near_one(shape):
    singular = torch.linalg.svdvals(orthogonalise(draw(2, *shape), torch.float32))
    assert (singular - 1).abs().max() < NEAR_ONE


def test_singular_values_300_times_smaller_come_near_one_too():
    left, right = (torch.linalg.qr(draw(32, 32, seed=seed)).Q for seed in (1, 2))
    matrix = left @ torch.diag(torch.logspace(-2.5, 0, 32)) @ right
    singular = torch.linalg.svdvals(orthogonalise(matrix[None], torch.float32))
    assert (singular - 1).abs().max() < NEAR_ONE


@every_shape
def test_orthogonalisation_keeps_the_singular_vectors(shape):
    matrix = draw(1, *shape, dtype=torch.float64)
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    rotated = left.mT @ orthogonalise(matrix, torch.float64) @ right.mT
    singular = rotated.diagonal(dim1=-2, dim2=-1)
    assert (rotated - torch.diag_embed(singular)).abs().max() < 1e-12
    assert (singular - 1).abs().max() < NEAR_ONE


@every_shape
def test_in_bfloat16_singular_values_come_near_one_too(shape):
    x = orthogonalise(draw(1, *shape), torch.bfloat16)
    assert x.dtype == torch.bfloat16
    singular = torch.linalg.svdvals(x.float())
    assert (singular - 1).abs().max() < NEAR_ONE


def test_matrices_of_a_stack_do_not_mix():
    stack = draw(3, 16, 24)
    alone = torch.cat([orthogonalise(stack[index : index + 1], torch.float32) for index in range(3)])
    assert torch.allclose(orthogonalise(stack, torch.float32), alone, rtol=0, atol=1e-6)


def test_row_equilibration_evens_the_rows_and_keeps_the_norm():
    matrix = draw(1, 6, 10) * torch.logspace(-3, 3, 6)[:, None]
    even = equilibrate_rows(matrix)
    assert torch.allclose(even.norm(dim=-1), even.norm(dim=-1).mean().expand(1, 6), rtol=1e-5)
    assert even.norm().item() == pytest.approx(matrix.norm().item(), rel=1e-5)


@every_shape
def test_the_norm_is_snapped_to_that_of_an_orthogonal_matrix(shape):
    assert snap_norm(draw(1, *shape)).norm().item() == pytest.approx(min(shape) ** 0.5, rel=1e-5)


@every_shape
def test_evening_the_variance_keeps_each_matrix_norm(shape):
    stack = draw(2, *shape) * torch.tensor([1.0, 5.0])[:, None, None]
    variance = torch.zeros(2, shape[0], 1) if shape[0] >= shape[1] else torch.zeros(2, 1, shape[1])
    even = even_variance(stack, variance)
    assert torch.allclose(even.norm(dim=(1, 2)), stack.norm(dim=(1, 2)), rtol=1e-5)


@pytest.mark.parametrize("version", ["may2026", "jul2026"])
def test_a_gradient_of_zero_moves_nothing_and_stays_finite(version):
    p = torch.nn.Parameter(draw(8, 4))
    before = p.detach().clone()
    muon = Muon(["p"], [p], 0.02, version, torch.float32)
    p.grad = torch.zeros(8, 4)
    move(muon, 1.0, 0.9, 0.0)
    assert torch.equal(p, before)
    p.grad = draw(8, 4, seed=1)
    move(muon, 1.0, 0.9, 0.1)
    assert p.isfinite().all()


def test_decay_spares_what_the_update_pushes_outwards():
    start = draw(16, 16)
    after = {}
    for decay in (0.0, 0.5):
        p = torch.nn.Parameter(start.clone())
        p.grad = draw(16, 16, seed=1)
        move(Muon(["p"], [p], 0.02, "may2026", torch.float32), 1.0, 0.9, decay)
        after[decay] = p.detach()
    inwards = (start - after[0.0]) * start >= 0
    expected = after[0.0] - 0.02 * 0.5 * start * inwards
    assert 0 < inwards.float().mean() < 1
    assert torch.allclose(after[0.5], expected, rtol=0, atol=1e-6)
