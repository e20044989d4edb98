"""SSA as its formula says it, in plain PyTorch: what the kernels are timed against."""

from __future__ import annotations

import torch


def phi(score, n, b):
    return torch.sign(score) * n * torch.log1p(b * torch.abs(score))


def attention(scores, value, n, b, hidden=(), dropout=0.0):
    """softmax(φ(scores)) · value; `hidden`: masks that are true where a pair does not take part."""
    exponents = phi(scores, n, b)
    for mask in hidden:
        exponents = exponents.masked_fill(mask, -torch.inf)
    weights = torch.softmax(exponents, -1, dtype=torch.float32)
    return torch.dropout(weights, dropout, train=dropout > 0).to(value.dtype) @ value


def future(scores):
    """True where the key stands behind the query."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)


def flex(score_mod, device: str):
    """FlexAttention, compiled: a function of query, key, value and causal."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    whole = torch.compile(flex_attention, dynamic=False)
    masks = {}

    def run(query, key, value, causal=True):
        length = query.shape[2]
        if causal and length not in masks:
            masks[length] = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device=device)
        return whole(query, key, value, score_mod=score_mod, block_mask=masks[length] if causal else None)

    return run
