"""What a run says of jobs that work elsewhere: how far the trainings are, and why jobs ended without a result."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from xsa.study.forecast import TRAINING
from xsa.study.plan import Plan
from xsa.study.states import Observer
from xsa.study.status import endings, standing

SAY_SECONDS = 60.0


class Watch:
    """Looks at the jobs of one run: pairs of stage and label@digest, of one plan each."""

    def __init__(self, plans: Iterable[tuple[Plan, set[tuple[str, str]]]], results: Path):
        self._looks = [(Observer(plan, results), jobs) for plan, jobs in plans]

    def start(self) -> None:
        """Print now and again, from a thread, how far each training is, where that has changed."""
        threading.Thread(target=self._say, daemon=True).start()

    def progress(self) -> list[str]:
        """A line for each training that goes on."""
        return [
            standing(state) for state in self._states().values() if state.state == "running" and state.stage in TRAINING
        ]

    def failures(self) -> list[str]:
        """Lines that say why jobs ended without a result, with the end of each log and its path."""
        return endings(self._states())

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
                print(line, file=sys.stderr, flush=True)
            said = now
