"""How long to train, in what batches, at what rates: nanochat's scaling rules, worked out before any tensor exists.

The rules are anchored at nanochat's own model of depth 12, where the rates were tuned: a longer horizon wants a larger batch
(a power law), a larger batch wants higher rates (its square root), and both change how much weight decay a run should see.
Read from nanochat at commit dc54a1a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xsa.store.errors import UserError
from xsa.study.architecture import ModelConfig, parameter_counts
from xsa.study.settings import HorizonSettings, OptimSettings
from xsa.study.stages import OptimStage

REFERENCE_BATCH = 2**19  # tokens a step of the reference model
BATCH_EXPONENT = 0.383  # the best batch grows with the horizon to this power
REFERENCE_DEPTH = 12


@dataclass(frozen=True)
class Horizon:
    """What a cell's horizon comes to. `tokens` is what the steps really read; `target_tokens` what the ratio asked for."""

    target_tokens: int
    reference_tokens: int
    batch_tokens: int
    batch_rows: int
    steps: int

    @property
    def tokens(self) -> int:
        return self.steps * self.batch_tokens


def scaling_parameters(config: ModelConfig) -> int:
    """Parameters that a horizon's ratio counts: the blocks' matrices and the head, padding rows included."""
    counts = parameter_counts(config)
    return counts["transformer_matrices"] + counts["lm_head"]


def target_tokens(config: ModelConfig, ratio: float) -> int:
    """Tokens to train on: `ratio` for each scaling parameter."""
    return int(ratio * scaling_parameters(config))


def reference_model(vocab_size: int, aspect_ratio: int = 64, head_dim: int = 128) -> ModelConfig:
    """nanochat's model of depth 12 for this vocabulary: width depth × aspect ratio, rounded up to whole heads."""
    n_head = -(-REFERENCE_DEPTH * aspect_ratio // head_dim)
    return ModelConfig(
        vocab_size=vocab_size,
        sequence_len=2048,
        n_layer=REFERENCE_DEPTH,
        n_head=n_head,
        n_kv_head=n_head,
        n_embd=n_head * head_dim,
        window_pattern="SSSL",
        alpha=0.0,
        xsa_layers=(),
    )


def batch_law(tokens: int, reference_tokens: int) -> float:
    """The best batch, in tokens, for a horizon: 2^19 · (tokens / those of the reference)^0.383."""
    return REFERENCE_BATCH * (tokens / reference_tokens) ** BATCH_EXPONENT


def plan_horizon(horizon: HorizonSettings, config: ModelConfig, reference: ModelConfig | None = None) -> Horizon:
    """Steps and batch of a cell.

    The batch is the law's, rounded to a power of two, unless `horizon.batch_tokens` is given; the steps are those that fit
    into the ratio's tokens, unless `horizon.steps` is given, which leaves batch, rates and weight decay as the ratio has
    them. `reference` is the model that the laws are anchored at, by default nanochat's depth 12 of the same vocabulary.

    Raises UserError where a batch is not whole rows or holds more than the horizon.
    """
    tokens = target_tokens(config, horizon.ratio)
    reference_tokens = target_tokens(reference or reference_model(config.vocab_size), horizon.ratio)
    batch = horizon.batch_tokens or 2 ** round(math.log2(batch_law(tokens, reference_tokens)))
    if batch % config.sequence_len:
        origin = "horizon.batch_tokens" if horizon.batch_tokens else "the batch that follows from horizon.ratio"
        near = max(1, round(batch / config.sequence_len)) * config.sequence_len
        raise UserError(
            f"{origin} is {batch} tokens, which is not a whole number of rows of model.sequence_len = "
            f"{config.sequence_len}; set horizon.batch_tokens to {near}"
        )
    steps = horizon.steps or tokens // batch
    if steps == 0:
        raise UserError(
            f"horizon.ratio = {horizon.ratio:g} asks for {tokens} tokens, less than one batch of {batch}; raise horizon.ratio, "
            "lower horizon.batch_tokens or set horizon.steps"
        )
    return Horizon(tokens, reference_tokens, batch, batch // config.sequence_len, steps)


def rate_scale(batch_tokens: int) -> float:
    """Factor on the learning rates for a batch of this size: √(batch / 2^19)."""
    return math.sqrt(batch_tokens / REFERENCE_BATCH)


def scaled_weight_decay(weight_decay: float, horizon: Horizon) -> float:
    """Weight decay that keeps the time scale over which weights are forgotten in step with the horizon.

    weight_decay · √(batch / 2^19) · (reference tokens / target tokens); after the "T_epoch" rule of Wang & Aitchison,
    arXiv 2405.13698.
    """
    return weight_decay * rate_scale(horizon.batch_tokens) * (horizon.reference_tokens / horizon.target_tokens)


def scale_optim(optim: OptimSettings, horizon: Horizon) -> OptimStage:
    """The cell's rates and weight decay, scaled for its batch and horizon.

    The smear and backout parameters are not here: their rate is 0.2 at every scale.
    """
    scale = rate_scale(horizon.batch_tokens)
    return OptimStage(
        matrix=optim.matrix,
        version=optim.version,
        matrix_lr=optim.matrix_lr * scale,
        embedding_lr=optim.embedding_lr * scale,
        unembedding_lr=optim.unembedding_lr * scale,
        scalar_lr=optim.scalar_lr * scale,
        weight_decay=scaled_weight_decay(optim.weight_decay, horizon),
    )
