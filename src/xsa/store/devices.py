"""GPUs of one machine, handed out to jobs: each takes its own, by a lock on a file for each device.

The lock is the kernel's (flock), on a file in the machine's own temporary folder: it holds as long as a process has the file
open, and ends with the last of them, however they end. Inside a SLURM job the devices are those of the job, and so are
the files.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from xsa.store.errors import UserError

WAIT_SECONDS = 2.0


@contextmanager
def claimed(
    count: int, names: Sequence[str], share: bool = False, say: Callable[[str], None] = lambda sentence: None
) -> Iterator[list[int]]:
    """Have `count` of the devices `names` for this process and those it starts, waiting until so many are free.

    CUDA_VISIBLE_DEVICES names them while the block runs. Gives the descriptors of the locks, for processes that are to hold
    them too. With `share`, devices that others hold are taken where none is free. Nothing happens where `names` is empty.
    UserError where there are fewer devices than asked for.
    """
    if not names or not count:
        yield []
        return
    if count > len(names):
        raise UserError(
            f"{count} GPUs are asked for, and this machine has {len(names)} ({', '.join(names)}); lower run.gpus or --devices"
        )
    taken = _take(count, names)
    if not taken and not share:
        say(f"waits for {count} of the GPUs {', '.join(names)}, which other jobs use")
    while not taken and not share:
        time.sleep(WAIT_SECONDS)
        taken = _take(count, names)
    if not taken:
        first = os.getpid() % len(names)
        taken = {name: -1 for name in (*names[first:], *names[:first])[:count]}
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(taken)
    held = [handle for handle in taken.values() if handle >= 0]
    try:
        yield held
    finally:
        for handle in held:
            os.close(handle)
        if before is None:
            del os.environ["CUDA_VISIBLE_DEVICES"]
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = before


def _take(count: int, names: Sequence[str]) -> dict[str, int]:
    """Locks on `count` devices, by name; none where fewer are free."""
    turn = _open("turn")
    try:
        # One at a time, so that no two jobs hold half of what both need.
        fcntl.flock(turn, fcntl.LOCK_EX)
        taken: dict[str, int] = {}
        for name in names:
            handle = _open(name)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                taken[name] = handle
            except BlockingIOError:
                os.close(handle)
            if len(taken) == count:
                return taken
        for handle in taken.values():
            os.close(handle)
        return {}
    finally:
        os.close(turn)


def _open(name: str) -> int:
    # SLURM counts the devices of each job, on each node, from 0.
    slurm = [os.environ[name] for name in ("SLURM_JOB_ID", "SLURMD_NODENAME") if name in os.environ]
    folder = Path(tempfile.gettempdir()) / "-".join(["xsa-devices", str(os.getuid()), *slurm])
    folder.mkdir(mode=0o700, exist_ok=True)
    return os.open(folder / (re.sub(r"[^A-Za-z0-9.-]", "_", name) + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
