"""How rates, momentum and weight decay move over a run: nanochat's schedules as plain functions of the step.

Steps are counted from 0; step `steps - 1` is the last. Free of torch, so that plans and figures can use them.
"""

from __future__ import annotations

import math

from xsa.study.stages import ScheduleStage

MOMENTUM_START, MOMENTUM_PEAK, MOMENTUM_END = 0.85, 0.97, 0.90
MOMENTUM_STEPS = 400  # steps of the rise from start to peak
FINETUNE_MOMENTUM_PEAK, FINETUNE_MOMENTUM_STEPS = 0.95, 300
FINETUNE_WARMDOWN = 0.5  # share of fine-tuning over which rates fall to 0


def warmdown_steps(steps: int, settings: ScheduleStage) -> int:
    """Length of the last part of a run, over which rates fall (half a step rounds to the even number)."""
    return round(settings.warmdown_ratio * steps)


def lr_multiplier(step: int, steps: int, settings: ScheduleStage) -> float:
    """Factor on every learning rate: a linear rise, a plateau at 1, a linear fall towards `final_lr_frac`.

    The rise takes precedence, so a run that is shorter than rise and fall together jumps from one to the other.
    """
    if step < settings.warmup_steps:
        return (step + 1) / settings.warmup_steps
    fall = warmdown_steps(steps, settings)
    if step <= steps - fall:
        return 1.0
    left = (steps - step) / fall
    return left + (1 - left) * settings.final_lr_frac


def momentum(step: int, steps: int, settings: ScheduleStage) -> float:
    """Muon's momentum: 0.85 → 0.97 over the first 400 steps, then 0.97, then → 0.90 while the rates fall."""
    if step < MOMENTUM_STEPS:
        done = step / MOMENTUM_STEPS
        return (1 - done) * MOMENTUM_START + done * MOMENTUM_PEAK
    fall = warmdown_steps(steps, settings)
    if step >= steps - fall:
        done = (step - (steps - fall)) / fall
        return (1 - done) * MOMENTUM_PEAK + done * MOMENTUM_END
    return MOMENTUM_PEAK


def weight_decay(step: int, steps: int, initial: float) -> float:
    """Muon's weight decay: half a cosine from `initial` to 0. (AdamW's groups keep theirs.)"""
    return initial * 0.5 * (1 + math.cos(math.pi * step / steps))


def finetune_lr_multiplier(
    progress: float, warmup_ratio: float = 0.0, warmdown_ratio: float = FINETUNE_WARMDOWN, final_lr_frac: float = 0.0
) -> float:
    """Factor on fine-tuning's first rates at this share of the mixture: 1 up to a half, then linear to 0.

    Past the end (progress > 1) it stays where it ended; nanochat's goes on below zero, and would climb the loss.
    """
    if progress < warmup_ratio:
        return (progress + 1e-8) / warmup_ratio  # the first step is not lost to a rate of 0
    if progress <= 1 - warmdown_ratio:
        return 1.0
    fallen = min((progress - (1 - warmdown_ratio)) / warmdown_ratio, 1.0)
    return (1 - fallen) + fallen * final_lr_frac


def finetune_momentum(step: int) -> float:
    """Muon's momentum in fine-tuning: 0.85 → 0.95 over 300 steps."""
    done = min(step / FINETUNE_MOMENTUM_STEPS, 1.0)
    return (1 - done) * MOMENTUM_START + done * FINETUNE_MOMENTUM_PEAK
