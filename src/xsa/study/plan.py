"""The plan of a study: every result it is made of, with recipe, digest and place, before anything has run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from xsa.store.errors import UserError
from xsa.store.snapshot import frozen
from xsa.study.citation import read_citation
from xsa.study.data_settings import BuiltinData, HubData, LocalData, Sets
from xsa.study.imported import read_imported
from xsa.study.labels import arm_label, cell_label, each_once, shape_label, slug, told_apart
from xsa.study.lock import StagesLock
from xsa.study.machine import Machine, torch_version
from xsa.study.resolve import Resolved
from xsa.study.result import Result, digest_of, without_added_defaults
from xsa.study.settings import CellSettings
from xsa.study.sources import HASHES, HashCache
from xsa.study.stages import STAGES, AnalyseStage, ReportStage, SetsStage, ShardStage, TokensStage
from xsa.study.study import LoadedStudy, Point

# Measurements of a cell, in the order in which they are reported.
MEASUREMENTS = ("bpb", "core", "chatcore", "attention", "overhead", "equivalence")


@dataclass(frozen=True)
class Cell:
    """One cell: its place in the grid and its results by stage."""

    label: str
    shape: str
    factors: dict[str, Any]
    settings: CellSettings
    results: dict[str, Result]
    trained: dict[str, Any] | None = None  # settings of the training, where its result is not among `results`

    @property
    def checkpoint(self) -> Result:
        """The base model: what was trained here, or stands in for it."""
        return self.results.get("pretrain") or self.results["imported"]


class Plan:
    """All results of a study. `results` maps (stage, label@digest) to each; `report` is the last of them."""

    def __init__(self, loaded: LoadedStudy, lock: StagesLock, results: Path, machine: Machine | None = None):
        """`machine` is the one that `auto` is decided for; this one by default."""
        self.loaded, self.study, self._lock, self._machine = loaded, loaded.study, lock, machine
        self.hashes = HashCache(results / HASHES)
        self.results: dict[tuple[str, str], Result] = {}
        self._memo: dict[Any, Any] = {}
        self._torch = self._torch_wanted()
        self.cells = self._cells()
        self.analyse = self.analysis_of(self.cells)
        self.report = self.report_of(self.analyse)
        self.hashes.save()

    # --- the grid ---

    def _cells(self) -> list[Cell]:
        cells: dict[tuple, Cell] = {}
        for point in self.loaded.points:
            try:
                cell = self._cell(point)
            except UserError as error:
                raise UserError(f"{self.loaded.path}, shape {point.shape}: {error}") from None
            results = tuple((stage, result.digest) for stage, result in cell.results.items())
            twin = cells.get(results)
            if twin is None:
                cells[results] = cell
            elif twin.shape != cell.shape or not _one_projection(twin.settings, cell.settings):
                raise UserError(
                    f"{self.loaded.path}: two cells are made of the same results ({cell.checkpoint.key}): "
                    f"{twin.shape} {twin.factors} and {cell.shape} {cell.factors}; remove one of them"
                )
        found = list(cells.values())
        names = told_apart([(cell.label, cell.shape, cell.factors) for cell in found])
        return [replace(cell, label=label) for cell, label in zip(found, names, strict=True)]

    def _cell(self, point: Point) -> Cell:
        brought = read_imported(point.settings, self.loaded.root, self.hashes)
        settings = brought.settings if brought else point.settings
        resolved = Resolved(settings, self.study.run.requires, self._machine)
        label = brought.label if brought else cell_label(settings, resolved.model)
        tokenizer = brought.tokenizer(self._result) if brought else self._tokenizer(settings, resolved)
        validation = self._rows(settings, resolved, tokenizer, -1)
        if brought:
            base = brought.checkpoint(self._result, "imported", tokenizer)
        else:
            rows = self._training_rows(settings, resolved, tokenizer)
            told = resolved.pretrain()
            base = self._result("pretrain", label, told, rows=rows, validation=validation, tokenizer=tokenizer)
        results, want = {base.stage: base}, settings.evaluate
        if want.bpb:
            results["bpb"] = self._result(
                "bpb", label, resolved.bpb(), checkpoint=base, validation=validation, tokenizer=tokenizer
            )
        if want.core:
            bundle = self._sets("bundle", settings.bundle)
            results["core"] = self._result(
                "core", label, resolved.core(), checkpoint=base, bundle=bundle, tokenizer=tokenizer
            )
        if want.chatcore:
            chatsets = self._sets("chatsets", settings.chatsets)
            if brought:
                chat = brought.checkpoint(self._result, "imported_chat", tokenizer)
            else:
                told = resolved.finetune()
                chat = self._result("finetune", label, told, checkpoint=base, chatsets=chatsets, tokenizer=tokenizer)
            results[chat.stage] = chat
            results["chatcore"] = self._result(
                "chatcore", label, resolved.chatcore(), checkpoint=chat, chatsets=chatsets, tokenizer=tokenizer
            )
        if want.attention:
            results["attention"] = self._result(
                "attention", label, resolved.attention(), checkpoint=base, validation=validation
            )
        if want.overhead and resolved.model.alpha:
            results["overhead"] = self._result("overhead", arm_label(resolved.model), resolved.overhead())
        if want.equivalence:
            first = [self._rows(settings, resolved, tokenizer, 0)]
            results["equivalence"] = self._result(
                "equivalence",
                f"{shape_label(resolved.model)}-{settings.optim.matrix}",
                resolved.equivalence(),
                rows=first,
            )
        return Cell(label, point.shape, point.factors, settings, results)

    # --- data ---

    def _training_rows(self, settings: CellSettings, resolved: Resolved, tokenizer: Result) -> list[Result]:
        """Rows of as many training shards as the horizon needs by the dataset's stated least number of tokens a shard."""
        tokens = resolved.horizon.steps * resolved.batch_rows * settings.model.sequence_len
        needed = -(-tokens // settings.data.tokens_per_shard)
        there = self._shard_count(settings) - 1
        if needed > there:
            raise UserError(
                f"training reads {tokens:,} tokens, which needs {needed} training shards of at least "
                f"{settings.data.tokens_per_shard:,} tokens; the data has {there}. Add shards, or shorten the horizon"
            )
        key = ("training rows", settings.data, resolved.rows(), tokenizer.digest, needed)
        if key not in self._memo:
            self._memo[key] = [self._rows(settings, resolved, tokenizer, index) for index in range(needed)]
        return self._memo[key]

    def _rows(self, settings: CellSettings, resolved: Resolved, tokenizer: Result, index: int) -> Result:
        shard = self._shard(settings, index)
        tokens = self._once("tokens", shard.label, TokensStage(), shard=shard, tokenizer=tokenizer)
        return self._once(
            "rows", f"{shard.label}-T{settings.model.sequence_len}", resolved.rows(), tokens=tokens, tokenizer=tokenizer
        )

    def _tokenizer(self, settings: CellSettings, resolved: Resolved) -> Result:
        there = self._shard_count(settings) - 1
        if settings.tokenizer.shards > there:
            raise UserError(
                f"tokenizer.shards = {settings.tokenizer.shards}, but the data has {there} training shards; "
                "lower tokenizer.shards"
            )
        shards = [self._shard(settings, index) for index in range(settings.tokenizer.shards)]
        return self._once("tokenizer", f"v{settings.tokenizer.vocab_size}", resolved.tokenizer(), shards=shards)

    def _shard_count(self, settings: CellSettings) -> int:
        data = settings.data
        return len(self._local(data.path)) if isinstance(data, LocalData) else data.shards

    def _local(self, path: str) -> list[tuple[str, str]]:
        """Name and SHA-256 of the shards of a local folder, in order; as remembered where the folder is not here."""
        if path not in self._memo:
            self._memo[path] = self.hashes.shards(self.loaded.root, path)
        return self._memo[path]

    def _shard(self, settings: CellSettings, index: int) -> Result:
        data = settings.data
        index %= self._shard_count(settings)
        key = ("shard", data, index)
        if key not in self._memo:
            self._memo[key] = self._new_shard(data, index)
        return self._memo[key]

    def _new_shard(self, data: BuiltinData | LocalData | HubData, index: int) -> Result:
        if isinstance(data, BuiltinData):
            name = f"shard_{index:05d}.parquet"
            stage = ShardStage(
                kind="builtin",
                name=name,
                seed=data.seed,
                index=index,
                shards=data.shards,
                documents=data.documents_per_shard,
            )
            return self._result("shard", f"builtin-s{data.seed}-{index:05d}", stage)
        if isinstance(data, LocalData):
            name, sha256 = self._local(data.path)[index]
            stage = ShardStage(kind="local", name="shard.parquet", sha256=sha256)
            source = {"path": str(self.loaded.root / data.path / name)}
            return self._result("shard", f"local-{sha256[:8]}", stage, source=source)
        name = data.file_pattern.format(index=index)
        stage = ShardStage(kind="hub", name=name, dataset=data.dataset, revision=data.revision)
        label = f"{slug(data.dataset.rpartition('/')[2])}-{index:05d}"
        return self._result("shard", label, stage, source=self._data_lock())

    def _sets(self, stage: str, sets: Sets) -> Result:
        key = (stage, sets)
        if key not in self._memo:
            if sets.kind == "builtin":
                settings = SetsStage(kind="builtin", seed=sets.seed, items=sets.items)
                self._memo[key] = self._result(stage, f"builtin-s{sets.seed}", settings)
            elif sets.kind == "local":
                settings = SetsStage(
                    kind="local", sha256=self.hashes.sets(self.loaded.root, sets.path, f"{stage}.path")
                )
                source = {"path": str(self.loaded.root / sets.path)}
                self._memo[key] = self._result(stage, "local", settings, source=source)
            else:
                self._memo[key] = self._result(
                    stage, "published", SetsStage(kind="published"), source=self._data_lock()
                )
        return self._memo[key]

    def _data_lock(self) -> dict[str, str]:
        return {"data_lock": str(self.loaded.root / "config" / "data.lock")}

    # --- results ---

    def _torch_wanted(self) -> str | None:
        """The version of torch that recipes name; None unless the study asks for it."""
        wanted = self.study.identity.torch
        if wanted is True and torch_version() is None:
            raise UserError(
                f"{self.loaded.path}: identity.torch is true, and no torch is installed here to take the version of; "
                "give the version that the results were made by, e.g. torch: '2.13.0'"
            )
        return torch_version() if wanted is True else wanted or None

    def _once(self, stage: str, label: str, settings: BaseModel, **inputs: Any) -> Result:
        """As `_result`, remembered: cells share their data, and its digests need computing once."""
        identity = tuple(
            one.digest for given in inputs.values() for one in (given if isinstance(given, list) else [given])
        )
        key = (stage, label, settings, identity)
        if key not in self._memo:
            self._memo[key] = self._result(stage, label, settings, **inputs)
        return self._memo[key]

    def _result(
        self, stage: str, label: str, settings: BaseModel, source: dict[str, Any] | None = None, **inputs: Any
    ) -> Result:
        recipe = {
            "stage": stage,
            "version": self._lock.version(stage),
            "settings": without_added_defaults(settings),
            "inputs": {
                name: [one.digest for one in given] if isinstance(given, list) else given.digest
                for name, given in inputs.items()
            },
        }
        if self._torch and STAGES[stage].torch:
            recipe["torch"] = self._torch
        digest = digest_of(recipe)
        result = self.results.get((stage, f"{label}@{digest}"))
        if result is None:
            result = Result(stage, label, settings, recipe, digest, inputs, source or {})
            self.results[stage, result.key] = result
        return result

    def analysis_of(self, cells: list[Cell], lacking: tuple[dict[str, str], ...] = ()) -> Result:
        """The analysis of these cells' results; `lacking` says which results of the study are not among them."""
        inputs: dict[str, dict[str, Result]] = {}
        for cell in cells:
            for stage, result in cell.results.items():
                inputs.setdefault(stage, {})[result.key] = result
        study = self.study
        settings = AnalyseStage(
            study=study.name,
            title=study.title,
            question=study.question,
            factors={path: tuple(each_once(cell.factors[path] for cell in self.cells)) for path in study.factors},
            baseline=self.loaded.baseline,
            cells=tuple(self._cell_facts(cell) for cell in cells),
            lacking=lacking,
        )
        return self._result(
            "analyse", study.name, settings, **{name: list(found.values()) for name, found in inputs.items()}
        )

    def report_of(self, analyse: Result) -> Result:
        """The page of an analysis."""
        code = frozen() or self.loaded.root
        templates = self.hashes.folder_sha256(code / "report", "the report's templates")
        settings = ReportStage(
            study=self.study.name,
            templates_sha256=templates,
            claims=tuple(claims.model_dump(mode="json") for claims in self.loaded.claims),
            deviations=tuple(one.model_dump(mode="json") for one in self.study.deviations),
            citation=read_citation(code),
        )
        return self._result("report", self.study.name, settings, analyse=analyse)

    def _cell_facts(self, cell: Cell) -> dict[str, Any]:
        return {
            "cell": cell.label,
            "shape": cell.shape,
            "factors": dict(cell.factors),
            "data": cell.settings.data.kind,
            "settings": cell.trained or cell.checkpoint.recipe["settings"],
            "results": {stage: result.key for stage, result in cell.results.items()},
        }


def _one_projection(a: CellSettings, b: CellSettings) -> bool:
    """Whether two cells of one model differ in how it is written alone: no projection at all, or a value that its layers do not have."""
    return a.xsa.alpha == b.xsa.alpha and (
        not a.xsa.alpha or (a.xsa.value != b.xsa.value and a.xsa.layers == b.xsa.layers)
    )
