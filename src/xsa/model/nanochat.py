"""The nanochat transformer, with exclusive attention in the layers that the configuration names.

What sets it apart from a plain GPT: no biases and no learnt norms, rotary positions with q and k normalised after, relu² in
the MLP, embeddings and head untied, the embedded input mixed into every layer, each token smeared with its predecessor, part
of the middle of the network backed out at its end, and value embeddings on every other layer. Parameter names are nanochat's,
so that its weights load as they are.

Axes: B rows, T tokens, S positions that may be seen, D width, H query heads, G key/value heads, K channels of a head,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xsa.model.attention import Attention, Observe, window_mask
from xsa.model.cache import KVCache
from xsa.model.init import initialise
from xsa.model.linear import Linear
from xsa.model.norm import rms_norm
from xsa.model.packed import Packed
from xsa.model.rotary import rotary_table
from xsa.study.architecture import ModelConfig

SOFTCAP = 15.0
SMEAR_CHANNELS = 24  # channels of the embedding that the smear's gate reads
IGNORED = -1  # a target that carries no loss


class MLP(nn.Module):
    """relu² network of four times the width."""

    def __init__(self, config: ModelConfig, dtype: torch.dtype):
        super().__init__()
        self.c_fc = Linear(config.n_embd, 4 * config.n_embd, dtype)
        self.c_proj = Linear(4 * config.n_embd, config.n_embd, dtype)

    def forward(self, h_BTD: Tensor) -> Tensor:
        r = F.relu(self.c_fc(h_BTD))
        return self.c_proj(r * r)


class Block(nn.Module):
    """Attention and MLP, each added to the stream after a norm of its input."""

    def __init__(self, config: ModelConfig, layer: int, explicit: bool, dtype: torch.dtype):
        super().__init__()
        self.attn = Attention(config, layer, explicit, dtype)
        self.mlp = MLP(config, dtype)

    def forward(self, x_BTD: Tensor, *args, asked: Tensor | None = None, **kwargs) -> Tensor:
        own_BTD = x_BTD if asked is None else x_BTD[:, asked]
        x_BTD = own_BTD + self.attn(rms_norm(x_BTD), *args, asked=asked, **kwargs)
        return x_BTD + self.mlp(rms_norm(x_BTD))


class Embedding(nn.Embedding):
    """A table kept in the compute dtype, which saves half its memory in bfloat16."""

    def __init__(self, config: ModelConfig, width: int, dtype: torch.dtype):
        super().__init__(config.padded_vocab, width, dtype=dtype)

    def reset_parameters(self) -> None:
        """Nothing: `NanoChat.init_weights` draws every parameter, and a first draw here would be thrown away."""


class NanoChat(nn.Module):
    """A model of the given configuration, computing in `dtype` (float32, bfloat16; float64 for checks).

    Its parameters hold no values yet: call `init_weights` or load some. `explicit` runs the exclusive projection where its
    strength is 0 too, which must change nothing but rounding.
    """

    def __init__(self, config: ModelConfig, dtype: torch.dtype = torch.float32, explicit: bool = False):
        super().__init__()
        self.config = config
        self.compute_dtype = dtype
        master = torch.promote_types(dtype, torch.float32)
        kv = config.n_kv_head * config.head_dim
        self.resid_lambdas = nn.Parameter(torch.empty(config.n_layer, dtype=master))
        self.x0_lambdas = nn.Parameter(torch.empty(config.n_layer, dtype=master))
        self.smear_lambda = nn.Parameter(torch.empty(1, dtype=master))
        self.backout_lambda = nn.Parameter(torch.empty(1, dtype=master))
        blocks = [Block(config, layer, explicit, dtype) for layer in range(config.n_layer)]
        self.transformer = nn.ModuleDict({"wte": Embedding(config, config.n_embd, dtype), "h": nn.ModuleList(blocks)})
        self.lm_head = Linear(config.n_embd, config.padded_vocab, dtype)
        self.smear_gate = Linear(SMEAR_CHANNELS, 1, dtype)
        layers = [layer for layer in range(config.n_layer) if config.has_value_embedding(layer)]
        self.value_embeds = nn.ModuleDict({str(layer): Embedding(config, kv, dtype) for layer in layers})
        self._masks: dict[tuple, Tensor] = {}
        self._set_rotary(config.sequence_len)

    def _set_rotary(self, length: int) -> None:
        cos, sin = rotary_table(length, self.config.head_dim, self.resid_lambdas.device)
        self.register_buffer("rotary_cos", cos.to(self.compute_dtype), persistent=False)
        self.register_buffer("rotary_sin", sin.to(self.compute_dtype), persistent=False)

    def to_empty(self, **kwargs) -> NanoChat:
        """As for any module, but the tables of the rotary positions are made again: they are not in a checkpoint."""
        super().to_empty(**kwargs)
        self._set_rotary(self.config.sequence_len)
        return self

    def init_weights(self, seed: int) -> None:
        """Set every parameter from this seed alone (`xsa.model.init`)."""
        initialise(self, seed)

    def forward(
        self,
        tokens_BT: Tensor,
        targets_BT: Tensor | None = None,
        reduction: str = "mean",
        cache: KVCache | None = None,
    ) -> Tensor:
        """Float32 logits (B, T, V), or with targets the cross-entropy in nats.

        reduction: "mean" over the targets other than −1 (0 where there are none), "sum" of theirs, or "none", which gives
        (B, T) with 0 at the targets that are −1.
        """
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction is {reduction!r}; it is mean, sum or none")
        logits_BTV = self.logits(self.hidden(tokens_BT, cache=cache))
        if targets_BT is None:
            return logits_BTV
        summed = "none" if reduction == "none" else "sum"
        targets = targets_BT.reshape(-1)
        loss = F.cross_entropy(logits_BTV.flatten(0, 1), targets, ignore_index=IGNORED, reduction=summed)
        if reduction == "none":
            return loss.view_as(targets_BT)
        return loss / (targets != IGNORED).sum().clamp_min(1) if reduction == "mean" else loss

    def logits(self, h_D: Tensor) -> Tensor:
        """Logits over the vocabulary, (…, V) for `hidden`'s output at any positions, (…, D).

        15 · tanh(x / 15) keeps them within ±15; that is done in float32 (float64 in a float64 model).
        """
        x = self.lm_head(h_D)[..., : self.config.vocab_size]
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        return SOFTCAP * torch.tanh(x / SOFTCAP)

    def hidden(
        self,
        tokens_BT: Tensor,
        cache: KVCache | None = None,
        lengths: Sequence[int] | Tensor | None = None,
        observe: Observe | None = None,
        packed: Packed | None = None,
    ) -> Tensor:
        """The stream after its last norm, (B, T, D), which `logits` turns into logits.

        cache: the tokens follow those that each row of it holds, and are added to it. lengths: the tokens of each row that
        count, the rest being padding on the right (what comes out there means nothing). observe(layer, q, k, v, y, z) is
        called in each layer, eagerly, with q and k as the softmax sees them, v as attended to, and attention's output before
        and after the exclusive projection. packed: how the tokens hang together, where they are no plain rows; what comes
        out is (1, A, D), the tokens that it asks for.
        """
        past = _Past(cache, tokens_BT, lengths, packed)
        x_BTD = x0_BTD = self._embed(tokens_BT, past)
        rotary = self._rotary(past)
        masks: dict[int, Tensor | None] = {}
        middle_BTD = None
        for layer, block in enumerate(self.transformer.h):
            x_BTD = self.resid_lambdas[layer] * x_BTD + self.x0_lambdas[layer] * x0_BTD
            key = str(layer)
            value_BTC = self.value_embeds[key](tokens_BT) if key in self.value_embeds else None
            window = block.attn.window
            if window not in masks and packed is None:
                masks[window] = self._mask(window, past)
            seen, mask = past.seen(window), masks.get(window)
            asked = packed.asked_A if packed is not None and layer == self.config.n_layer - 1 else None
            if asked is not None and middle_BTD is not None:
                middle_BTD = middle_BTD[:, asked]
            x_BTD = block(
                x_BTD, value_BTC, rotary, mask, cache, past.positions_BT, seen, observe, packed=packed, asked=asked
            )
            if layer == self.config.n_layer // 2:
                middle_BTD = x_BTD
        if cache is not None:
            cache.advance(tokens_BT, past.positions_BT, past.lengths)
        return rms_norm(x_BTD - self.backout_lambda.to(x_BTD.dtype) * middle_BTD)

    def _embed(self, tokens_BT: Tensor, past: _Past) -> Tensor:
        """Normalised embeddings, each smeared with that of the token before it."""
        if past.cache is None:
            e_BTD = rms_norm(self.transformer.wte(tokens_BT))
            if past.packed is None:
                before_BTD = F.pad(e_BTD[:, :-1], (0, 0, 1, 0))
            else:
                before_BTD = F.pad(e_BTD, (0, 0, 1, 0))[:, past.packed.before_N + 1]
        else:
            both = rms_norm(self.transformer.wte(torch.cat((past.cache.last_token(), tokens_BT), dim=1)))
            e_BTD, before_BTD = both[:, 1:], both[:, :-1].clone()
            before_BTD[:, 0] *= (past.cache.lengths_B > 0)[:, None]
        gate_BT1 = self.smear_lambda.to(e_BTD.dtype) * torch.sigmoid(self.smear_gate(e_BTD[..., :SMEAR_CHANNELS]))
        return e_BTD + gate_BT1 * before_BTD

    def _rotary(self, past: _Past) -> tuple[Tensor, Tensor]:
        if past.stop > self.rotary_cos.size(0):
            self._set_rotary(max(past.stop, 2 * self.rotary_cos.size(0)))
        if past.positions_BT is None:
            return self.rotary_cos[: past.stop, None], self.rotary_sin[: past.stop, None]
        return self.rotary_cos[past.positions_BT].unsqueeze(2), self.rotary_sin[past.positions_BT].unsqueeze(2)

    def _mask(self, window: int, past: _Past) -> Tensor | None:
        """What a layer of this window sees: None for all earlier tokens, else True where it looks."""
        device = self.resid_lambdas.device
        seen = past.seen(window)
        if seen is not None:
            keys = torch.arange(seen.start, seen.stop, device=device)
            return window_mask(past.positions_BT, keys, window).unsqueeze(1)
        n = past.n_tokens
        if window >= n - 1:
            return None
        if torch.compiler.is_compiling():
            at = torch.arange(n, device=device)
            return window_mask(at, at, window)
        if (n, window, device) not in self._masks:
            at = torch.arange(n, device=device)
            self._masks = {(n, window, device): window_mask(at, at, window)}
        return self._masks[n, window, device]


class _Past:
    """Where the tokens of one call stand: at the start, after those in a cache, or in trees."""

    def __init__(
        self,
        cache: KVCache | None,
        tokens_BT: Tensor,
        lengths: Sequence[int] | Tensor | None,
        packed: Packed | None = None,
    ):
        self.cache, self.packed = cache, packed
        self.n_tokens = self.stop = tokens_BT.size(1)
        self.positions_BT = self.lengths = None
        self.start, self.fresh = 0, True
        if cache is None:
            if lengths is not None:
                raise ValueError("lengths say what a cache keeps; without one, padding on the right needs no mention")
            if packed is not None:
                self.stop, self.positions_BT = packed.longest, packed.positions_N[None]
            return
        if tokens_BT.size(0) != cache.batch:
            raise ValueError(f"{tokens_BT.size(0)} rows of tokens for a cache of {cache.batch} rows")
        if lengths is not None:
            self.lengths = [int(n) for n in lengths]
            if len(self.lengths) != cache.batch or not all(0 <= n <= self.n_tokens for n in self.lengths):
                raise ValueError(f"lengths {self.lengths} do not fit {cache.batch} rows of {self.n_tokens} tokens")
        cache.reserve(self.n_tokens, self.lengths)
        self.start, self.stop = cache.shortest, cache.longest + self.n_tokens
        self.fresh = cache.longest == 0
        self.positions_BT = cache.positions(self.n_tokens)

    def seen(self, window: int) -> range | None:
        """Positions of the cache that a layer of this window may see, or None where only the new tokens exist."""
        return None if self.fresh else range(max(0, self.start - window), self.stop)
