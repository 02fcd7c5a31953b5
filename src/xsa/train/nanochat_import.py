"""A checkpoint of nanochat brought into a project: a folder in our own form, and a study that measures it.

imported/NAME/tokenizer/   tokenizer.json, token_bytes.json
imported/NAME/base/        model.safetensors, config.json
imported/NAME/chat/        the same of the fine-tuned model, where one was given
imported/NAME/import.json  where it came from, and what was remarked
config/studies/NAME.yaml   the study
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import yaml
from pydantic import ValidationError

from xsa.data.nanochat_tokenizer import PICKLE, read_pickled_tokenizer
from xsa.data.tokenizer import Tokenizer
from xsa.store.errors import UserError
from xsa.store.files import sha256_file, write_json, write_text
from xsa.study.source import nearest
from xsa.study.stages import STAGES
from xsa.study.study import RECIPES, STUDIES
from xsa.train.checkpoint import CONFIG, MODEL, CheckpointConfig, save_tensors
from xsa.train.nanochat_checkpoint import XSA, NanochatCheckpoint, Stated, read_checkpoint

IMPORTED = Path("imported")


def import_nanochat(
    root: Path,
    name: str,
    folder: Path,
    *,
    step: int | None = None,
    tokenizer: Path | None = None,
    chat: Path | None = None,
    recipe: str = "nanochat",
    stated: Stated | None = None,
    say: Callable[[str], None] = print,
) -> tuple[Path, Path]:
    """Convert the checkpoint in `folder`, with its `tokenizer` and a `chat` model; return the new folder and the study.

    Everything is read and checked before anything is written, and the folder appears whole. UserError where the name is
    taken, a file is missing, damaged or more than data, or model and vocabulary disagree.
    """
    stated = stated or Stated()
    target, study = root / IMPORTED / name, root / STUDIES / f"{name}.yaml"
    _check_free(root, name, target, study, recipe)
    found = {"base": read_checkpoint(folder, step, stated)}
    vocabulary = _find_tokenizer(folder, tokenizer)
    if chat is not None:
        found["chat"] = read_checkpoint(chat, None, stated, inherited=found["base"].model)
    places = {"base": folder, "chat": chat}
    remarks: list[str] = []
    part = target.with_name(f".{name}.{os.getpid()}.part")
    try:
        (part / "tokenizer").mkdir(parents=True)
        encoding = _write_tokenizer(part / "tokenizer", vocabulary, found["base"].meta, remarks)
        for kind, checkpoint in found.items():
            _check_vocabulary(checkpoint, encoding, vocabulary, places[kind])
            _write(part / kind, checkpoint, kind, encoding.sha256, places[kind], remarks)
        told = {
            "from": {kind: str(places[kind].resolve()) for kind in found} | {"tokenizer": str(vocabulary.resolve())}
        }
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        write_json(part / "import.json", told | {"imported": moment, "remarks": remarks})
        os.rename(part, target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    write_text(study, _study(name, recipe, found))
    for remark in remarks:
        say(remark)
    return target, study


def _check_free(root: Path, name: str, target: Path, study: Path, recipe: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) or name in STAGES:
        raise UserError(
            f"--name {name!r} cannot name a study: use letters, digits, dot, dash, underscore, and no stage's name"
        )
    for path in (target, study):
        if path.exists():
            raise UserError(f"{path} is there already and is not overwritten; choose another --name, or move it away")
    if not (root / RECIPES / f"{recipe}.yaml").exists():
        known = [path.stem for path in (root / RECIPES).glob("*.yaml")]
        raise UserError(f"there is no recipe {recipe!r} under {RECIPES}; {nearest(recipe, known)}")


def _find_tokenizer(folder: Path, given: Path | None) -> Path:
    """The tokenizer's file: where it was said to be, else beside the weights, else where nanochat keeps it."""
    places = [given] if given else [folder, folder / "tokenizer", folder.resolve().parent.parent / "tokenizer"]
    for place in places:
        for path in (place / "tokenizer.json", place / PICKLE) if place.is_dir() else (place,):
            if path.is_file():
                return path
    looked = ", ".join(map(str, places))
    raise UserError(f"there is no {PICKLE} or tokenizer.json in {looked}; give the tokenizer's folder by --tokenizer")


def _write_tokenizer(folder: Path, source: Path, meta: dict[str, Any], remarks: list[str]) -> Tokenizer:
    target = folder / "tokenizer.json"
    if source.suffix == ".json":
        Tokenizer.load(source)
        shutil.copyfile(source, target)
    else:
        # One vocabulary gives one file, whoever exported it: its hash is what checkpoints name.
        ours = meta.get(XSA) if isinstance(meta.get(XSA), dict) else {}
        read_pickled_tokenizer(source).save(target, training=ours.get("tokenizer_training") or {"nanochat": PICKLE})
    tokenizer = Tokenizer.load(target)
    write_json(folder / "token_bytes.json", tokenizer.token_bytes.tolist())
    _compare_lengths(source.with_name("token_bytes.pt"), tokenizer, remarks)
    return tokenizer


def _compare_lengths(path: Path, tokenizer: Tokenizer, remarks: list[str]) -> None:
    """Remark where nanochat counted other bytes for a token: its own bits per byte are then not on our scale."""
    if not path.exists():
        return
    try:
        lengths = torch.load(path, map_location="cpu", weights_only=True)
        theirs = lengths.tolist() if isinstance(lengths, torch.Tensor) else []
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        remarks.append(
            f"{path} cannot be read ({str(error).splitlines()[0]}); nothing needs it, lengths come from the tokens"
        )
        return
    ours = tokenizer.token_bytes.tolist()
    if len(theirs) != len(ours):
        remarks.append(
            f"{path} has {len(theirs)} lengths for {len(ours)} tokens; it is of another tokenizer, and is not used"
        )
    elif wrong := sum(a != b for a, b in zip(theirs, ours, strict=True)):
        remarks.append(
            f"{path} counts other bytes for {wrong} of {len(ours)} tokens (nanochat before July 2026 did so for tokens that are no "
            "UTF-8 by themselves): bits per byte that nanochat printed for this model read a little lower than ours"
        )


def _check_vocabulary(found: NanochatCheckpoint, tokenizer: Tokenizer, source: Path, folder: Path) -> None:
    if found.model.vocab_size != tokenizer.vocab_size:
        raise UserError(
            f"{folder / f'meta_{found.step:06d}.json'} says vocab_size {found.model.vocab_size}, {source} has "
            f"{tokenizer.vocab_size} entries (SHA-256 {sha256_file(source)}); give the tokenizer that the model was trained with"
        )


def _write(
    folder: Path, found: NanochatCheckpoint, kind: str, vocab_sha256: str, source: Path, remarks: list[str]
) -> None:
    folder.mkdir()
    save_tensors(folder / MODEL, found.weights)
    config = _config(found, "pretrain" if kind == "base" else "finetune", vocab_sha256, source)
    write_json(folder / CONFIG, config.model_dump(mode="json"))
    model = found.model
    remarks.append(
        f"{kind}: step {found.step:,}, {model.n_layer} layers, width {model.n_embd}, {model.n_head} heads, T {model.sequence_len}, "
        f"alpha {model.alpha:g}"
        + (
            f" in layers {', '.join(map(str, model.xsa_layers))}"
            if model.alpha and len(model.xsa_layers) < model.n_layer
            else ""
        )
    )
    if found.optimizer_files:
        remarks.append(
            f"{kind}: the optimizer's state ({found.optimizer_files} optim_{found.step:06d}_rank*.pt) was left out, so the model can "
            "be measured and not be trained on"
        )


def _config(found: NanochatCheckpoint, stage: str, vocab_sha256: str, source: Path) -> CheckpointConfig:
    """Our configuration of it; the one that it had before, where we exported it."""
    ours = found.meta.get(XSA, {}).get("checkpoint") if isinstance(found.meta.get(XSA), dict) else None
    if ours is not None:
        try:
            config = CheckpointConfig.model_validate(ours)
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(map(str, fault["loc"]))
            meta = source / f"meta_{found.step:06d}.json"
            raise UserError(
                f"{meta}: {XSA}.checkpoint.{where}: {fault['msg']}; bring the file back as it was exported"
            ) from None
        return config.model_copy(update={"model": found.model, "step": found.step, "vocab_sha256": vocab_sha256})
    batch = found.meta.get("total_batch_size")
    known = stage == "pretrain" and isinstance(batch, int) and not isinstance(batch, bool)
    weights = source / f"model_{found.step:06d}.pt"
    return CheckpointConfig(
        model=found.model,
        stage=stage,
        step=found.step,
        tokens=found.step * batch if known else None,
        vocab_sha256=vocab_sha256,
        training={
            "nanochat": {name: value for name, value in found.meta.items() if name not in ("model_config", XSA)},
            "source": {"file": weights.name, "sha256": sha256_file(weights)},
        },
        data_stream_sha256=None,
    )


def _study(name: str, recipe: str, found: dict[str, NanochatCheckpoint]) -> str:
    """The study file: one cell, whose model is the imported one."""
    model = found["base"].model
    fields = ("n_layer", "n_embd", "n_head", "n_kv_head", "sequence_len", "window_pattern")
    path = (IMPORTED / name).as_posix()
    study = {
        "name": name,
        "title": f"{name}, a checkpoint trained by nanochat",
        "question": "What do bits per byte, CORE, ChatCORE and self-alignment say of a checkpoint that nanochat trained?",
        "recipe": recipe,
        "shapes": {f"d{model.n_layer}w{model.n_embd}": {"model": {field: getattr(model, field) for field in fields}}},
        "factors": {"imported.path": [path]},
        "baseline": {"imported.path": path},
        "settings": {"evaluate": {"chatcore": "chat" in found, "overhead": False, "equivalence": False}},
    }
    header = (
        "# yaml-language-server: $schema=../schema/study.json\n"
        f"# Written by `xsa import-nanochat`; run it with `snakemake results/{name}/report.html`. To hold another imported\n"
        "# checkpoint of this shape against it, add its folder to imported.path. docs/nanochat.md says more.\n"
    )
    return header + yaml.safe_dump(study, sort_keys=False, allow_unicode=True, width=120)
