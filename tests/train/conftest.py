"""A tiny world to train in: a tokenizer of bytes, rows of a fixed pattern, and jobs that can be stopped and run again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from xsa.data.rows import write_rows
from xsa.data.tokenizer import Tokenizer
from xsa.store.files import sha256_file, write_json
from xsa.store.job import Job
from xsa.store.produce import produce
from xsa.store.progress import Progress
from xsa.study.architecture import ModelConfig
from xsa.study.settings import RunSettings
from xsa.study.stages import OptimStage, PretrainStage, ScheduleStage

T = 32


@pytest.fixture(autouse=True)
def one_thread():
    """Results are held bit for bit, so every test runs on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Voice(Progress):
    """Keeps what was said, and calls `at(step)` after each reported training step."""

    def __init__(self):
        super().__init__()
        self.said, self.steps, self.at = [], [], None

    def say(self, sentence):
        self.said.append(sentence)

    def step(self, done, total, unit="step", **numbers):
        if unit == "step":
            self.steps.append(done)
            if self.at:
                self.at(done)


class Results:
    """Finished results made by hand, and training jobs on them."""

    def __init__(self, root: Path):
        self.root, self._count = root, 0

    def add(self, stage: str, fill) -> Path:
        """A result folder with a record; `fill(folder)` writes its files."""
        self._count += 1
        folder = self.root / stage / f"made@{self._count:010x}"
        folder.mkdir(parents=True)
        fill(folder)
        self.record(folder)
        return folder

    def record(self, folder: Path) -> None:
        """Write the record that makes the files of `folder`, as they are, a result."""
        files = {
            path.relative_to(folder).as_posix(): {"sha256": sha256_file(path)}
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.endswith("record.json")
        }
        digest = folder.name.rpartition("@")[2]
        for name in ("record.json", ".record.json"):
            write_json(folder / name, {"digest": digest, "files": files})

    def tokenizer(self) -> Path:
        """One token a byte, and the special ones: 265 entries."""
        bytes_only = Tokenizer([bytes([byte]) for byte in range(256)])
        return self.add("tokenizer", lambda folder: bytes_only.save(folder / "tokenizer.json"))

    def rows(self, count: int, seed: int, sequence_len: int = T) -> Path:
        """Rows that repeat short random words, so that there is something to learn."""
        rng = np.random.default_rng(seed)
        words = rng.integers(97, 123, size=(count, 4), dtype=np.uint16)
        packed = np.tile(words, (1, sequence_len // 4 + 1))[:, : sequence_len + 1]

        def fill(folder: Path) -> None:
            list(write_rows(folder / "rows.arrow", iter(packed), sequence_len + 1, np.dtype(np.uint16)))

        return self.add("rows", fill)

    def job(self, stage: str, name: str, settings, save_minutes=60.0, micro_batch=None, **inputs) -> Job:
        """A job whose result and state lie at `name`, so that the same name runs the same job again."""
        return Job(
            stage=stage,
            label=name,
            settings=settings,
            inputs=inputs,
            out=self.root / stage / f"{name}@0123456789",
            state=self.root / ".state" / stage / f"{name}@0123456789",
            run=RunSettings(save_minutes=save_minutes, save_share=None, micro_batch=micro_batch),
            progress=Voice(),
        )


@pytest.fixture
def results(tmp_path) -> Results:
    return Results(tmp_path / "results")


@pytest.fixture
def run():
    """`run(job)` produces the job's result, as the command line does."""
    return lambda job: produce(job, recipe={}, digest=job.out.name.rpartition("@")[2], code="")


@pytest.fixture
def notes():
    """`notes(folder)` are the facts on how a result was made."""
    return lambda folder: json.loads((folder / "record.json").read_text())["made"]["notes"]


@pytest.fixture
def tiny():
    """Settings of a model of two layers: `tiny.model(**changes)`, `tiny.optim(…)`, `tiny.pretrain(…)`."""
    return SimpleNamespace(model=model_config, optim=optim, pretrain=pretrain_settings)


def model_config(**changes) -> ModelConfig:
    shape = {"vocab_size": 265, "sequence_len": T, "n_layer": 2, "n_head": 2, "n_kv_head": 1, "n_embd": 32}
    xsa = {"window_pattern": "SL", "alpha": 1.0, "xsa_layers": (0, 1)}
    return ModelConfig(**{**shape, **xsa, **changes})


def optim(**changes) -> OptimStage:
    lrs = {"matrix_lr": 0.02, "embedding_lr": 0.05, "unembedding_lr": 0.004, "scalar_lr": 0.1}
    return OptimStage(**{"matrix": "muon", "version": "may2026", "weight_decay": 0.1, **lrs, **changes})


def pretrain_settings(**changes) -> PretrainStage:
    settings = {
        "model": model_config(),
        "seed": 3,
        "steps": 6,
        "batch_rows": 4,
        "optim": optim(),
        "schedule": ScheduleStage(warmup_steps=2, warmdown_ratio=0.5, final_lr_frac=0.1),
        "dtype": "float32",
        "compile": False,
        "validation_every": 3,
        "validation_rows": 5,
        "tokens_per_shard": 384,
    }
    return PretrainStage(**{**settings, **changes})


@pytest.fixture
def pretraining(results):
    """`pretraining(name, **settings)` is a pretraining job on 24 rows in two shards."""
    inputs = {
        "rows": [results.rows(13, seed=1), results.rows(11, seed=2)],
        "validation": results.rows(8, seed=9),
        "tokenizer": results.tokenizer(),
    }

    def job(name: str, save_minutes=60.0, micro_batch=None, **settings) -> Job:
        return results.job("pretrain", name, pretrain_settings(**settings), save_minutes, micro_batch, **inputs)

    job.inputs = inputs
    return job
