"""Several processes that train one model: who they are, sums over them, and proof that they agree.

Processes are those that `torchrun` starts (RANK, WORLD_SIZE and LOCAL_RANK in the environment); without it there is one.
Every process holds the whole model. A step's rows are split into contiguous parts, one a rank, every rank divides its
loss by the target count of the *whole* batch, and gradients are summed: N ranks compute what one computes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist

from xsa.store.errors import UserError

# Rank 0 packs conversations and hashes files while the others wait; the library's ten minutes are too few for that.
_PATIENCE = timedelta(hours=4)


@dataclass(frozen=True)
class Ranks:
    """This process among `world` processes, and the device that it computes on."""

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def first(self) -> bool:
        """True in the one process that writes files and speaks."""
        return self.rank == 0

    def part(self, rows: int) -> tuple[int, int]:
        """First row and end of this rank's contiguous part of a batch of `rows`. UserError where they do not divide."""
        if rows % self.world:
            raise UserError(
                f"a batch of {rows} rows cannot be split over {self.world} processes; start a number of processes that "
                f"divides {rows}, or choose a batch that {self.world} divides"
            )
        size = rows // self.world
        return self.rank * size, (self.rank + 1) * size

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Replace every gradient by its sum over ranks, added in float32 whatever the parameter's dtype."""
        if self.world == 1:
            return
        # The sums run while later ones are queued; a list holds each buffer until its sum has arrived.
        pending = []
        for parameter in parameters:
            if parameter.grad is not None:
                total = parameter.grad.float()
                pending.append((parameter.grad, total, dist.all_reduce(total, async_op=True)))
        for gradient, total, handle in pending:
            handle.wait()
            if total is not gradient:
                gradient.copy_(total)

    def sum(self, values: list[float]) -> list[float]:
        """Sums over ranks of a few numbers, in float64."""
        if self.world == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def sum_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor` summed over ranks, in place."""
        if self.world > 1:
            dist.all_reduce(tensor)
        return tensor

    def from_first(self, value):
        """Rank 0's `value` (anything small), on every rank."""
        if self.world == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def wait(self) -> None:
        """Return when every rank has come here."""
        if self.world > 1:
            dist.barrier()

    def check_agreement(self, model: torch.nn.Module, step: int) -> None:
        """UserError unless every rank holds the same parameters, bit for bit."""
        if self.world == 1:
            return
        sums: list[str | None] = [None] * self.world
        dist.all_gather_object(sums, checksum(model))
        if len(set(sums)) > 1:
            raise UserError(
                f"after step {step} the {self.world} processes hold different parameters (SHA-256 {', '.join(map(str, sums))}); "
                "nothing was saved. Check that all run the same code and that no device reports memory errors, then start "
                "again: training goes on from the state saved before"
            )


@contextmanager
def ranks(device: str) -> Iterator[Ranks]:
    """The processes of this run: joins the others on entry and leaves them on exit. `device` is `cpu` or `cuda`."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    place = torch.device("cuda", local) if device == "cuda" else torch.device("cpu")
    if place.type == "cuda":
        if local >= torch.cuda.device_count():
            raise UserError(
                f"process {local} of this machine finds {torch.cuda.device_count()} GPUs; start one process a GPU "
                "(torchrun --nproc-per-node)"
            )
        torch.cuda.set_device(place)
    if world == 1:
        yield Ranks(device=place)
        return
    dist.init_process_group("nccl" if place.type == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield Ranks(dist.get_rank(), world, place)
        dist.barrier()  # the first process holds what the others meet through, and must not leave before them
    finally:
        dist.destroy_process_group()


def checksum(model: torch.nn.Module) -> str:
    """SHA-256 over the bytes of all parameters, in name order."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
