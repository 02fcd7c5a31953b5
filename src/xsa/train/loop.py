"""From first step to last: logging, looking at validation rows, saving state, stopping when asked, going on where it stopped."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from typing import Any

import torch

from xsa.model.alignment import Value, over_heads
from xsa.store.errors import UserError
from xsa.store.job import Job
from xsa.train.checkpoint import CheckpointConfig, write_checkpoint
from xsa.train.hang import hang_watch
from xsa.train.interruption import EXIT_CODE, Interruption, interruption
from xsa.train.log import Log
from xsa.train.state import Position, States, restore
from xsa.train.step import NotFiniteError, Trainer, Update
from xsa.train.stream import STREAM_START, chain

Look = Callable[[], float]
Align = Callable[[], list[Value]]


class Run:
    """One training run of `steps` updates, with a look (bits per byte) after every `every` of them and at the end.

    After the steps `align_at` the attention diagnostics are taken by `align`, on the first rank alone.
    """

    def __init__(
        self,
        job: Job,
        trainer: Trainer,
        steps: int,
        every: int,
        look: Look | None,
        align: Align | None = None,
        align_at: Collection[int] = (),
    ):
        self.job, self.trainer, self.steps, self.every, self.look = job, trainer, steps, every, look
        self.align, self.align_at = align, align_at
        self.ranks = trainer.ranks
        self.progress = job.progress
        self.states = States(job.state, self.progress.say)
        self.position = Position(0, STREAM_START, Log())
        self._batch_tokens = trainer.batches.batch_rows * trainer.batches.sequence_len

    @property
    def tokens(self) -> int:
        """Tokens seen so far."""
        return self.position.step * self._batch_tokens

    def train(self) -> None:
        """Take all steps that are left, from the newest good state on.

        UserError on a loss or gradient that is not finite. SystemExit(75) after SIGTERM or SIGUSR1, once the step is
        finished and its state saved.
        """
        self._resume()
        run, state = self.job.run, self.job.state
        with (
            interruption(run.save_minutes, run.save_share) as watch,
            hang_watch(self.ranks, run.hang_minutes, state, self.progress) as beat,
        ):
            while self.position.step < self.steps:
                beat()
                self._look_when_due()
                self._align_when_due()
                beat()
                self._step()
                beat()
                self._save_or_stop(watch)

    def finish(self, config: Callable[[Run], CheckpointConfig]) -> None:
        """Write the checkpoint, then take the last look, then write the tables."""
        trainer, out = self.trainer, self.job.out
        write_checkpoint(out, trainer.model, trainer.optimizer, config(self))
        self._look()
        self._align_when_due()
        if self.ranks.first:
            self.position.log.write(out)

    def notes(self) -> dict[str, Any]:
        """How it ran, for the record."""
        return {
            "device": str(self.ranks.device),
            "processes": self.ranks.world,
            "micro_batch": self.trainer.micro_batch,
            **({"micro_batch_halved": self.trainer.halved} if self.trainer.halved else {}),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "steps": self.steps,
            "tokens": self.tokens,
            "tokens_per_second": round(self._batch_tokens / self.position.log.median_seconds(), 1),
            "data_stream_sha256": self.position.stream,
        }

    def _resume(self) -> None:
        state = self.ranks.from_first(self.states.newest() if self.ranks.first else None)
        if state is None:
            return
        self.position = restore(state, self.trainer.model, self.trainer.optimizer)
        self.progress.say(f"goes on after step {self.position.step:,} of {self.steps:,}, from {state}")

    def _step(self) -> None:
        started = time.perf_counter()
        position, halved = self.position, len(self.trainer.halved)
        try:
            update = self.trainer.step(position.step)
        except NotFiniteError as error:
            raise UserError(
                f"training stopped: {error}. Nothing was updated in that step; {self.states.where()}. Lower the learning "
                "rates or look at the data of that step; to run it again from the start delete the state"
            ) from None
        for one in self.trainer.halved[halved:]:
            self.progress.say(
                f"memory ran out in step {one['step']:,}: it was started again with {one['to']} rows at a time, not {one['from']}"
            )
        position.step += 1
        position.stream = chain(position.stream, update.batch.content)
        seconds = time.perf_counter() - started
        self._record(update, seconds)
        speed = {"tok/s": self._batch_tokens / seconds}
        self.progress.step(position.step, self.steps, loss=update.loss, **speed)

    def _record(self, update: Update, seconds: float) -> None:
        step = self.position.step
        row = {
            "step": step,
            "tokens": self.tokens,
            "loss": update.loss,
            **update.rates._asdict(),
            "grad_norm": update.grad_norm,
        }
        self.position.log.log.append(row)
        self.position.log.timing.append({"step": step, "seconds": seconds, "last_micro_loss": update.last_micro_loss})

    def _look_when_due(self) -> None:
        step = self.position.step
        if step and step % self.every == 0:
            self._look()

    def _look(self) -> None:
        """Measure the validation rows, unless the state that the run resumed from had done so at this step."""
        taken, step = self.position.log.validation, self.position.step
        if self.look is None or (taken and taken[-1]["step"] == step):
            return
        bpb = self.look()
        if not math.isfinite(bpb):
            raise UserError(f"validation after step {step} gives {bpb} bits per byte; {self.states.where()}")
        taken.append({"step": step, "tokens": self.tokens, "bpb": bpb})
        self.progress.say(f"validation after step {step:,}: {bpb:.5f} bits per byte")

    def _align_when_due(self) -> None:
        taken, step = self.position.log.alignment, self.position.step
        if step not in self.align_at or not self.ranks.first or (taken and taken[-1]["step"] == step):
            return
        taken += [{"step": step, "tokens": self.tokens} | row for row in over_heads(self.align())]
        self.progress.say(f"attention diagnostics after step {step:,} taken")

    def _save_or_stop(self, watch: Interruption) -> None:
        """Save when it is time, after the last step, and when asked to stop; all ranks decide alike."""
        asked, due = self.ranks.sum([float(watch.signal is not None), float(self.ranks.first and watch.due())])
        if not (asked or due or self.position.step == self.steps):
            return
        with watch.saving():
            saved = self._save()
        if asked:
            where = f"its state is saved in {saved}" if saved else self.states.where()
            self.progress.say(
                f"stopped by {watch.signal or 'another process'} after step {self.position.step:,} of {self.steps:,}; "
                f"{where}. Run it again to go on"
            )
            raise SystemExit(EXIT_CODE)

    def _save(self):
        """Save a state; a disk that refuses costs only this state, and is said aloud."""
        trainer = self.trainer
        self.ranks.check_agreement(trainer.model, self.position.step)
        saved = None
        try:
            saved = self.states.save(trainer.model, trainer.optimizer, self.position)
        except OSError as error:
            self.progress.say(
                f"the state after step {self.position.step:,} could not be saved in {self.job.state} ({error}); "
                "training goes on with the states saved before. Free some room"
            )
        self.ranks.wait()
        return saved


def use_threads(job: Job) -> None:
    """Let torch use as many CPU threads as the job may."""
    torch.set_num_threads(job.run.threads)
