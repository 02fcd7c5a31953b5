"""A model on disk: `model.safetensors`, its complete `config.json`, and `optimizer.safetensors`.

The configuration holds every field of the model, alpha and layer set included, and reading refuses a file in which one
is missing or unknown: a model is never built from an assumption.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import safetensors
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors.torch import save_file

from xsa.data.tokenizer import Tokenizer
from xsa.model.nanochat import NanoChat
from xsa.optim.muon_adamw import MuonAdamW
from xsa.store.errors import UserError
from xsa.store.files import write_json
from xsa.store.job import Job
from xsa.study.architecture import ModelConfig

MODEL, CONFIG, OPTIMIZER = "model.safetensors", "config.json", "optimizer.safetensors"
_WHOLE = "A checkpoint names every field; bring the file back as it was written"


class CheckpointConfig(BaseModel):
    """What `config.json` says: the model, the vocabulary that its token ids mean, and how it came about."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: ModelConfig
    stage: Literal["pretrain", "finetune"]
    step: int = Field(ge=0)
    tokens: int | None = Field(ge=0)  # None, like the stream, where a checkpoint from elsewhere does not say
    vocab_sha256: str
    training: dict[str, Any]
    data_stream_sha256: str | None


class Checkpoint(NamedTuple):
    """A model ready to be evaluated, and the tokenizer it was trained with (None where the stage reads none)."""

    model: NanoChat
    tokenizer: Tokenizer | None
    config: CheckpointConfig


def write_checkpoint(folder: Path, model: NanoChat, optimizer: MuonAdamW, config: CheckpointConfig) -> None:
    """Write the three files; all ranks call this, and the first writes, the same whatever their number.

    OSError where the disk refuses (`xsa.store.produce` turns that into a sentence).
    """
    moments = optimizer.state_dict_flat()
    if optimizer.sharding.rank:
        return
    save_tensors(folder / MODEL, model.state_dict())
    save_tensors(folder / OPTIMIZER, moments)
    write_json(folder / CONFIG, config.model_dump(mode="json"))


def load_model(source: Path | Mapping[str, Path], device: str | torch.device, dtype: torch.dtype | str) -> NanoChat:
    """The model of a checkpoint, in evaluation mode on `device`, computing in `dtype`.

    `source` is a folder, or the paths of its files by name (`{"model.safetensors": …, "config.json": …}`).
    UserError where the configuration is incomplete, or the weights are damaged or belong to another configuration.
    """
    files = source if isinstance(source, Mapping) else {name: Path(source) / name for name in (MODEL, CONFIG)}
    config = read_config(files[CONFIG])
    model = NanoChat(config.model, dtype=as_dtype(dtype)).to(device)
    copy_weights(model, load_tensors(files[MODEL]), files[MODEL])
    return model.eval()


def load_for_evaluation(job: Job) -> Checkpoint:
    """The job's `checkpoint`, on the job's device in the dtype of its settings, with the job's `tokenizer` if it has one.

    Hashes of all files are checked against their records, and the tokenizer against the one that training used.
    """
    files = {name: job.file("checkpoint", name) for name in (MODEL, CONFIG)}
    config = read_config(files[CONFIG])
    tokenizer = None
    if "tokenizer" in job.inputs:
        path = job.file("tokenizer", "tokenizer.json")
        tokenizer = Tokenizer.load(path)
        check_vocabulary(config, files[CONFIG], tokenizer, path)
    return Checkpoint(load_model(files, job.device, job.settings.dtype), tokenizer, config)


def check_vocabulary(config: CheckpointConfig, config_path: Path, tokenizer: Tokenizer, tokenizer_path: Path) -> None:
    """UserError unless the checkpoint was trained with exactly this tokenizer."""
    if config.vocab_sha256 != tokenizer.sha256:
        raise UserError(
            f"{config_path} was trained with another vocabulary (vocab_sha256 {config.vocab_sha256}) than {tokenizer_path} "
            f"({tokenizer.sha256}); its token ids would mean other text. Give the tokenizer that it was trained with"
        )
    if config.model.vocab_size != tokenizer.vocab_size:
        raise UserError(
            f"{config_path} says vocab_size {config.model.vocab_size}, {tokenizer_path} has {tokenizer.vocab_size} entries; "
            "give the tokenizer that the model was trained with"
        )


def read_config(path: Path) -> CheckpointConfig:
    """`config.json`, checked field by field. UserError names the first field that is missing, unknown or wrong."""
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{path} is missing, so this is no checkpoint; give the folder of a pretrain or finetune result"
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not readable JSON ({error}); bring a whole copy back") from None
    for name, field in ModelConfig.model_fields.items():
        # A field that has a default is no less a part of what was trained; only one that came after the file may be absent.
        later = isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("added")
        if (
            isinstance(values, dict)
            and isinstance(values.get("model"), dict)
            and name not in values["model"]
            and not later
        ):
            raise UserError(f"{path}: the field model.{name} is missing. {_WHOLE}")
    try:
        return CheckpointConfig.model_validate(values)
    except ValidationError as error:
        raise UserError(
            f"{path}: {_sentence(error)}. A checkpoint names every field; bring the file back as it was written"
        ) from None


def _sentence(error: ValidationError) -> str:
    """The first fault of a configuration in words."""
    fault = error.errors()[0]
    where = ".".join(str(part) for part in fault["loc"]) or "the file"
    if fault["type"] == "missing":
        return f"the field {where} is missing"
    if fault["type"] == "extra_forbidden":
        known = ModelConfig.model_fields if fault["loc"][0] == "model" else CheckpointConfig.model_fields
        near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1)
        return f"the field {where} is unknown" + (f" (the nearest known one is {near[0]})" if near else "")
    return f"{where}: {fault['msg']}"


def copy_weights(model: torch.nn.Module, tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Load `tensors` into `model`. UserError as for `check_weights`."""
    check_weights(model, tensors, path, CONFIG)
    model.load_state_dict(tensors)


def check_weights(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor], path: Path, config: str) -> None:
    """UserError names the first of `tensors` that is missing, superfluous or of another shape than in `model`.

    `path` is the file of the tensors, `config` the name of the one that says what the model is.
    """
    expected = model.state_dict()
    for name in sorted(expected.keys() | tensors.keys()):
        if name not in tensors:
            raise UserError(f"{path} lacks the tensor {name}; it belongs to another model than its {config} says")
        if name not in expected:
            raise UserError(f"{path} has a tensor {name} that the model of its {config} does not have")
        if tensors[name].shape != expected[name].shape:
            raise UserError(
                f"{path}: {name} has shape {tuple(tensors[name].shape)}, the model of its {config} needs "
                f"{tuple(expected[name].shape)}"
            )


def load_optimizer(path: Path, optimizer: MuonAdamW) -> None:
    """Load moments and step count into `optimizer`, one tensor at a time, each rank its own slices.

    UserError where the file is damaged or of another model.
    """
    with open_tensors(path) as tensors:
        try:
            optimizer.load_state_dict_flat(tensors)
        except ValueError as error:
            raise UserError(f"{path}: {error}; give the optimizer state that was saved with this model") from None


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors as safetensors. OSError where the disk refuses, with the system's error number."""
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)
    except safetensors.SafetensorError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), str(error), str(path)) from error
    # The writer makes its file private to the user; a result is as readable as the folder it lies in.
    path.chmod(path.parent.stat().st_mode & 0o666)


def load_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Tensors of a safetensors file. UserError where it is missing, cut short or not of that format."""
    with open_tensors(path) as tensors:
        return dict(tensors)


class _Tensors(Mapping):
    """The tensors of an open safetensors file; each is read when it is asked for."""

    def __init__(self, file: Any):
        self._file, self._names = file, tuple(file.keys())

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._file.get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@contextmanager
def open_tensors(path: Path) -> Iterator[Mapping[str, torch.Tensor]]:
    """The tensors of a safetensors file by name, read one by one. UserError as for `load_tensors`."""
    try:
        file = safetensors.safe_open(path, framework="pt")
    except FileNotFoundError:
        raise UserError(f"{path} is missing; bring the file back, or make this result again") from None
    except safetensors.SafetensorError as error:
        raise UserError(
            f"{path} is damaged or cut short ({error}); bring a whole copy back, or make this result again"
        ) from None
    with file as opened:
        yield _Tensors(opened)


def as_dtype(dtype: torch.dtype | str) -> torch.dtype:
    """`float32` or `bfloat16`, as a name or as torch's own."""
    return dtype if isinstance(dtype, torch.dtype) else {"float32": torch.float32, "bfloat16": torch.bfloat16}[dtype]
