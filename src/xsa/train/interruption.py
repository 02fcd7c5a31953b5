"""Being asked to stop: a scheduler's signal is noted, and the training loop looks for it between two steps."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

# EX_TEMPFAIL: nothing is wrong, run it again and it goes on.
EXIT_CODE = 75


class Interruption:
    """Whether the run was asked to stop, and whether it is time to save; both are looked at between steps."""

    def __init__(self, save_minutes: float):
        self.signal: str | None = None
        self._interval = 60 * save_minutes
        self._saved = time.monotonic()

    def due(self) -> bool:
        """True when `save_minutes` have passed since the last saved state."""
        return time.monotonic() - self._saved >= self._interval

    def saved(self) -> None:
        """Count the minutes from now on."""
        self._saved = time.monotonic()


@contextmanager
def interruption(save_minutes: float) -> Iterator[Interruption]:
    """Watch for SIGTERM, SIGUSR1 (what schedulers send before a time limit) and Ctrl-C while the block runs."""
    watch = Interruption(save_minutes)

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
