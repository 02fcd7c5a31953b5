"""What the rows of attention's softmax look like, in blocks of queries: no T×T matrix of a head is ever whole.

Axes: B rows, T tokens, Q queries of a block, S tokens that a block may see, H query heads, G key/value heads, R query heads
that share one, K channels of a head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from xsa.model.attention import window_mask

QUERY_BLOCK = 128
FACTS = ("diagonal", "first", "entropy")


def softmax_facts(q_BTHK: Tensor, k_BTGK: Tensor, window: int, block: int = QUERY_BLOCK) -> dict[str, Tensor]:
    """Of every token's attention: weight on itself, weight on the row's first token, entropy in nats; each (B, T, H), float32.

    a_ij = exp(s_ij − log Σ_j exp(s_ij)) with s_ij = q_i·k_j/√K over the tokens j with 0 <= i − j <= window, where q and k are
    those that the softmax sees. The entropy is −Σ_j a_ij·log a_ij. A first token out of sight has weight 0.
    """
    B, T, H, K = q_BTHK.shape
    G = k_BTGK.size(2)
    q_BGRTK = q_BTHK.float().view(B, T, G, H // G, K).permute(0, 2, 3, 1, 4) / math.sqrt(K)
    k_BG1KT = k_BTGK.float().permute(0, 2, 3, 1).unsqueeze(2)
    facts = {name: q_BGRTK.new_zeros(B, G, H // G, T) for name in FACTS}
    at = torch.arange(T, device=q_BTHK.device)
    for start in range(0, T, block):
        stop, first = min(start + block, T), max(0, start - window)
        hidden_QS = ~window_mask(at[start:stop], at[first:stop], window)
        scores_BGRQS = q_BGRTK[..., start:stop, :] @ k_BG1KT[..., first:stop]
        scores_BGRQS.masked_fill_(hidden_QS, -math.inf)
        logs_BGRQS = scores_BGRQS.sub_(scores_BGRQS.logsumexp(-1, keepdim=True))
        facts["diagonal"][..., start:stop] = logs_BGRQS.diagonal(offset=start - first, dim1=-2, dim2=-1).exp()
        if first == 0:
            facts["first"][..., start:stop] = logs_BGRQS[..., 0].exp()
        weights_BGRQS = logs_BGRQS.exp()
        # what is hidden has weight 0 and the logarithm −∞; their product is to be 0
        facts["entropy"][..., start:stop] = -weights_BGRQS.mul_(logs_BGRQS.masked_fill_(hidden_QS, 0)).sum(-1)
    return {name: fact.flatten(1, 2).transpose(1, 2) for name, fact in facts.items()}


def uniform_facts(tokens: int, window: int) -> dict[str, Tensor]:
    """The same of attention that is even over what a token sees, (T,), float64: 1/n, 1/n while the first is seen, log n."""
    at = torch.arange(tokens, dtype=torch.float64)
    seen = (at + 1).clamp(max=window + 1)
    return {"diagonal": 1 / seen, "first": (at <= window) / seen, "entropy": seen.log()}
