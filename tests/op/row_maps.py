"""The scoring functions of whole rows and cosFormer from the formulas of their papers, on dense tensors, for
autograd: in float64 the truth, in float32 the yardstick of error. Only first derivatives are right."""

import math

import torch


def weights(name, scores, hidden, params=()):
    """(batch, heads, rows, keys) -> the same. hidden: bool, broadcasts to scores; params: (1, heads or 1, 1, 1)."""
    hidden = hidden.expand_as(scores)
    empty = hidden.all(-1, keepdim=True)
    # Rows that see nothing are computed as if they saw everything, then dropped: no 0/0 for autograd.
    visible = ~hidden | empty
    result = ROW_MAPS[name](scores.masked_fill(hidden, 0), visible, *params)
    return result.masked_fill(hidden, 0)


def row_maximum(scores, visible):
    return scores.masked_fill(~visible, -math.inf).amax(-1, keepdim=True)


def softmax(scores, visible):
    return torch.softmax(scores.masked_fill(~visible, -math.inf), -1)


def sparsemax(scores, visible):
    """arXiv 1602.02068, algorithm 1: max(z - tau, 0)."""
    z = (scores - row_maximum(scores, visible).detach()).masked_fill(~visible, -1e4)
    ordered = z.sort(-1, descending=True).values
    rank = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype)
    cumulated = ordered.cumsum(-1)
    size = (1 + rank * ordered > cumulated).sum(-1, keepdim=True)
    tau = (cumulated.gather(-1, size - 1) - 1) / size
    return (z - tau).clamp(min=0)


def entmax15(scores, visible):
    """arXiv 1905.05702, algorithm 2: max(z/2 - tau, 0)^2."""
    z = (scores - row_maximum(scores, visible).detach()).masked_fill(~visible, -1e4) / 2
    ordered = z.sort(-1, descending=True).values
    rank = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype)
    mean = ordered.cumsum(-1) / rank
    spread = rank * ((ordered**2).cumsum(-1) / rank - mean**2)
    outside = spread > 1  # sqrt would have an infinite derivative at 0
    tau = mean - ((1 - spread).masked_fill(outside, 1) / rank).sqrt()
    size = ((tau <= ordered) & ~outside).sum(-1, keepdim=True)
    return (z - tau.gather(-1, size - 1)).clamp(min=0) ** 2


def entmax(scores, visible, alpha):
    """arXiv 1905.05702, equation 10, and arXiv 1909.00015: max((alpha-1) s - tau, 0)^(1/(alpha-1)), by bisection."""
    z = (alpha - 1) * (scores - row_maximum(scores, visible).detach())
    count = visible.sum(-1, keepdim=True).to(z.dtype)

    def powers(tau):
        base = z - tau
        support = visible & (base > 0)
        return base.masked_fill(~support, 1) ** (1 / (alpha - 1)) * support

    with torch.no_grad():
        low, high = -torch.ones_like(count), -(count ** (1 - alpha))
        for _ in range(64):
            tau = (low + high) / 2
            above = powers(tau).sum(-1, keepdim=True) >= 1
            low, high = torch.where(above, tau, low), torch.where(above, high, tau)
        tau = low
        base = z - tau
        support = visible & (base > 0)
        slope = base.masked_fill(~support, 1) ** (1 / (alpha - 1) - 1) * support / (alpha - 1)
        slope = slope.sum(-1, keepdim=True)
    # One step of Newton: hardly moves tau, but carries its derivatives by the theorem of implicit functions.
    tau = tau + (powers(tau).sum(-1, keepdim=True) - 1) / slope
    result = powers(tau)
    return result / result.sum(-1, keepdim=True)


def sa_softmax(scores, visible):
    """arXiv 2502.18277: s softmax(s)."""
    return scores * softmax(scores, visible)


def sa_softmax_normalised(scores, visible):
    """arXiv 2502.18277: (s - min(s_min, 0)) / (max(0, s_max) - min(s_min, 0)) softmax(s); rows of zeros are 0."""
    low = scores.masked_fill(~visible, math.inf).amin(-1, keepdim=True).clamp(max=0)
    high = row_maximum(scores, visible).clamp(min=0)
    zeros = high == low
    ratio = (scores - low) / (high - low).masked_fill(zeros, 1)
    return (ratio * softmax(scores, visible)).masked_fill(zeros, 0)


def sigmoid(scores, visible, beta):
    """arXiv 2409.04431: 1 / (1 + exp(-(s + beta - log N))) with N visible keys."""
    count = visible.sum(-1, keepdim=True).to(scores.dtype)
    return torch.sigmoid(scores + beta - count.log())


ROW_MAPS = {
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "entmax": entmax,
    "sa-softmax": sa_softmax,
    "sa-softmax-normalised": sa_softmax_normalised,
    "sigmoid": sigmoid,
}


def cosformer_weights(query, key, key_lengths, causal, m, eps=1e-6):
    """arXiv 2202.08791: relu(q)·relu(k) cos(pi/2 (i - j)/m) over its sum, (batch, query heads, rows, keys)."""
    rows, keys = query.shape[2], key.shape[2]
    distance = torch.arange(keys - rows, keys).unsqueeze(-1) - torch.arange(keys)
    hidden = (distance < 0) & causal
    if key_lengths is not None:
        hidden = hidden | (torch.arange(keys) >= key_lengths.view(-1, 1, 1, 1))
        key = key.masked_fill((torch.arange(keys) >= key_lengths.view(-1, 1, 1)).unsqueeze(-1), 0)
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    scores = torch.relu(query) @ torch.relu(key).transpose(2, 3)
    scores = scores * torch.cos(math.pi / 2 * distance.double() / m).to(query.dtype)
    scores = scores.masked_fill(hidden, 0)
    return scores / scores.sum(-1, keepdim=True).clamp(min=eps)


def cosformer(query, key, value, key_lengths, causal, m):
    """The weights times the values, (batch, query heads, rows, value dimension)."""
    if key_lengths is not None:
        past = torch.arange(key.shape[2]) >= key_lengths.view(-1, 1, 1)
        value = value.masked_fill(past.unsqueeze(-1), 0)
    value = value.repeat_interleave(query.shape[1] // key.shape[1], 1)
    return cosformer_weights(query, key, key_lengths, causal, m) @ value
