"""The decoder in plain PyTorch, written from its description: what the C++ model is compared with."""

import math

import ssa_attention
import torch
from eager import eager_attention
from torch.nn import functional


def score_values(model: dict, layer: int, weights: dict) -> list[torch.Tensor]:
    """The score's parameters from the stored weights, by the words of the option `parametrisation`."""
    values = []
    for param in ssa_attention.scores()[model["score"]].params:
        stored = weights[f"h.{layer}.attn.score_{param.name}"]
        if param.module_lower == -math.inf:  # any number, stored as it is
            values.append(stored)
            continue
        values.append(
            {
                "softplus": lambda w, lower=param.module_lower: lower + torch.logaddexp(w, torch.zeros_like(w)),
                "exp": torch.exp,
                "raw": lambda w: w,
            }[model["parametrisation"]](stored)
        )
    return values


def turned(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions: dimensions (i, i + D/2) as a complex number times e^(i·position·10000^(−2i/D))."""
    length, half = x.shape[2], x.shape[3] // 2
    frequency = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], -1)


def plain_decoder(model: dict, weights: dict, inputs: torch.Tensor) -> torch.Tensor:
    """(batch, tokens, 1) -> (batch, tokens, 1) for every option of [model]."""
    batch, length, _ = inputs.shape
    heads, kv_heads = model["heads"], model["kv_heads"] or model["heads"]
    head_dim = model["width"] // heads

    def linear(x, name):
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def norm(x, name):
        if model["norm"] == "none":
            return x
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)
        return centred / torch.sqrt(variance + 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def attention(x, layer):
        parts = linear(x, f"h.{layer}.attn.c_attn").split(
            [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim], -1
        )
        query, key, value = (part.view(batch, length, -1, head_dim).transpose(1, 2) for part in parts)
        if model["positions"] == "rope":
            query, key = turned(query), turned(key)
        params = [value.expand(heads) for value in score_values(model, layer, weights)]
        out, _ = eager_attention(query, key, value, score=model["score"], params=params, causal=model["causal"])
        return linear(out.transpose(1, 2).reshape(batch, length, -1), f"h.{layer}.attn.c_proj")

    def mlp(x, layer):
        x = linear(x, f"h.{layer}.mlp.c_fc")
        if model["activation"] == "gelu":
            x = 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
        else:
            x = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        return linear(x, f"h.{layer}.mlp.c_proj")

    def around(x, part, name, layer):
        before = model["norm_place"] == "before"
        y = part(norm(x, name) if before else x, layer)
        y = x + y if model["residual"] else y
        return y if before else norm(y, name)

    hidden = linear(inputs, "read_in")
    if model["positions"] == "learned":
        hidden = hidden + weights["wpe.weight"][:length]
    for layer in range(model["layers"]):
        hidden = around(hidden, attention, f"h.{layer}.ln_1", layer)
        if model["mlp"]:
            hidden = around(hidden, mlp, f"h.{layer}.ln_2", layer)
    return linear(norm(hidden, "ln_f") if model["norm_place"] == "before" else hidden, "read_out")


def task_loss(task: str, output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    predictions = output[:, ::2, 0]
    if task == "icl-linear":
        return ((predictions - targets) ** 2).mean()
    return functional.binary_cross_entropy_with_logits(predictions, (targets + 1) / 2)
