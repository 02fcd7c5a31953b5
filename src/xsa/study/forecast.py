"""How long a result will take, before it is made: from what records measured, else from its operations.

A forecast is in seconds of one device: a GPU, or one CPU thread. It says what it rests on, best first:

- results of the same stage, model shape and device in this folder of results;
- those of the nearest shape or size on the same device, scaled by their operations;
- the operations alone, at a stated share of the device's rate.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from xsa.store.recorded import Recorded
from xsa.study.cost import Cost, Costs

# Dense bf16 rates, as their makers state them.
GPU_FLOPS = {
    "B200": 2250e12,
    "H200": 989e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "RTX 4090": 165e12,
    "L4": 121e12,
}
DEFAULT_GPU = "H100"
# Share of that rate. Training: nanochat's in bf16 at depths 12 and 16. CORE: all of it takes nanochat 48 GPU-minutes at depth
# 24. ChatCORE generates token by token; its share, and those of the short stages, are assumptions.
UTILISATION = {"pretrain": 0.4, "finetune": 0.4, "bpb": 0.3, "core": 0.035, "chatcore": 0.001}
SHORT_UTILISATION = 0.1
# Of one CPU thread: float32 operations a second of small models, as the `text` study trained and measured.
THREAD_FLOPS = {"chatcore": 7e9}
THREAD_FLOPS_ELSE = 3e10
# Work a second of the stages of data: bytes written, or characters read, by one thread.
DATA_RATES = {"shard": 25e6, "bundle": 25e6, "chatsets": 25e6, "tokenizer": 7e6, "tokens": 2.4e6, "rows": 3.5e6}
FIXED_SECONDS = {"analyse": 10.0, "report": 1.0}
START_SECONDS = 3.0  # of a job that imports torch

MEASURED, NEAR, FLOPS = "measured", "nearest", "estimated"
TRAINING = ("pretrain", "finetune")
# Nor does a result much smaller or larger say how fast one is: what starts and waits has another share of its time.
NEAR_FACTOR = 30.0
BRINGS = ("shard", "bundle", "chatsets")  # a copy says nothing of a download


@dataclass(frozen=True)
class Forecast:
    """seconds: of one device, which is `gpu` or `cpu`. basis: MEASURED, NEAR or FLOPS; said: the same in words."""

    seconds: float
    device: str
    basis: str
    said: str

    @property
    def hours(self) -> float:
        return self.seconds / 3600


@dataclass(frozen=True)
class _Sample:
    """What one record measured: work a second of one device, for a shape and an amount of work."""

    shape: tuple
    name: str
    work: float
    rate: float

    def near(self, work: float) -> bool:
        """Whether another amount of work is near enough to be scaled to."""
        return 1 / NEAR_FACTOR <= work / self.work <= NEAR_FACTOR


class Forecasts:
    """Forecasts for results, resting on the records of `recorded`."""

    def __init__(self, costs: Costs, recorded: Iterable[Recorded], gpu: str | None = None):
        """`gpu`: model of the GPUs that will be used; None for the one that most records name, else DEFAULT_GPU."""
        self._costs = costs
        self._samples: dict[tuple[str, str], list[_Sample]] = {}
        self._measured: dict[tuple[str, str, tuple], tuple[float | None, str]] = {}
        gpus: list[str] = []
        for one in recorded:
            if one.made.get("gpu"):
                gpus.append(str(one.made["gpu"]))
            sample = self._sample(one)
            if sample:
                self._samples.setdefault((one.stage, device_name(one.made)), []).append(sample)
        self.gpu = gpu or (statistics.mode(gpus) if gpus else DEFAULT_GPU)

    def of(self, recipe: dict[str, Any], cost: Cost, device: str) -> Forecast:
        """The forecast of a whole result on one `gpu` or `cpu` thread."""
        stage = recipe["stage"]
        key = (stage, device, self._shape(recipe))
        if key not in self._measured:
            self._measured[key] = self._rate(recipe, *key)
        rate, said = self._measured[key]
        if rate:
            return Forecast(cost.work / rate, device, MEASURED, said)
        samples = [one for one in self._on(stage, device) if one.near(cost.work)]
        if samples and stage not in BRINGS:
            near = min(samples, key=lambda sample: self._distance(key[2], cost, sample))
            said = f"measured at {near.name} on {self._called(device)}, scaled by work"
            return Forecast(cost.work / near.rate, device, NEAR, said)
        return estimate(stage, cost, device, self.gpu)

    def _rate(self, recipe: dict[str, Any], stage: str, device: str, shape: tuple) -> tuple[float | None, str]:
        """Median work a second of the records of one shape, and what it rests on."""
        rates = [sample.rate for sample in self._on(stage, device) if sample.shape == shape]
        if not rates:
            return None, ""
        what = "this shape" if self._costs.model(recipe) else "this kind"
        count = f"{len(rates):,} record{'s' if len(rates) > 1 else ''}"
        return statistics.median(rates), f"measured: {count} of {what} on {self._called(device)}"

    def _on(self, stage: str, device: str) -> list[_Sample]:
        """Samples of a stage on the device meant: for a GPU those of its model."""
        if device == "cpu":
            return self._samples.get((stage, "cpu"), [])
        return [
            sample
            for (of, name), samples in self._samples.items()
            if of == stage and name != "cpu" and _same_gpu(name, self.gpu)
            for sample in samples
        ]

    def _called(self, device: str) -> str:
        return self.gpu if device == "gpu" else "a CPU thread"

    def _sample(self, one: Recorded) -> _Sample | None:
        seconds = device_seconds(one.stage, one.made)
        work = self._costs.of(one.recipe).work
        if not seconds or one.adopted or one.stage in FIXED_SECONDS:
            return None
        return _Sample(self._shape(one.recipe), _shape_name(one.key), work, work / seconds)

    def _shape(self, recipe: dict[str, Any]) -> tuple:
        """What a rate goes with: the model but its projection, precision and compilation; for data where they come from."""
        model = self._costs.model(recipe)
        if model is None:
            return (recipe.get("settings", {}).get("kind"), recipe.get("settings", {}).get("dataset"))
        told = model.model_dump(exclude={"alpha", "xsa_layers", "xsa_value"})
        setting = self._costs.setting
        return (*map(str, told.values()), setting(recipe, "dtype"), setting(recipe, "compile"))

    def _distance(self, shape: tuple, cost: Cost, sample: _Sample) -> tuple:
        """How unlike a sample is: precision and compilation first, then how far apart the amounts of work are."""
        return (sample.shape[-2:] != shape[-2:], abs(math.log(cost.work / sample.work)))


def estimate(stage: str, cost: Cost, device: str, gpu: str = DEFAULT_GPU) -> Forecast:
    """Seconds by work alone, at a stated rate of the device."""
    if stage in FIXED_SECONDS:
        return Forecast(FIXED_SECONDS[stage], device, FLOPS, "an assumption")
    if stage in DATA_RATES:
        rate = DATA_RATES[stage]
        said = f"{rate / 1e6:g} MB/s" if stage != "tokenizer" else f"{rate / 1e6:g}M characters/s"
        return Forecast(cost.work / rate, device, FLOPS, f"{said}, an assumption")
    if device == "cpu":
        rate = THREAD_FLOPS.get(stage, THREAD_FLOPS_ELSE)
        said = f"FLOPs at {rate / 1e9:g} GFLOP/s a thread"
    else:
        name, peak = gpu_rate(gpu)
        share = UTILISATION.get(stage, SHORT_UTILISATION)
        rate, said = peak * share, f"FLOPs at {100 * share:g} % of {name}'s {peak / 1e12:.0f} TFLOP/s"
        if name.lower() not in gpu.lower().replace("-", " "):
            said += f", for the rate of {gpu} is not known"
    return Forecast(START_SECONDS + cost.flops / rate, device, FLOPS, said)


def device_seconds(stage: str, made: dict[str, Any]) -> float | None:
    """Seconds of one device that a record says its result took: GPUs times seconds, or CPU threads times seconds.

    A training is taken at its measured throughput, for its wall time counts only the part since it was last resumed.
    """
    notes = made.get("notes") if isinstance(made.get("notes"), dict) else {}
    seconds, speed, tokens = (
        _number(made, "wall_seconds"),
        _number(notes, "tokens_per_second"),
        _number(notes, "tokens"),
    )
    if stage in TRAINING and speed and tokens:
        seconds = tokens / speed
    devices = _number(notes, "processes") or 1
    if made.get("device") != "cuda":
        devices *= _number(made, "threads") or 1
    return None if seconds is None else seconds * devices


def _number(values: dict[str, Any], name: str) -> float | None:
    """A number of a record; None where there is none above zero."""
    value = values.get(name)
    return value if isinstance(value, int | float) and math.isfinite(value) and value > 0 else None


def device_name(made: dict[str, Any]) -> str:
    """The GPU model of a record, or `cpu`."""
    return str(made.get("gpu") or "gpu") if made.get("device") == "cuda" else "cpu"


def gpu_rate(model: str) -> tuple[str, float]:
    """The known GPU that a model's name contains, with its rate; DEFAULT_GPU where none is known."""
    known = next((name for name in GPU_FLOPS if name.lower() in model.lower().replace("-", " ")), DEFAULT_GPU)
    return known, GPU_FLOPS[known]


def _same_gpu(recorded: str, wanted: str) -> bool:
    """Whether a driver's name (`NVIDIA A100-SXM4-80GB`) is of the model that is meant (`A100`)."""
    a, b = (name.lower().replace("-", " ") for name in (recorded, wanted))
    return a in b or b in a


def _shape_name(key: str) -> str:
    """The shape in a cell's label."""
    return key.rpartition("@")[0].partition("-")[0]
