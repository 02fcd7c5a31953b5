"""nanochat's checkpoint files, read into our terms and written: `model_<step>.pt` and `meta_<step>.json`.

Weights are read with torch's loader of plain tensors, which runs nothing. Parameter names and dtypes are the same on both
sides, so both ways are bit-exact. nanochat knows no exclusive attention: what a model's alpha is stands in a section `xsa` of
our own in the meta file, or the user says so.
"""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import ValidationError

from xsa.model.nanochat import NanoChat
from xsa.store.errors import UserError
from xsa.store.files import write_json
from xsa.study.architecture import ModelConfig
from xsa.train.checkpoint import CheckpointConfig, check_weights

SHAPE = ("sequence_len", "vocab_size", "n_layer", "n_head", "n_kv_head", "n_embd", "window_pattern")
XSA = "xsa"  # our section of the meta file
# What a fork may call its exclusive attention: such a name must be explained before alpha is taken to be 0.
_TELLING = re.compile("xsa|exclusive|alpha", re.IGNORECASE)


@dataclass(frozen=True)
class Stated:
    """What the user says of the model, because its files do not: None where nothing is said."""

    alpha: float | None = None
    layers: tuple[int, ...] | None = None
    value: str | None = None
    ignored: tuple[str, ...] = field(default=())  # fields of model_config that change nothing else


class NanochatCheckpoint(NamedTuple):
    """A checkpoint of nanochat in our terms; `meta` is what its meta file says besides the model."""

    weights: dict[str, torch.Tensor]
    model: ModelConfig
    step: int
    meta: dict[str, Any]
    optimizer_files: int


def read_checkpoint(
    folder: Path, step: int | None, stated: Stated, inherited: ModelConfig | None = None
) -> NanochatCheckpoint:
    """The checkpoint of `step` (None: the last one) in `folder`.

    alpha, layers and value are what is `stated`, else what the meta file says, else those of `inherited` (a chat model has
    its base model's), else none at all. UserError where a file is missing, cut short or not of this model.
    """
    step = _step(folder, step)
    meta_path, weights_path = folder / f"meta_{step:06d}.json", folder / f"model_{step:06d}.pt"
    meta = _read_meta(meta_path)
    model = _model(meta, meta_path, stated, inherited)
    weights = _read_weights(weights_path)
    with torch.device("meta"):
        check_weights(NanoChat(model), weights, weights_path, meta_path.name)
    return NanochatCheckpoint(weights, model, step, meta, len(list(folder.glob(f"optim_{step:06d}_rank*.pt"))))


def write_checkpoint(
    folder: Path, weights: dict[str, torch.Tensor], config: CheckpointConfig, ours: dict[str, Any]
) -> Path:
    """Write model and meta file of a checkpoint; `ours` goes into the meta's section `xsa`. Returns the meta's path."""
    torch.save(weights, folder / f"model_{config.step:06d}.pt")
    model, training = config.model, config.training
    batch = training["batch_rows"] * model.sequence_len if "batch_rows" in training else None
    unknown = {"val_bpb": None, "user_config": {}, "max_seq_len": model.sequence_len, "total_batch_size": batch}
    meta = {
        "step": config.step,
        "model_config": {name: getattr(model, name) for name in SHAPE},
        # Beside model_config, for nanochat builds its model from that and would stop at a field that it does not know.
        XSA: {"alpha": model.alpha, "layers": list(model.xsa_layers), "value": model.xsa_value} | ours,
    }
    path = folder / f"meta_{config.step:06d}.json"
    write_json(path, unknown | training.get("nanochat", {}) | meta)
    return path


def _step(folder: Path, step: int | None) -> int:
    found = {
        int(match[1]) for path in folder.glob("model_*.pt") if (match := re.fullmatch(r"model_(\d+)\.pt", path.name))
    }
    if not found:
        below = sorted(path.parent.relative_to(folder).as_posix() for path in folder.glob("*/*/model_*.pt"))
        told = f"; checkpoints lie below it, in {', '.join(dict.fromkeys(below))}" if below else ""
        raise UserError(f"{folder} holds no model_<step>.pt{told}. Give the folder of one checkpoint")
    if step is not None and step not in found:
        raise UserError(
            f"{folder} has no step {step}; there {'is' if len(found) == 1 else 'are'} {', '.join(map(str, sorted(found)))}"
        )
    return max(found) if step is None else step


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        # NaN and infinity stand there for what was never measured.
        meta = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda name: None)
    except FileNotFoundError:
        raise UserError(f"{path} is missing, and it says what the model is; bring it beside the weights") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not readable JSON ({error}); bring a whole copy back") from None
    if not isinstance(meta, dict) or not isinstance(meta.get("model_config"), dict):
        raise UserError(
            f"{path} has no model_config, so it is no meta file of nanochat; bring the one of these weights"
        )
    return meta


def _model(meta: dict[str, Any], path: Path, stated: Stated, inherited: ModelConfig | None) -> ModelConfig:
    shape = meta["model_config"]
    lacking = [name for name in SHAPE if name not in shape]
    if lacking:
        raise UserError(
            f"{path}: model_config lacks {', '.join(lacking)}; only models of nanochat's state of May 2026 and later can be read"
        )
    _explained(meta, path, stated)
    told = meta.get(XSA) if isinstance(meta.get(XSA), dict) else {}
    before = inherited.model_dump() if inherited else {"alpha": 0.0, "xsa_layers": None, "xsa_value": "attended"}
    try:
        alpha = _first(stated.alpha, told.get("alpha"), before["alpha"])
        layers = _first(stated.layers, told.get("layers"), before["xsa_layers"], range(shape["n_layer"]))
        value = _first(stated.value, told.get("value"), before["xsa_value"])
        return ModelConfig(
            **{name: shape[name] for name in SHAPE}, alpha=alpha, xsa_layers=tuple(layers), xsa_value=value
        )
    except (ValidationError, TypeError) as error:
        fault = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        where = ".".join(map(str, fault["loc"])) or "model_config"
        advice = (
            "bring the meta file back as nanochat wrote it"
            if stated.layers is None
            else "state layers that the model has, or bring the meta file back"
        )
        raise UserError(f"{path}: {where}: {fault['msg'].removeprefix('Value error, ')}; {advice}") from None


def _explained(meta: dict[str, Any], path: Path, stated: Stated) -> None:
    """UserError for fields that could mean another model than the one that would be built."""
    unknown = [name for name in meta["model_config"] if name not in SHAPE and name not in stated.ignored]
    if unknown:
        fields = ", ".join(f"{name} = {meta['model_config'][name]!r}" for name in unknown)
        raise UserError(
            f"{path}: model_config has fields that nanochat does not know: {fields}. If they set exclusive attention, say so with "
            f"--alpha (and --layers, --value) and pass them by with {' '.join(f'--ignore {name}' for name in unknown)}; any other "
            "architecture cannot be imported"
        )
    user = meta.get("user_config")
    telling = [name for name in user if _TELLING.search(name)] if isinstance(user, dict) else []
    if telling and stated.alpha is None and XSA not in meta:
        fields = ", ".join(f"{name} = {user[name]!r}" for name in telling)
        raise UserError(
            f"{path}: user_config has {fields}, model_config says nothing of it; state with --alpha (and --layers, --value) what "
            "the model was trained with, 0 for standard attention"
        )


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a `.pt`, under the names of the model that was not compiled."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; bring the file back") from None
    except pickle.UnpicklingError as error:
        # torch's own text advises to load the file all the same; of it only the name of what it refused is told.
        refused = re.search(r"GLOBAL (\S+)", str(error))
        what = f" ({refused[1]})" if refused else ""
        raise UserError(
            f"{path} holds more than tensors{what}, and nothing else is ever read from it. Save the model's state_dict() alone"
        ) from None
    except (RuntimeError, EOFError, ValueError, OSError) as error:
        what = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"{path} is damaged or cut short ({what}); bring a whole copy back") from None
    if not isinstance(state, dict) or not all(isinstance(one, torch.Tensor) for one in state.values()):
        raise UserError(f"{path} is no state_dict of tensors; give a checkpoint that nanochat saved")
    return {str(name).removeprefix("_orig_mod."): tensor for name, tensor in state.items()}
