"""Kernels that repeat themselves: the same bits each time, on the same kind of device."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from xsa.store.errors import UserError


@contextmanager
def deterministic(wanted: bool, warn_only: bool = False) -> Iterator[None]:
    """Where `wanted`, have torch use only kernels that add in one order while the block runs.

    To be entered before anything is computed on a GPU, for cuBLAS reads its part of this once. UserError where an operation
    has no such kernel; with `warn_only` that one goes on without.
    """
    if not wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        yield
    except RuntimeError as error:
        if "does not have a deterministic implementation" not in str(error):
            raise
        raise UserError(
            f"{str(error).split(',')[0]}; set run.deterministic: false, or run on another device"
        ) from error
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
