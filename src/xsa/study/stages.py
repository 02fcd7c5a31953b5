"""The stages: what each one is told. One settings class a stage, fully resolved; its JSON is the stage's part of a recipe.

Resolved means that nothing is left to choose when the stage runs: no `auto`, no `null for the law`, no setting of
another stage. `resolve.py` makes these from a cell's settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from xsa.study.architecture import ModelConfig
from xsa.study.fields import Settings, added
from xsa.study.settings import MixtureItem


class ShardStage(Settings):
    """One shard. Exactly one of the three origins is set."""

    kind: Literal["builtin", "local", "hub"]
    name: str  # file name in the result; a local file's own name is no part of it
    # builtin
    seed: int | None = None
    index: int | None = None
    shards: int | None = None
    documents: int | None = None
    # local: the content's SHA-256 is the identity; the path is how it runs
    sha256: str | None = None
    # hub
    dataset: str | None = None
    revision: str | None = None


class SetsStage(Settings):
    """The CORE bundle or the chat sets (`bundle`, `chatsets`)."""

    kind: Literal["builtin", "local", "published"]
    seed: int | None = None
    items: int | None = None
    sha256: str | None = None  # local: of names and contents (`sources.HashCache.folder_sha256`)


class TokenizerStage(Settings):
    vocab_size: int
    max_chars: int
    doc_cap: int


class ImportedTokenizerStage(Settings):
    sha256: str  # of names and contents of the folder (`sources.HashCache.folder_sha256`)


class TokensStage(Settings):
    pass


class RowsStage(Settings):
    sequence_len: int
    buffer_size: int
    tokenizer_batch: int


class OptimStage(Settings):
    """Rates before the width factor √(768/d), which the optimizer applies to embedding, value embeddings and head."""

    matrix: Literal["muon", "adamw"]
    version: Literal["may2026", "jul2026"]
    matrix_lr: float
    embedding_lr: float
    unembedding_lr: float
    scalar_lr: float
    weight_decay: float  # already scaled by batch and horizon


class ScheduleStage(Settings):
    warmup_steps: int
    warmdown_ratio: float
    final_lr_frac: float


class PretrainStage(Settings):
    model: ModelConfig
    seed: int
    steps: int
    batch_rows: int  # rows of one optimizer step over all devices
    optim: OptimStage
    schedule: ScheduleStage
    dtype: Literal["float32", "bfloat16"]
    compile: bool
    validation_every: int
    validation_rows: int
    tokens_per_shard: int  # stated by the dataset; with it the number of shards follows
    # The attention diagnostics along training, on as many validation rows; they change no weight.
    attention_steps: tuple[int, ...] = added(())
    attention_rows: int = added(0)


class ImportedStage(Settings):
    """A checkpoint that was trained elsewhere: of `imported` the base model, of `imported_chat` the fine-tuned one."""

    sha256: str  # as of ImportedTokenizerStage
    model: ModelConfig


class FinetuneStage(Settings):
    """Model, rates and precision come from the pretrained checkpoint."""

    seed: int
    mixture: tuple[MixtureItem, ...]
    steps: int | None
    batch_rows: int
    lr_fraction: float
    buffer_size: int
    overlong: Literal["truncate", "drop"]
    compile: bool
    validation_every: int


class BpbStage(Settings):
    rows: int
    dtype: Literal["float32", "bfloat16"]


class CoreStage(Settings):
    tasks: Literal["all"] | tuple[str, ...]
    max_per_task: int | None
    baselines: Literal["bundle", "v1", "v2"]
    dtype: Literal["float32", "bfloat16"]


class ChatcoreStage(Settings):
    tasks: tuple[str, ...]
    max_per_task: int | None
    spellingbee_items: int
    max_new_tokens: int
    sandbox_seconds: float
    baselines: Literal["chat6", "chat5"] = added("chat6")
    dtype: Literal["float32", "bfloat16"]


class AttentionStage(Settings):
    rows: int
    dtype: Literal["float32", "bfloat16"]


class OverheadStage(Settings):
    model: ModelConfig  # with the arm's alpha; timed against alpha = 0
    repetitions: int
    warmup: int
    batch_rows: int
    device: Literal["cpu", "cuda"]
    dtype: Literal["float32", "bfloat16"]
    compile: bool


class EquivalenceStage(Settings):
    model: ModelConfig  # alpha = 0; the explicit path is the other arm
    seed: int
    steps: int
    batch_rows: int
    optim: OptimStage
    schedule: ScheduleStage
    device: Literal["cpu", "cuda"]
    dtype: Literal["float32", "bfloat16"]
    compile: bool


class AnalyseStage(Settings):
    """What a study's tables and figures are made of. `cells` says which result belongs to which point of the grid, `lacking` which
    results of which cells are not there yet, where it is the analysis of a study that is half done."""

    study: str
    title: str
    question: str
    factors: dict[str, tuple]
    baseline: dict
    cells: tuple[dict, ...]
    lacking: tuple[dict, ...] = added(())


class ReportStage(Settings):
    """`claims` and `deviations` as `xsa.study.claims` and `xsa.study.study` have them, `citation` as CITATION.cff has it."""

    study: str
    templates_sha256: str
    claims: tuple[dict, ...] = added(())
    deviations: tuple[dict, ...] = added(())
    citation: dict | None = added(None)


@dataclass(frozen=True)
class Stage:
    """A stage's name, its settings, the function that does the work (`module:function`), and what it needs.

    several: whether several processes, started by torchrun, may make one result together.
    """

    name: str
    settings: type[BaseModel]
    entry: str
    torch: bool = False
    gpu: bool = False
    several: bool = False


STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage("shard", ShardStage, "xsa.data.shard:shard"),
        Stage("bundle", SetsStage, "xsa.data.sets:bundle"),
        Stage("chatsets", SetsStage, "xsa.data.sets:chatsets"),
        Stage("tokenizer", TokenizerStage, "xsa.data.tokenizer:tokenizer"),
        Stage("imported_tokenizer", ImportedTokenizerStage, "xsa.data.imported:imported_tokenizer"),
        Stage("tokens", TokensStage, "xsa.data.tokens:tokens"),
        Stage("rows", RowsStage, "xsa.data.rows:rows"),
        Stage("pretrain", PretrainStage, "xsa.train.pretrain:pretrain", torch=True, gpu=True, several=True),
        Stage("finetune", FinetuneStage, "xsa.train.finetune:finetune", torch=True, gpu=True, several=True),
        Stage("imported", ImportedStage, "xsa.train.imported:imported", torch=True),
        Stage("imported_chat", ImportedStage, "xsa.train.imported:imported", torch=True),
        Stage("bpb", BpbStage, "xsa.evaluate.bpb:bpb", torch=True, gpu=True, several=True),
        Stage("core", CoreStage, "xsa.evaluate.core:core", torch=True, gpu=True),
        Stage("chatcore", ChatcoreStage, "xsa.evaluate.chatcore:chatcore", torch=True, gpu=True),
        Stage("attention", AttentionStage, "xsa.diagnose.attention:attention", torch=True, gpu=True),
        Stage("overhead", OverheadStage, "xsa.diagnose.overhead:overhead", torch=True, gpu=True),
        Stage("equivalence", EquivalenceStage, "xsa.diagnose.equivalence:equivalence", torch=True, gpu=True),
        Stage("analyse", AnalyseStage, "xsa.analyse.analyse:analyse"),
        Stage("report", ReportStage, "xsa.report.report:report"),
    )
}
