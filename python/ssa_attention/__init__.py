"""Attention with interchangeable scoring functions, first of all Scaled Signed Averaging (arXiv 2508.14685).

    import torch, ssa_attention
    q = k = v = torch.randn(2, 8, 128, 64)
    out = ssa_attention.attention(q, k, v, score="ssa", causal=True)

`attention` is the operator, `ssa_attention.nn` has modules that own trainable score parameters, `ssa_attention.hf`
puts them into the models of Hugging Face (import it by itself: it needs transformers),
`scores()` lists the scoring functions. Import needs the torch that the library was built against.
"""

# First of all, for it says in one sentence what is wrong with torch.
from ._load import TORCH_VERSION, __version__

# isort: split
from . import nn, triton
from .operator import (
    ScoreInfo,
    ScoreParameter,
    attention,
    attention_weights,
    last_attention_path,
    last_dropout_seed,
    merge,
    scores,
)

__all__ = [
    "TORCH_VERSION",
    "ScoreInfo",
    "ScoreParameter",
    "__version__",
    "attention",
    "attention_weights",
    "last_attention_path",
    "last_dropout_seed",
    "merge",
    "nn",
    "scores",
]

if triton.is_available():
    triton.register()
