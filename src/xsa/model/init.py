"""First values of every parameter: nanochat's distributions, drawn by a private generator.

Drawn on the CPU in float32 whatever the model's device and dtype, so that one seed means one model everywhere.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


@torch.no_grad()
def initialise(model: nn.Module, seed: int) -> None:
    """Set every parameter of a NanoChat in place; no other random state is read or changed.

    wte N(0, 0.8²); head N(0, 0.001²); q, k, v and value embeddings uniform of standard deviation 1/√d; MLP-in 0.4 of that;
    both output projections 0, so that every block starts as the identity; gates uniform in [0, 0.02]; residual λ from 1.15 in
    the first layer to 1.05 in the last, x0 λ from 0.20 to 0.05; smear λ 0; backout λ 0.2.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        parameter.copy_(_draw(name, parameter, model.config.n_embd, generator))


def _draw(name: str, parameter: Tensor, n_embd: int, generator: torch.Generator) -> Tensor:
    value = torch.zeros(parameter.shape)
    bound = math.sqrt(3 / n_embd)  # a uniform distribution of this bound has standard deviation 1/√n_embd
    kind = name.removesuffix(".weight").rsplit(".", 1)[-1]
    match kind:
        case "wte":
            return value.normal_(0, 0.8, generator=generator)
        case "lm_head":
            return value.normal_(0, 0.001, generator=generator)
        case "c_q" | "c_k" | "c_v":
            return value.uniform_(-bound, bound, generator=generator)
        case "c_fc":
            return value.uniform_(-0.4 * bound, 0.4 * bound, generator=generator)
        case "ve_gate" | "smear_gate":
            return value.uniform_(0, 0.02, generator=generator)
        case "resid_lambdas":
            return 1.15 - 0.10 * _depth(parameter)
        case "x0_lambdas":
            return 0.20 - 0.15 * _depth(parameter)
        case "backout_lambda":
            return value.fill_(0.2)
        case "c_proj" | "smear_lambda":
            return value
    if name.startswith("value_embeds."):
        return value.uniform_(-bound, bound, generator=generator)
    raise AssertionError(f"no initialisation for the parameter {name}")


def _depth(lambdas: Tensor) -> Tensor:
    """Layer / (last layer), in float64; 0 for a model of one layer."""
    n = lambdas.size(0)
    return torch.arange(n, dtype=torch.float64) / max(n - 1, 1)
