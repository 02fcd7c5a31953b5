"""Whether a machine can run a study before anything is started there: checks, each with what to do where it fails.

The checks ask, and change nothing but one small file that they write under the results and remove.
"""

from __future__ import annotations

import os
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from xsa.study.doctor_check import FAILED, OK, SKIPPED, WARNING, Check, Shell
from xsa.study.doctor_slurm import slurm_checks
from xsa.study.machine import gpus, has_cuda
from xsa.study.outlook import outlook
from xsa.study.plan import Plan
from xsa.study.profile import Profile

# File systems that lie on one machine alone.
LOCAL_KINDS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "overlayfs", "ramfs")
# The oldest driver for each major version of CUDA, whatever its minor one:
# https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
OLDEST_DRIVER = {"11": 450, "12": 525, "13": 580}
TORCH_CODE = "import torch; print(torch.__version__, torch.version.cuda or '-', torch.cuda.is_available(), torch.cuda.device_count())"


def examine(plan: Plan, results: Path, profile: Profile | None, shell: Shell, submit: bool = False) -> Iterator[Check]:
    """All checks, one after another. `submit` sends a small job to the cluster, to see the results from a node."""
    yield _writable(results)
    yield _room(plan, results)
    yield from _torch(plan, profile, shell)
    yield from _data(plan, results)
    if profile is None:
        return
    yield _executor(profile)
    yield _shared(results, shell)
    if profile.executor == "slurm":
        yield from slurm_checks(profile, shell, results, submit)


# --- this machine ---


def _writable(results: Path) -> Check:
    trial = results / f".doctor.{os.getpid()}"
    try:
        results.mkdir(parents=True, exist_ok=True)
        trial.write_text("")
        trial.unlink()
    except OSError as error:
        return Check(
            "results folder",
            FAILED,
            f"{results.resolve()} cannot be written: {error.strerror}",
            "allow it, or make `results` a link to a folder that you may write to and that all nodes see",
        )
    return Check("results folder", OK, f"{results.resolve()} can be written")


def _room(plan: Plan, results: Path) -> Check:
    wanted = sum(line.cost.bytes for line in outlook(plan, results).lines)
    free = shutil.disk_usage(results if results.exists() else results.resolve().parent).free
    said = f"the study {plan.study.name!r} adds about {wanted / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free"
    if wanted > free:
        return Check(
            "free disk",
            FAILED,
            said,
            "free some room, or make `results` a link to a larger file system (a quota may allow less)",
        )
    return Check("free disk", OK, said)


def _torch(plan: Plan, profile: Profile | None, shell: Shell) -> Iterator[Check]:
    code, said = shell.said(sys.executable, "-c", TORCH_CODE, timeout=300)
    if code:
        yield Check(
            "torch", FAILED, said.splitlines()[-1] if said else "no answer", "install the environment: `make env`"
        )
        return
    version, cuda, available, count = said.splitlines()[-1].split()
    wants, cluster = plan.study.run.requires == "cuda", profile is not None and profile.executor is not None
    if cuda == "-" and wants:
        yield Check(
            "torch",
            FAILED,
            f"torch {version} is built without CUDA, and the study {plan.study.name!r} trains on GPUs",
            "install torch from an index with CUDA (docs/cluster.md), into the environment that the jobs use",
        )
        return
    yield Check("torch", OK, f"torch {version}, CUDA {cuda}")
    if cuda == "-":
        return
    if available == "True":
        yield Check("GPU and driver", OK, f"{count} GPUs can be used: {', '.join(gpus())}")
    elif has_cuda():
        yield _driver(cuda, shell)
    elif cluster:
        yield Check("GPU and driver", SKIPPED, "no GPU here; `xsa doctor --submit` looks at one from a job")
    elif wants:
        yield Check("GPU and driver", FAILED, "the study trains on GPUs and none is here", "run it where there is one")


def _driver(cuda: str, shell: Shell) -> Check:
    """Why torch of a version of CUDA cannot use the GPU that is here."""
    code, said = shell.said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    driver, oldest = said.splitlines()[0] if not code and said else "unknown", OLDEST_DRIVER.get(cuda.split(".")[0])
    found, number = f"a GPU is here, and torch cannot use it (driver {driver})", driver.partition(".")[0]
    if oldest is not None and number.isdecimal() and int(number) >= oldest:
        advice = f"the driver is new enough for CUDA {cuda} ({oldest}): look at CUDA_VISIBLE_DEVICES, and whether `nvidia-smi` lists it"
    else:
        needed = f"one from {oldest} on" if oldest else f"one for CUDA {cuda}"
        advice = f"have the driver updated to {needed}, or install torch for an older major version of CUDA (docs/cluster.md)"
    return Check("GPU and driver", FAILED, found, advice)


def _data(plan: Plan, results: Path) -> Iterator[Check]:
    wanted = [result for (stage, _), result in plan.results.items() if stage in ("shard", "bundle", "chatsets")]
    lacking = [one for one in wanted if not (one.folder(results) / "record.json").exists()]
    local = [one for one in lacking if one.source.get("path") and not Path(one.source["path"]).exists()]
    hub = [one for one in lacking if getattr(one.settings, "kind", "") in ("hub", "published")]
    if local:
        yield Check(
            "data", FAILED, f"{local[0].source['path']} is not there ({len(local)} in all)", "bring the folder here"
        )
    elif not hub:
        yield Check("data", OK, f"{len(wanted) - len(lacking)} of {len(wanted)} parts are there, the rest is made here")
    else:
        yield _reached(len(hub))


def _reached(count: int, open_url: Callable | None = None) -> Check:
    """Whether the hub answers from here."""
    address = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/") + "/api/whoami-v2"
    try:
        (open_url or urllib.request.urlopen)(address, timeout=15).close()
    except urllib.error.HTTPError:
        pass  # it answers; without a token with a refusal
    except (OSError, ValueError) as error:
        return Check(
            "data",
            FAILED,
            f"{count} files are to be fetched, and {address} does not answer ({getattr(error, 'reason', error)})",
            "run `snakemake --until shard bundle chatsets` where there is a network, and bring `results/` here (docs/cluster.md); or set "
            "HTTPS_PROXY or HF_ENDPOINT",
        )
    return Check("data", OK, f"{count} files are to be fetched, and {address} answers from here")


# --- a cluster ---


def _executor(profile: Profile) -> Check:
    name = profile.executor
    if name in (None, "local"):
        return Check("executor", OK, f"{profile.path}: jobs run on this machine")
    module = f"snakemake_executor_plugin_{name.replace('-', '_')}"
    if find_spec(module) is None:
        return Check("executor", FAILED, f"{module} is not installed", f"pip install {module.replace('_', '-')}")
    return Check("executor", OK, f"{profile.path}: {name}")


def _shared(results: Path, shell: Shell) -> Check:
    code, said = shell.said("stat", "--file-system", "--format=%T", str(results))
    kind = said.splitlines()[-1] if not code and said else "unknown"
    if kind.startswith(LOCAL_KINDS):
        return Check(
            "shared file system",
            WARNING,
            f"{results.resolve()} is on {kind}, which other machines rarely see",
            "put the project on the file system that all nodes share; `xsa doctor --submit` looks from a node",
        )
    return Check("shared file system", OK, f"{results.resolve()} is on {kind}")
