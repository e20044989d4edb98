"""Hugging Face's models with any scoring function, on given weights: what the C++ models are compared with."""

import ssa_attention
import torch
from eager import eager_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

_RUNNING: dict = {}  # of the model that runs: its score, and by layer its parameters


def _decoder(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **_):
    """Attention of any score, without a window; Nemotron's own softmax is of float32 whatever the model is."""
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    score, params = _RUNNING["score"], _RUNNING[module.layer_idx]
    out, _ = eager_attention(query, key, value, score=score, params=params, causal=True)
    return out.transpose(1, 2), None


def _encoder(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **_):
    """Attention of another score, with the mask that the class makes for its own."""
    score, params = _RUNNING["score"], _RUNNING[module.layer_idx]
    out, _ = eager_attention(query, key, value, score=score, params=params, mask=attention_mask == 0, scale=scaling)
    return out.transpose(1, 2), None


AttentionInterface.register("scored-decoder", _decoder)
AttentionInterface.register("scored-encoder", _encoder)
AttentionMaskInterface.register("scored-encoder", eager_mask)


def _score_params(score: str, weights: dict, prefix: str) -> list[torch.Tensor]:
    values = []
    for param in ssa_attention.scores()[score].params:
        stored = weights[f"{prefix}.score_{param.name}"]
        values.append(param.module_lower + torch.logaddexp(stored, torch.zeros_like(stored)))
    return values


def token_ids(inputs) -> dict:
    return {"input_ids": inputs}


def forward_of(model, score: str, prefix: str, inputs_of=token_ids):
    """forward(weights, inputs) through the class; `prefix`, with {} for the layer, is that of the names of its score's
    parameters among the weights, inputs_of(inputs) what its forward takes."""

    def forward(weights, inputs):
        model.to(next(iter(weights.values())).dtype)
        layers = range(model.config.num_hidden_layers)
        _RUNNING.update({"score": score} | {k: _score_params(score, weights, prefix.format(k)) for k in layers})
        inner = {name: weight for name, weight in weights.items() if ".score_" not in name}
        return torch.func.functional_call(model, inner, kwargs=inputs_of(inputs), tie_weights=True).logits

    return forward
