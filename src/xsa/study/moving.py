"""Taking a study's results elsewhere: what belongs into its archive, and what an archive brings to a project."""

from __future__ import annotations

import importlib.metadata
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xsa.store.archive import Member, text_member, unpack, write_archive
from xsa.store.arrival import Arrival, arrivals, settle, settle_text, staging
from xsa.store.crate import About, Entry, describe
from xsa.store.errors import UserError
from xsa.store.progress import Progress
from xsa.store.record import RECORD, read_record
from xsa.study.lock import LOCK
from xsa.study.plan import MEASUREMENTS, Plan
from xsa.study.project import Project
from xsa.study.result import Result
from xsa.study.sources import HASHES, HashCache
from xsa.study.study import RECIPES, STUDIES, LoadedStudy

# What an archive may be limited to. report: what tables and page are made of; results: those too; checkpoints: what
# measurements are taken of.
PORTIONS = ("report", "results", "checkpoints")
WEIGHTS = ("model.safetensors", "optimizer.safetensors")


@dataclass
class Packed:
    """What an export wrote: how many results and bytes; files that are gone and results that were not made, so not in it."""

    results: int = 0
    bytes: int = 0
    gone: list[str] = field(default_factory=list)
    not_made: list[str] = field(default_factory=list)


def portion(plan: Plan, only: str | None) -> dict[tuple[str, str], bool]:
    """The results of a portion, or of all portions, in the order of the flow; True where the weights come along."""
    measured = [result for cell in plan.cells for stage, result in cell.results.items() if stage in MEASUREMENTS]
    trained = [
        cell.results[stage] for cell in plan.cells for stage in ("pretrain", "finetune") if stage in cell.results
    ]
    read = [one for result in measured for one in result.upstream()] + trained
    wanted: dict[tuple[str, str], bool] = {}
    if only != "checkpoints":
        wanted = {(one.stage, one.key): False for one in plan.analyse.upstream()}
    if only not in ("checkpoints", "report"):
        wanted |= {(one.stage, one.key): True for one in (plan.analyse, plan.report)}
    if only in (None, "checkpoints"):
        wanted |= {(one.stage, one.key): True for one in read}
    return {key: wanted[key] for key in plan.results if key in wanted}


class Transfer:
    """Tells how many of `total` bytes have passed; nothing of what is gone in a moment."""

    def __init__(self, progress: Progress, total: int):
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, count: int) -> None:
        self._done += count
        if self._total > 1e9:
            self._progress.step(int(self._done / 1e6), int(self._total / 1e6), "MB")


def export_study(plan: Plan, results: Path, target: Path, only: str | None, progress: Progress) -> Packed:
    """Write the archive of a study's results that are there to `target`; say what is not in it.

    UserError where none of them is there, or a file is not what its record says.
    """
    packed, members, told, records = Packed(), _config_members(plan), {}, []
    for key, weights in portion(plan, only).items():
        result = plan.results[key]
        folder = result.folder(results)
        if not (folder / RECORD).exists():
            packed.not_made.append(f"{result.stage}/{result.key}")
            continue
        record = read_record(folder)
        records.append(record)
        place = f"results/{result.stage}/{result.key}/"
        told[place] = _sentence(result, record)
        members += _result_members(folder, place, record, weights, packed)
    if not told:
        raise UserError(
            f"nothing of the study {plan.study.name!r} is in {results} yet; run it, or name the folder with --results"
        )
    packed.results, packed.bytes = len(told), sum(member.entry.bytes for member in members)
    description = describe(_about(plan, records), [one.entry for one in members], told)
    write_archive(target, description, members, Transfer(progress, packed.bytes))
    return packed


def _config_members(plan: Plan) -> list[Member]:
    """The study's files, and the hashes of local data without which it cannot be planned where the data are not."""
    root, study = plan.loaded.root, plan.study
    paths = [STUDIES / f"{study.name}.yaml", RECIPES / f"{study.recipe}.yaml", LOCK]
    files = [plan.loaded.path, root / RECIPES / f"{study.recipe}.yaml", root / LOCK]
    members = [text_member(path.as_posix(), file.read_bytes()) for path, file in zip(paths, files, strict=True)]
    hashes = plan.hashes.remembered(_local_paths(plan.loaded))
    if hashes:
        members.append(text_member(HASHES, json.dumps(hashes, sort_keys=True, indent=1).encode()))
    return members


def _local_paths(loaded: LoadedStudy) -> set[str]:
    """The folders outside that a study names."""
    paths = set()
    for settings in (point.settings for point in loaded.points):
        paths |= {one.path for one in (settings.data, settings.bundle, settings.chatsets) if one.kind == "local"}
        paths |= {settings.imported.path} - {None}
    return paths


def _result_members(folder: Path, place: str, record: dict[str, Any], weights: bool, packed: Packed) -> list[Member]:
    """The files of a result that are there, as the record states them, and the record."""
    members = []
    for file, known in sorted(record["files"].items()):
        if file in WEIGHTS and not weights:
            continue
        if not (folder / file).exists():
            packed.gone.append(place + file)
            continue
        members.append(Member(Entry(place + file, known["bytes"], known["sha256"]), folder / file))
    text = json.dumps(record, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    return [*members, text_member(place + RECORD, text.encode())]


def _sentence(result: Result, record: dict[str, Any]) -> str:
    made = record["made"]
    where = made.get("gpu") or made.get("device") or "a machine"
    return f"Result {result.label} of the stage {result.stage}, recipe digest {result.digest}, made on {where}"


def _about(plan: Plan, records: list[dict[str, Any]]) -> About:
    commits = sorted({record["made"].get("git_commit") for record in records} - {None})
    dates = [record["made"].get("started") or "" for record in records]
    study = plan.study
    version = importlib.metadata.version("xsa")
    return About(study.name, study.title, study.question.strip(), max(dates), version, tuple(commits))


@dataclass
class Brought:
    """What an import did: results put in place, completed by missing files, there already; files of the project made."""

    new: list[Arrival] = field(default_factory=list)
    there: list[Arrival] = field(default_factory=list)
    config: list[Path] = field(default_factory=list)
    study: str = ""


def import_archive(project: Project, archive: Path, progress: Progress) -> Brought:
    """Check an archive as a whole, then put what it brings in place.

    UserError, with nothing visible changed, for anything wrong with it, or where it contradicts what is there.
    """
    brought, results = Brought(), project.results
    if not archive.is_file():
        raise UserError(f"there is no file {archive}; give the file that `xsa export` wrote")
    with staging(results) as staged:
        entries = unpack(archive, staged, Transfer(progress, archive.stat().st_size))
        found = arrivals(staged, entries, results, str(archive))
        paths = [Path(path) for path in entries if path.startswith((f"{STUDIES}/", f"{RECIPES}/"))]
        config = {path: _text(staged / path, archive, path) for path in paths}
        brought.study = next((path.stem for path in config if path.parent == STUDIES), "")
        hashes = HashCache(results / HASHES)
        if HASHES in entries:
            hashes.learn(_hashes(staged / HASHES, archive), project.root)
        for arrival in found:
            (brought.new if settle(arrival) else brought.there).append(arrival)
        hashes.save()
        brought.config = [path for path, text in config.items() if settle_text(text, project.root / path)]
    return brought


def _text(staged: Path, archive: Path, path: Path) -> str:
    try:
        return staged.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{archive}: {path} is no text in UTF-8; nothing was imported") from None


def _hashes(path: Path, archive: Path) -> dict[str, Any]:
    """The hashes of local data in an archive, checked: of a folder one hash, a list of file names with theirs, or what is
    known of an imported checkpoint (which is checked where it is used)."""

    def is_hash(value: Any) -> bool:
        return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None

    def is_shard(value: Any) -> bool:
        return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and is_hash(value[1])

    def is_imported(value: Any) -> bool:
        parts = [value.get(name) for name in ("sha256", "models")] if isinstance(value, dict) else [None]
        return all(isinstance(part, dict) for part in parts) and all(map(is_hash, parts[0].values()))

    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        told = None
    if isinstance(told, dict) and all(
        is_hash(value) or is_imported(value) or (isinstance(value, list) and value and all(map(is_shard, value)))
        for value in told.values()
    ):
        return told
    raise UserError(f"{archive}: its {HASHES} is no list of files and hashes; nothing was imported")
