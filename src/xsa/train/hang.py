"""Several processes of which one hangs: all are ended, and each leaves the stack that it stood at.

Processes that train together wait for each other in every step, so that one that hangs holds up all for ever. Each has a
thread that expects a sign of life from the training loop. Where none comes, it writes the stacks of its process to the log and
beside the saved states, waits until the others have done the same, and ends the process. The one whose stack is not
in a collective operation is the one that hangs.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xsa.store.errors import UserError
from xsa.store.progress import Progress
from xsa.train.distributed import Ranks

EXIT_CODE = 2
STACKS = "stacks"
OTHERS_SECONDS = 20.0  # for the others, whose last sign of life may be a little younger


class HangWatch:
    """Expects `beat()` at least every `seconds`; `hung` is called by a thread where it does not come."""

    def __init__(self, seconds: float, hung: Callable[[], None]):
        self._seconds, self._hung = seconds, hung
        self._last, self._ended = time.monotonic(), threading.Event()
        self.found = False
        threading.Thread(target=self._watch, daemon=True).start()

    def beat(self) -> None:
        """Say that the process goes on."""
        self._last = time.monotonic()

    def end(self) -> None:
        """Expect nothing any more."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(min(1.0, self._seconds / 4)):
            if time.monotonic() - self._last > self._seconds:
                self.found = True
                self._hung()
                return


@contextmanager
def hang_watch(ranks: Ranks, minutes: float, state: Path, progress: Progress) -> Iterator[Callable[[], None]]:
    """Watch this process among several while the block runs; gives `beat`. One process alone is not watched."""
    if ranks.world == 1:
        yield lambda: None
        return
    folder = Path(state) / STACKS
    if ranks.first:
        for old in folder.glob("rank_*.txt"):
            old.unlink()
    ranks.wait()
    watch = HangWatch(60 * minutes, lambda: _end(ranks, minutes, folder, progress))
    try:
        yield watch.beat
    except BaseException:
        if watch.found:  # what ended the wait is that another has ended; the thread ends this one too, and says why
            time.sleep(2 * OTHERS_SECONDS)
        raise
    finally:
        watch.end()


def _end(ranks: Ranks, minutes: float, folder: Path, progress: Progress) -> None:
    """Leave this process's stacks, say what happened if it is the first, and end it."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".rank_{ranks.rank}.part"
        with open(part, "w", encoding="utf-8") as file:
            faulthandler.dump_traceback(file, all_threads=True)
        text = part.read_text(encoding="utf-8")
        print(f"process {ranks.rank} of {ranks.world} stands at\n{text}", file=sys.stderr, flush=True)
        os.replace(part, folder / f"rank_{ranks.rank}.txt")
    until = time.monotonic() + OTHERS_SECONDS
    while len(list(folder.glob("rank_*.txt"))) < ranks.world and time.monotonic() < until:
        time.sleep(0.1)
    if ranks.first:
        sentence = (
            f"no step was finished for {minutes:g} minutes (run.hang_minutes): one of the {ranks.world} processes hangs. The stack "
            f"of each is in {folder}; the one that is not in a collective operation is the one. Start again; training goes on from "
            "its last saved state"
        )
        progress.say(sentence)
        if progress.watcher is not None:
            progress.watcher.ended(UserError(sentence))
    os._exit(EXIT_CODE)
