"""The settings of a cell: every choice a study can make, with its type, range, default and meaning.

`config/recipes/*.yaml` start from these, `config/studies/*.yaml` vary them. `config/defaults.yaml` and the JSON
schemas under `config/schema/` are generated from this file (`xsa schema`), and a test holds that they agree.

A field added after results exist is declared with `added(default)`: at its default it stays out of recipes, so old
digests stay. The default of such a field must never change.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from xsa.study.data_settings import Data, PublishedSets, Sets
from xsa.study.fields import Name, Settings, TorchVersion, added

# --- data ---------------------------------------------------------------------------------------------------------


class TokenizerSettings(Settings):
    vocab_size: int = Field(32768, ge=270, description="entries, special tokens included")
    max_chars: int = Field(2_000_000_000, ge=1, description="characters of training text read")
    doc_cap: int = Field(10_000, ge=1, description="characters read of one document")
    shards: int = Field(8, ge=1, description="training shards that the characters are taken from")


class RowSettings(Settings):
    buffer_size: int = Field(1000, ge=1, description="documents the packer chooses from")
    tokenizer_batch: int = Field(128, ge=1, description="documents added to the buffer at a time")


class ImportedSettings(Settings):
    """A checkpoint trained elsewhere, measured in place of a trained one."""

    path: str | None = Field(
        None, description="folder that `xsa import-nanochat` made; null for a cell that is trained here"
    )


# --- model and training -------------------------------------------------------------------------------------------


class ModelSettings(Settings):
    architecture: Literal["nanochat"] = "nanochat"
    n_layer: int = Field(ge=1)
    n_embd: int = Field(ge=1)
    n_head: int = Field(ge=1)
    n_kv_head: int | None = Field(None, ge=1, description="key/value heads; null for as many as query heads")
    sequence_len: int = Field(2048, ge=8, description="T, tokens a row")
    window_pattern: str = Field("SSSL", pattern="^[SL]+$", description="short and long windows, tiled over the layers")


class XsaSettings(Settings):
    """z = y − α·⟨y,v⟩/⟨v,v⟩·v for each head, before the output projection."""

    alpha: float = Field(0.0, ge=0, le=1, description="share of the own value removed; 0 is standard attention")
    layers: (
        Literal["all", "value_embeds", "no_value_embeds"]
        | Annotated[str, Field(pattern=r"^last:[1-9]\d*$")]
        | tuple[int, ...]
    ) = Field(
        "all",
        description="`all`, `last:k`, a list of layers counted from 0, or those with or without value embeddings: "
        "`value_embeds`, `no_value_embeds`",
    )

    @field_validator("layers")
    @classmethod
    def _some(cls, layers: str | tuple[int, ...]) -> str | tuple[int, ...]:
        """Layers are a set: their order and repetitions mean nothing, so they take one form."""
        if layers == ():
            raise ValueError("is an empty list; for no layer at all set xsa.alpha to 0")
        return layers if isinstance(layers, str) else tuple(sorted(set(layers)))

    value: Literal["attended", "plain"] = Field(
        "attended", description="the value removed: after the value-embedding mix, or before it"
    )


class OptimSettings(Settings):
    matrix: Literal["muon", "adamw"] = Field("muon", description="optimizer of the blocks' matrices")
    version: Literal["may2026", "jul2026"] = Field("may2026", description="nanochat's Muon of that month")
    matrix_lr: float = Field(0.02, gt=0)
    adamw_matrix_lr: float | None = added(
        None, gt=0, description="in place of matrix_lr where AdamW moves the matrices; null for matrix_lr itself"
    )
    embedding_lr: float = Field(0.3, gt=0)
    unembedding_lr: float = Field(0.008, gt=0)
    scalar_lr: float = Field(0.5, gt=0)
    weight_decay: float = Field(0.28, ge=0, description="of Muon's matrices, before scaling by horizon and batch")


class ScheduleSettings(Settings):
    warmup_steps: int = Field(40, ge=0)
    warmdown_ratio: float = Field(0.65, ge=0, le=1)
    final_lr_frac: float = Field(0.05, ge=0, le=1)


class HorizonSettings(Settings):
    """How long to train: `steps` if given, else `ratio` tokens per scaling parameter (block matrices and head)."""

    ratio: float = Field(12.0, gt=0)
    steps: int | None = Field(None, ge=1)
    batch_tokens: int | None = Field(None, ge=1, description="tokens a step; null for nanochat's power law")


class PrecisionSettings(Settings):
    dtype: Literal["auto", "float32", "bfloat16"] = Field("auto", description="compute dtype; masters are float32")
    compile: Literal["auto"] | bool = Field("auto", description="torch.compile; auto where a compiler is found")


class ValidationSettings(Settings):
    every: int = Field(250, ge=1, description="steps between two looks at the validation rows")
    rows: int = Field(1024, ge=1, description="validation rows of each look, the first ones of the validation shard")


class MixtureItem(Settings):
    set: Literal["smoltalk", "identity", "mmlu", "gsm8k", "simplespelling", "spellingbee"]
    repeat: int = Field(1, ge=1, description="how often the set enters an epoch")
    limit: int | None = Field(None, ge=1, description="first rows of the set (size, for the generated sets)")


class FinetuneSettings(Settings):
    mixture: tuple[MixtureItem, ...] = (
        MixtureItem(set="smoltalk"),
        MixtureItem(set="identity", repeat=2),
        MixtureItem(set="mmlu", repeat=3),
        MixtureItem(set="gsm8k", repeat=4),
        MixtureItem(set="simplespelling", limit=200_000),
        MixtureItem(set="spellingbee", limit=80_000),
    )
    steps: int | None = Field(None, ge=1, description="null for one epoch of the mixture")
    batch_tokens: int | None = Field(None, ge=1, description="tokens a step; null for pretraining's")
    lr_fraction: float = Field(
        0.8, gt=0, description="first rates as a fraction of the recipe's, which no batch scales here"
    )
    buffer_size: int = Field(100, ge=1, description="conversations the packer chooses from")
    overlong: Literal["truncate", "drop"] = Field("truncate", description="conversations longer than a row")


# --- evaluation ---------------------------------------------------------------------------------------------------


class BpbSettings(Settings):
    rows: int = Field(10_240, ge=1, description="validation rows measured, the first ones")


class CoreSettings(Settings):
    tasks: Literal["all"] | Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        "all", description="labels of the bundle's core.yaml"
    )
    max_per_task: int | None = Field(None, ge=1, description="items a task after the shuffle; null for all")
    baselines: Literal["bundle", "v1", "v2"] = Field(
        "v1", description="table of random baselines; `bundle` is the bundle's own eval_meta_data.csv"
    )

    @field_validator("tasks")
    @classmethod
    def _set(cls, tasks: str | tuple[str, ...]) -> str | tuple[str, ...]:
        """Tasks are a set, evaluated in the bundle's order whatever order they are named in."""
        return tasks if isinstance(tasks, str) else tuple(sorted(set(tasks)))


ChatTask = Literal["arc_easy", "arc_challenge", "mmlu", "gsm8k", "humaneval", "spellingbee"]


class ChatcoreSettings(Settings):
    tasks: tuple[ChatTask, ...] = get_args(ChatTask)
    baselines: Literal["chat6", "chat5"] = added(
        "chat6",
        description="form of ChatCORE, tasks with their chance levels: `chat5` is the later one, without spellingbee",
    )
    max_per_task: int | None = Field(None, ge=1, description="items a task; null for all")
    spellingbee_items: int = Field(256, ge=1, description="words of the generated SpellingBee set")
    max_new_tokens: int = Field(512, ge=1, description="tokens generated at most for one answer")
    sandbox_seconds: float = Field(5.0, gt=0, description="processor time that one generated program may use")

    @field_validator("tasks")
    @classmethod
    def _some(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        if not tasks or len(set(tasks)) != len(tasks):
            raise ValueError("chatcore.tasks needs at least one task, each once")
        # A set: evaluated in one order, whatever order they are named in.
        return tuple(sorted(tasks, key=get_args(ChatTask).index))

    @model_validator(mode="before")
    @classmethod
    def _tasks_of_the_form(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("baselines") == "chat5":
            tasks = values.get("tasks")
            if tasks is None:
                return values | {"tasks": tuple(task for task in get_args(ChatTask) if task != "spellingbee")}
            if "spellingbee" in tasks:
                raise ValueError("chatcore.baselines chat5 has no task spellingbee; take it out of chatcore.tasks")
        return values


class AttentionSettings(Settings):
    rows: int = Field(16, ge=1, description="validation rows that the diagnostics read")
    steps: tuple[Annotated[int, Field(ge=0)], ...] = added(
        (),
        description="training steps after which they are taken too, 0 for the first weights; pretraining takes them, so this "
        "is part of what identifies it. Steps beyond a cell's horizon are left out",
    )


class OverheadSettings(Settings):
    repetitions: int = Field(30, ge=3, description="timed steps an arm, arms interleaved")
    warmup: int = Field(5, ge=1, description="untimed steps an arm")
    batch_rows: int = Field(8, ge=1, description="rows of a timed step")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="what is timed; auto for a GPU where there is one"
    )


class EquivalenceSettings(Settings):
    steps: int = Field(50, ge=1, description="training steps compared")
    batch_rows: int = Field(8, ge=1, description="rows a step")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="where; auto for a GPU where there is one")


class Evaluate(Settings):
    """Which measurements a study takes."""

    bpb: bool = True
    core: bool = True
    chatcore: bool = True
    attention: bool = True
    overhead: bool = True
    equivalence: bool = True


class CellSettings(Settings):
    """All settings of one cell. Identity is computed per stage from the sections that the stage uses."""

    seed: int = Field(0, ge=0, lt=2**63)
    data: Data
    bundle: Sets = PublishedSets(kind="published")
    chatsets: Sets = PublishedSets(kind="published")
    tokenizer: TokenizerSettings = TokenizerSettings()
    rows: RowSettings = RowSettings()
    imported: ImportedSettings = added(ImportedSettings())
    model: ModelSettings
    xsa: XsaSettings = XsaSettings()
    optim: OptimSettings = OptimSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    horizon: HorizonSettings = HorizonSettings()
    precision: PrecisionSettings = PrecisionSettings()
    validation: ValidationSettings = ValidationSettings()
    finetune: FinetuneSettings = FinetuneSettings()
    bpb: BpbSettings = BpbSettings()
    core: CoreSettings = CoreSettings()
    chatcore: ChatcoreSettings = ChatcoreSettings()
    attention: AttentionSettings = AttentionSettings()
    overhead: OverheadSettings = OverheadSettings()
    equivalence: EquivalenceSettings = EquivalenceSettings()
    evaluate: Evaluate = Evaluate()


Gpus = Literal["auto"] | Annotated[int, Field(ge=1)]


class RunSettings(Settings):
    """How a study runs, never what its results are: none of this enters a digest."""

    requires: Literal["cuda"] | None = Field(None, description="`cuda`: refuse to start where there is no GPU")
    threads: int = Field(1, ge=1, description="CPU threads of a training or evaluation job")
    micro_batch: int | None = Field(None, ge=1, description="rows a device takes at once; null for what memory allows")
    save_minutes: float = Field(10.0, gt=0, description="minutes between two saved states of a training job")
    save_share: float | None = added(
        0.05, gt=0, le=1, description="share of the time that saving may take; what takes longer is saved less often"
    )
    deterministic: bool = added(False, description="train by kernels that repeat bit for bit; slower on a GPU")
    gpu: str | None = added(
        None,
        min_length=1,
        description="GPU model that costs are reckoned for, e.g. H100; null for the one that is here",
    )
    gpu_hour_price: float = added(3.0, ge=0, description="price of a GPU-hour in costs, by default US dollars")
    gpus: Gpus | dict[Name, Gpus] = added(
        "auto",
        description="GPUs of a training, one process each; auto by its operations; or a number for each of the shapes",
    )
    share_gpus: bool = added(False, description="on one machine, let jobs of this study use GPUs that others use")
    hang_minutes: float = added(
        30.0, gt=0, description="several processes are ended after so long without a step, each with its stack"
    )


class LimitSettings(Settings):
    """What a run of a study may cost by `xsa plan`; one that would exceed it stops before its first job."""

    gpu_hours: float | None = added(None, ge=0, description="GPU-hours; null for no limit, as below")
    cpu_hours: float | None = added(None, ge=0, description="hours of one CPU thread")
    cost: float | None = added(None, ge=0, description="GPU-hours times run.gpu_hour_price")
    disk_gb: float | None = added(None, ge=0, description="gigabytes that the run adds under results/")


class IdentitySettings(Settings):
    """What else a study wants in the identity of its results, beyond settings, inputs and the code's version."""

    torch: bool | TorchVersion = added(
        False,
        description="the version of torch: true for the one installed, or a version that jobs must find, e.g. '2.13.0'",
    )
