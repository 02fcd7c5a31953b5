"""A stage's voice: which job, how far, how fast, how long still. To standard error and to the job's log."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from xsa.store.status import JobStatus


class Progress:
    """Prints one line at a time, at most one every `interval` seconds for steps; sentences always.

    Lines carry the job's name, for several jobs share a terminal. `log` is the path of the job's log, if there is one;
    `watcher` is told the same as the terminal, for those who look from outside.
    """

    def __init__(self, name: str = "", stream: TextIO | None = None, log: Path | None = None, interval: float = 5.0):
        self.name, self.stream, self.interval = name, stream, interval
        self.log = None if log is None else str(log)
        self.watcher: JobStatus | None = None
        self._log = None
        if log is not None:
            # A log that cannot be written must not fail the work that it tells of.
            with suppress(OSError):
                Path(log).parent.mkdir(parents=True, exist_ok=True)
                self._log = open(log, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - lives as long as the job
        self._last = 0.0
        self._start: tuple[float, int] | None = None

    @classmethod
    def terminal(cls, name: str, log: Path | None = None) -> Progress:
        """A voice on standard error."""
        return cls(name, sys.stderr, log)

    def say(self, sentence: str) -> None:
        """Print one sentence now."""
        self._write(sentence)
        if self.watcher is not None:
            self.watcher.said(sentence)

    def step(self, done: int, total: int, unit: str = "step", **numbers: float | str) -> None:
        """Report that `done` of `total` units are finished, with `numbers` beside; first and last are always printed."""
        now = time.monotonic()
        if self._start is None or done < self._start[1]:
            self._start = (now, done)
        elif done < total and now - self._last < self.interval:
            return
        self._last = now
        parts = [f"{unit} {done:,}/{total:,}"]
        parts += [f"{name} {_short(value)}" for name, value in numbers.items()]
        begun, first = self._start
        left = (now - begun) / (done - first) * (total - done) if first < done < total else None
        if left is not None:
            parts.append(f"{duration(left)} left")
        self._write("  ".join(parts))
        if self.watcher is not None:
            self.watcher.step(done, total, unit, numbers, left)
        if done >= total:
            self._start = None

    def note(self, text: str) -> None:
        """Write to the log alone; the terminal is told by whoever reports the error."""
        if self._log is not None:
            with suppress(OSError):
                print(text, file=self._log, flush=True)

    def _write(self, text: str) -> None:
        line = f"{self.name}  {text}" if self.name else text
        for stream in (self.stream, self._log):
            if stream is not None:
                with suppress(OSError):
                    print(line, file=stream, flush=True)


def _short(value: float | str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def duration(seconds: float) -> str:
    """Seconds in words: `42 s`, `3 min 05 s`, `5 h 12 min`."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
