"""The stage `overhead`: what the exclusive projection costs in time, measured so that drift of the machine cancels.

Two models that differ in alpha alone take training steps in turn on random tokens, the baseline twice in each round
(A B A', A' B A, …): what its second take differs by from its first is the null that the other arm is held against. Each
take gives the time of the forward pass, of the backward pass and of the whole step with its optimizer update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch

from xsa.diagnose.traffic import copy_speed, mark, moved_bytes, seconds
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
AGAIN = "again"  # the baseline's second take
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
    traffic = _traffic(settings, device)
    frames, peaks = [], {}
    for number, mode in enumerate(modes):
        frame, peaks[mode] = _time_mode(job, settings, mode, device, number, len(modes))
        frames.append(frame)
    times = pd.concat(frames, ignore_index=True)[["arm", "mode", "phase", "repetition", "seconds"]]
    times.to_parquet(job.out / "overhead.parquet", index=False)
    tokens = settings.batch_rows * settings.model.sequence_len
    measured = {"device": _name(device), "peak_bytes": peaks, "traffic": traffic}
    write_json(job.out / "overhead.json", summarise(times, tokens) | measured)
    return {"compiled": "compiled" in modes, "why": why, "peak_bytes": peaks}


def _traffic(settings: OverheadStage, device: torch.device) -> dict[str, Any]:
    """`bytes` that the projection must move by phase, `bytes_per_second` of a copy here, and the least `seconds` by phase."""
    moved = moved_bytes(settings.model, settings.batch_rows, as_dtype(settings.dtype).itemsize)
    moved |= {"step": sum(moved.values())}
    speed = copy_speed(device)
    return {"bytes": moved, "bytes_per_second": speed, "seconds": {phase: moved[phase] / speed for phase in PHASES}}


def _time_mode(
    job: Job, settings: OverheadStage, mode: str, device: torch.device, number: int, modes: int
) -> tuple[pd.DataFrame, dict[str, dict[str, int]] | None]:
    """Times in one mode, the `number`-th of `modes`; and on a GPU, by arm and phase, the peak of bytes beyond those held before."""
    rounds = settings.warmup + settings.repetitions

    def progress(done: int) -> None:
        job.progress.step(number * rounds + done, modes * rounds, unit="repetition")

    try:
        arms = {arm: _Arm(settings, arm, mode == "compiled", device, job.progress.say) for arm in ARMS}
        takes = {arm: one.time for arm, one in arms.items()} | {AGAIN: arms["baseline"].time}
        frame = interleave(takes, settings.repetitions, settings.warmup, progress)
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
    """Call the timers of all arms in turn, in reverse order every other round; columns arm, phase, repetition, seconds.

    The first `warmup` rounds are not kept. Of an odd number of arms the middle one stands at the mean time of the others, and
    of an even one over two rounds, so that steady drift of the machine cancels.
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
    """`ratio` of each mode and phase with its interval, and `tokens_per_second` of each mode and arm (median step).

    `null` is the ratio of the baseline's second take to its first. `exceeds_noise`: the interval excludes 1, and the ratio is
    farther from 1 than the null's interval reaches.
    """
    ratios: dict[str, dict] = {}
    nulls: dict[str, dict] = {}
    speed: dict[str, dict] = {}
    for mode, timed in times.groupby("mode", sort=True):
        table = timed.pivot(index="repetition", columns=["phase", "arm"], values="seconds")
        ratios[mode], nulls[mode] = {}, {}
        for phase in PHASES:
            baseline, arm, again = (table[phase][name].to_numpy() for name in (*ARMS, AGAIN))
            found, null = ratio_of_medians(baseline, arm), ratio_of_medians(baseline, again)
            reach = max(abs(end - 1) for end in null["interval"])
            beyond = found["excludes_one"] and abs(found["ratio"] - 1) > reach
            told = {"exceeds_noise": beyond, "baseline_seconds": float(np.median(baseline))}
            ratios[mode][phase], nulls[mode][phase] = found | told, null
        speed[mode] = {arm: tokens / float(table["step"][arm].median()) for arm in ARMS}
    return {"ratio": ratios, "null": nulls, "tokens_per_second": speed}


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
    return {"ratio": ratio, "interval": [lo, hi], "excludes_one": not lo <= 1 <= hi}


class _Arm:
    """One model with its optimizer, ready to take timed steps on one batch of random tokens."""

    def __init__(self, settings: OverheadStage, arm: str, compiled: bool, device: torch.device, say):
        config = settings.model if arm == "xsa" else settings.model.model_copy(update={"alpha": 0.0})
        self.device, self.peak = device, dict.fromkeys(PHASES, 0)
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
        marks = [self._begin()]
        loss = self.loss(self.tokens_BT, self.targets_BT) / self.targets_BT.numel()
        marks.append(self._end("forward"))
        loss.backward()
        marks.append(self._end("backward"))
        self.optimizer.step()
        marks.append(self._end("step"))
        self.optimizer.zero_grad()
        between = seconds(marks, self.device)
        return {"step": sum(between), "forward": between[0], "backward": between[1]}

    def _begin(self) -> Any:
        if self.device.type == "cuda":
            self._held = torch.cuda.memory_allocated(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
        return mark(self.device)

    def _end(self, phase: str) -> Any:
        """The mark that ends a phase; the host knows the peak of memory by then, for it hands memory out in advance."""
        if self.device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self.device) - self._held
            torch.cuda.reset_peak_memory_stats(self.device)
            for name in {phase, "step"}:
                self.peak[name] = max(self.peak[name], peak)
        return mark(self.device)


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
