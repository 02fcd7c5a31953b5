"""One study from an empty folder to its page, hit on the way."""

from __future__ import annotations

import random
import re
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from chaos_checks import Hashes, Watcher, differences, leftovers, said_badly
from chaos_kinds import Chance, Deck, Hit, Kind, await_moment
from chaos_scene import Job, Scene, reached, send
from tests.slurm.project import Driver
from tests.workflow.conftest import MiniProject

LOOK_SECONDS = 0.2
# A study that is not done so long after its last kill hangs.
HANG_SECONDS = 300.0
COMMAND = [
    str(Path(sys.executable).with_name("snakemake")),
    "--cores",
    "2",
    "--retries",
    "100",
    "--config",
    "study=mini",
]


@dataclass
class Kill:
    """A kill that was done. `step`: about where the training was; `saved`: its newest whole state; `lost`: steps done again."""

    kind: str
    hit: Hit
    step: int = 0
    saved: int = 0
    mark: tuple[int, int] = (0, 0)
    lost: int | None = None


class Round:
    """`run` does it; then `faults` are sentences on what went wrong. `done`: kills of the rounds before."""

    def __init__(self, project: MiniProject, deck: Deck, rng: random.Random, done: int):
        self.scene, self.deck, self.rng, self.done = Scene(project), deck, rng, done
        self.watcher = Watcher(self.scene)
        self.kills: list[Kill] = []
        self.faults: list[str] = []
        self.drivers = 0
        self.complete = self._hit_driver = self._full = False

    def run(self, wanted: int, undisturbed: Hashes) -> None:
        """Start drivers until the study is done, doing at most `wanted` kills on the way; then look at what is there."""
        driver, last = self._start(), time.monotonic()
        while True:
            self._look()
            if driver.process.poll() is not None:
                code = driver.process.returncode
                self.faults += said_badly(driver.text(), code, self._hit_driver or self._full)
                if code == 0:
                    break
                driver = self._start()
            if len(self.kills) < wanted and self._kill(driver):
                last = time.monotonic()
            if time.monotonic() - last > HANG_SECONDS:
                self.faults.append(f"not done {HANG_SECONDS:g} s after the last kill:\n{driver.text()[-3000:]}")
                return
            time.sleep(LOOK_SECONDS)
        self.complete = True
        self.faults += [
            *self.watcher.faults,
            *self.watcher.changed(),
            *differences(self.scene, undisturbed),
            *leftovers(self.scene),
        ]

    def _start(self) -> Driver:
        self.drivers += 1
        self._hit_driver = self._full = False
        return Driver(self.scene.project, COMMAND)

    def _kill(self, driver: Driver) -> bool:
        """Do one kill, if there is a victim for any kind now."""
        jobs = self.scene.jobs()

        def look(kind: Kind, phase: str) -> Job | None:
            return kind.find(Chance(self.scene, driver, jobs, self.rng, phase))

        dealt = self.deck.deal(look)
        if dealt is None:
            return False
        kind, phase, job = dealt
        chance = Chance(self.scene, driver, jobs, self.rng, phase)
        if not await_moment(chance, kind, job) or driver.process.poll() is not None:
            self.deck.put_back(kind, phase)
            return False
        now = time.time()
        send(job.everyone, signal.SIGSTOP)
        self._look()
        kill = Kill(kind.name, Hit(""))
        if phase == "training":
            states = self.scene.good_states(job)
            kill.saved, kill.step = states[0].step if states else 0, reached(states[0] if states else None, now)
        log = self.scene.log(job)
        kill.mark = (log.stat().st_ino, log.stat().st_size) if log.exists() else (0, 0)
        kill.hit = kind.strike(chance, job)
        send(job.everyone, signal.SIGCONT)
        if kill.hit.damaged and states:
            kill.saved = states[kill.hit.damaged].step if len(states) > kill.hit.damaged else 0
        self._hit_driver |= kill.hit.hurts_driver
        self._full |= kill.hit.filled_disk
        self.kills.append(kill)
        where = f"step {kill.step}, saved {kill.saved}" if phase == "training" else ""
        print(
            f"{self.done + len(self.kills):4} {kind.name:<30} {job.stage:<10} {where:<22} {kill.hit.victim}", flush=True
        )
        return True

    def _look(self) -> None:
        """See who makes what, and from which step trainings went on that were ended."""
        self.watcher.look()
        for kill in self.kills:
            if kill.lost is None and kill.hit.ends:
                step = self._goes_on(kill)
                if step is not None:
                    kill.lost = max(0, kill.step - step)
                    if step < kill.saved:
                        self.faults.append(f"{kill.kind}: saved {kill.saved} steps, and went on after {step}")

    def _goes_on(self, kill: Kill) -> int | None:
        try:
            log = self.scene.log(kill.hit.job)
            text = log.read_text()
            if log.stat().st_ino == kill.mark[0]:
                text = text.encode()[kill.mark[1] :].decode()
        except OSError:
            return None
        found = re.search(r"goes on after step ([\d,]+) of|step (1)/", text)
        return None if found is None else int(found[1].replace(",", "")) if found[1] else 0
