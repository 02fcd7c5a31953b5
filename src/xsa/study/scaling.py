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

REFERENCE_BATCH = 2**19  # tokens a step of the reference model
BATCH_EXPONENT = 0.383  # the best batch grows with the horizon to this power
REFERENCE_DEPTH = 12
RATE_NAMES = ("matrix_lr", "embedding_lr", "unembedding_lr", "scalar_lr")  # that the batch scales


@dataclass(frozen=True)
class Horizon:
    """What a cell's horizon comes to: steps, batch, and rates and weight decay scaled for them.

    `tokens` is what the steps really read, `target_tokens` what the ratio asked for, in whole tokens; of the reference's,
    `reference_tokens`, nanochat keeps the fraction. The smear and backout parameters are not
    here: their rate is 0.2 at every scale.
    """

    target_tokens: int
    reference_tokens: float
    batch_tokens: int
    steps: int
    matrix_lr: float
    embedding_lr: float
    unembedding_lr: float
    scalar_lr: float
    weight_decay: float

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


def batch_law(tokens: int, reference_tokens: float) -> float:
    """The best batch, in tokens, for a horizon: 2^19 · (tokens / those of the reference)^0.383."""
    return REFERENCE_BATCH * (tokens / reference_tokens) ** BATCH_EXPONENT


def rate_scale(batch_tokens: int) -> float:
    """Factor on the learning rates for a batch of this size: √(batch / 2^19)."""
    return math.sqrt(batch_tokens / REFERENCE_BATCH)


def scaled_weight_decay(initial: float, batch_tokens: int, tokens: int, reference_tokens: float) -> float:
    """Weight decay that keeps the time over which weights are forgotten in step with the horizon.

    initial · √(batch / 2^19) · (reference tokens / tokens); the time scale is that of Wang & Aitchison, arXiv 2405.13698.
    """
    return initial * rate_scale(batch_tokens) * (reference_tokens / tokens)


def horizon(
    config: ModelConfig, settings: HorizonSettings, optim: OptimSettings, reference: ModelConfig | None = None
) -> Horizon:
    """Steps, batch, rates and weight decay of a cell.

    The batch is the law's, rounded to a power of two, unless `settings.batch_tokens` is given. The steps are those that fit
    into the ratio's tokens, unless `settings.steps` is given, which leaves batch, rates and weight decay as the ratio has
    them. `reference` is the model that the rules are anchored at, by default nanochat's depth 12 of the same vocabulary.

    Raises UserError where the ratio's tokens do not fill one batch.
    """
    tokens = target_tokens(config, settings.ratio)
    reference_tokens = settings.ratio * scaling_parameters(reference or reference_model(config.vocab_size))
    batch = settings.batch_tokens or 2 ** round(math.log2(batch_law(tokens, reference_tokens)))
    steps = settings.steps or tokens // batch
    if steps == 0:
        raise UserError(
            f"horizon.ratio = {settings.ratio:g} asks for {tokens} tokens, less than one batch of {batch}; raise "
            "horizon.ratio, lower horizon.batch_tokens or set horizon.steps"
        )
    scale = rate_scale(batch)
    return Horizon(
        target_tokens=tokens,
        reference_tokens=reference_tokens,
        batch_tokens=batch,
        steps=steps,
        matrix_lr=optim.matrix_lr * scale,
        embedding_lr=optim.embedding_lr * scale,
        unembedding_lr=optim.unembedding_lr * scale,
        scalar_lr=optim.scalar_lr * scale,
        weight_decay=scaled_weight_decay(optim.weight_decay, batch, tokens, reference_tokens),
    )
