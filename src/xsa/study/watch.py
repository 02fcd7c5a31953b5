"""What a run says of jobs that work elsewhere: how far the trainings are, and why jobs ended without a result."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Container, Iterable
from pathlib import Path

from xsa.store.progress import duration
from xsa.study.forecast import TRAINING
from xsa.study.plan import Plan
from xsa.study.reuse import Key
from xsa.study.states import Observer, State
from xsa.study.status import endings, standing

SAY_SECONDS = 60.0
# Clocks of nodes differ by seconds.
CLOCKS_SECONDS = 60.0
# More trainings than these are told in one line together.
TOLD = 8


class Watch:
    """Looks at the jobs of one run: pairs of stage and label@digest, of one plan each."""

    def __init__(self, plans: Iterable[tuple[Plan, set[tuple[str, str]]]], results: Path):
        self._looks = [(Observer(plan, results), jobs) for plan, jobs in plans]
        self._began = time.time()

    def start(self) -> None:
        """Print now and again, from a thread, how far each training is, where that has changed."""
        threading.Thread(target=self._say, daemon=True).start()

    def progress(self) -> list[str]:
        """A line for each training that goes on; one for all of them where they are many."""
        going = [state for state in self._states().values() if state.state == "running" and state.stage in TRAINING]
        return [standing(state) for state in going] if len(going) <= TOLD else [_together(going)]

    def failures(self, silent: Container[Key] = ()) -> list[str]:
        """Lines that say why jobs of the run ended without a result, with the end of each log and its path.

        Passed by are `silent`, results whose last job said nothing.
        """
        since = self._began - CLOCKS_SECONDS
        states = {place: one for place, one in self._states().items() if place not in silent}
        return endings({place: one for place, one in states.items() if one.ended is None or one.ended > since})

    def ended(self, place: Key) -> State | None:
        """How a job of the run that has ended without a result ended; None where it said nothing."""
        return next((observer.ended(place) for observer, jobs in self._looks if place in jobs), None)

    def _states(self) -> dict:
        return {
            place: state for observer, jobs in self._looks for place, state in observer.look().items() if place in jobs
        }

    def _say(self) -> None:
        said: set[str] = set()
        while True:
            time.sleep(SAY_SECONDS)
            try:
                now = set(self.progress())
            except OSError:  # results that cannot be read for a moment; progress is no reason to end a run
                continue
            for line in sorted(now - said):
                print(f"{time.strftime('%H:%M')}  {line}", file=sys.stderr, flush=True)
            said = now


def _together(going: list[State]) -> str:
    """One line on how far many trainings are."""
    told = [state.progress for state in going if state.progress]
    parts = [f"{len(going)} trainings go on"]
    shares = [100 * one["done"] // one["total"] for one in told if one["total"]]
    if shares:
        parts.append(f"{min(shares)} to {max(shares)} % done")
    left = [one["seconds_left"] for one in told if one["seconds_left"] is not None]
    if left:
        parts.append(f"the first has {duration(min(left))} left, the last {duration(max(left))}")
    return ", ".join(parts)
