"""What this machine has, found without importing torch."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path


@cache
def has_cuda() -> bool:
    """True where an NVIDIA device node is there and not hidden by CUDA_VISIBLE_DEVICES."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
        return False
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()


@cache
def has_compiler() -> bool:
    """True where torch.compile finds a C++ compiler: the one that CXX names, or one of the usual names."""
    return any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "c++", "clang++") if name)
