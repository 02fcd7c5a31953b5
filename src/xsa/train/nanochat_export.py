"""One of our checkpoints as the files that nanochat reads."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from xsa.data.nanochat_tokenizer import PICKLE, write_pickled_tokenizer
from xsa.store.errors import UserError
from xsa.store.job import checked_file
from xsa.store.record import RECORD, read_record
from xsa.train.checkpoint import CONFIG, MODEL, check_vocabulary, load_tensors, read_config
from xsa.train.nanochat_checkpoint import write_checkpoint


def export_nanochat(
    folder: Path, target: Path, tokenizer: Path | None = None, say: Callable[[str], None] = print
) -> Path:
    """Write the checkpoint in `folder`, a result or an imported folder, to `target`, which is not there yet; return it.

    model_<step>.pt, meta_<step>.json, tokenizer.pkl and token_bytes.pt (lengths of raw bytes); no optimizer state. UserError
    where the checkpoint is damaged, its tokenizer is not found or is another one, or `target` exists.
    """
    if target.exists():
        raise UserError(f"{target} is there already and is not overwritten; name a new folder")
    files = {name: _file(folder, name) for name in (MODEL, CONFIG)}
    config = read_config(files[CONFIG])
    source = _tokenizer_of(folder, tokenizer, config.vocab_sha256)
    weights = load_tensors(files[MODEL])
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.mkdir(parents=True)
        encoding = write_pickled_tokenizer(part / PICKLE, source)
        check_vocabulary(config, files[CONFIG], encoding, source)
        torch.save(torch.from_numpy(encoding.token_bytes), part / "token_bytes.pt")
        training = json.loads(source.read_text(encoding="utf-8")).get("training")
        write_checkpoint(
            part, weights, config, {"checkpoint": config.model_dump(mode="json"), "tokenizer_training": training}
        )
        os.rename(part, target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    if config.model.alpha:
        say(
            f"alpha = {config.model.alpha:g} stands in the meta file's section `xsa`, which nanochat ignores: it would run this model "
            "with standard attention, that is, another model than was trained. Import it here to have it as it is"
        )
    say("the optimizer's state is not exported; nanochat fine-tunes without it, from fresh moments")
    return target


def _file(folder: Path, name: str) -> Path:
    """A file of the checkpoint, checked against the record where the folder is a result."""
    if (folder / RECORD).exists() and name in read_record(folder)["files"]:
        return checked_file(folder, name)
    if not (folder / name).exists():
        raise UserError(
            f"{folder} has no {name}; give the folder of a pretrain or finetune result, or of an imported checkpoint"
        )
    return folder / name


def _tokenizer_of(folder: Path, given: Path | None, vocab_sha256: str) -> Path:
    """The tokenizer.json of a checkpoint: as given, beside an imported one, or the result that the record names."""
    if given is not None:
        return given / "tokenizer.json" if given.is_dir() else given
    beside = folder.parent / "tokenizer" / "tokenizer.json"
    if beside.exists():
        return beside
    if (folder / RECORD).exists():
        inputs = read_record(folder).get("recipe", {}).get("inputs", {})
        digest = inputs.get("tokenizer")
        for stage in ("tokenizer", "imported_tokenizer"):
            for found in folder.resolve().parents[1].glob(f"{stage}/*@{digest}/tokenizer.json"):
                return found
    raise UserError(
        f"the tokenizer of {folder} (vocab_sha256 {vocab_sha256}) is not beside it; give its folder by --tokenizer"
    )
