"""The reference model with its tokenizer and bundle, and hand-made results for the stages to read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from xsa.data.rows import write_rows
from xsa.data.tokenizer import Tokenizer
from xsa.model.nanochat import NanoChat
from xsa.store.files import sha256_file, write_json
from xsa.study.architecture import ModelConfig


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def core_config(reference):
    """`core_config(alpha)`: the configuration of the reference model."""
    config = json.loads((reference("core") / "config.json").read_text())["config"]
    return lambda alpha=0.0: ModelConfig(**config, alpha=alpha, xsa_layers=tuple(range(config["n_layer"])))


@pytest.fixture(scope="session")
def core_model(reference, core_config):
    """`core_model(alpha)`: the reference model."""

    def load(alpha: float = 0.0) -> NanoChat:
        model = NanoChat(core_config(alpha))
        model.load_state_dict(load_file(reference("core") / "weights.safetensors"))
        return model.eval()

    return load


@pytest.fixture(scope="session")
def core_tokenizer(reference) -> Tokenizer:
    return Tokenizer.load(reference("tokenizer") / "tokenizer.json")


class Made:
    """Finished results made by hand."""

    def __init__(self, root: Path, reference):
        self.root, self.reference, self._count = root, reference, 0

    def result(self, stage: str, fill) -> Path:
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
        write_json(folder / "record.json", {"digest": folder.name.rpartition("@")[2], "files": files})

    def tokenizer(self) -> Path:
        source = self.reference("tokenizer") / "tokenizer.json"
        return self.result("tokenizer", lambda folder: shutil.copyfile(source, folder / "tokenizer.json"))

    def checkpoint(self, config: ModelConfig, stage: str = "pretrain") -> Path:
        def fill(folder: Path) -> None:
            shutil.copyfile(self.reference("core") / "weights.safetensors", folder / "model.safetensors")
            about = {
                "model": config.model_dump(mode="json"),
                "stage": stage,
                "step": 1,
                "tokens": 1,
                "vocab_sha256": sha256_file(self.reference("tokenizer") / "tokenizer.json"),
                "training": {},
                "data_stream_sha256": "00",
            }
            write_json(folder / "config.json", about)

        return self.result(stage, fill)

    def bundle(self, change=lambda folder: None) -> Path:
        """The reference bundle, after `change(folder)`."""

        def fill(folder: Path) -> None:
            shutil.copytree(
                self.reference("core") / "bundle", folder, dirs_exist_ok=True, copy_function=shutil.copyfile
            )
            change(folder)

        return self.result("bundle", fill)

    def rows(self, rows_RT: np.ndarray) -> Path:
        def fill(folder: Path) -> None:
            rows = iter(rows_RT.astype(np.uint16))
            list(write_rows(folder / "rows.arrow", rows, rows_RT.shape[1], np.dtype(np.uint16)))

        return self.result("rows", fill)


@pytest.fixture
def made(tmp_path, reference) -> Made:
    return Made(tmp_path / "made", reference)
