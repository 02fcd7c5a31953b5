"""A cell whose checkpoint was trained elsewhere: what its folder holds, and the results that stand in for a training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from xsa.store.errors import UserError
from xsa.study.architecture import ModelConfig
from xsa.study.labels import arm_label, slug
from xsa.study.resolve import model_config
from xsa.study.result import Result
from xsa.study.settings import CellSettings
from xsa.study.sources import HashCache
from xsa.study.stages import ImportedStage, ImportedTokenizerStage

KEY = "imported.path"


@dataclass(frozen=True)
class Imported:
    """The imported folder of a cell: where it is, the cell's settings with what the checkpoint says, the folders' hashes."""

    folder: Path
    settings: CellSettings
    hashes: dict[str, str]  # of tokenizer, base, and chat where there is one
    models: dict[str, ModelConfig]  # of base, and chat

    @property
    def label(self) -> str:
        return f"{slug(self.folder.name)}-{arm_label(self.models['base'])}"

    def tokenizer(self, result: Callable[..., Result]) -> Result:
        """The result that stands in for a trained tokenizer."""
        settings = ImportedTokenizerStage(sha256=self.hashes["tokenizer"])
        label = f"v{self.models['base'].vocab_size}"
        return result("imported_tokenizer", label, settings, source=self._source("tokenizer"))

    def checkpoint(self, result: Callable[..., Result], stage: str, tokenizer: Result) -> Result:
        """The result that stands in for `pretrain` (stage `imported`) or `finetune` (`imported_chat`)."""
        kind = {"imported": "base", "imported_chat": "chat"}[stage]
        if kind not in self.hashes:
            raise UserError(
                f"{KEY}: {self.folder} has no chat model, so ChatCORE cannot be measured; set evaluate.chatcore to false, or "
                "import the checkpoint again with --chat"
            )
        settings = ImportedStage(sha256=self.hashes[kind], model=self.models[kind])
        return result(stage, self.label, settings, source=self._source(kind), tokenizer=tokenizer)

    def _source(self, kind: str) -> dict[str, str]:
        return {"path": str(self.folder / kind)}


def read_imported(cell: CellSettings, root: Path, hashes: HashCache) -> Imported | None:
    """The imported folder of a cell, or None where the cell is trained.

    The checkpoint decides model, projection and vocabulary; what the study says of them must be the same. UserError, naming
    the setting, where it is not, and where the folder is missing or not whole.
    """
    path = cell.imported.path
    if path is None:
        return None
    found = hashes.imported(root, path, KEY)
    try:
        models = {kind: ModelConfig.model_validate(model) for kind, model in found["models"].items()}
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise UserError(f"{KEY}: {root / path}: config.json: model.{where}: {fault['msg']}; import it again") from None
    return Imported(root / path, _agreed(cell, models["base"], path), found["sha256"], models)


def _agreed(cell: CellSettings, model: ModelConfig, path: str) -> CellSettings:
    """The cell with the checkpoint's projection and vocabulary."""
    for name in type(cell.model).model_fields:
        stated = getattr(cell.model, name)
        if stated != getattr(model, name) and not (
            name == "n_kv_head" and stated is None and model.n_kv_head == model.n_head
        ):
            raise UserError(
                f"{KEY}: the checkpoint in {path} has {name} = {getattr(model, name)}, the study says model.{name} = {stated}; "
                "give the checkpoint's"
            )
    told = {"alpha": model.alpha, "layers": model.xsa_layers, "value": model.xsa_value}
    projected = cell.model_copy(
        update={
            "xsa": type(cell.xsa).model_validate(told if model.alpha else {}),
            "tokenizer": cell.tokenizer.model_copy(update={"vocab_size": model.vocab_size}),
        }
    )
    if cell.xsa.model_fields_set and _projection(model_config(cell)) != _projection(model_config(projected)):
        raise UserError(
            f"{KEY}: the checkpoint in {path} was trained with xsa {_projection(model)}, the study says "
            f"{_projection(model_config(cell))}; a checkpoint is measured as it was trained: leave xsa out"
        )
    return projected


def _projection(model: ModelConfig) -> dict[str, Any]:
    return {"alpha": model.alpha, "layers": list(model.xsa_layers), "value": model.xsa_value}
