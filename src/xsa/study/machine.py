"""What this machine has, found without importing torch."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Machine(NamedTuple):
    """What decides the meaning of `auto`: whether there is a GPU, and a compiler."""

    cuda: bool
    compiler: bool


# All that `auto` can mean: a GPU, for which code is always compiled; none, with a compiler or without.
MACHINES = (Machine(True, True), Machine(False, True), Machine(False, False))


@cache
def has_cuda() -> bool:
    """True where an NVIDIA device node is there and not hidden by CUDA_VISIBLE_DEVICES."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
        return False
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()


def gpus() -> list[str]:
    """Names of the GPUs that a process started here may use, as CUDA_VISIBLE_DEVICES has them.

    Those that it names, else one for each device node. XSA_DEVICES, a list with commas, stands in for both.
    """
    listed = os.environ.get("XSA_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    if listed is not None:
        return [name for name in listed.replace(" ", "").split(",") if name and name != "-1"]
    nodes = [path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*")]
    return sorted(nodes, key=int) or (["0"] if Path("/dev/dxg").exists() else [])


@cache
def has_compiler() -> bool:
    """True where torch.compile finds a C++ compiler: the one that CXX names, or one of the usual names."""
    return any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "c++", "clang++") if name)


@cache
def gpu_model() -> str | None:
    """Name of this machine's first NVIDIA GPU as the driver tells it, e.g. `NVIDIA H200`; None where there is none."""
    if not has_cuda():
        return None
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("Model:"):
                return line.removeprefix("Model:").strip()
    return None


@cache
def torch_version() -> str | None:
    """Version of the installed torch, as `plain_version` has it; None where there is none."""
    try:
        return plain_version(importlib.metadata.version("torch"))
    except importlib.metadata.PackageNotFoundError:
        return None


def plain_version(version: str) -> str:
    """major.minor.patch of a version; what follows names a build (`2.13.0+cpu`), not what is computed."""
    return re.match(r"[0-9]*(\.[0-9]+)*", version)[0] or version
