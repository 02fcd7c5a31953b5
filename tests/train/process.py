"""What one of several processes runs in the tests: `python -m tests.train.process PLAN.json` makes a job's result with the others.

The plan names the job and may have a process do something in the midst: {"job": pickle, "rank": 1, "step": 3, "act": "term"}.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import torch

import xsa.train.loop as loop
from xsa.model.nanochat import NanoChat
from xsa.store.errors import UserError
from xsa.store.produce import produce
from xsa.train.step import Trainer


def draw(model: NanoChat, seed: int) -> None:
    """Weights without zero matrices, so that no update rests on rounding."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))


def act(what: str, trainer: Trainer, watch: loop.Interruption) -> None:
    """Do what the plan says, in the midst of a run."""
    match what:
        case "term":
            os.kill(os.getpid(), signal.SIGTERM)
        case "term launcher":
            os.kill(os.getppid(), signal.SIGTERM)
            while watch.signal is None:  # the launcher passes it on
                time.sleep(0.05)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "sleep":
            time.sleep(600)
        case "fail":
            raise UserError("this one process has failed")
        case "drift":
            with torch.no_grad():
                trainer.model.x0_lambdas[0] += 1.0
        case "poison":
            weight = trainer.model.transformer.h[1].mlp.c_fc.weight
            weight.register_hook(lambda gradient: gradient * float("nan"))
        case _:
            raise AssertionError(what)


def main(plan: dict) -> None:
    from xsa.train.together import make_together

    job = pickle.loads(Path(plan["job"]).read_bytes())
    interruption, take, watches = loop.interruption, Trainer.step, []

    @contextmanager
    def watched(*arguments):
        with interruption(*arguments) as watch:
            watches.append(watch)
            yield watch

    def step(self, number):
        update = take(self, number)
        if (plan.get("rank"), plan.get("step")) == (self.ranks.rank, number + 1):
            act(plan["act"], self, watches[-1])
        return update

    def backward(self, batch):
        """Memory that holds one row at a time, on the rank that the plan names."""
        full = plan.get("act") == "memory" and plan["rank"] == self.ranks.rank and self.micro_batch > 1
        return None if full else accumulate(self, batch)

    accumulate, Trainer._backward = Trainer._backward, backward
    loop.interruption, Trainer.step, NanoChat.init_weights = watched, step, draw
    make_together(job.stage, lambda begin: produce(job, {}, job.out.name.rpartition("@")[2], "", begin))


if __name__ == "__main__":
    torch.set_num_threads(1)
    try:
        main(json.loads(Path(sys.argv[1]).read_text()))
    except UserError as error:
        sys.exit(f"said: {error}")
