"""Models and rows small enough for a second, and jobs on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from xsa.data.rows import write_rows
from xsa.model.nanochat import NanoChat
from xsa.store.files import sha256_file, write_json
from xsa.study.architecture import ModelConfig
from xsa.train.checkpoint import CheckpointConfig, save_tensors

T, VOCAB = 32, 97


@pytest.fixture(autouse=True)
def one_thread():
    """Differences are held to be exactly zero, so every test runs on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def config():
    """`config(alpha=1.0, …)` is a model of three layers with grouped heads."""

    def make(**changes) -> ModelConfig:
        shape = {"vocab_size": VOCAB, "sequence_len": T, "n_layer": 3, "n_head": 4, "n_kv_head": 2, "n_embd": 32}
        xsa = {"window_pattern": "SL", "alpha": 0.0, "xsa_layers": (0, 1, 2)}
        return ModelConfig(**{**shape, **xsa, **changes})

    return make


@pytest.fixture
def finished(tmp_path):
    """`finished(stage, fill)` is a result folder with a record; `fill(folder)` writes its files."""
    count = 0

    def make(stage: str, fill) -> Path:
        nonlocal count
        count += 1
        folder = tmp_path / "made" / stage / f"made@{count:010x}"
        folder.mkdir(parents=True)
        fill(folder)
        files = {path.name: {"sha256": sha256_file(path)} for path in sorted(folder.iterdir())}
        for name in ("record.json", ".record.json"):
            write_json(folder / name, {"digest": folder.name.rpartition("@")[2], "files": files})
        return folder

    return make


@pytest.fixture
def rows(finished):
    """`rows(count)` is a finished `rows` result of random tokens."""

    def make(count: int) -> Path:
        tokens = np.random.default_rng(count).integers(0, VOCAB, size=(count, T + 1), dtype=np.uint16)

        def fill(folder: Path) -> None:
            list(write_rows(folder / "rows.arrow", iter(tokens), T + 1, np.dtype(np.uint16)))

        return finished("rows", fill)

    return make


@pytest.fixture
def random_model():
    """`random_model(config)` has every parameter drawn, so that nothing is hidden behind a zero."""

    def make(config: ModelConfig, seed: int = 0, **kwargs) -> NanoChat:
        model = NanoChat(config, **kwargs)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
        return model

    return make


@pytest.fixture
def checkpoint(finished):
    """`checkpoint(model)` is a finished `pretrain` result with that model."""

    def make(model: NanoChat) -> Path:
        config = CheckpointConfig(
            model=model.config,
            stage="pretrain",
            step=1,
            tokens=1,
            vocab_sha256="0" * 64,
            training={},
            data_stream_sha256="0" * 64,
        )

        def fill(folder: Path) -> None:
            save_tensors(folder / "model.safetensors", model.state_dict())
            write_json(folder / "config.json", config.model_dump(mode="json"))

        return finished("pretrain", fill)

    return make
