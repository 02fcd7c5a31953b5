"""What a result costs before it is made: tokens, floating-point operations and bytes, from recipes alone.

A recipe names what it reads by digest, so a cost is looked up through `recipes`, a mapping from digest to recipe that holds
those of a plan, of finished results, or both. Numbers that no recipe holds (how long a conversation is, how many items a
published task has) are stated here with their source; they serve forecasts and never decide a result.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from xsa.store.files import canonical_json
from xsa.study.architecture import ModelConfig, flops_per_token, parameter_counts
from xsa.study.result import digest_of

# Tokens of an item that are run once its options share their context: published items, four characters a token.
CORE_TASKS = {  # label: (items published, tokens an item)
    "hellaswag_zeroshot": (10042, 194),
    "jeopardy": (2117, 331),
    "bigbench_qa_wikidata": (20321, 129),
    "arc_easy": (2376, 448),
    "arc_challenge": (1172, 520),
    "copa": (100, 24),
    "commonsense_qa": (1221, 420),
    "piqa": (1838, 455),
    "openbook_qa": (500, 30),
    "lambada_openai": (5153, 80),
    "hellaswag": (10042, 1108),
    "winograd": (273, 30),
    "winogrande": (1267, 34),
    "bigbench_dyck_languages": (1000, 441),
    "agi_eval_lsat_ar": (230, 880),
    "bigbench_cs_algorithms": (1320, 391),
    "bigbench_operators": (210, 366),
    "bigbench_repeat_copy_logic": (32, 511),
    "squad": (10570, 2009),
    "coqa": (7983, 547),
    "boolq": (3270, 1782),
    "bigbench_language_identification": (10000, 833),
}
CHAT_TASKS = {  # task: (items published, tokens of a prompt, whether the answer is generated)
    "arc_easy": (2376, 80, False),
    "arc_challenge": (1172, 80, False),
    "mmlu": (14042, 150, False),
    "gsm8k": (1319, 80, True),
    "humaneval": (164, 150, True),
    "spellingbee": (256, 50, True),
}
CONVERSATIONS = {  # set: (published, tokens of one); smoltalk's length is an assumption
    "smoltalk": (460_000, 1000),
    "identity": (1000, 560),
    "mmlu": (99_842, 150),
    "gsm8k": (7473, 180),
    "simplespelling": (200_000, 35),
    "spellingbee": (80_000, 150),
}
GENERATED_SETS = ("simplespelling", "spellingbee")  # as large as is asked for
BUILTIN_TRAINING, BUILTIN_CONVERSATION = 8, 40  # training rows for each item that is asked, and tokens of one
HUB_SHARD_BYTES = 100e6  # a shard of ClimbMix on the hub, of 250M characters
CROPPED = 0.35  # of a shard's tokens, that packing cuts away
TOKENS_PER_SHARD = 45_000_000  # where no training says it: ClimbMix's
BUILTIN_DOCUMENT_BYTES = 500  # of a document of the built-in text, compressed
PUBLISHED_BYTES = {"bundle": 160e6, "chatsets": 1e9}
BUILTIN_ITEM_BYTES = 4_000  # of the built-in sets, over all their tasks
SMALL_BYTES = {"core": 2e6, "chatcore": 1e6, "bpb": 0.5e6, "analyse": 2e6, "report": 3e6}


@dataclass(frozen=True)
class Cost:
    """tokens trained on, or run through the model; flops: floating-point operations; bytes: what is left on disk."""

    tokens: int = 0
    flops: float = 0.0
    bytes: float = 0.0
    characters: int = 0

    @property
    def work(self) -> float:
        """What a stage's time goes with: its operations, else the characters it reads, else the bytes it writes."""
        return self.flops or self.characters or self.bytes or 1.0


class Costs:
    """Costs of recipes that are known by digest."""

    def __init__(self, recipes: Mapping[str, dict[str, Any]]):
        self._recipes = recipes
        self._shard_tokens: dict[str, int] | None = None

    def of(self, recipe: dict[str, Any]) -> Cost:
        """The cost of making a recipe's result; of nothing where it is of another form than this version's."""
        count = _BY_STAGE.get(recipe.get("stage", ""))
        try:
            return count(self, recipe, recipe["settings"]) if count else Cost(bytes=SMALL_BYTES.get(recipe["stage"], 0))
        except (KeyError, TypeError, ValueError, AttributeError):
            return Cost()

    def model(self, recipe: dict[str, Any]) -> ModelConfig | None:
        """The model that a recipe's stage runs: its own, or that of the checkpoint it reads."""
        settings = self._trained(recipe)["settings"] if self._trained(recipe) else {}
        return _model(canonical_json(settings["model"])) if settings.get("model") else None

    def setting(self, recipe: dict[str, Any], name: str) -> Any:
        """A setting of a recipe, or else of the training whose checkpoint it reads; None where neither has it."""
        trained = self._trained(recipe) or {}
        return recipe.get("settings", {}).get(name, trained.get("settings", {}).get(name))

    def items_of(self, recipe: dict[str, Any], sets: str) -> int | None:
        """Items a task of the built-in sets that a recipe reads; None where it reads others."""
        read = self._recipes.get(recipe.get("inputs", {}).get(sets, ""), {})
        return read.get("settings", {}).get("items")

    def _trained(self, recipe: dict[str, Any] | None) -> dict[str, Any] | None:
        """The recipe, of this one and the checkpoints behind it, that holds the model."""
        while recipe is not None and "model" not in recipe.get("settings", {}):
            recipe = self._recipes.get(recipe.get("inputs", {}).get("checkpoint", ""))
        return recipe

    def shard_tokens(self, digest: str) -> int:
        """Training tokens that the shard behind tokens or rows is said to give, by a training that reads it."""
        if self._shard_tokens is None:
            self._shard_tokens = {}
            for recipe in self._recipes.values():
                told = recipe.get("settings", {}).get("tokens_per_shard")
                if told and recipe.get("stage") == "pretrain":
                    self._note_shards(recipe, told)
        return self._shard_tokens.get(digest, TOKENS_PER_SHARD)

    def _note_shards(self, recipe: dict[str, Any], told: int) -> None:
        inputs = recipe.get("inputs", {})
        for rows in {*inputs.get("rows", []), inputs.get("validation")} - self._shard_tokens.keys():
            self._shard_tokens[rows] = told
            self._shard_tokens[self._recipes.get(rows, {}).get("inputs", {}).get("tokens", "")] = told


@functools.lru_cache(maxsize=4096)
def _model(text: str) -> ModelConfig | None:
    try:
        return ModelConfig.model_validate_json(text)
    except ValidationError:
        return None


def checkpoint_bytes(model: ModelConfig, matrix: str, dtype: str) -> float:
    """Weights and optimizer state of a checkpoint. Embeddings and their moments are held in the compute dtype, the rest in
    float32; Muon keeps one moment of the blocks' matrices, AdamW two of everything else."""
    counts = parameter_counts(model)
    low = 2 if dtype == "bfloat16" else 4
    embeddings = counts.get("wte", 0) + counts.get("value_embeds", 0)
    matrices, total = counts.get("transformer_matrices", 0), counts["total"]
    moments = 2 * ((total - embeddings) * 4 + embeddings * low)
    if matrix == "muon":
        moments -= 4 * matrices
    return embeddings * low + (total - embeddings) * 4 + moments


def _pretrain(costs: Costs, recipe: dict, settings: dict) -> Cost:
    model = costs.model(recipe)
    tokens = settings["steps"] * settings["batch_rows"] * model.sequence_len
    size = checkpoint_bytes(model, settings["optim"]["matrix"], settings["dtype"])
    return Cost(tokens, tokens * flops_per_token(model), size)


def _finetune(costs: Costs, recipe: dict, settings: dict) -> Cost:
    model = costs.model(recipe)
    batch = settings["batch_rows"] * model.sequence_len
    built_in = costs.items_of(recipe, "chatsets")
    tokens = settings["steps"] * batch if settings["steps"] else _mixture_tokens(settings["mixture"], built_in)
    optim = costs.setting(recipe, "optim") or {"matrix": "muon"}
    size = checkpoint_bytes(model, optim["matrix"], costs.setting(recipe, "dtype") or "float32")
    return Cost(tokens, tokens * flops_per_token(model), size)


def _mixture_tokens(mixture: list[dict], built_in: int | None) -> int:
    """Tokens of one epoch of the published sets, or of the built-in ones with their items."""
    total = 0
    for item in mixture:
        there, tokens = CONVERSATIONS.get(item["set"], (0, 0))
        if built_in and item["set"] not in GENERATED_SETS:
            there, tokens = BUILTIN_TRAINING * built_in, BUILTIN_CONVERSATION
        wanted = item.get("limit") or there
        total += item.get("repeat", 1) * (wanted if item["set"] in GENERATED_SETS else min(wanted, there)) * tokens
    return total


def _forward(costs: Costs, recipe: dict, tokens: float, size: float) -> Cost:
    """A pass without gradients: a third of a training step's operations."""
    return Cost(round(tokens), tokens * flops_per_token(costs.model(recipe)) / 3, size)


def _bpb(costs: Costs, recipe: dict, settings: dict) -> Cost:
    tokens = settings["rows"] * costs.model(recipe).sequence_len
    return _forward(costs, recipe, tokens, SMALL_BYTES["bpb"])


def _attention(costs: Costs, recipe: dict, settings: dict) -> Cost:
    return _forward(costs, recipe, settings["rows"] * costs.model(recipe).sequence_len, 20e3)


def _items(costs: Costs, recipe: dict, sets: str, published: int) -> int:
    """Items of a task: those of the built-in sets where they are read, else as many as were published, up to the limit."""
    there = costs.items_of(recipe, sets) or published
    return min(there, recipe["settings"]["max_per_task"] or there)


def _core(costs: Costs, recipe: dict, settings: dict) -> Cost:
    labels = CORE_TASKS if settings["tasks"] == "all" else settings["tasks"]
    tokens = 0
    for label in labels:
        published, each = CORE_TASKS.get(label, (1000, 400))
        tokens += _items(costs, recipe, "bundle", published) * each
    return _forward(costs, recipe, tokens, SMALL_BYTES["core"])


def _chatcore(costs: Costs, recipe: dict, settings: dict) -> Cost:
    """Prompts, and answers taken for as long as they may be at most."""
    tokens = 0
    for task in settings["tasks"]:
        published, prompt, generated = CHAT_TASKS.get(task, (1000, 100, True))
        published = settings["spellingbee_items"] if task == "spellingbee" else published
        tokens += _items(costs, recipe, "chatsets", published) * (prompt + generated * settings["max_new_tokens"])
    return _forward(costs, recipe, tokens, SMALL_BYTES["chatcore"])


def _overhead(costs: Costs, recipe: dict, settings: dict) -> Cost:
    """A repetition takes a training step of the arm and two of the baseline."""
    model, modes = costs.model(recipe), 2 if settings["compile"] else 1
    steps = 3 * modes * (settings["repetitions"] + settings["warmup"])
    tokens = steps * settings["batch_rows"] * model.sequence_len
    return Cost(tokens, tokens * flops_per_token(model), 20e3)


def _equivalence(costs: Costs, recipe: dict, settings: dict) -> Cost:
    model = costs.model(recipe)
    tokens = 2 * settings["steps"] * settings["batch_rows"] * model.sequence_len
    return Cost(tokens, tokens * flops_per_token(model), 10e3)


def _shard(costs: Costs, recipe: dict, settings: dict) -> Cost:
    built_in = settings["kind"] == "builtin"
    return Cost(bytes=settings["documents"] * BUILTIN_DOCUMENT_BYTES if built_in else HUB_SHARD_BYTES)


def _sets(costs: Costs, recipe: dict, settings: dict) -> Cost:
    built_in = settings["kind"] == "builtin"
    size = settings["items"] * BUILTIN_ITEM_BYTES if built_in else PUBLISHED_BYTES[recipe["stage"]]
    return Cost(bytes=size)


def _tokens(costs: Costs, recipe: dict, settings: dict) -> Cost:
    kept = costs.shard_tokens(digest_of(recipe))
    return Cost(bytes=2 * kept / (1 - CROPPED))


def _rows(costs: Costs, recipe: dict, settings: dict) -> Cost:
    row = settings["sequence_len"]
    return Cost(bytes=2 * costs.shard_tokens(digest_of(recipe)) * (row + 1) / row)


def _tokenizer(costs: Costs, recipe: dict, settings: dict) -> Cost:
    return Cost(bytes=30 * settings["vocab_size"], characters=settings["max_chars"])


_BY_STAGE = {
    "shard": _shard,
    "bundle": _sets,
    "chatsets": _sets,
    "tokenizer": _tokenizer,
    "tokens": _tokens,
    "rows": _rows,
    "pretrain": _pretrain,
    "finetune": _finetune,
    "bpb": _bpb,
    "core": _core,
    "chatcore": _chatcore,
    "attention": _attention,
    "overhead": _overhead,
    "equivalence": _equivalence,
}
