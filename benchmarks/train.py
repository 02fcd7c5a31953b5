"""Tokens a second of a training step and of the data loader, ours beside another's, interleaved in one run.

    python benchmarks/train.py                     against what stands in this file: eager PyTorch, a plain loader
    python benchmarks/train.py --against PATH      against nanochat, from a checkout of it at PATH

Step: one model of one shape, the same first weights and batches, forward, backward and optimizer, in turns (A B, B A, …);
the optimizer is timed within the step and reported apart as well. Without `--against` the other step is our own without
`torch.compile`. Loader: what a training step reads, with the hash of the stream, against tokenising and packing on the
fly; the packing that ours does once and ahead is timed too. That both sides do the same work is checked: equal losses,
equal rows. Ratios are medians over pairs of turns, with the quartiles beside them, so that a busy machine slows both; where it is very
busy, the ratio in CPU time is the steadier one.

nanochat is run as its own script runs it, on a CPU: its model and loss compiled with `torch.compile(dynamic=False)`, its
optimizer compiled by itself, attention by PyTorch (its own fall-back; flash attention needs a GPU). Modules that it
imports and does not use here (tokenizers, requests, …) are stood in for where they are not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from loaders import run_loaders
from turns import ratios, speeds

from xsa.data.world import write_shard
from xsa.model.nanochat import NanoChat
from xsa.optim.muon_adamw import MuonAdamW
from xsa.study.architecture import ModelConfig
from xsa.study.settings import OptimSettings
from xsa.study.stages import OptimStage
from xsa.train.compiling import loss_sum
from xsa.train.step import Rates, Trainer
from xsa.train.stream import Batch

RATES = Rates(1.0, 0.95, 0.1)


class Cost(NamedTuple):
    """One step's seconds, those of its optimizer among them, both by the clock and in CPU time, and its loss."""

    seconds: np.ndarray
    optimizer: np.ndarray
    loss: float


def now() -> np.ndarray:
    """Seconds by the clock, and CPU seconds of this process, which other processes hardly disturb."""
    return np.array([time.perf_counter(), time.process_time()])


Step = Callable[[int], Cost]


class Clock:
    """Wraps a function and keeps the seconds of its last call."""

    def __init__(self, function: Callable[[], object]):
        self.function, self.seconds = function, now() - now()

    def __call__(self) -> None:
        started = now()
        self.function()
        self.seconds = now() - started


class RandomBatches:
    """Rows of random tokens, the same for the same step."""

    def __init__(self, rows: int, sequence_len: int, vocab_size: int):
        self.batch_rows, self.sequence_len, self.vocab_size = rows, sequence_len, vocab_size

    def read(self, step: int) -> Batch:
        rng = np.random.default_rng(step)
        rows_RT = rng.integers(0, self.vocab_size, (self.batch_rows, self.sequence_len + 1))
        return Batch(rows_RT[:, :-1], rows_RT[:, 1:], b"")


def our_step(config: ModelConfig, dtype: torch.dtype, batches: RandomBatches, compiled: bool) -> Step:
    model = NanoChat(config, dtype=dtype)
    model.init_weights(0)
    optim = OptimSettings().model_dump(include=set(OptimStage.model_fields))
    optimizer = MuonAdamW(model, OptimStage(**optim))
    optimizer.step = clock = Clock(optimizer.step)
    loss, how = loss_sum(model, compiled, torch.device("cpu"), print)
    assert how["compiled"] == compiled, how
    trainer = Trainer(model, optimizer, batches, lambda step: RATES, loss, batches.batch_rows)

    def step(number: int) -> Cost:
        started = now()
        update = trainer.step(number)
        return Cost(now() - started, clock.seconds, update.loss)

    return step


def nanochat_step(config: ModelConfig, dtype: torch.dtype, batches: RandomBatches) -> Step:
    """The step of nanochat's training script, from our first weights, with the modules of the checkout."""
    from nanochat.gpt import GPT, GPTConfig

    shape = {name: getattr(config, name) for name in GPTConfig.__dataclass_fields__}
    theirs = GPT(GPTConfig(**shape))
    theirs.init_weights()
    ours = NanoChat(config, dtype=dtype)
    ours.init_weights(0)
    theirs.load_state_dict(ours.state_dict())
    defaults = OptimSettings()
    names = ("embedding_lr", "unembedding_lr", "matrix_lr", "scalar_lr", "weight_decay")
    optimizer = theirs.setup_optimizer(**{name: getattr(defaults, name) for name in names})
    optimizer_step = Clock(optimizer.step)
    compiled = torch.compile(theirs, dynamic=False)

    def step(number: int) -> Cost:
        batch = batches.read(number)
        started = now()
        loss = compiled(torch.from_numpy(batch.inputs_RT), torch.from_numpy(np.ascontiguousarray(batch.targets_RT)))
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * RATES.lr_multiplier
            if group["kind"] == "muon":
                group["momentum"], group["weight_decay"] = RATES.momentum, RATES.weight_decay
        optimizer_step()
        theirs.zero_grad(set_to_none=True)
        value = loss.item()
        return Cost(now() - started, optimizer_step.seconds, value)

    return step


def compare_steps(ours: Step, theirs: Step, name: str, tokens: int, pairs: int, warmup: int) -> None:
    """Take turns and print tokens/s and ratios."""
    for number in range(warmup):
        a, b = ours(number), theirs(number)
        if number < 2:
            assert abs(a.loss - b.loss) < 1e-2, f"the two steps do not do the same: losses {a.loss} and {b.loss}"
    costs: list[tuple[Cost, Cost]] = []
    for number in range(warmup, warmup + pairs):
        if number % 2:
            b, a = theirs(number), ours(number)
        else:
            a, b = ours(number), theirs(number)
        costs.append((a, b))
    part: dict[str, Callable[[Cost], np.ndarray]] = {
        "whole step": lambda cost: cost.seconds,
        "forward and backward": lambda cost: cost.seconds - cost.optimizer,
        "optimizer": lambda cost: cost.optimizer,
    }
    for place, clock in enumerate(("by the clock", "in CPU time")):
        for label, of in part.items():
            mine, other = ([of(pair[side])[place] for pair in costs] for side in (0, 1))
            print(f"step {clock}, {label:20s} {ratios(mine, other)}   {speeds(name, tokens, mine, other)}")


def use_checkout(path: Path, base: Path, dtype: str) -> None:
    """Make `import nanochat` mean the checkout, with its data under `base`."""
    if not (path / "nanochat" / "gpt.py").is_file():
        sys.exit(f"{path} is no checkout of nanochat: it has no nanochat/gpt.py. Give the folder that `git clone` made")
    os.environ |= {"NANOCHAT_BASE_DIR": str(base), "NANOCHAT_DTYPE": dtype}
    sys.path.insert(0, str(path))
    logging.disable(logging.INFO)  # which the checkout turns on for every library
    for name in ("tokenizers", "requests", "filelock", "wandb"):
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = _absent(name)
            for part in ("models", "trainers"):
                sys.modules[f"{name}.{part}"] = _absent(f"{name}.{part}")


def _absent(name: str) -> types.ModuleType:
    """A module whose every attribute is there and does nothing; it is imported and never called."""
    module = types.ModuleType(name)
    module.__getattr__ = lambda attribute: None  # type: ignore[method-assign]
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="checkout of nanochat (github.com/karpathy/nanochat)")
    parser.add_argument("--text", type=Path, help="a parquet shard with a column `text`; default: made-up text")
    parser.add_argument("--pairs", type=int, default=12, help="pairs of turns")
    parser.add_argument("--warmup", type=int, default=4, help="steps before the first that is timed")
    parser.add_argument("--rows", type=int, default=4, help="rows of a step")
    parser.add_argument("--vocab", type=int, default=32768)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--sequence-len", type=int, default=512)
    parser.add_argument("--alpha", type=float, default=0.0, help="of our step; only 0 does nanochat's work")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", choices=("step", "loader"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shards = folder / "base_data_climbmix"
        shards.mkdir()
        if args.text:
            (shards / "shard_00000.parquet").symlink_to(args.text.resolve())
        else:
            write_shard(shards / "shard_00000.parquet", 0, 0, 2, 4096)
        write_shard(shards / "shard_00001.parquet", 0, 1, 2, 64)  # nanochat keeps the last for validation
        if args.against:
            use_checkout(args.against, folder, args.dtype)
        if args.only != "loader":
            run_steps(args)
        if args.only != "step":
            run_loaders(args, shards / "shard_00000.parquet", folder / "rows.arrow")


def run_steps(args: argparse.Namespace) -> None:
    config = ModelConfig(
        vocab_size=args.vocab,
        sequence_len=args.sequence_len,
        n_layer=args.depth,
        n_head=args.heads,
        n_kv_head=args.heads,
        n_embd=args.width,
        window_pattern="SSSL",
        alpha=args.alpha,
        xsa_layers=tuple(range(args.depth)),
    )
    dtype = getattr(torch, args.dtype)
    batches = RandomBatches(args.rows, args.sequence_len, args.vocab)
    print(
        f"d{args.depth}, width {args.width}, T {args.sequence_len}, {args.rows} rows a step, vocabulary {args.vocab:,}, "
        f"{args.dtype}, {args.threads} threads"
    )
    ours = our_step(config, dtype, batches, compiled=True)
    if args.against:
        name, theirs = "nanochat", nanochat_step(config, dtype, batches)
    else:
        name, theirs = "uncompiled", our_step(config, dtype, batches, compiled=False)
    compare_steps(ours, theirs, name, args.rows * args.sequence_len, args.pairs, args.warmup)


if __name__ == "__main__":
    main()
