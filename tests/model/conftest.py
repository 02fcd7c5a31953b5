"""Small models to test, one thread, and the reference models with what nanochat computed from them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from xsa.model.nanochat import NanoChat
from xsa.study.architecture import ModelConfig

ROOT = Path(os.environ.get("XSA_REFERENCE", Path(__file__).parent.parent / "reference"))


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Case:
    """One set of published numbers: a reference model, or a variant of it with exclusive attention, in one dtype."""

    model: str
    variant: str = ""
    dtype: str = "float32"

    def __str__(self) -> str:
        return "-".join(part for part in (self.model, self.variant, self.dtype) if part)

    @property
    def folder(self) -> Path:
        return ROOT / "model" / self.model

    @cached_property
    def facts(self) -> dict:
        return json.loads((self.folder / "config.json").read_text())

    @cached_property
    def io(self) -> dict[str, Tensor]:
        return load_file(self.folder / "io.safetensors")

    @cached_property
    def expected(self) -> dict[str, Tensor]:
        """logits (at `positions`), loss, loss_per_token, and grad.<parameter> where published."""
        if self.variant:
            return load_file(ROOT / "xsa" / self.model / f"{self.variant}.{self.dtype}.safetensors")
        if self.dtype == "float64":
            return load_file(self.folder / "float64.safetensors")
        grads = self.folder / "grads.safetensors"
        found = load_file(grads) if grads.exists() else {}
        return {**self.io, **{f"grad.{name}": grad for name, grad in found.items()}}

    @cached_property
    def stats(self) -> dict:
        stats = json.loads((ROOT / "xsa" / self.model / "stats.json").read_text())
        return stats["variants"][self.variant or "alpha0"]

    def build(self, **changes) -> NanoChat:
        """The model, with the published weights."""
        alpha, layers = (self.stats["alpha"], self.stats["layers"]) if self.variant else (0.0, [])
        config = ModelConfig(**{**self.facts["config"], "alpha": alpha, "xsa_layers": layers, **changes})
        dtype = getattr(torch, self.dtype)
        model = NanoChat(config, dtype=dtype)
        weights = load_file(self.folder / "weights.safetensors")
        model.load_state_dict({name: weight.to(dtype) for name, weight in weights.items()})
        return model

    @cached_property
    def positions(self) -> Tensor:
        every = torch.arange(self.io["tokens"].size(1))
        return self.expected.get("positions", every)


def model_cases() -> list[Case]:
    """Every reference model that is there."""
    names = sorted(path.parent.name for path in ROOT.glob("model/*/weights.safetensors"))
    wide = [Case(name, dtype="float64") for name in names if (ROOT / "model" / name / "float64.safetensors").exists()]
    return [Case(name) for name in names] + wide


def variant_cases() -> list[Case]:
    """Every variant with exclusive attention that is there."""
    files = sorted(ROOT.glob("xsa/*/*.safetensors"))
    return [Case(file.parent.name, *file.name.removesuffix(".safetensors").rsplit(".", 1)) for file in files]


def lively(config: ModelConfig, seed: int = 0, **kwargs) -> NanoChat:
    """A model in which everything acts: no projection is zero and tokens smear."""
    model = NanoChat(config, **kwargs)
    model.init_weights(seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "c_proj" in name:
                parameter.copy_(torch.empty(parameter.shape).uniform_(-0.3, 0.3, generator=generator))
        model.smear_lambda.fill_(0.7)
        model.lm_head.weight.copy_(0.3 * torch.randn(model.lm_head.weight.shape, generator=generator))
    return model


def small_config(**changes) -> ModelConfig:
    settings = {
        "vocab_size": 97,
        "sequence_len": 300,
        "n_layer": 3,
        "n_head": 4,
        "n_kv_head": 2,
        "n_embd": 48,
        "window_pattern": "SL",
        "alpha": 1.0,
        "xsa_layers": (0, 1, 2),
    }
    settings.update(changes)
    if "n_layer" in changes and "xsa_layers" not in changes:
        settings["xsa_layers"] = tuple(range(settings["n_layer"]))
    return ModelConfig(**settings)
