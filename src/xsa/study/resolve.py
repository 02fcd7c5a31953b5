"""From a cell's settings to what each stage is told: laws applied, `auto` decided, nothing left to choose."""

from __future__ import annotations

from functools import cached_property

from xsa.store.errors import UserError
from xsa.study.architecture import ModelConfig
from xsa.study.machine import Machine, has_compiler, has_cuda
from xsa.study.scaling import Horizon, horizon
from xsa.study.settings import CellSettings, XsaSettings
from xsa.study.stages import (
    AttentionStage,
    BpbStage,
    ChatcoreStage,
    CoreStage,
    EquivalenceStage,
    FinetuneStage,
    OptimStage,
    OverheadStage,
    PretrainStage,
    RowsStage,
    ScheduleStage,
    TokenizerStage,
)


class Resolved:
    """The stage settings of one cell."""

    def __init__(self, cell: CellSettings, requires: str | None = None, machine: Machine | None = None):
        """`machine` is the one that `auto` is decided for; this one by default."""
        self.cell = cell
        cuda, compiler = machine or Machine(has_cuda(), has_compiler())
        # What `auto` means where the plan is made must be what it means where the jobs run: on GPUs, if the study says so.
        self.cuda = requires == "cuda" or cuda
        self.model = model_config(cell)
        self.dtype = self._dtype()
        auto = self.cuda or compiler
        self.compile = auto if cell.precision.compile == "auto" else cell.precision.compile
        self.schedule = ScheduleStage(**cell.schedule.model_dump())

    @cached_property
    def horizon(self) -> Horizon:
        """How long and how fast a cell is trained; a cell that is not trained has no use for it."""
        optim = self.cell.optim
        if optim.matrix == "adamw" and optim.adamw_matrix_lr is not None:
            optim = optim.model_copy(update={"matrix_lr": optim.adamw_matrix_lr})
        return horizon(self.model, self.cell.horizon, optim)

    @cached_property
    def batch_rows(self) -> int:
        """Rows a step."""
        return _whole_rows(self.horizon.batch_tokens, self.cell.model.sequence_len, "horizon.batch_tokens")

    @cached_property
    def optim(self) -> OptimStage:
        """Rates for the horizon and the batch."""
        cell = self.cell
        return OptimStage(
            matrix=cell.optim.matrix,
            # Muon's month is without effect where Muon is not used.
            version=cell.optim.version if cell.optim.matrix == "muon" else "may2026",
            matrix_lr=self.horizon.matrix_lr,
            embedding_lr=self.horizon.embedding_lr,
            unembedding_lr=self.horizon.unembedding_lr,
            scalar_lr=self.horizon.scalar_lr,
            weight_decay=self.horizon.weight_decay,
        )

    def tokenizer(self) -> TokenizerStage:
        settings = self.cell.tokenizer
        return TokenizerStage(vocab_size=settings.vocab_size, max_chars=settings.max_chars, doc_cap=settings.doc_cap)

    def rows(self) -> RowsStage:
        return RowsStage(sequence_len=self.cell.model.sequence_len, **self.cell.rows.model_dump())

    def pretrain(self) -> PretrainStage:
        return PretrainStage(
            model=self.model,
            seed=self.cell.seed,
            steps=self.horizon.steps,
            batch_rows=self.batch_rows,
            optim=self.optim,
            schedule=self.schedule,
            dtype=self.dtype,
            compile=self.compile,
            validation_every=self.cell.validation.every,
            validation_rows=self.cell.validation.rows,
            tokens_per_shard=self.cell.data.tokens_per_shard,
            attention_steps=(steps := self._attention_steps()),
            attention_rows=self.cell.attention.rows if steps else 0,
        )

    def _attention_steps(self) -> tuple[int, ...]:
        return tuple(sorted({step for step in self.cell.attention.steps if step <= self.horizon.steps}))

    def finetune(self) -> FinetuneStage:
        settings = self.cell.finetune
        tokens = settings.batch_tokens or self.batch_rows * self.cell.model.sequence_len
        return FinetuneStage(
            seed=self.cell.seed,
            mixture=settings.mixture,
            steps=settings.steps,
            batch_rows=_whole_rows(tokens, self.cell.model.sequence_len, "finetune.batch_tokens"),
            lr_fraction=settings.lr_fraction,
            buffer_size=settings.buffer_size,
            overlong=settings.overlong,
            compile=self.compile,
            validation_every=self.cell.validation.every,
        )

    def bpb(self) -> BpbStage:
        return BpbStage(rows=self.cell.bpb.rows, dtype=self.dtype)

    def core(self) -> CoreStage:
        return CoreStage(**self.cell.core.model_dump(), dtype=self.dtype)

    def chatcore(self) -> ChatcoreStage:
        return ChatcoreStage(**self.cell.chatcore.model_dump(), dtype=self.dtype)

    def attention(self) -> AttentionStage:
        return AttentionStage(rows=self.cell.attention.rows, dtype=self.dtype)

    def overhead(self) -> OverheadStage:
        settings = self.cell.overhead
        return OverheadStage(
            model=self.model,
            repetitions=settings.repetitions,
            warmup=settings.warmup,
            batch_rows=settings.batch_rows,
            device=self._device(settings.device),
            dtype=self.dtype,
            compile=self.compile,
        )

    def equivalence(self) -> EquivalenceStage:
        """The same for every cell of a shape: standard attention against the explicit path at α = 0, one seed."""
        settings = self.cell.equivalence
        standard = model_config(self.cell.model_copy(update={"xsa": XsaSettings()}))
        return EquivalenceStage(
            model=standard,
            seed=0,
            steps=settings.steps,
            batch_rows=settings.batch_rows,
            optim=self.optim,
            schedule=self.schedule,
            device=self._device(settings.device),
            dtype=self.dtype,
            compile=self.compile,
        )

    def _dtype(self) -> str:
        """bfloat16 on GPUs, float32 elsewhere, unless the cell says."""
        if self.cell.precision.dtype != "auto":
            return self.cell.precision.dtype
        return "bfloat16" if self.cuda else "float32"

    def _device(self, device: str) -> str:
        if device != "auto":
            return device
        return "cuda" if self.cuda else "cpu"


def model_config(cell: CellSettings) -> ModelConfig:
    """The model of a cell. What is without effect takes one form, so that all such cells are one: at α = 0 layer set and value,
    and the value on layers without value embeddings."""
    model, xsa = cell.model, cell.xsa
    try:
        standard = ModelConfig(
            architecture=model.architecture,
            vocab_size=cell.tokenizer.vocab_size,
            sequence_len=model.sequence_len,
            n_layer=model.n_layer,
            n_head=model.n_head,
            n_kv_head=model.n_kv_head or model.n_head,
            n_embd=model.n_embd,
            window_pattern=model.window_pattern,
            alpha=0.0,
            xsa_layers=tuple(range(model.n_layer)),
        )
        if not xsa.alpha:
            return standard
        layers = _layers(xsa.layers, standard)
        value = xsa.value if any(map(standard.has_value_embedding, layers)) else "attended"
        told = {"alpha": xsa.alpha, "xsa_layers": layers, "xsa_value": value}
        return ModelConfig.model_validate(standard.model_dump() | told)
    except ValueError as error:
        problems = getattr(error, "errors", lambda: [])()
        raise UserError(
            "; ".join(str(p.get("ctx", {}).get("error", p["msg"])) for p in problems) or str(error)
        ) from None


def _layers(layers: str | tuple[int, ...], model: ModelConfig) -> tuple[int, ...]:
    if not isinstance(layers, str):
        return tuple(sorted(set(layers)))
    if layers == "all":
        return tuple(range(model.n_layer))
    if layers.startswith("last:"):
        count = int(layers.removeprefix("last:"))
        if count > model.n_layer:
            raise UserError(
                f"xsa.layers is {layers!r}, but the model has {model.n_layer} layers; use at most last:{model.n_layer}"
            )
        return tuple(range(model.n_layer - count, model.n_layer))
    wanted = layers == "value_embeds"
    found = tuple(layer for layer in range(model.n_layer) if model.has_value_embedding(layer) is wanted)
    if not found:
        raise UserError(
            f"xsa.layers is {layers!r}, but a model of one layer has none without value embeddings; use all"
        )
    return found


def _whole_rows(tokens: int, sequence_len: int, key: str) -> int:
    rows, rest = divmod(tokens, sequence_len)
    if rest or not rows:
        raise UserError(
            f"{key} = {tokens} is no whole number of rows of {sequence_len} tokens; "
            f"use {max(rows, 1) * sequence_len} or another multiple of model.sequence_len"
        )
    return rows
