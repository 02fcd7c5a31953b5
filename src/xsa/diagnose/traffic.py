"""What the exclusive projection must move through memory at the least, and how fast this device moves bytes.

The projection does a handful of operations for every number it reads, so memory and not arithmetic bounds it (the roofline of
Williams, Waterman and Patterson, Communications of the ACM 52(4), 2009).
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import Any

import torch

from xsa.study.architecture import ModelConfig

COPIES = 20
# Far beyond any cache, so that memory is what is measured.
BUFFER_BYTES = {"cuda": 2**30, "cpu": 2**27}


def moved_bytes(config: ModelConfig, rows: int, itemsize: int) -> dict[str, int]:
    """Bytes that a pass over `rows` rows moves at the least for the projection, all exclusive layers together.

    forward: reads y and v, writes z; backward: reads the gradient of z, y and v, writes the gradients of y and v. `itemsize`
    is that of the compute dtype. A fused kernel moves fewer, for it has some of these at hand; eager operations move more.
    """
    layers = sum(config.alpha_of(layer) != 0 for layer in range(config.n_layer))
    head = rows * config.sequence_len * config.head_dim * itemsize * layers
    output, value = config.n_head * head, config.n_kv_head * head
    return {"forward": 2 * output + value, "backward": 3 * output + 2 * value}


def copy_speed(device: torch.device) -> float:
    """Bytes a second of a plain copy on the device, read and written ones both counted: the median of some copies."""
    size = BUFFER_BYTES[device.type]
    source, target = (torch.ones(size, dtype=torch.uint8, device=device) for _ in range(2))
    marks: list[Any] = []
    for _ in range(COPIES + 2):
        marks.append(mark(device))
        target.copy_(source)
    between = seconds(marks, device)[1:]
    return 2 * size / statistics.median(between)


def mark(device: torch.device) -> Any:
    """A point in time of the device's own work: an event on CUDA, which does not make the host wait, else the clock."""
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def seconds(marks: list[Any], device: torch.device) -> list[float]:
    """The seconds between marks in succession; waits for the device."""
    if device.type != "cuda":
        return [after - before for before, after in pairwise(marks)]
    torch.cuda.synchronize(device)
    return [before.elapsed_time(after) / 1000 for before, after in pairwise(marks)]
