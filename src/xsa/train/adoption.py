"""A checkpoint that was trained elsewhere takes a cell's place, after a comparison of all that the cell's recipe says.

Whatever differs, or is not known of the checkpoint, is listed; then nothing is taken over without a reason, which the record
keeps and the report shows beside every number that the checkpoint feeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from xsa.data.tokenizer import Tokenizer
from xsa.model.nanochat import NanoChat
from xsa.store.adopt import ADOPTED, place_adopted, refuse_occupied
from xsa.store.errors import UserError
from xsa.store.files import canonical_json
from xsa.store.job import checked_file
from xsa.store.record import RECORD, read_record
from xsa.study.plan import Cell, Plan
from xsa.study.project import Project
from xsa.study.result import Result, without_added_defaults
from xsa.study.source import nearest
from xsa.train.checkpoint import (
    CONFIG,
    MODEL,
    OPTIMIZER,
    CheckpointConfig,
    check_vocabulary,
    check_weights,
    load_tensors,
    read_config,
)
from xsa.train.expected_stream import expected_stream

UNKNOWN = "not known"
_TAKEN = (MODEL, CONFIG, OPTIMIZER, "log.parquet", "validation.parquet", "timing.parquet")


@dataclass(frozen=True)
class Difference:
    """A field in which the checkpoint is not what the cell's recipe says; values as text."""

    field: str
    cell: str
    checkpoint: str

    def __str__(self) -> str:
        return f"{self.field}: the cell says {self.cell}, the checkpoint {self.checkpoint}"


@dataclass(frozen=True)
class Candidate:
    """A checkpoint's folder, its configuration, and its record, empty where the folder is no result."""

    folder: Path
    config: CheckpointConfig
    record: dict[str, Any]


def adopt(
    project: Project,
    study: str,
    name: str,
    folder: Path,
    *,
    stage: str = "pretrain",
    why: str | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """Put the checkpoint in `folder` in the place of the `stage` result of the cell called `name`; return that place.

    UserError where the place is taken, something was measured on what stood there, the checkpoint is damaged or has another
    vocabulary, or it differs from the recipe and `why` is not given.
    """
    plan = project.plan(study)
    cell, result = _place(plan, name, stage)
    project.lock.check({stage})
    final = result.folder(project.results)
    refuse_occupied(final)
    _refuse_measured(plan, result, project.results)
    candidate = read_candidate(folder, stage)
    vocabulary = _cell_vocabulary(result, project.results)
    same = _same_vocabulary(candidate, vocabulary)
    found = differences(plan, result, candidate, project.results, say)
    if found and not (why and why.strip()):
        listed = "\n".join(f"  {one}" for one in found)
        raise UserError(
            f"{folder} is not what {stage} {result.key} would be:\n{listed}\nTo take it all the same, give the reason with "
            '--why "…"; the report then shows it beside every number that the checkpoint feeds'
        )
    files: dict[str, Path | str] = {file: folder / file for file in _TAKEN if (folder / file).exists()}
    if not same:
        # The vocabulary is the same and its file is another: the configuration names the cell's.
        config = candidate.config.model_copy(update={"vocab_sha256": vocabulary.sha256})
        files[CONFIG] = json.dumps(config.model_dump(mode="json"), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    place_adopted(final, files, _record(result, candidate, found, why))
    _tell(cell, stage, files, say)
    return final


def read_candidate(folder: Path, stage: str) -> Candidate:
    """The checkpoint in `folder`, read whole and checked: hashes of a result's files, fields, and shapes of all weights."""
    record: dict[str, Any] = {}
    if (folder / RECORD).exists():
        record = read_record(folder)
        for file in _TAKEN:
            if file in record["files"]:
                checked_file(folder, file)
    config = read_config(folder / CONFIG)
    if config.stage != stage:
        raise UserError(
            f"{folder / CONFIG} is of a {config.stage} result, and cannot be one of {stage}; say --stage {config.stage}"
        )
    with torch.device("meta"):
        check_weights(NanoChat(config.model), load_tensors(folder / MODEL), folder / MODEL, CONFIG)
    return Candidate(folder, config, record)


def differences(
    plan: Plan, result: Result, candidate: Candidate, results: Path, say: Callable[[str], None] = lambda sentence: None
) -> list[Difference]:
    """Every field in which `candidate` is not known to be what the recipe of `result` says."""
    expected = _flat(result.recipe["settings"])
    actual = _flat(_training(candidate, result))
    pairs = [(name, expected.get(name, UNKNOWN), actual.get(name, UNKNOWN)) for name in {**expected, **actual}]
    # The recipe of an adopted result is its place's, and says nothing of how it was trained.
    recipe = {} if ADOPTED in candidate.record else candidate.record.get("recipe") or {}
    pairs.append(("version of the code", result.recipe["version"], recipe.get("version", UNKNOWN)))
    for name, digest in result.recipe["inputs"].items():
        if name not in ("rows", "tokenizer"):
            pairs.append((f"input {name}", digest, recipe.get("inputs", {}).get(name, UNKNOWN)))
    if result.stage == "pretrain":
        stream = expected_stream(plan, result, results, say)
        pairs.append(("data stream SHA-256", stream or UNKNOWN, candidate.config.data_stream_sha256 or UNKNOWN))
    return [
        Difference(name, _text(wanted), _text(found))
        for name, wanted, found in pairs
        if UNKNOWN in (wanted, found) or canonical_json(wanted) != canonical_json(found)
    ]


def _place(plan: Plan, name: str, stage: str) -> tuple[Cell, Result]:
    cell = next(
        (cell for cell in plan.cells if name in (cell.label, getattr(cell.results.get(stage), "key", None))), None
    )
    if cell is None:
        raise UserError(
            f"study {plan.study.name!r} has no cell {name!r}; {nearest(name, [cell.label for cell in plan.cells])}"
        )
    if stage not in cell.results:
        raise UserError(
            f"the cell {name} has no {stage} result in study {plan.study.name!r}; it has {', '.join(cell.results)}"
        )
    return cell, cell.results[stage]


def _refuse_measured(plan: Plan, result: Result, results: Path) -> None:
    """UserError where a finished result follows from the place: it was made of another checkpoint."""
    follows = {(result.stage, result.key)}
    for key, other in plan.results.items():  # upstream before downstream
        if any((one.stage, one.key) in follows for one in other.upstream()):
            follows.add(key)
            if (other.folder(results) / RECORD).exists():
                raise UserError(
                    f"{other.folder(results)} was made of the checkpoint that stood at {result.folder(results)} before; move it away "
                    "first, or its numbers would be taken for the adopted one's"
                )


def _cell_vocabulary(result: Result, results: Path) -> Tokenizer:
    given = result.inputs["tokenizer"]
    if not (given.folder(results) / RECORD).exists():
        raise UserError(
            f"the cell's tokenizer is not there yet, so the vocabularies cannot be compared; make {given.folder(results)} with "
            f"snakemake first"
        )
    return Tokenizer.load(checked_file(given.folder(results), "tokenizer.json"))


def _same_vocabulary(candidate: Candidate, vocabulary: Tokenizer) -> bool:
    """Whether the checkpoint names the cell's tokenizer file; False where another file holds the same vocabulary.

    UserError for another vocabulary: its token ids mean other text, so that no reason could make a measurement of it.
    """
    config, path = candidate.config, candidate.folder / CONFIG
    if config.vocab_sha256 == vocabulary.sha256:
        return True
    beside = candidate.folder.parent / "tokenizer" / "tokenizer.json"
    if beside.exists():
        theirs = Tokenizer.load(beside)
        check_vocabulary(config, path, theirs, beside)
        if _content(theirs) == _content(vocabulary):
            return False
    raise UserError(
        f"{path} was trained with another vocabulary (vocab_sha256 {config.vocab_sha256}) than the cell's ({vocabulary.sha256}); its "
        "token ids mean other text, so nothing of it could be measured in this cell. Measure it in a study of its own"
    )


def _content(tokenizer: Tokenizer) -> tuple:
    return tokenizer.pattern, tokenizer.ranks, tokenizer.vocab_size, tokenizer.bos


def _training(candidate: Candidate, result: Result) -> dict[str, Any]:
    """What is known of how the checkpoint was trained, as the settings of the stage."""
    config = candidate.config
    fields = type(result.settings).model_fields
    try:
        told = {name: value for name, value in config.training.items() if name in fields}
        known = without_added_defaults(type(result.settings).model_validate(told))
    except ValidationError:
        known = {"steps": config.step}
    return known | {"model": without_added_defaults(config.model)} if "model" in fields else known


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted name."""
    flat = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _record(result: Result, candidate: Candidate, found: list[Difference], why: str | None) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    made = candidate.record.get("made") or {"started": now, "notes": {}}
    return {
        "stage": result.stage,
        "label": result.label,
        "digest": result.digest,
        "recipe": result.recipe,
        "made": made,
        ADOPTED: {
            "from": str(candidate.folder.resolve()),
            "vocab_sha256": candidate.config.vocab_sha256,
            "differences": [asdict(one) for one in found],
            "why": why.strip() if why else None,
            "before": candidate.record.get(ADOPTED),
            "at": now,
        },
    }


def _tell(cell: Cell, stage: str, files: dict[str, Any], say: Callable[[str], None]) -> None:
    """What the adopted checkpoint lacks, before a job finds it out."""
    if "log.parquet" not in files:
        say("the checkpoint came without its log, so the report draws no loss curve of this cell")
    if stage == "pretrain" and "finetune" in cell.results and OPTIMIZER not in files:
        say(
            f"the checkpoint came without {OPTIMIZER}, so it cannot be fine-tuned: adopt its fine-tuned model too (--stage finetune), or "
            "set evaluate.chatcore to false"
        )
