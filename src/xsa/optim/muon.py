"""Muon: momentum whose update is orthogonalised, for matrices of one shape at a time.

Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024), in nanochat's two states: `may2026`, and
`jul2026`, which evens out the rows before the orthogonalisation and fixes the update's norm after it.
Axes: N matrices of one shape, R rows, C columns.
"""

from __future__ import annotations

import torch
from torch import Tensor

from xsa.optim.sharding import Sharding

# Polar Express (Amsel et al., arXiv 2505.16932): the best polynomial of each of 5 iterations, for a safety factor of 2 %.
POLAR_EXPRESS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)
BETA2 = 0.9  # decay of the variance estimate


def orthogonalise(u_NRC: Tensor, dtype: torch.dtype) -> Tensor:
    """Each matrix with its singular values pushed towards 1, computed and returned in `dtype`.

    Zero stays zero. The Gram matrix is formed on the shorter side.
    """
    x = u_NRC.to(dtype)
    x = x / (1.01 * _norm(x) + 1e-6)
    tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x
    for a, b, c in POLAR_EXPRESS:
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def equilibrate_rows(u_NRC: Tensor) -> Tensor:
    """Every row rescaled to the same norm, the matrix's own kept; a zero row stays zero."""
    target = _norm(u_NRC) / u_NRC.size(-2) ** 0.5
    return u_NRC * (target / u_NRC.norm(dim=-1, keepdim=True).clamp_min(1e-6))


def snap_norm(x_NRC: Tensor) -> Tensor:
    """Each matrix rescaled to the Frobenius norm of an orthogonal one, √min(R, C)."""
    return x_NRC * (min(x_NRC.shape[-2:]) ** 0.5 / _norm(x_NRC).clamp_min(1e-6))


def even_variance(x_NRC: Tensor, variance: Tensor) -> Tensor:
    """Each row (of a tall or square matrix) or column (of a wide one) over its running RMS; the matrix's norm is kept.

    `variance`, (N, R, 1) or (N, 1, C), is the running mean square and is updated in place. After "NorMuon" (Li et al.,
    arXiv 2510.05491).
    """
    x = x_NRC.to(variance.dtype)
    axis = -1 if variance.size(-1) == 1 else -2
    square = x.square().mean(dim=axis, keepdim=True)
    variance.lerp_(square, 1 - BETA2)
    scale = variance.clamp_min(1e-10).rsqrt()
    before = square.sum(dim=(-2, -1), keepdim=True)
    after = (square * scale.square()).sum(dim=(-2, -1), keepdim=True)
    return x * (scale * (before / after.clamp_min(1e-20)).sqrt())


def _norm(x_NRC: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x_NRC, dim=(-2, -1), keepdim=True)


class Muon:
    """Momentum, variance and update of all matrices of one shape, held stacked so that they move in one batch.

    Each matrix is one rank's: a rank holds the state of its own ones and moves those. An update is `start_sum`, `finish_sum`,
    `start_step`, `finish_step`; what starts runs on while other groups start theirs.

    orthogonal_dtype: bfloat16 or better; state is held in the matrices' own dtype.
    """

    def __init__(
        self,
        names: list[str],
        matrices: list[Tensor],
        lr: float,
        version: str,
        orthogonal_dtype: torch.dtype,
        sharding: Sharding = Sharding(),  # noqa: B008 - immutable
    ):
        self.names, self.matrices, self.lr, self.version = names, matrices, lr, version
        self.orthogonal_dtype, self.sharding = orthogonal_dtype, sharding
        self.own = sharding.own(len(matrices))
        rows, columns = matrices[0].shape
        self.shape_factor = max(1.0, rows / columns) ** 0.5
        self.momentum_NRC = matrices[0].new_zeros(self.own.stop - self.own.start, rows, columns)
        per_row = (rows, 1) if rows >= columns else (1, columns)
        self.variance = self.momentum_NRC.new_zeros(len(self.momentum_NRC), *per_row)
        self.gradients: list[Tensor] = []

    def start_sum(self) -> None:
        """Begin to add up the matrices' `.grad` over ranks."""
        self._sum = self.sharding.sum_stack([matrix.grad for matrix in self.matrices])

    def finish_sum(self) -> None:
        """Set `gradients`: the sums, of this rank's own matrices."""
        self.gradients = self._sum()
        del self._sum

    @torch.no_grad()
    def start_step(self, lr_multiplier: float, momentum: float, weight_decay: float) -> None:
        """Update this rank's matrices and begin to send them to the others.

        Decay is cautious: an entry decays only where the update does not push it outwards.
        p ← p − L·X − L·weight_decay·p·[X·p ≥ 0], L = lr · lr_multiplier · √max(1, R/C).
        """
        p_NRC = self.momentum_NRC  # empty where this rank owns no matrix
        if self.gradients:
            p_NRC = torch.stack(self.matrices[self.own])
            x_NRC = self._direction(torch.stack(self.gradients), momentum)
            if weight_decay:
                x_NRC = torch.where(x_NRC * p_NRC >= 0, x_NRC.add(p_NRC, alpha=weight_decay), x_NRC)
            p_NRC.sub_(x_NRC, alpha=self.lr * lr_multiplier * self.shape_factor)
        self._join = self.sharding.join(p_NRC, len(self.matrices))

    @torch.no_grad()
    def finish_step(self) -> None:
        """Set the matrices to what their owners made of them."""
        torch._foreach_copy_(self.matrices, self._join().unbind(0))
        del self._join

    def _direction(self, gradient_NRC: Tensor, momentum: float) -> Tensor:
        """The orthogonalised update of this rank's matrices; state moves on, and `gradient_NRC` is used up."""
        self.momentum_NRC.lerp_(gradient_NRC, 1 - momentum)
        u_NRC = gradient_NRC.lerp_(self.momentum_NRC, momentum)  # Nesterov's look ahead
        if self.version == "jul2026":
            x_NRC = snap_norm(orthogonalise(equilibrate_rows(u_NRC), self.orthogonal_dtype))
        else:
            x_NRC = orthogonalise(u_NRC, self.orthogonal_dtype)
        return even_variance(x_NRC, self.variance)
