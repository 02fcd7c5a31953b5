"""The kinds of kills: whom each hits, when, and how."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from chaos_scene import PHASES, TRAINING, Job, Scene, alive, send
from tests.slurm.project import Driver

MILD = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
# A training is hit after it has saved once to so many times more, and so many seconds.
SAVES, LATER = 4, 0.1
PAUSE = (0.5, 2.0)
PATIENCE = 60.0


@dataclass
class Chance:
    """What a kind may hit now: a running job, the driver, and whatever runs beside."""

    scene: Scene
    driver: Driver
    jobs: list[Job]
    rng: random.Random
    phase: str

    def running(self, phase: str) -> list[Job]:
        """Jobs of one part of the study that work."""
        return [job for job in self.jobs if job.stage in PHASES[phase]]

    def trainings(self) -> list[Job]:
        """Trainings that work and have saved a state."""
        return [job for job in self.running("training") if self.scene.at_work(job) and self.scene.states(job)]


@dataclass
class Hit:
    """One kill. `ends` says whether the training `job` is ended by it, `damaged` how many of its states are."""

    victim: str
    job: Job | None = None
    ends: bool = False
    damaged: int = 0
    hurts_driver: bool = False
    filled_disk: bool = False


@dataclass
class Kind:
    """A kind: its victim among what runs, or None; and what is done to it, which is stopped at that moment and goes on after."""

    name: str
    find: Callable[[Chance], Job | None]
    strike: Callable[[Chance, Job], Hit]
    anywhere: bool = False
    while_saving: bool = False


@dataclass
class Deck:
    """`wanted` kinds in random order, each as often as the others; those that hit whatever runs get a part of the study each."""

    kinds: list[Kind]
    rng: random.Random
    wanted: int
    cards: list[tuple[Kind, str]] = field(default_factory=list)

    def deal(self, look: Callable[[Kind, str], Job | None]) -> tuple[Kind, str, Job] | None:
        """Take the first card that `look` finds a victim for; None where there is none. Parts that pass by quickly go first."""
        if all(phase != "training" for _, phase in self.cards):
            more = self.rng.sample(self.kinds, len(self.kinds))[: self.wanted - len(self.cards)]
            self.cards += [(kind, self._phase(kind)) for kind in more]
        for card in sorted(self.cards, key=lambda card: card[1] == "training"):
            job = look(*card)
            if job is not None:
                self.cards.remove(card)
                self.wanted -= 1
                return *card, job
        return None

    def put_back(self, kind: Kind, phase: str) -> None:
        """Take back a card whose victim had gone."""
        self.cards.append((kind, phase))
        self.wanted += 1

    def _phase(self, kind: Kind) -> str:
        return (
            self.rng.choices(list(PHASES), [1, 5, 1, 1])[0] if kind.anywhere else _PHASE_OF.get(kind.name, "training")
        )


def _alone(chance: Chance) -> Job | None:
    return _any([job for job in chance.trainings() if len(job.pids) == 1], chance)


def _together(chance: Chance) -> Job | None:
    return _any([job for job in chance.trainings() if len(job.pids) > 1 and job.launcher], chance)


def _training(chance: Chance) -> Job | None:
    return _any(chance.trainings(), chance)


def _job(chance: Chance) -> Job | None:
    return _any(chance.running(chance.phase), chance)


def _whatever(chance: Chance) -> Job | None:
    return _training(chance) if chance.phase == "training" else _job(chance)


def _any(jobs: list[Job], chance: Chance) -> Job | None:
    return chance.rng.choice(jobs) if jobs else None


def _signal_to(numbers: tuple[signal.Signals, ...], whom: Callable[[Job], list[tuple[str, int]]]):
    def strike(chance: Chance, job: Job) -> Hit:
        number, (name, pid) = chance.rng.choice(numbers), chance.rng.choice(whom(job))
        send([pid], number)
        return Hit(f"{number.name} to {name} {pid}", job, ends=job.stage in TRAINING)

    return strike


def _process(job: Job) -> list[tuple[str, int]]:
    return [("process", pid) for pid in job.pids]


def _rank(job: Job) -> list[tuple[str, int]]:
    return [("one of two ranks,", pid) for pid in job.pids]


def _launcher(job: Job) -> list[tuple[str, int]]:
    return [("the job's first process", job.launcher)] if job.launcher else _rank(job)


def _stopped(chance: Chance, job: Job) -> Hit:
    pid, seconds = chance.rng.choice(job.everyone), chance.rng.uniform(*PAUSE)
    send([other for other in job.everyone if other != pid], signal.SIGCONT)
    time.sleep(seconds)
    send([pid], signal.SIGCONT)
    return Hit(f"process {pid} stopped for {seconds:.1f} s", job)


def _damage(spoil: Callable[[Chance, Job], str]):
    """Kill a training and spoil its newest state before anybody goes on from it."""

    def strike(chance: Chance, job: Job) -> Hit:
        done = spoil(chance, job)
        send(job.everyone, signal.SIGKILL)
        return Hit(done, job, ends=True, damaged=int("left" not in done))

    return strike


def _truncate(chance: Chance, job: Job) -> str:
    path = _file_of_newest(chance, job)
    os.truncate(path, chance.rng.randrange(path.stat().st_size))
    return f"{path.parent.name}/{path.name} cut short"


def _flip(chance: Chance, job: Job) -> str:
    path = _file_of_newest(chance, job)
    content = bytearray(path.read_bytes())
    content[chance.rng.randrange(len(content))] ^= 1 << chance.rng.randrange(8)
    path.write_bytes(content)
    return f"{path.parent.name}/{path.name} has a bit flipped"


def _half_written(chance: Chance, job: Job) -> str:
    newest = chance.scene.good_states(job)[0].folder
    part = newest.with_name(f".{newest.name}9.part")
    part.mkdir()
    for path in chance.rng.sample(sorted(newest.iterdir()), 3):
        (part / path.name).write_bytes(path.read_bytes()[: chance.rng.randrange(path.stat().st_size)])
    return f"{part.name} left half-written"


def _file_of_newest(chance: Chance, job: Job):
    return chance.rng.choice(sorted(chance.scene.good_states(job)[0].folder.iterdir()))


def _to_driver(number: signal.Signals):
    def strike(chance: Chance, job: Job) -> Hit:
        chance.driver.signal(number)
        # By SIGTERM and SIGKILL to the driver no job ends.
        ends = number == signal.SIGINT and job.stage in TRAINING
        return Hit(f"{number.name} to the driver", job, ends=ends, hurts_driver=True)

    return strike


def _machine(chance: Chance, job: Job) -> Hit:
    for _ in range(3):  # for those that were being started
        send([one.pid for one in chance.scene.processes()], signal.SIGKILL)
        time.sleep(0.02)
    return Hit("SIGKILL to all processes", job, ends=job.stage in TRAINING, hurts_driver=True)


def _full_disk(chance: Chance, job: Job) -> Hit:
    seconds, filler = chance.rng.uniform(*PAUSE), chance.scene.results / "filler"
    with suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(b"0" * 65536)
    send(job.everyone, signal.SIGCONT)
    time.sleep(seconds)
    filler.unlink()
    return Hit(f"disk full for {seconds:.1f} s", job, filled_disk=True)


KINDS = [
    Kind("trainer SIGKILL", _alone, _signal_to((signal.SIGKILL,), _process)),
    Kind("trainer SIGTERM", _alone, _signal_to((signal.SIGTERM,), _process)),
    Kind("trainer SIGINT", _alone, _signal_to((signal.SIGINT,), _process)),
    Kind("trainer SIGUSR1", _alone, _signal_to((signal.SIGUSR1,), _process)),
    Kind("one of two ranks SIGKILL", _together, _signal_to((signal.SIGKILL,), _rank)),
    Kind("job's shell SIGKILL", _together, _signal_to((signal.SIGKILL,), _launcher)),
    Kind("rank or shell, milder signal", _together, _signal_to(MILD, lambda job: _launcher(job) + _rank(job))),
    Kind("SIGKILL while saving", _training, _signal_to((signal.SIGKILL,), _process), while_saving=True),
    Kind("stopped and continued", _training, _stopped),
    Kind("saved state cut short", _training, _damage(_truncate)),
    Kind("saved state, bit flipped", _training, _damage(_flip)),
    Kind("saved state half-written", _training, _damage(_half_written)),
    Kind("driver SIGINT", _whatever, _to_driver(signal.SIGINT), anywhere=True),
    Kind("driver SIGTERM", _whatever, _to_driver(signal.SIGTERM), anywhere=True),
    Kind("driver SIGKILL", _whatever, _to_driver(signal.SIGKILL), anywhere=True),
    Kind("machine lost", _whatever, _machine, anywhere=True),
    Kind("data job", _job, _signal_to((signal.SIGKILL, *MILD), _process)),
    Kind("evaluation job", _job, _signal_to((signal.SIGKILL, *MILD), _process)),
    Kind("analysis job", _job, _signal_to((signal.SIGKILL, *MILD), _process)),
]
FULL_DISK = Kind("disk full", _whatever, _full_disk, anywhere=True)
_PHASE_OF = {"data job": "data", "evaluation job": "evaluation", "analysis job": "analysis"}


def await_moment(chance: Chance, kind: Kind, job: Job) -> bool:
    """Wait for the moment that the dice choose; whether the victim is still there then."""
    scene, rng, until = chance.scene, chance.rng, time.monotonic() + PATIENCE
    if chance.phase != "training":
        time.sleep(rng.uniform(0, 1))
        return all(map(alive, job.pids))
    seen, wanted = scene.states(job), rng.randint(1, SAVES)
    first = len(seen)
    while len(seen) - first < wanted and time.monotonic() < until and scene.at_work(job):
        time.sleep(0.005)
        seen |= scene.states(job)
    if kind.while_saving:
        while not scene.saving(job) and time.monotonic() < until and scene.at_work(job):
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, 0.01))
    else:
        time.sleep(rng.uniform(0, LATER))
    return all(map(alive, job.pids)) and scene.at_work(job)
