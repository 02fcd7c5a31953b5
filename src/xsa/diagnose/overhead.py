"""The stage `overhead`: what the exclusive projection costs in time, measured so that drift of the machine cancels.

Two models that differ in alpha alone take training steps in turn (A B, B A, …) on random tokens. Each repetition gives the
time of the forward pass, of the backward pass and of the whole step with its optimizer update.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch

from xsa.diagnose.weights import fill_zeros
from xsa.model.nanochat import NanoChat
from xsa.optim.muon_adamw import MuonAdamW
from xsa.store.errors import UserError
from xsa.store.files import write_json
from xsa.store.job import Job
from xsa.study.stages import OptimStage, OverheadStage
from xsa.train.checkpoint import as_dtype
from xsa.train.compiling import compiler_fault, loss_sum
from xsa.train.loop import use_threads

ARMS = ("baseline", "xsa")
PHASES = ("step", "forward", "backward")
CONFIDENCE, RESAMPLES, SEED = 0.95, 10_000, 0
# Rates do not change the time of an update, and the multiplier of 0 keeps the weights where they are.
_OPTIM = OptimStage(
    matrix="muon",
    version="may2026",
    matrix_lr=0.02,
    embedding_lr=0.3,
    unembedding_lr=0.008,
    scalar_lr=0.5,
    weight_decay=0.0,
)


def overhead(job: Job) -> dict[str, Any]:
    """Time both arms, eagerly and (where asked for and possible) compiled; write overhead.parquet and overhead.json."""
    settings: OverheadStage = job.settings
    use_threads(job)
    device = torch.device(settings.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "overhead.device is cuda, but there is no GPU here; run this stage where there is one, or set it to cpu"
        )
    modes, why = ["eager"], None
    if settings.compile:
        why = compiler_fault(device)
        if why is None:
            modes.append("compiled")
        else:
            job.progress.say(f"torch.compile does not work on this machine ({why}); only eager steps are timed")
    frames, peaks = [], {}
    for number, mode in enumerate(modes):
        frame, peaks[mode] = _time_mode(job, settings, mode, device, number, len(modes))
        frames.append(frame)
    times = pd.concat(frames, ignore_index=True)[["arm", "mode", "phase", "repetition", "seconds"]]
    times.to_parquet(job.out / "overhead.parquet", index=False)
    tokens = settings.batch_rows * settings.model.sequence_len
    write_json(job.out / "overhead.json", summarise(times, tokens) | {"device": _name(device)})
    return {"compiled": "compiled" in modes, "why": why, "peak_bytes": peaks}


def _time_mode(
    job: Job, settings: OverheadStage, mode: str, device: torch.device, number: int, modes: int
) -> tuple[pd.DataFrame, dict[str, int] | None]:
    """Times of both arms in one mode, the `number`-th of `modes`; and on a GPU the peak of memory a step takes, in bytes."""
    rounds = settings.warmup + settings.repetitions

    def progress(done: int) -> None:
        job.progress.step(number * rounds + done, modes * rounds, unit="repetition")

    try:
        arms = {arm: _Arm(settings, arm, mode == "compiled", device, job.progress.say) for arm in ARMS}
        frame = interleave(
            {arm: one.time for arm, one in arms.items()}, settings.repetitions, settings.warmup, progress
        )
    except torch.OutOfMemoryError:
        raise UserError(
            f"two models and a step of {settings.batch_rows} rows do not fit into the memory of {device}; "
            f"set overhead.batch_rows to {max(settings.batch_rows // 2, 1)}"
        ) from None
    torch._dynamo.reset()
    peaks = {arm: one.peak for arm, one in arms.items()} if device.type == "cuda" else None
    return frame.assign(mode=mode), peaks


def interleave(
    arms: dict[str, Callable[[], dict[str, float]]],
    repetitions: int,
    warmup: int,
    progress: Callable[[int], None] = lambda done: None,
) -> pd.DataFrame:
    """Call the timers of all arms in turn, in reverse order every other time; columns arm, phase, repetition, seconds.

    The first `warmup` rounds are not kept.
    """
    records = []
    for round_ in range(warmup + repetitions):
        order = list(arms) if round_ % 2 == 0 else list(arms)[::-1]
        for arm in order:
            seconds = arms[arm]()
            if round_ >= warmup:
                records += [(arm, phase, round_ - warmup, seconds[phase]) for phase in PHASES]
        progress(round_ + 1)
    frame = pd.DataFrame(records, columns=["arm", "phase", "repetition", "seconds"])
    return frame.sort_values(["arm", "phase", "repetition"], ignore_index=True)


def summarise(times: pd.DataFrame, tokens: int) -> dict[str, Any]:
    """`ratio` of each mode and phase with its interval, and `tokens_per_second` of each mode and arm (median step)."""
    ratios: dict[str, dict] = {}
    speed: dict[str, dict] = {}
    for mode, timed in times.groupby("mode", sort=True):
        table = timed.pivot(index="repetition", columns=["phase", "arm"], values="seconds")
        ratios[mode] = {phase: ratio_of_medians(*(table[phase][arm].to_numpy() for arm in ARMS)) for phase in PHASES}
        speed[mode] = {arm: tokens / float(table["step"][arm].median()) for arm in ARMS}
    return {"ratio": ratios, "tokens_per_second": speed}


def ratio_of_medians(baseline: np.ndarray, arm: np.ndarray) -> dict[str, Any]:
    """Median time of the arm over the baseline's, with a 95 % interval, and whether that interval excludes 1.

    Repetitions are paired, for neighbours in time share the machine's state, so the bootstrap draws them as pairs
    (percentile interval: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, ch. 13).
    """
    rng = np.random.default_rng(SEED)
    drawn = rng.integers(0, len(baseline), size=(RESAMPLES, len(baseline)))
    ratios = np.median(arm[drawn], axis=1) / np.median(baseline[drawn], axis=1)
    lo, hi = (float(end) for end in np.quantile(ratios, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
    ratio = float(np.median(arm) / np.median(baseline))
    return {"ratio": ratio, "interval": [lo, hi], "exceeds_noise": not lo <= 1 <= hi}


class _Arm:
    """One model with its optimizer, ready to take timed steps on one batch of random tokens."""

    def __init__(self, settings: OverheadStage, arm: str, compiled: bool, device: torch.device, say):
        config = settings.model if arm == "xsa" else settings.model.model_copy(update={"alpha": 0.0})
        self.device, self.peak = device, 0
        self.model = NanoChat(config, dtype=as_dtype(settings.dtype)).to(device)
        self.model.init_weights(SEED)
        fill_zeros(self.model, SEED)
        self.optimizer = MuonAdamW(self.model, _OPTIM)
        self.optimizer.set(0.0, 0.95, 0.0)
        self.loss, _ = loss_sum(self.model, compiled, device, say)
        generator = torch.Generator().manual_seed(SEED)
        size = (settings.batch_rows, config.sequence_len + 1)
        rows = torch.randint(config.vocab_size, size, generator=generator).to(device)
        self.tokens_BT, self.targets_BT = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def time(self) -> dict[str, float]:
        """One training step; seconds by phase."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            held = torch.cuda.memory_allocated(self.device)
        mark = _cuda_mark if self.device.type == "cuda" else time.perf_counter
        marks = [mark()]
        loss = self.loss(self.tokens_BT, self.targets_BT) / self.targets_BT.numel()
        marks.append(mark())
        loss.backward()
        marks.append(mark())
        self.optimizer.step()
        marks.append(mark())
        self.optimizer.zero_grad()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            self.peak = max(self.peak, torch.cuda.max_memory_allocated(self.device) - held)
            between = [a.elapsed_time(b) / 1000 for a, b in pairwise(marks)]
        else:
            between = [b - a for a, b in pairwise(marks)]
        return {"step": sum(between), "forward": between[0], "backward": between[1]}


def _cuda_mark() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
