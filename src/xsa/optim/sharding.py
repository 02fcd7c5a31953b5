"""Tensors shared out over ranks: each rank owns one slice of the first axis, and collectives sum, join and gather slices.

Slices are of one size, in rank order; where the axis does not divide, the last ranks own less or nothing, and what is sent is
padded. With one rank everything is its own, and nothing is sent or copied. Axis L is the one that is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

# torch 2.13 gave both collectives new names and warns of the old ones.
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

Wait = Callable[[], Tensor]


@dataclass(frozen=True)
class Sharding:
    """This rank's part of what `world` ranks share. Every method but `own` is called by all of them, in one order."""

    rank: int = 0
    world: int = 1

    def own(self, length: int) -> slice:
        """The indices of an axis of `length` that this rank owns."""
        size = self._size(length)
        return slice(min(self.rank * size, length), min((self.rank + 1) * size, length))

    def sum_slices(self, full_L: Tensor) -> Wait:
        """Start to add up `full_L` over ranks; the call that is returned waits and gives this rank's slice of the sum.

        Sums are in float32 at least, and rounded to the tensor's dtype once.
        """
        if self.world == 1:
            return lambda: full_L
        length, dtype = len(full_L), full_L.dtype
        sent_L = self._padded(full_L.to(torch.promote_types(dtype, torch.float32)), self.world * self._size(length))
        received = torch.empty_like(sent_L[: self._size(length)])
        work = _reduce_scatter(received, sent_L, async_op=True)
        owned = self.own(length)

        def wait() -> Tensor:
            work.wait()
            return received[: owned.stop - owned.start].to(dtype)

        return wait

    def sum_stack(self, tensors: list[Tensor]) -> Callable[[], list[Tensor]]:
        """The same for tensors of one shape, each owned by one rank: the call gives the sums of this rank's own ones."""
        if self.world == 1:
            return lambda: tensors
        wait = self.sum_slices(torch.stack(tensors))
        return lambda: list(wait().unbind(0))

    def join(self, slice_L: Tensor, length: int) -> Wait:
        """Start to put the ranks' slices together; the call that is returned waits and gives all `length` of them."""
        if self.world == 1:
            return lambda: slice_L
        sent_L = self._padded(slice_L, self._size(length))
        joined_L = sent_L.new_empty(self.world * len(sent_L), *sent_L.shape[1:])
        work = _all_gather(joined_L, sent_L, async_op=True)

        def wait() -> Tensor:
            work.wait()
            return joined_L[:length]

        return wait

    def gather(self, slice_L: Tensor, length: int) -> Tensor | None:
        """The ranks' slices put together, in the first rank's main memory; None on every other."""
        if self.world == 1:
            return slice_L
        sent_L = self._padded(slice_L, self._size(length))
        parts = [torch.empty_like(sent_L) for _ in range(self.world)] if self.rank == 0 else None
        dist.gather(sent_L, parts, dst=0)
        return torch.cat(parts)[:length].cpu() if parts else None

    def sum(self, tensor: Tensor) -> Tensor:
        """`tensor` added up over ranks, in place."""
        if self.world > 1:
            dist.all_reduce(tensor)
        return tensor

    def least(self, value: int, device: torch.device) -> int:
        """The smallest `value` of all ranks. `device` is one that the ranks can send from."""
        if self.world == 1:
            return value
        box = torch.tensor(value, device=device)
        dist.all_reduce(box, dist.ReduceOp.MIN)
        return int(box)

    def _size(self, length: int) -> int:
        return -(-length // self.world)

    def _padded(self, tensor_L: Tensor, length: int) -> Tensor:
        """`tensor_L` with zeros behind, up to `length`; itself, contiguous, where it is as long."""
        missing = length - len(tensor_L)
        return F.pad(tensor_L, [0, 0] * (tensor_L.dim() - 1) + [0, missing]) if missing else tensor_L.contiguous()
