"""Stage `imported_tokenizer`: a tokenizer that was made elsewhere, as it lies in an imported folder."""

from __future__ import annotations

from typing import Any

from xsa.data.local import copy_folder
from xsa.data.tokenizer import Tokenizer
from xsa.store.job import Job


def imported_tokenizer(job: Job) -> dict[str, Any]:
    """Copy tokenizer.json and what is beside it. UserError where it is not whole, or not what was planned."""
    copy_imported(job)
    tokenizer = Tokenizer.load(job.out / "tokenizer.json")
    return {"vocab_size": tokenizer.vocab_size, "origin": job.source["path"]}


def copy_imported(job: Job) -> None:
    """Copy the imported folder that `job.source` names."""
    copy_folder(job, "import the checkpoint again, or name another folder in imported.path")
