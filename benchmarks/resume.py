"""Share of training time that saving takes: the same training with and without, in one run.

    python benchmarks/resume.py [--seconds 40] [--layers 4] [--width 256] [--vocab 8192] [--device auto] [--save-minutes 10]

Part one times one save of the whole resume state (weights, optimizer, generators, log; hashed and flushed) beside steps of the
same training, in turns, and says what share of time saving takes at the interval given. Part two trains with states due at
every moment, so that the limit of `run.save_share` alone decides how often one is saved, and says what share that took.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from xsa.model.nanochat import NanoChat
from xsa.optim.muon_adamw import MuonAdamW
from xsa.study.architecture import ModelConfig
from xsa.study.settings import RunSettings
from xsa.study.stages import OptimStage
from xsa.train.distributed import Ranks
from xsa.train.interruption import Interruption
from xsa.train.log import Log
from xsa.train.state import Position, States
from xsa.train.step import Rates, Trainer
from xsa.train.stream import STREAM_START, Batch


class Random:
    """Batches of random tokens."""

    batch_rows = 2

    def __init__(self, sequence_len: int, vocab: int):
        self.sequence_len, self.vocab = sequence_len, vocab

    def read(self, step: int) -> Batch:
        rows_RT = np.random.default_rng(step).integers(0, self.vocab, size=(self.batch_rows, self.sequence_len + 1))
        return Batch(rows_RT[:, :-1], rows_RT[:, 1:], b"")


def trainer(arguments: argparse.Namespace, device: torch.device) -> Trainer:
    config = ModelConfig(
        vocab_size=arguments.vocab,
        sequence_len=arguments.tokens,
        n_layer=arguments.layers,
        n_head=arguments.width // 64,
        n_kv_head=arguments.width // 64,
        n_embd=arguments.width,
        window_pattern="SL",
        alpha=1.0,
        xsa_layers=tuple(range(arguments.layers)),
    )
    model = NanoChat(config).to(device)
    model.init_weights(0)
    rates = {"matrix_lr": 0.02, "embedding_lr": 0.2, "unembedding_lr": 0.004, "scalar_lr": 0.5}
    optimizer = MuonAdamW(model, OptimStage(matrix="muon", version="may2026", weight_decay=0.0, **rates))

    def loss_sum(tokens_BT, targets_BT):
        return model(tokens_BT, targets_BT, reduction="sum")

    batches = Random(arguments.tokens, arguments.vocab)
    return Trainer(model, optimizer, batches, lambda step: Rates(1.0, 0.9, 0.0), loss_sum, 2, Ranks(device=device))


class Timed:
    """A training whose steps and saves are timed."""

    def __init__(self, training: Trainer, folder: Path):
        self.training, self.states = training, States(folder, print)
        self.position = Position(0, STREAM_START, Log())
        self.steps: list[float] = []
        self.saves: list[float] = []

    def step(self) -> None:
        started = time.perf_counter()
        self.training.step(self.position.step)
        self.position.step += 1
        self.steps.append(time.perf_counter() - started)

    def save(self) -> None:
        started = time.perf_counter()
        self.states.save(self.training.model, self.training.optimizer, self.position)
        self.saves.append(time.perf_counter() - started)


def in_turns(timed: Timed, seconds: float, interval: float) -> None:
    """Part one."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(timed.saves) < 3:
        timed.step()
        timed.save()
    save, step = statistics.median(timed.saves), statistics.median(timed.steps)
    size = sum(path.stat().st_size for path in timed.states.all()[0].iterdir())
    print(
        f"one state: {size / 1e9:.2f} GB, saved in {save:.2f} s (median of {len(timed.saves)}); one step {step:.2f} s"
    )
    print(
        f"at an interval of {interval / 60:g} minutes: {100 * save / (save + interval):.2f} % of the time is spent in saving"
    )


def always_due(timed: Timed, seconds: float, share: float) -> None:
    """Part two."""
    timed.steps.clear()
    timed.saves.clear()
    watch, started = Interruption(1e-9, share), time.perf_counter()
    while time.perf_counter() - started < seconds or not timed.saves:
        timed.step()
        if watch.due():
            with watch.saving():
                timed.save()
    # Up to the last save's own pause, which belongs to it.
    while not watch.due():
        timed.step()
    spent = sum(timed.saves) / (time.perf_counter() - started)
    print(
        f"with states due at every moment: {len(timed.saves)} saves, {100 * spent:.2f} % of the time (limit {100 * share:g} %)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40, help="of each part, at least")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--tokens", type=int, default=128, help="tokens a row")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--save-minutes", type=float, default=RunSettings().save_minutes)
    parser.add_argument("--folder", type=Path, help="where states are saved; a temporary folder by default")
    arguments = parser.parse_args()
    cuda = arguments.device == "cuda" or (arguments.device == "auto" and torch.cuda.is_available())
    device = torch.device("cuda" if cuda else "cpu")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        timed = Timed(trainer(arguments, device), Path(folder))
        parameters = sum(parameter.numel() for parameter in timed.training.model.parameters())
        print(f"{parameters / 1e6:,.0f}M parameters on {device}, states in {folder}")
        timed.step()
        timed.save()
        timed.steps.clear()
        timed.saves.clear()
        in_turns(timed, arguments.seconds, 60 * arguments.save_minutes)
        always_due(timed, arguments.seconds, RunSettings().save_share)


if __name__ == "__main__":
    main()
