"""Stages `imported` and `imported_chat`: a checkpoint that was trained elsewhere, where a trained one would stand."""

from __future__ import annotations

from typing import Any

import torch

from xsa.data.imported import copy_imported
from xsa.data.tokenizer import Tokenizer
from xsa.model.nanochat import NanoChat
from xsa.store.errors import UserError
from xsa.store.job import Job
from xsa.train.checkpoint import CONFIG, MODEL, check_vocabulary, check_weights, load_tensors, read_config


def imported(job: Job) -> dict[str, Any]:
    """Copy the checkpoint and check it whole: its configuration, each tensor's shape, and the vocabulary of `tokenizer`.

    UserError where anything lacks or disagrees.
    """
    copy_imported(job)
    config = read_config(job.out / CONFIG)
    if config.model != job.settings.model:
        raise UserError(f"{job.source['path']}: {CONFIG} names another model than was planned; plan again")
    with torch.device("meta"):
        check_weights(NanoChat(config.model), load_tensors(job.out / MODEL), job.out / MODEL, CONFIG)
    path = job.file("tokenizer", "tokenizer.json")
    check_vocabulary(config, job.out / CONFIG, Tokenizer.load(path), path)
    return {"step": config.step, "origin": job.source["path"], "source": config.training.get("source")}
