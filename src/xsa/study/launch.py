"""Starting the processes of a job that several make together: on one node, or by `srun` on each node of a SLURM job.

Each process is told who it is in the words of `torchrun` (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR,
MASTER_PORT), so that it cannot tell which of both started it. This launcher stands in for torchrun in jobs, for three
things that a cluster does: SIGTERM and SIGUSR1 are passed on and waited for as long as saving takes (torchrun, of torch 2.13,
kills 30 seconds after SIGTERM, and dies of SIGUSR1 while its processes work on untold, unless its options say otherwise); the
exit code is that of the processes, 75 where they saved their state (torchrun's is 1, whatever theirs is); and when this process
is killed, its processes get SIGTERM and save (torchrun's work on, and keep their GPUs).
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from xsa.store.errors import UserError
from xsa.store.status import SAVED

# For the others to end by themselves once one has failed, and then after SIGTERM.
GRACE_SECONDS, KILL_SECONDS = 60.0, 20.0
PASSED_ON = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
ON_NODE = "XSA_ON_NODE"  # set in what `srun` starts on each node
KEPT = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CLUSTER_NAME", "SLURM_CONF")
MENDABLE = 2
_PR_SET_PDEATHSIG = 1


def launched_nodes(nodes: int) -> bool:
    """Whether `srun` is still to be called: several nodes are wanted, and this process was not started by it."""
    return nodes > 1 and ON_NODE not in os.environ


def run_on_nodes(arguments: Sequence[str], nodes: int) -> int:
    """Call `xsa` with these arguments once on each node of this SLURM job; the highest exit code of all.

    UserError outside a SLURM job.
    """
    if "SLURM_JOB_ID" not in os.environ:
        raise UserError(
            f"{nodes} nodes are asked for, and this is no SLURM job; start it by `snakemake --profile slurm`, or call torchrun on "
            "each node yourself"
        )
    # What describes the step that this runs in would bind the new one to it.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_") or name in KEPT}
    command = [
        *("srun", "--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--cpu-bind=none"),
        *("--kill-on-bad-exit=0", sys.executable, "-m", "xsa", *arguments),
    ]
    return supervise([start(command, kept | {ON_NODE: str(nodes)})])


def run_processes(arguments: Sequence[str], count: int, held: Iterable[int] = ()) -> int:
    """Run `count` processes of `xsa` with these arguments on this node, which are all, or this node's share; their exit code.

    held: file descriptors that stay open as long as one of them lives.
    """
    nodes = int(os.environ.get(ON_NODE, "1"))
    node = int(os.environ.get("SLURM_NODEID", "0")) if nodes > 1 else 0
    address, port = _meeting_on_nodes() if nodes > 1 else ("127.0.0.1", _free_port())
    shared = {
        "WORLD_SIZE": str(nodes * count),
        "LOCAL_WORLD_SIZE": str(count),
        "GROUP_RANK": str(node),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }
    command = [sys.executable, "-m", "xsa", *arguments]
    # Where one dies the library warns in the others by a hundred lines of its own stack, before they say so in a sentence.
    told = {"TORCH_CPP_LOG_LEVEL": "ERROR"} | os.environ | shared
    processes = [
        start(command, told | {"RANK": str(node * count + local), "LOCAL_RANK": str(local)}, held)
        for local in range(count)
    ]
    return supervise(processes)


def start(command: Sequence[str], environment: dict[str, str], held: Iterable[int] = ()) -> subprocess.Popen:
    """A process in a group of its own, which gets SIGTERM when this one dies."""
    parent = os.getpid()
    libc = ctypes.CDLL(None)

    def begin() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return subprocess.Popen(command, env=environment, pass_fds=tuple(held), process_group=0, preexec_fn=begin)


def supervise(processes: Sequence[subprocess.Popen], grace: float = GRACE_SECONDS, kill: float = KILL_SECONDS) -> int:
    """Wait for all of `processes`, passing signals on; the exit code of the whole.

    Once one has failed the others have `grace` seconds, then SIGTERM and `kill` seconds, then SIGKILL.
    """
    failed: float | None = None
    with _passing_on(processes):
        # All are asked each time, for one that has not been asked has no exit code.
        while None in (codes := [process.poll() for process in processes]):
            now = time.monotonic()
            if failed is None and any(codes):
                failed = now
            if failed is not None and now - failed > grace:
                _signal(processes, signal.SIGTERM if now - failed < grace + kill else signal.SIGKILL)
            time.sleep(0.1)
    return exit_code([process.returncode for process in processes])


def exit_code(codes: Iterable[int]) -> int:
    """One code for those of all processes: 0 where all are; 75 where all that failed saved; else what says most.

    A death by signal n is 128 + n. What a user can mend (2) goes before what follows from it in other processes.
    """
    failed = [128 - code if code < 0 else code for code in codes if code]
    if not failed:
        return 0
    others = [code for code in failed if code != SAVED]
    # What ended by a signal was mostly ended by this launcher, for another had failed.
    return MENDABLE if MENDABLE in others else min(others, key=lambda code: code > 128) if others else SAVED


@contextmanager
def _passing_on(processes: Sequence[subprocess.Popen]) -> Iterator[None]:
    def pass_on(number: int, frame: object) -> None:
        _signal(processes, number)

    before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signal(processes: Sequence[subprocess.Popen], number: int) -> None:
    for process in processes:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                process.send_signal(number)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _meeting_on_nodes(ask: Callable[[list[str]], str] | None = None) -> tuple[str, int]:
    """Address of the job's first node, and a port that all its nodes find alike. UserError where SLURM does not say."""
    ask = ask or _told_by
    listed = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST", "")
    names = ask(["scontrol", "show", "hostnames", listed]).split() if listed else []
    if not names:
        raise UserError(
            "SLURM names no nodes of this job (SLURM_JOB_NODELIST); start it by `snakemake --profile slurm`"
        )
    found = re.search(r"NodeAddr=(\S+)", ask(["scontrol", "show", "node", names[0]]))
    # Below the ports that systems give out by themselves.
    return found[1] if found else names[0], 20_000 + int(os.environ["SLURM_JOB_ID"]) % 10_000


def _told_by(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
