"""Stages `bundle` (CORE's task files) and `chatsets` (ARC, MMLU, GSM8K, HumanEval, SmolTalk, identity, words).

From the published places, from a local folder in the same layout, or made by the built-in generator. Every file is read
row by row here, where it enters, so that a bad one is found before anything is trained.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from xsa.data.bundle import check_bundle, unzip_bundle
from xsa.data.chat.check import check_chatsets
from xsa.data.datalock import DataLock
from xsa.data.download import Published, download
from xsa.data.local import copy_folder
from xsa.store.errors import UserError
from xsa.store.job import Job
from xsa.store.record import RECORD

BUCKET = "https://karpathy-public.s3.us-west-2.amazonaws.com"
WORDS = "https://raw.githubusercontent.com/dwyl/english-words/refs/heads/master/words_alpha.txt"
# Commits at which the published sets are read; what is not named is read from main, as the data lock first saw it.
REVISIONS = {
    "allenai/ai2_arc": "210d026faf9955653af8916fad021475a3f00453",
    "cais/mmlu": "c30699e8356da336a370243923dbaf21066bb9fe",
    "openai/gsm8k": "e53f048856ff4f594e959d75785d2c2d37b678ee",
    "openai/openai_humaneval": "7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
}
# File of the result -> dataset on the hub, files there (several are joined).
CHAT_FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "arc_easy/test.parquet": ("allenai/ai2_arc", ("ARC-Easy/test-00000-of-00001.parquet",)),
    "arc_challenge/test.parquet": ("allenai/ai2_arc", ("ARC-Challenge/test-00000-of-00001.parquet",)),
    "mmlu/test.parquet": ("cais/mmlu", ("all/test-00000-of-00001.parquet",)),
    "mmlu/auxiliary_train.parquet": ("cais/mmlu", ("all/auxiliary_train-00000-of-00001.parquet",)),
    "gsm8k/train.parquet": ("openai/gsm8k", ("main/train-00000-of-00001.parquet",)),
    "gsm8k/test.parquet": ("openai/gsm8k", ("main/test-00000-of-00001.parquet",)),
    "humaneval/test.parquet": ("openai/openai_humaneval", ("openai_humaneval/test-00000-of-00001.parquet",)),
    "smoltalk/train.parquet": (
        "HuggingFaceTB/smol-smoltalk",
        tuple(f"data/train-{part:05d}-of-00004.parquet" for part in range(4)),
    ),
    "smoltalk/test.parquet": ("HuggingFaceTB/smol-smoltalk", ("data/test-00000-of-00001.parquet",)),
}


def bundle(job: Job) -> dict[str, Any]:
    """Stage `bundle`: core.yaml, eval_meta_data.csv and eval_data/**. Notes: items of each task file."""
    if job.settings.kind == "local":
        # Checked where it lies, so that an error names the user's own file.
        items = check_bundle(Path(job.source["path"]))
        _copy_local(job)
        return {"items": items}
    if job.settings.kind == "builtin":
        from xsa.data.world import write_bundle

        write_bundle(job.out, job.settings.seed, job.settings.items)
    else:
        from xsa.data.hub import other_file

        archive = job.state / "eval_bundle.zip"
        published = other_file("eval_bundle.zip", f"{BUCKET}/eval_bundle.zip")
        _download(job, published, archive, lambda path: unzip_bundle(path, job.state / "tried"))
        unzip_bundle(archive, job.out)
    return {"items": check_bundle(job.out)}


def chatsets(job: Job) -> dict[str, Any]:
    """Stage `chatsets`: <set>/<split>.parquet, identity and words. Notes: rows of each file, files that are missing."""
    if job.settings.kind == "local":
        notes = check_chatsets(Path(job.source["path"]), job.progress)
        _copy_local(job)
        return notes
    if job.settings.kind == "builtin":
        from xsa.data.world import write_chatsets

        write_chatsets(job.out, job.settings.seed, job.settings.items)
    else:
        _published_chatsets(job)
    return check_chatsets(job.out, job.progress)


def _copy_local(job: Job) -> None:
    source = Path(job.source["path"])
    if (source / RECORD).exists():
        raise UserError(
            f"{source} is itself a result (it has {RECORD}); copy its other files to a folder of your own and name that"
        )
    copy_folder(job, "bring the sets there in the published layout")


def _published_chatsets(job: Job) -> None:
    from xsa.data.hub import hub_file, other_file

    lock = DataLock(job.source["data_lock"])
    for name, (dataset, files) in CHAT_FILES.items():
        target, parts = job.out / name, []
        for number, file in enumerate(files):
            parts.append(job.state / "parts" / name / f"{number}.parquet")
            _download(job, hub_file(dataset, REVISIONS.get(dataset, "main"), file, lock), parts[-1], _parquet)
        join_parquet(parts, target)
    for published, name in (
        (other_file("identity_conversations.jsonl", f"{BUCKET}/identity_conversations.jsonl"), "identity"),
        (other_file("words_alpha.txt", WORDS), "spellingbee"),
    ):
        _download(job, published, job.out / name / published.name, _text)


def _download(job: Job, published: Published, target: Path, validate: Callable[[Path], object]) -> None:
    if target.exists():
        return
    job.progress.say(f"fetching {published.name}")
    whole = target.with_name(f"{target.name}.new")
    download(published, whole, job.state, DataLock(job.source["data_lock"]), job.progress, validate)
    whole.rename(target)


def join_parquet(parts: list[Path], target: Path) -> None:
    """Write the row groups of several parquet files of one schema as one file; a single one is taken as it is."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if len(parts) == 1:
        shutil.copyfile(parts[0], target)
        return
    with pq.ParquetWriter(target, pq.read_schema(parts[0]), compression="zstd") as writer:
        for part in parts:
            with pq.ParquetFile(part) as opened:
                for group in range(opened.num_row_groups):
                    writer.write_table(opened.read_row_group(group))


def _parquet(path: Path) -> None:
    try:
        pq.read_metadata(path)
    except Exception as error:
        raise UserError(f"{path} is no whole parquet file ({error}); download it again") from None


def _text(path: Path) -> None:
    head = path.read_bytes()[:200].lstrip().lower()
    if not head or head.startswith(b"<"):
        raise UserError(f"{path} is empty or a web page, not the published file; download it again")
