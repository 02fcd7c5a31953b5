"""A made-up study: result folders as the stages leave them, with plausible numbers, in a second and without training.

`fabricate(root)` writes pretrain, bpb, core, … folders under `root` and returns the settings and inputs of `analyse`.
Every number comes from a fixed seed. The true effects are known, so that a test can say what an analysis should find:
XSA lowers the loss by `EFFECT["loss"]` nats at every step and leaves CORE and ChatCORE alone.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from xsa.store.job import Job
from xsa.study.architecture import ModelConfig
from xsa.study.result import digest_of
from xsa.study.stages import AnalyseStage, OptimStage, PretrainStage, ScheduleStage

EFFECT = {"loss": -0.008, "core": 0.0, "chatcore": 0.0}
SHAPES = (
    {"name": "d12", "n_layer": 12, "n_embd": 768, "n_head": 6, "loss": 3.10, "skill": 0.0},
    {"name": "d24", "n_layer": 24, "n_embd": 1536, "n_head": 12, "loss": 2.62, "skill": 0.8},
    {"name": "d30", "n_layer": 30, "n_embd": 1920, "n_head": 15, "loss": 2.45, "skill": 1.1},
)
STEPS = 600
BATCH_TOKENS = 524_288
CORE_TASKS = {  # label: (kind, shots, random baseline, items)
    "hellaswag_zeroshot": ("multiple_choice", 0, 0.25, 120),
    "jeopardy": ("language_modeling", 10, 0.0, 100),
    "arc_easy": ("multiple_choice", 10, 0.25, 120),
    "copa": ("multiple_choice", 0, 0.5, 100),
    "winograd": ("schema", 0, 0.5, 100),
    "boolq": ("multiple_choice", 10, 0.62, 120),
}
CHAT_TASKS = {
    "arc_easy": ("categorical", 0.25, 120),
    "mmlu": ("categorical", 0.25, 120),
    "gsm8k": ("generated", 0.0, 100),
    "spellingbee": ("generated", 0.0, 60),
}
HOSTILE = '=cmd|"/c calc"!A1 \\input{/etc/passwd} <script>alert(1)</script> 100 % $x_1$ & #~^{}'


@dataclass
class Fabricated:
    """What the stage `analyse` is given: `settings`, and `inputs`, a list of folders by stage name."""

    settings: AnalyseStage
    inputs: dict[str, list[Path]] = field(default_factory=dict)

    def job(self, out: Path) -> Job:
        """A job that runs the analysis into `out`."""
        out.mkdir(parents=True, exist_ok=True)
        return Job("analyse", self.settings.study, self.settings, self.inputs, out=out, state=out.parent / "state")


def fabricate(
    root: Path,
    shapes: int = 2,
    seeds: int = 2,
    *,
    alphas: tuple[float, ...] = (0.0, 1.0),
    drop: tuple[str, ...] = (),
    hostile: bool = False,
) -> Fabricated:
    """Write a study of `shapes` × `alphas` × `seeds` under `root`.

    drop:    stages, or `stage/cell` pairs, that were not measured.
    hostile: one CORE task, one shape and the title carry strings that attack TeX, spreadsheets and HTML.
    """
    root = Path(root)
    inputs: dict[str, list[Path]] = {}
    cells = []

    def skipped(stage: str, cell: str) -> bool:
        return stage in drop or f"{stage}/{cell}" in drop

    for index, shape in enumerate(SHAPES[:shapes]):
        name = shape["name"] + (" " + HOSTILE if hostile and index == shapes - 1 else "")
        for alpha in alphas:
            for seed in range(seeds):
                cell = f"{shape['name']}-alpha{alpha:g}-seed{seed}"
                settings = _pretrain_settings(shape, alpha, seed)
                results = {}
                for stage, write in _STAGES.items():
                    shared = stage in ("overhead", "equivalence")
                    if skipped(stage, cell) or (stage == "overhead" and alpha == 0.0):
                        continue
                    label = f"{shape['name']}-alpha{alpha:g}" if stage == "overhead" else cell
                    label = shape["name"] if stage == "equivalence" else label
                    recipe = _recipe(stage, label, settings if stage == "pretrain" else None)
                    folder = root / stage / f"{label}@{digest_of(recipe)}"
                    if not (shared and folder.exists()):
                        folder.mkdir(parents=True)
                        notes = write(folder, shape, alpha, seed, hostile)
                        _record(folder, stage, label, notes or {}, recipe)
                        inputs.setdefault(stage, []).append(folder)
                    results[stage] = folder.name
                factors = {"xsa.alpha": alpha, "seed": seed}
                cells.append(
                    {
                        "cell": cell,
                        "shape": name,
                        "factors": factors,
                        "data": "builtin",
                        "settings": settings.model_dump(mode="json"),
                        "results": results,
                    }
                )
    stage = AnalyseStage(
        study="fabricated",
        title="Fabricated study" + (" " + HOSTILE if hostile else ""),
        question="Does exclusive self-attention help when the numbers are made up?",
        factors={"xsa.alpha": alphas, "seed": tuple(range(seeds))},
        baseline={"xsa.alpha": 0.0},
        cells=tuple(cells),
    )
    return Fabricated(stage, inputs)


def _recipe(stage: str, label: str, settings: PretrainStage | None) -> dict[str, Any]:
    return {"stage": stage, "of": label, "settings": settings.model_dump(mode="json") if settings else {}}


def _record(folder: Path, stage: str, label: str, notes: dict[str, Any], recipe: dict[str, Any]) -> None:
    """A record of the form that the store writes."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files[path.relative_to(folder).as_posix()] = {
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "bytes": path.stat().st_size,
            }
    _json(
        folder / "record.json",
        {
            "stage": stage,
            "label": label,
            "digest": folder.name.rpartition("@")[2],
            "recipe": recipe,
            "files": files,
            "made": {
                "started": "2026-01-01T00:00:00+00:00",
                "wall_seconds": 1800.0 if stage == "pretrain" else 60.0,
                "host": "fabricated",
                "platform": "Linux",
                "python": "3.12.0",
                "packages": {"torch": "2.13.0", "numpy": "2.4.6"},
                "git_commit": "0123456789ab",
                "device": "cuda",
                "gpu": "Fabricated GPU",
                "threads": 1,
                "slurm_job": None,
                "notes": notes,
            },
        },
    )


def _pretrain_settings(shape: dict, alpha: float, seed: int) -> PretrainStage:
    model = ModelConfig(
        vocab_size=32768,
        sequence_len=2048,
        n_layer=shape["n_layer"],
        n_head=shape["n_head"],
        n_kv_head=shape["n_head"],
        n_embd=shape["n_embd"],
        window_pattern="SSSL",
        alpha=alpha,
        xsa_layers=tuple(range(shape["n_layer"])),
    )
    optim = OptimStage(
        matrix="muon",
        version="may2026",
        matrix_lr=0.02,
        embedding_lr=0.3,
        unembedding_lr=0.008,
        scalar_lr=0.5,
        weight_decay=0.2,
    )
    return PretrainStage(
        model=model,
        seed=seed,
        steps=STEPS,
        batch_rows=BATCH_TOKENS // 2048,
        optim=optim,
        schedule=ScheduleStage(warmup_steps=40, warmdown_ratio=0.65, final_lr_frac=0.05),
        dtype="bfloat16",
        compile=True,
        validation_every=100,
        validation_rows=64,
        tokens_per_shard=47_000_000,
    )


# --- the stages' files ----------------------------------------------------------------------------------------------


def _rng(*key: Any) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "big"))


def _final_loss(shape: dict, alpha: float, seed: int) -> float:
    return shape["loss"] + alpha * EFFECT["loss"] + _rng("final", shape["name"], alpha, seed).normal(0, 0.0006)


def _loss(shape: dict, alpha: float, seed: int, steps: np.ndarray) -> np.ndarray:
    """A falling curve; the noise of a step is mostly that of its rows, which all arms and seeds share."""
    shared = _rng("rows", shape["name"]).normal(0, 0.035, len(steps))
    own = _rng("loss", shape["name"], alpha, seed).normal(0, 0.006, len(steps))
    return _final_loss(shape, alpha, seed) + 7.2 * np.exp(-steps / 22) + 0.9 * np.exp(-steps / 190) + shared + own


def _stream(shape: dict) -> str:
    return hashlib.sha256(f"rows of {shape['name']}".encode()).hexdigest()


def _pretrain(folder: Path, shape: dict, alpha: float, seed: int, hostile: bool) -> dict:
    steps = np.arange(1, STEPS + 1)
    _parquet(
        folder / "log.parquet",
        {
            "step": steps,
            "tokens": steps * BATCH_TOKENS,
            "loss": _loss(shape, alpha, seed, steps),
            "lr_multiplier": np.clip((STEPS - steps) / (0.65 * STEPS), 0.05, 1.0),
            "momentum": np.full(STEPS, 0.95),
            "weight_decay": np.linspace(0.2, 0.0, STEPS),
            "grad_norm": np.abs(_rng("grad", shape["name"], alpha, seed).normal(0.4, 0.05, STEPS)),
        },
    )
    looks = np.arange(100, STEPS + 1, 100)
    bpb = (_final_loss(shape, alpha, seed) + 0.9 * np.exp(-looks / 190)) / (math.log(2) * 4.8) * 0.92
    _parquet(folder / "validation.parquet", {"step": looks, "tokens": looks * BATCH_TOKENS, "bpb": bpb})
    micro = _loss(shape, alpha, seed, steps) + _rng("micro", shape["name"]).normal(0, 0.05, STEPS)
    timing = {"step": steps, "seconds": np.full(STEPS, 0.5 + 0.006 * alpha), "last_micro_loss": micro}
    _parquet(folder / "timing.parquet", timing)
    settings = _pretrain_settings(shape, alpha, seed).model_dump(mode="json")
    _json(
        folder / "config.json",
        {
            "model": settings["model"],
            "stage": "pretrain",
            "step": STEPS,
            "tokens": STEPS * BATCH_TOKENS,
            "vocab_sha256": "0" * 64,
            "training": settings,
            "data_stream_sha256": _stream(shape),
        },
    )
    return {"tokens_per_second": 980_000.0, "data_stream_sha256": _stream(shape), "compiled": True, "device": "cuda"}


def _bpb(folder: Path, shape: dict, alpha: float, seed: int, hostile: bool) -> None:
    rows, tokens = 256, 2048
    shared = _rng("validation", shape["name"])
    lengths = shared.integers(9000, 10600, rows)
    difficulty = shared.normal(0, 0.12, rows)
    own = _rng("bpb", shape["name"], alpha, seed).normal(0, 0.003, rows)
    nats = (_final_loss(shape, alpha, seed) * 0.92 + difficulty + own) * tokens
    _parquet(folder / "rows.parquet", {"row": np.arange(rows), "nats": nats, "bytes": lengths})
    total = int(lengths.sum())
    _json(
        folder / "bpb.json",
        {
            "bpb": float(nats.sum() / math.log(2) / total),
            "nats": float(nats.sum()),
            "bytes": total,
            "rows": rows,
            "tokens": rows * tokens,
            "unigram_bpb": 2.1,
            "source": f"validation rows 0..{rows - 1}",
        },
    )


def _accuracy_task(stage: str, task: str, items: int, baseline: float, shape: dict, alpha: float, seed: int):
    """Correct or not, item by item: items differ in difficulty, and a model answers most as its sister does."""
    difficulty = _rng(stage, task, "items").normal(0, 1.5, items)
    own = _rng(stage, task, shape["name"], alpha, seed).normal(0, 0.5, items)
    knows = shape["skill"] - 0.8 - difficulty + own + EFFECT[stage] * alpha > 0
    lucky = _rng(stage, task, "luck").random(items) < baseline
    return knows | lucky


def _centred(tasks: dict[str, dict]) -> tuple[float, float, list[float]]:
    mean = float(np.mean([task["centred"] for task in tasks.values()]))
    error = math.sqrt(sum((t["standard_error"] / (1 - t["baseline"])) ** 2 for t in tasks.values())) / len(tasks)
    return mean, error, [mean - 1.96 * error, mean + 1.96 * error]


def _task(correct: np.ndarray, baseline: float) -> dict[str, Any]:
    accuracy = float(correct.mean())
    return {
        "items": len(correct),
        "accuracy": accuracy,
        "centred": (accuracy - baseline) / (1 - baseline),
        "standard_error": math.sqrt(accuracy * (1 - accuracy) / len(correct)),
        "baseline": baseline,
    }


def _core(folder: Path, shape: dict, alpha: float, seed: int, hostile: bool) -> None:
    tasks, frames = {}, []
    for label, (kind, shots, baseline, items) in CORE_TASKS.items():
        correct = _accuracy_task("core", label, items, baseline, shape, alpha, seed)
        if hostile and label == "boolq":
            label = HOSTILE
        tasks[label] = {"kind": kind, "num_fewshot": shots} | _task(correct, baseline)
        choices = None if kind == "language_modeling" else 0
        frames.append(
            pd.DataFrame(
                {
                    "task": label,
                    "item": np.arange(items),
                    "gold": pd.array([choices] * items, dtype="Int64"),
                    "prediction": pd.array([None if choices is None else int(not c) for c in correct], dtype="Int64"),
                    "correct": correct,
                    "losses": [[1.0, 2.0]] * items,
                }
            )
        )
    pd.concat(frames, ignore_index=True).to_parquet(folder / "items.parquet")
    core, error, interval = _centred(tasks)
    _json(
        folder / "core.json",
        {
            "core": core,
            "standard_error": error,
            "interval": interval,
            "baselines": "bundle",
            "max_per_task": None,
            "partial": [],
            "tasks": tasks,
        },
    )


def _finetune(folder: Path, shape: dict, alpha: float, seed: int, hostile: bool) -> dict:
    steps = np.arange(1, 101)
    loss = 1.1 + 0.6 * np.exp(-steps / 15) + _rng("sft", shape["name"], alpha, seed).normal(0, 0.02, 100)
    _parquet(
        folder / "log.parquet",
        {
            "step": steps,
            "tokens": steps * BATCH_TOKENS,
            "loss": loss,
            "lr_multiplier": np.linspace(1, 0, 100),
            "momentum": np.full(100, 0.95),
            "weight_decay": np.zeros(100),
            "grad_norm": np.full(100, 0.3),
        },
    )
    _parquet(folder / "validation.parquet", {"step": [100], "tokens": [100 * BATCH_TOKENS], "bpb": [0.42]})
    return {"tokens_per_second": 900_000.0}


def _chatcore(folder: Path, shape: dict, alpha: float, seed: int, hostile: bool) -> None:
    tasks, frames = {}, []
    for name, (kind, baseline, items) in CHAT_TASKS.items():
        correct = _accuracy_task("chatcore", name, items, baseline, shape, alpha, seed)
        tasks[name] = {"kind": kind, "truncated": 0} | _task(correct, baseline)
        frames.append(
            pd.DataFrame(
                {
                    "task": name,
                    "item": np.arange(items),
                    "gold": "A",
                    "prediction": np.where(correct, "A", "B"),
                    "correct": correct,
                    "detail": "",
                    "tokens": 12,
                }
            )
        )
    pd.concat(frames, ignore_index=True).to_parquet(folder / "items.parquet")
    chatcore, error, interval = _centred(tasks)
    _json(
        folder / "chatcore.json",
        {"chatcore": chatcore, "standard_error": error, "interval": interval, "tasks": tasks},
    )


def _attention(folder: Path, shape: dict, alpha: float, seed: int, hostile: bool) -> None:
    rng = _rng("attention", shape["name"], alpha, seed)
    records, layers, heads = [], shape["n_layer"], shape["n_head"]
    windows = _pretrain_settings(shape, alpha, seed).model.windows()
    for layer in range(layers):
        depth = layer / max(layers - 1, 1)
        null = float(np.mean(1 / np.minimum(np.arange(1, 2048) + 1, windows[layer] + 1)))
        for head in range(heads):
            cos = (0.15 + 0.45 * depth) * (0.45 if alpha else 1.0) + rng.normal(0, 0.04)
            values = {
                "cos_y_v": cos,
                "cos_z_v": cos if alpha == 0 else rng.normal(0, 2e-8),
                "cos_y_v_centred": cos * 0.7,
                "diagonal": null + (0.01 + 0.05 * depth) * (0.4 if alpha else 1.0) * (1 + rng.normal(0, 0.1)),
                "diagonal_null": null,
                "removed_share": alpha * cos**2,
                "cos_v_v": 0.1 + 0.2 * depth,
                "value_norm": 3.0 + rng.normal(0, 0.1),
                "output_norm": 1.5 + rng.normal(0, 0.1),
                "first": 0.2 if alpha == 0 else 0.1,
                "first_null": 0.004,
                "entropy": 3.0 + rng.normal(0, 0.1),
                "entropy_null": 5.5,
            }
            records += [(layer, head, measure, value, 1, 2047) for measure, value in values.items()]
            for first in (2**power for power in range(11)):
                near = {"cos_y_v": values["cos_y_v"] + 0.4 / first, "diagonal_null": 1 / (1.5 * first)}
                records += [
                    (layer, head, measure, value, first, 2 * first - 1) for measure, value in (values | near).items()
                ]
    frame = pd.DataFrame(records, columns=["layer", "head", "measure", "value", "first", "last"])
    whole = frame[(frame["first"] == 1) & (frame["last"] == 2047)]
    frame.to_parquet(folder / "attention.parquet")
    _json(
        folder / "attention.json",
        {"rows": 16, "tokens": 16 * 2048, "means": whole.groupby("measure")["value"].mean().to_dict()},
    )


def _overhead(folder: Path, shape: dict, alpha: float, seed: int, hostile: bool) -> None:
    rng, records = _rng("overhead", shape["name"]), []
    ratios: dict[str, dict] = {}
    nulls: dict[str, dict] = {}
    for mode, cost in (("compiled", 1.012), ("eager", 1.06)):
        ratios[mode], nulls[mode] = {}, {}
        for phase, base in (("step", 0.5), ("forward", 0.16), ("backward", 0.3)):
            costs = {"baseline": base, "xsa": base * cost, "again": base}
            times = {arm: median * rng.normal(1, 0.012, 30) for arm, median in costs.items()}
            for arm, seconds in times.items():
                records += [(arm, mode, phase, i, s) for i, s in enumerate(seconds)]
            medians = {arm: float(np.median(seconds)) for arm, seconds in times.items()}
            ratio, null = (medians[arm] / medians["baseline"] for arm in ("xsa", "again"))
            outside = not ratio - 0.008 <= 1 <= ratio + 0.008
            found = {"ratio": ratio, "interval": [ratio - 0.008, ratio + 0.008], "exceeds_noise": outside}
            ratios[mode][phase] = found | {"excludes_one": outside, "baseline_seconds": medians["baseline"]}
            nulls[mode][phase] = {"ratio": null, "interval": [null - 0.008, null + 0.008], "excludes_one": False}
    frame = pd.DataFrame(records, columns=["arm", "mode", "phase", "repetition", "seconds"])
    frame.to_parquet(folder / "overhead.parquet")
    speed = {mode: {"baseline": 1_000_000.0, "xsa": 980_000.0} for mode in ratios}
    peaks = {
        mode: {
            arm: dict.fromkeys(("step", "forward", "backward"), 10**9 + extra)
            for arm, extra in (("baseline", 0), ("xsa", 10**7))
        }
        for mode in ratios
    }
    moved = {"forward": 3 * 10**9, "backward": 5 * 10**9, "step": 8 * 10**9}
    traffic = {
        "bytes": moved,
        "bytes_per_second": 4e12,
        "seconds": {phase: size / 4e12 for phase, size in moved.items()},
    }
    _json(
        folder / "overhead.json",
        {"ratio": ratios, "null": nulls, "device": "Fabricated GPU", "tokens_per_second": speed}
        | {"peak_bytes": peaks, "traffic": traffic},
    )


def _equivalence(folder: Path, shape: dict, alpha: float, seed: int, hostile: bool) -> None:
    steps = np.arange(1, 51)
    loss = _loss(shape, 0.0, 0, steps)
    _parquet(folder / "steps.parquet", {"step": steps, "baseline": loss, "explicit": loss})
    zeros = ("forward_max_abs", "loss_abs", "gradient_max_rel", "loss_max_abs", "loss_final_abs", "parameters_max_rel")
    _json(
        folder / "equivalence.json",
        dict.fromkeys(zeros, 0.0) | {"steps": 50, "dtype": "float32", "device": "cpu", "bitwise": True},
    )


_STAGES = {
    "pretrain": _pretrain,
    "finetune": _finetune,
    "bpb": _bpb,
    "core": _core,
    "chatcore": _chatcore,
    "attention": _attention,
    "overhead": _overhead,
    "equivalence": _equivalence,
}


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, sort_keys=True, indent=1), encoding="utf-8")


def _parquet(path: Path, columns: dict[str, Any]) -> None:
    pd.DataFrame(columns).to_parquet(path)
