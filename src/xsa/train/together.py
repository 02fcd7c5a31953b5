"""Several processes that make one result: how they meet, begin, fail and end.

`torchrun` starts them and says in the environment who they are and where they meet. The first works as a lone process would:
it alone takes the lock, owns the result's folder and speaks. Where it would run the stage, it sends the job to the others, and
all run the stage's function, in which `xsa.train.distributed` makes them one.

None waits for one that failed. Whoever fails first says so on a board that all processes look at every second; it alone
prints its sentence, and the others end without one.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import torch
import torch.distributed as dist

from xsa.store.errors import UserError
from xsa.store.job import Job
from xsa.store.produce import run_stage
from xsa.store.progress import Progress
from xsa.store.status import peer_is_gone
from xsa.study.stages import STAGES
from xsa.train.interruption import EXIT_CODE

# The first packs conversations and hashes files while the others wait; the library's ten minutes are too few for that.
_PATIENCE = timedelta(hours=4)
# One that does not come, perhaps on another node, must not have the others hold their GPUs for as long.
_MEETING = timedelta(minutes=15)
_GRACE_SECONDS = 10.0  # for ending by itself after another has failed
_FAILED = 2


class Board:
    """Short notes that all processes read: `job`, `failed`, `left`; and `gone`, how many of the others have ended."""

    def __init__(self, store: dist.Store):
        # A copy has a connection of its own, which nothing else blocks.
        self._store = dist.PrefixStore("board", store.clone())

    def post(self, key: str, value: bytes = b"1") -> None:
        """Write a note."""
        self._store.set(key, value)

    def read(self, key: str) -> bytes | None:
        """A note, or None where nobody wrote it."""
        return self._store.get(key) if self._store.check([key]) else None

    def count(self, key: str, by: int) -> int:
        """The number under `key`, raised by `by`."""
        return self._store.add(key, by)

    def claim_failure(self, rank: int) -> bool:
        """Say that this process fails; True where it is the first, or the board is gone with the process that held it."""
        try:
            return self._store.compare_set("failed", "", str(rank)) == str(rank).encode()
        except dist.DistError:
            return True


class Together:
    """This process among those of a run."""

    def __init__(self, board: Board, rank: int, world: int):
        self._board, self._rank, self._world = board, rank, world

    @property
    def first(self) -> bool:
        """True in the one process that writes files and speaks."""
        return self._rank == 0

    def begin(self, job: Job) -> None:
        """Have the others run the stage of `job` too; for the first process."""
        self._board.post("job", pickle.dumps(replace(job, progress=Progress())))

    def follow(self) -> None:
        """Run the first one's job as soon as it begins; return without where it ends and needs no help."""
        job = self._await("job")
        if job:
            run_stage(pickle.loads(job))

    def leave(self) -> None:
        """End well: the others when the first is done, the first after them, for it may hold the board itself."""
        if self.first:
            self._board.post("left")
            until = time.monotonic() + _GRACE_SECONDS
            while self._board.count("gone", 0) < self._world - 1 and time.monotonic() < until:
                time.sleep(0.02)
        else:
            self._await("left")
            self._board.count("gone", 1)
        dist.destroy_process_group()

    def _await(self, key: str) -> bytes | None:
        """The note `key`; None when the first has left. SystemExit where some process has failed."""
        while True:
            try:
                if self._board.read("failed"):
                    raise SystemExit(_FAILED)
                note = self._board.read(key)
                if note or self._board.read("left"):
                    return note
            except dist.DistError:  # the first may hold the board itself, and be gone with it
                return None
            time.sleep(0.05)


def make_together(stage: str, make: Callable[[Callable[[Job], None]], object]) -> None:
    """Make a result in all processes that were started: the first by `make(begin)`, the others by the job it begins.

    UserError, in one of them, for whatever fails in any; SystemExit in the others.
    """
    with together() as processes:
        if not STAGES[stage].several:
            raise UserError(f"{stage} is made by one process, and several were started; call it without torchrun")
        if processes.first:
            make(processes.begin)
        else:
            processes.follow()


@contextmanager
def together() -> Iterator[Together]:
    """Meet the other processes of the environment's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and end with them."""
    store, rank, world = _meet()
    board, ended = Board(store), threading.Event()
    watch = threading.Thread(target=_watch, args=(Board(store), ended), daemon=True)
    watch.start()
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    group = dist.PrefixStore("group", store)
    processes = Together(board, rank, world)
    try:
        dist.init_process_group(backend, store=group, rank=rank, world_size=world, timeout=_PATIENCE)
        yield processes
        processes.leave()
    except SystemExit as stop:
        # All stop for the same signal; any other exit is this one's alone.
        if stop.code == EXIT_CODE:
            processes.leave()
        else:
            board.claim_failure(rank)
        raise
    except BaseException as error:
        if not board.claim_failure(rank):
            raise SystemExit(_FAILED) from None
        if peer_is_gone(error):
            raise UserError(
                f"another of the {world} processes ended without a word: killed, out of memory, or its machine went down. "
                "Start again; a training goes on from its last saved state"
            ) from error
        raise
    finally:
        ended.set()
        # Python's end aborts a thread that is inside the library, and the process with it.
        watch.join(_GRACE_SECONDS)


def _meet() -> tuple[dist.Store, int, int]:
    """The store that all processes have come to, this one's number, and how many they are. UserError where some do not come."""
    # The library waits outside of Python, where a handler of Python's would not be called.
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        store, rank, world = next(dist.rendezvous("env://", timeout=_MEETING))
    except dist.DistError as error:
        host, port, world = (os.environ[name] for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"))
        raise UserError(
            f"the {world} processes did not meet at {host}, port {port} ({str(error).splitlines()[0]}): one of them did not start, "
            "or another program uses that port; read what the others say, and start again"
        ) from error
    finally:
        signal.signal(signal.SIGTERM, before)
    store.set_timeout(_PATIENCE)
    return store, rank, world


def _watch(board: Board, ended: threading.Event) -> None:
    """End this process where another has failed and it does not end by itself, for it may wait for that one for ever."""
    while not ended.wait(1.0):
        try:
            failed = board.read("failed")
        except dist.DistError:
            failed = b"the first"
        if failed:
            if not ended.wait(_GRACE_SECONDS):
                os._exit(_FAILED)
            return
