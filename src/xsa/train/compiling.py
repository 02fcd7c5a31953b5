"""The loss function that training calls: compiled where the recipe says so and the machine can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from xsa.model.nanochat import NanoChat
from xsa.store.errors import UserError

LossSum = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def loss_sum(
    model: NanoChat, compiled: bool, device: torch.device, say: Callable[[str], None]
) -> tuple[LossSum, dict[str, Any]]:
    """A function (tokens_BT, targets_BT) -> summed loss over targets ≥ 0, and a note on how it runs.

    Where `compiled` is wanted and a CPU has no working C++ compiler, the eager function is returned, said aloud and
    noted as `{"compiled": False, "why": …}`. On a GPU a compiler that fails is a UserError: a run that is silently
    slower by a third would cost more than the stop.
    """

    def eager(tokens_BT: torch.Tensor, targets_BT: torch.Tensor) -> torch.Tensor:
        return model(tokens_BT, targets_BT, reduction="sum")

    if not compiled:
        return eager, {"compiled": False, "why": "not asked for"}
    fault = compiler_fault(device)
    if fault is None:
        return torch.compile(eager, dynamic=False), {"compiled": True}
    if device.type != "cpu":
        raise UserError(
            f"torch.compile does not work on this machine: {fault}. Mend it, or set precision.compile: false"
        )
    say(
        f"torch.compile does not work on this machine ({fault}); training runs uncompiled, more slowly, to the same losses up to rounding"
    )
    return eager, {"compiled": False, "why": fault}


def compiler_fault(device: torch.device) -> str | None:
    """Why nothing can be compiled for `device`, or None: found out by compiling a line."""
    try:
        torch.compile(lambda x: torch.relu(x) * 2)(torch.ones(8, device=device))
    except Exception as error:
        torch._dynamo.reset()
        return " ".join((str(error).strip() or type(error).__name__).split("\n\n")[0].split())[:200]
    return None
