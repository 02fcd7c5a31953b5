"""The exclusive projection as an operation on tensors."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from xsa.model.exclusive import remove_own_value


def draw(dtype=torch.float32, B=2, T=7, H=4, G=2, K=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randn(B, T, H, K, generator=generator, dtype=torch.float64)
    v = torch.randn(B, T, G, K, generator=generator, dtype=torch.float64)
    return y.to(dtype), v.to(dtype)


def written_out(y, v, alpha):
    """z = y − α · ⟨y,v⟩/⟨v,v⟩ · v, one head and token at a time in float64."""
    y, v = y.double(), v.double()
    z = torch.empty_like(y)
    for b, t, h in torch.cartesian_prod(*(torch.arange(n) for n in y.shape[:3])):
        own = v[b, t, h // (y.size(2) // v.size(2))]
        z[b, t, h] = y[b, t, h] - alpha * (y[b, t, h] @ own) / (own @ own) * own
    return z


def cosine(z, v):
    own = v.repeat_interleave(z.size(2) // v.size(2), dim=2)
    return torch.nn.functional.cosine_similarity(z.double(), own.double(), dim=-1)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 2e-6), (torch.bfloat16, 0.03)]
)
@pytest.mark.parametrize(("H", "G"), [(4, 4), (4, 2), (6, 1)])
@pytest.mark.parametrize("alpha", [0.25, 1.0])
def test_it_removes_alpha_of_the_share_along_the_own_value(dtype, tolerance, H, G, alpha):
    y, v = draw(dtype, H=H, G=G)
    z = remove_own_value(y, v, alpha)
    assert z.dtype == dtype
    assert (z.double() - written_out(y, v, alpha)).abs().max() <= tolerance


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 1e-6), (torch.bfloat16, 0.01)]
)
def test_at_alpha_one_the_output_is_orthogonal_to_the_own_value(dtype, tolerance):
    y, v = draw(dtype, K=64)
    assert cosine(remove_own_value(y, v, 1.0), v).abs().max() <= tolerance


def test_removing_twice_removes_nothing_more():
    y, v = draw(torch.float64)
    once = remove_own_value(y, v, 1.0)
    assert torch.allclose(remove_own_value(once, v, 1.0), once, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_at_alpha_zero_nothing_changes(dtype):
    y, v = draw(dtype)
    assert torch.equal(remove_own_value(y, v, 0.0), y)


def test_of_the_own_value_alone_the_rest_of_alpha_stays():
    _, v = draw(torch.float64, H=2, G=2)
    assert torch.allclose(remove_own_value(v, v, 0.25), 0.75 * v, rtol=1e-14)


def test_the_length_of_the_value_does_not_matter():
    y, v = draw(torch.float64)
    assert torch.allclose(remove_own_value(y, 1e-3 * v, 1.0), remove_own_value(y, v, 1.0), rtol=0, atol=1e-14)


class Sizes(TorchDispatchMode):
    """Keeps, for every operation, the sizes of the tensors it reads and the most that it writes."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not function.is_view:
            read = [x.untyped_storage().nbytes() // x.element_size() for x in args if isinstance(x, torch.Tensor)]
            self.calls.append((str(function), max(read, default=0), result.numel()))
        return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_grouped_values_are_never_copied_for_their_query_heads(dtype):
    y, v = draw(dtype, H=8, G=2)
    with Sizes() as sizes:
        remove_own_value(y, v, 1.0)
    assert len(sizes.calls) > 3
    grown = [name for name, read, written in sizes.calls if read <= v.numel() < written and "mul" not in name]
    assert grown == [], "what is as large as y is made from y"


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_gradients_are_those_of_finite_differences(alpha):
    y, v = draw(torch.float64, B=1, T=2, K=5)
    inputs = (y.requires_grad_(), v.requires_grad_())
    assert torch.autograd.gradcheck(lambda y, v: remove_own_value(y, v, alpha), inputs)


def test_a_value_of_zero_leaves_the_output_and_finite_gradients():
    y, v = draw()
    v[:, 3] = 0
    y.requires_grad_(), v.requires_grad_()
    z = remove_own_value(y, v, 1.0)
    z.square().sum().backward()
    assert torch.equal(z[:, 3], y[:, 3])
    assert y.grad.isfinite().all() and v.grad.isfinite().all()
    assert torch.equal(y.grad[:, 3], 2 * y[:, 3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e-38, 1e-20, 1e-12, 1e-10, 1e-8, 6e-8, 1e4, 65504.0])
def test_values_of_any_size_give_finite_results_and_gradients(dtype, size):
    y, v = draw(dtype)
    v = (v * size).requires_grad_()
    y.requires_grad_()
    z = remove_own_value(y, v, 1.0)
    z.float().square().sum().backward()
    assert z.isfinite().all() and y.grad.isfinite().all() and v.grad.isfinite().all()
    assert (z.float().norm(dim=-1) <= 1.01 * y.float().norm(dim=-1)).all(), "a projection never lengthens"


def test_half_precision_values_at_its_limit_do_not_overflow():
    y, v = draw(torch.float16)
    v = torch.where(v > 0, 65504.0, -65504.0).to(torch.float16)
    z = remove_own_value(y, v, 1.0)
    assert z.isfinite().all()
    assert cosine(z, v).abs().max() <= 2e-3
