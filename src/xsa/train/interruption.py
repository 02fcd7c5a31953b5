"""Being asked to stop: a scheduler's signal is noted, and the training loop looks for it between two steps."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

# EX_TEMPFAIL: nothing is wrong, run it again and it goes on.
EXIT_CODE = 75


class Interruption:
    """Whether the run was asked to stop, and whether it is time to save; both are looked at between steps."""

    def __init__(
        self, save_minutes: float, most_share: float | None = None, clock: Callable[[], float] = time.monotonic
    ):
        self.signal: str | None = None
        self._clock, self._interval, self._took = clock, 60 * save_minutes, 0.0
        self._most_share = most_share
        self._saved = clock()

    def due(self) -> bool:
        """True when `save_minutes` have passed since the last save, and so long that its time was at most `most_share` of it."""
        enough = self._took / self._most_share if self._most_share else 0.0
        return self._clock() - self._saved >= max(self._interval, enough)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Save in this block: its time is taken, and the minutes count from its end."""
        started = self._clock()
        try:
            yield
        finally:
            self._saved = self._clock()
            self._took = self._saved - started


@contextmanager
def interruption(save_minutes: float, most_share: float | None = None) -> Iterator[Interruption]:
    """Watch for SIGTERM, SIGUSR1 (what schedulers send before a time limit) and Ctrl-C while the block runs."""
    watch = Interruption(save_minutes, most_share)

    def note(number: int, frame: FrameType | None) -> None:
        watch.signal = signal.Signals(number).name

    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)}
    try:
        yield watch
    finally:
        for number, handler in before.items():
            with suppress(TypeError):  # a handler that was not set from Python cannot be put back
                signal.signal(number, handler)
