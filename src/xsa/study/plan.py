"""The plan of a study: every result it is made of, with recipe, digest and place, before anything has run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from xsa.store.errors import UserError
from xsa.study.lock import StagesLock
from xsa.study.resolve import Resolved
from xsa.study.result import Result, digest_of, without_added_defaults
from xsa.study.settings import BuiltinData, CellSettings, HubData, LocalData, Sets
from xsa.study.sources import HashCache, local_shards
from xsa.study.stages import AnalyseStage, ReportStage, SetsStage, ShardStage, TokensStage
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


class Plan:
    """All results of a study. `results` maps (stage, label@digest) to each; `report` is the last of them."""

    def __init__(self, loaded: LoadedStudy, lock: StagesLock, results: Path):
        self.loaded, self.study, self._lock = loaded, loaded.study, lock
        self._hashes = HashCache(results / ".state" / "hashes.json")
        self.results: dict[tuple[str, str], Result] = {}
        self._memo: dict[Any, Any] = {}
        self.cells = self._cells()
        self.analyse = self._analyse()
        self.report = self._report()
        self._hashes.save()

    # --- the grid ---

    def _cells(self) -> list[Cell]:
        cells: dict[str, Cell] = {}
        for point in self.loaded.points:
            try:
                cell = self._cell(point)
            except UserError as error:
                where = self.loaded.path if str(self.loaded.path) not in str(error) else ""
                raise UserError(f"{where}, shape {point.shape}: {error}" if where else str(error)) from None
            key = cell.results["pretrain"].key
            twin = cells.get(key)
            if twin is None:
                cells[key] = cell
            elif twin.shape != cell.shape or cell.settings.xsa.alpha:
                raise UserError(
                    f"{self.loaded.path}: two cells are the same training run ({key}): "
                    f"{twin.shape} {twin.factors} and {cell.shape} {cell.factors}; remove one of them"
                )
        return list(cells.values())

    def _cell(self, point: Point) -> Cell:
        settings, resolved = point.settings, Resolved(point.settings)
        label = _cell_label(settings)
        tokenizer = self._tokenizer(settings, resolved)
        validation = self._rows(settings, resolved, tokenizer, -1)
        pretrain = self._result(
            "pretrain",
            label,
            resolved.pretrain(),
            rows=self._training_rows(settings, resolved, tokenizer),
            validation=validation,
            tokenizer=tokenizer,
        )
        results, want = {"pretrain": pretrain}, settings.evaluate
        if want.bpb:
            results["bpb"] = self._result(
                "bpb", label, resolved.bpb(), checkpoint=pretrain, validation=validation, tokenizer=tokenizer
            )
        if want.core:
            bundle = self._sets("bundle", settings.bundle)
            results["core"] = self._result(
                "core", label, resolved.core(), checkpoint=pretrain, bundle=bundle, tokenizer=tokenizer
            )
        if want.chatcore:
            chatsets = self._sets("chatsets", settings.chatsets)
            finetune = self._result(
                "finetune", label, resolved.finetune(), checkpoint=pretrain, chatsets=chatsets, tokenizer=tokenizer
            )
            results["finetune"] = finetune
            results["chatcore"] = self._result(
                "chatcore", label, resolved.chatcore(), checkpoint=finetune, chatsets=chatsets, tokenizer=tokenizer
            )
        if want.attention:
            results["attention"] = self._result(
                "attention", label, resolved.attention(), checkpoint=pretrain, validation=validation
            )
        if want.overhead and resolved.model.alpha:
            results["overhead"] = self._result("overhead", label.rpartition("-s")[0], resolved.overhead())
        if want.equivalence:
            first = self._training_rows(settings, resolved, tokenizer)[:1]
            results["equivalence"] = self._result(
                "equivalence", f"{_shape_label(settings)}-{settings.optim.matrix}", resolved.equivalence(), rows=first
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
        return [self._rows(settings, resolved, tokenizer, index) for index in range(needed)]

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
        return len(self._local(data)) if isinstance(data, LocalData) else data.shards

    def _local(self, data: LocalData) -> list[Path]:
        if data.path not in self._memo:
            self._memo[data.path] = local_shards(self.loaded.root / data.path)
        return self._memo[data.path]

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
            path = self._local(data)[index]
            stage = ShardStage(kind="local", name=path.name, sha256=self._hashes.sha256(path))
            return self._result("shard", f"local-{_slug(path.stem)}", stage, source={"path": str(path)})
        name = data.file_pattern.format(index=index)
        stage = ShardStage(kind="hub", name=name, dataset=data.dataset, revision=data.revision)
        label = f"{_slug(data.dataset.rpartition('/')[2])}-{index:05d}"
        return self._result("shard", label, stage, source=self._data_lock())

    def _sets(self, stage: str, sets: Sets) -> Result:
        key = (stage, sets)
        if key not in self._memo:
            if sets.kind == "builtin":
                settings = SetsStage(kind="builtin", seed=sets.seed, items=sets.items)
                self._memo[key] = self._result(stage, f"builtin-s{sets.seed}", settings)
            elif sets.kind == "local":
                folder = self.loaded.root / sets.path
                settings = SetsStage(kind="local", sha256=self._hashes.folder_sha256(folder, f"{stage}.path"))
                self._memo[key] = self._result(stage, "local", settings, source={"path": str(folder)})
            else:
                self._memo[key] = self._result(
                    stage, "published", SetsStage(kind="published"), source=self._data_lock()
                )
        return self._memo[key]

    def _data_lock(self) -> dict[str, str]:
        return {"data_lock": str(self.loaded.root / "config" / "data.lock")}

    # --- results ---

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
        digest = digest_of(recipe)
        result = self.results.get((stage, f"{label}@{digest}"))
        if result is None:
            result = Result(stage, label, settings, recipe, digest, inputs, source or {})
            self.results[stage, result.key] = result
        return result

    def _analyse(self) -> Result:
        inputs: dict[str, dict[str, Result]] = {}
        for cell in self.cells:
            for stage, result in cell.results.items():
                inputs.setdefault(stage, {})[result.key] = result
        study = self.study
        # Values as the settings hold them, not as the file writes them: 1 and 1.0 are one value.
        factors = {path: tuple(dict.fromkeys(cell.factors[path] for cell in self.cells)) for path in study.factors}
        settings = AnalyseStage(
            study=study.name,
            title=study.title,
            question=study.question,
            factors=factors,
            baseline={path: next(v for v in factors[path] if v == value) for path, value in study.baseline.items()},
            cells=tuple(self._cell_facts(cell) for cell in self.cells),
            claims_sha256=None,
        )
        return self._result(
            "analyse", study.name, settings, **{name: list(found.values()) for name, found in inputs.items()}
        )

    def _report(self) -> Result:
        templates = self._hashes.folder_sha256(self.loaded.root / "report", "the report's templates")
        settings = ReportStage(study=self.study.name, templates_sha256=templates)
        return self._result("report", self.study.name, settings, analyse=self.analyse)

    def _cell_facts(self, cell: Cell) -> dict[str, Any]:
        return {
            "cell": cell.label,
            "shape": cell.shape,
            "factors": dict(cell.factors),
            "data": cell.settings.data.kind,
            "settings": cell.results["pretrain"].settings.model_dump(mode="json"),
            "results": {stage: result.key for stage, result in cell.results.items()},
        }


def _shape_label(settings: CellSettings) -> str:
    model = settings.model
    groups = f"kv{model.n_kv_head}" if model.n_kv_head and model.n_kv_head != model.n_head else ""
    return f"d{model.n_layer}w{model.n_embd}h{model.n_head}{groups}"


def _cell_label(settings: CellSettings) -> str:
    """What a person reads of a cell: shape, optimizer, alpha, what is special about the projection, seed."""
    xsa = settings.xsa
    special = ""
    if xsa.alpha and xsa.layers != "all":
        layers = (
            xsa.layers.replace(":", "") if isinstance(xsa.layers, str) else "layers" + ".".join(map(str, xsa.layers))
        )
        special += f"-{layers}"
    if xsa.alpha and xsa.value != "attended":
        special += f"-{xsa.value}"
    return f"{_shape_label(settings)}-{settings.optim.matrix}-a{xsa.alpha:g}{special}-s{settings.seed}"


def _slug(text: str) -> str:
    """Letters, digits, dot, dash and underscore only, for names that go into paths and wildcards."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in text)
