"""Several processes that train one model: who they are, sums over them, and proof that they agree.

Every process holds the whole model. A step's rows are split into contiguous parts, one a rank, every rank divides its
loss by the target count of the *whole* batch, and gradients are summed: N ranks compute what one computes. How the
processes come together is `xsa.train.together`'s; without it there is one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from xsa.optim.sharding import Sharding
from xsa.store.errors import UserError


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

    @property
    def sharding(self) -> Sharding:
        """How the optimizer's state is cut over the ranks."""
        return Sharding(self.rank, self.world)

    def part(self, rows: int) -> tuple[int, int]:
        """First row and end of this rank's contiguous part of a batch of `rows`. UserError where they do not divide."""
        if rows % self.world:
            raise UserError(
                f"a batch of {rows} rows cannot be split over {self.world} processes; start a number of processes that "
                f"divides {rows}, or choose a batch that {self.world} divides"
            )
        size = rows // self.world
        return self.rank * size, (self.rank + 1) * size

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
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def wait(self) -> None:
        """Return when every rank has come here."""
        self.sum([0.0])

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
    """The processes of this run, which leave the block together. `device` is `cpu` or `cuda`; each takes a GPU of its own."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    place = torch.device("cuda", local) if device == "cuda" else torch.device("cpu")
    if place.type == "cuda":
        if local >= torch.cuda.device_count():
            raise UserError(
                f"process {local} of this machine finds {torch.cuda.device_count()} GPUs; start one process a GPU "
                "(torchrun --nproc-per-node)"
            )
        torch.cuda.set_device(place)
    group = Ranks(dist.get_rank(), dist.get_world_size(), place) if dist.is_initialized() else Ranks(device=place)
    yield group
    group.wait()


def checksum(model: torch.nn.Module) -> str:
    """SHA-256 over the bytes of all parameters, in name order."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
