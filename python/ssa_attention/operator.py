"""The operator ssa::attention and what can be asked about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor

from . import _load  # noqa: F401  (registers torch.ops.ssa)
from .counted import counted

Kernel = Literal["auto", "fused", "composed"]
ParamValue = float | Tensor


@dataclass(frozen=True)
class ScoreParameter:
    """One parameter of a scoring function: one value per query head, or one for all."""

    name: str
    initial: float
    """Value when the caller gives none."""
    above: float
    """The function is defined for finite values above this; -inf: for any finite value."""
    module_lower: float
    """A trained module keeps the value above this; -inf: it trains the value as it is."""
    trained: bool
    """Whether a module trains it unless told otherwise."""
    help: str


@dataclass(frozen=True)
class ScoreInfo:
    """A scoring function."""

    name: str
    family: Literal["phi", "row map", "linear"]
    """phi: weights are softmax(φ(s)) over the visible keys; row map: a function of the whole row of scores;
    linear: no scores at all, time linear in the length. Only phi has a normaliser (lse) and fused kernels."""
    formula: str
    """φ(s), or the weights of the other families; N is the number of keys that the row sees."""
    sink: str
    """x of an extra term e^x of the normaliser, "" without one."""
    help: str
    params: tuple[ScoreParameter, ...]


def _read_score(name: str) -> ScoreInfo:
    family, formula, sink, text, *columns = torch.ops.ssa.score_facts(name)
    return ScoreInfo(name, family, formula, sink, text, tuple(map(ScoreParameter, *columns)))


# Read at import, so that torch.compile meets plain values.
_SCORES: Mapping[str, ScoreInfo] = MappingProxyType({name: _read_score(name) for name in torch.ops.ssa.scores()})


def scores() -> Mapping[str, ScoreInfo]:
    """Every scoring function by name, in the order of the library's own list."""
    return _SCORES


def find_score(name: str) -> ScoreInfo:
    if name not in _SCORES:
        raise ValueError(f"score {name!r} is unknown; known scores: {', '.join(_SCORES)}")
    return _SCORES[name]


def _resolve_params(
    score: str,
    params: Sequence[ParamValue] | Mapping[str, ParamValue] | None,
    named: Mapping[str, ParamValue | None],
    query: Tensor,
) -> list[Tensor]:
    """The score's parameters as tensors in its order; where nothing is given, the initial values."""
    info = find_score(score)
    names = [param.name for param in info.params]
    given = {name: value for name, value in named.items() if value is not None}
    if params is not None:
        if not isinstance(params, Mapping):
            if len(params) != len(names):
                raise ValueError(f"score {score!r} has the params {names}, got {counted(len(params), 'value')}")
            params = dict(zip(names, params, strict=True))
        if twice := given.keys() & params.keys():
            raise ValueError(f"{', '.join(sorted(twice))} given twice: as an argument and in params")
        given |= params
    if unknown := [name for name in given if name not in names]:
        raise ValueError(f"score {score!r} has the params {names}, not {', '.join(unknown)}")
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    values = [given.get(param.name, param.initial) for param in info.params]
    return [
        value if isinstance(value, Tensor) else torch.full((1,), value, dtype=dtype, device=query.device)
        for value in values
    ]


def _resolve_scale(query: Tensor, scale: float | Tensor | None) -> tuple[Tensor, float | None]:
    """The operator's scale is a number. The gradient of a tensor goes by way of query, which it multiplies as
    scale / scale.detach(), a 1 that leaves every digit as it is."""
    if not isinstance(scale, Tensor):
        return query, scale
    if scale.numel() != 1 or not scale.dtype.is_floating_point:
        raise ValueError(
            f"scale must be a number or a floating-point tensor of one element, got {scale.dtype} of shape "
            f"{list(scale.shape)}; a scale per head multiplies query"
        )
    needs_gradient = scale.requires_grad and torch.is_grad_enabled()
    # Multiplied in the type of the scale or in that of query, whichever has more digits, so that its gradient, a sum
    # over query, has them too.
    wide = torch.promote_types(torch.promote_types(query.dtype, scale.dtype), torch.float32)
    if torch.compiler.is_compiling():  # its value is not known while a graph is made
        return (query.to(wide) * scale.reshape(()).to(wide)).to(query.dtype), 1.0
    number = float(scale.detach())
    if not needs_gradient:
        return query, number
    if number == 0:
        return (query.to(wide) * scale.reshape(()).to(wide)).to(query.dtype), 1.0
    one = (scale / scale.detach()).reshape(()).to(wide)
    return (query.to(wide) * one).to(query.dtype), number


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: str = "ssa",
    n: ParamValue | None = None,
    b: ParamValue | None = None,
    params: Sequence[ParamValue] | Mapping[str, ParamValue] | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    key_lengths: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    alibi_slopes: Tensor | None = None,
    cu_query: Tensor | None = None,
    cu_key: Tensor | None = None,
    scale: float | Tensor | None = None,
    dropout: float = 0.0,
    seed: int | Tensor | None = None,
    kernel: Kernel = "auto",
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention whose weights are softmax(φ(s)), s = scale · query·keyᵀ + bias.

    With B = batch, H_q = query heads, H_kv = key heads (H_q a multiple of H_kv; query head h reads key
    head h // (H_q // H_kv)), T_q and T_k = lengths, D and D_v = head dimensions:

    Args:
        query: (B, H_q, T_q, D), float32, bfloat16, float16 or float64, any strides.
        key: (B, H_kv, T_k, D), query's dtype.
        value: (B, H_kv, T_k, D_v), query's dtype.
        score: a name from `scores()`; "ssa" is φ(s) = sgn(s)·n·log(1 + b·|s|) (arXiv 2508.14685).
        n, b: SSA's parameters, > 0, (H_q) or (1), float32 (float64 with float64 inputs), or a number.
            None means the initial value that `scores()` states. They have gradients.
        params: the parameters of any score, in its order or by name; an alternative to `n` and `b`.
        mask: bool, True = may attend; 2 to 4 dimensions, broadcasts to (B, H_q, T_q, T_k).
        bias: finite values are added to s before φ, -inf excludes; shape as `mask`, dtype as `n`.
            Its gradient is summed over the dimensions that broadcast.
        key_lengths: int64 (B); batch row i has only keys 0 … key_lengths[i] - 1 (padding).
        causal: query i sees key j only if j <= i' = i + T_k - T_q (aligned at the bottom right).
        window: query i sees key j only if i' - j < window and, without `causal`, j - i' < window; at
            least 1, None = no limit. Time grows with T_q · window.
        alibi_slopes: (H_q) or (1), dtype as `n`, without gradient; slope · |i' - j| is taken from s before φ
            (ALiBi, arXiv 2108.12409). Under SSA a weight so falls like a power of the distance.
        cu_query, cu_key: int64 or int32 (N + 1), cumulative lengths of N sequences packed into a batch of 1:
            sequence s has queries cu_query[s] … cu_query[s + 1] - 1, which see keys cu_key[s] …
            cu_key[s + 1] - 1 only, and all positions count from its start. Both or neither; not together
            with `mask`, `bias` or `key_lengths`.
        scale: default 1/sqrt(D). A number, or a tensor of one element, which may have a gradient.
        dropout: probability in [0, 1) with which each weight is set to 0; the others are divided by
            1 - dropout. Which ones depends on `seed` and the indices alone (docs/operator.md).
        seed: of the dropout: a number, or an int64 tensor of one number on the CPU or on query's device, which
            may change from call to call without torch.compile compiling again. None draws one from the
            generator of query's device, in a compiled graph anew at every run; see `last_dropout_seed`.
        kernel: "fused" (φ family, not float64; on the CPU, or on CUDA by Triton with head dimensions up to
            256) or "composed" (anything else), an error where it cannot be had; "auto" takes the fused one
            where it can.
        return_lse: also return the logarithm of the normaliser, which is differentiable.

    Returns:
        out (B, H_q, T_q, D_v) in query's dtype, and with `return_lse` lse (B, H_q, T_q) in float32
        (float64 for float64). A query that sees no key has out 0, lse -inf and zero gradients.

    Raises:
        ValueError, TypeError: naming the argument, its shape or dtype, and what would be right. Values of
            tensors that are not on the CPU are checked only where the environment variable SSA_CHECK_VALUES is
            1: reading them waits for the device.
        NotImplementedError: for a second derivative.
    """
    resolved = _resolve_params(score, params, {"n": n, "b": b}, query)
    query, scale = _resolve_scale(query, scale)
    if seed is not None and not isinstance(seed, Tensor):
        seed = torch.full((), seed, dtype=torch.int64, device=query.device)
    out, lse = torch.ops.ssa.attention(
        query, key, value, score, resolved, mask, bias, key_lengths, causal, scale, dropout, seed, kernel,
        window, alibi_slopes, cu_query, cu_key,
    )  # fmt: skip
    return (out, lse) if return_lse else out


def attention_weights(
    query: Tensor,
    key: Tensor,
    *,
    score: str = "ssa",
    n: ParamValue | None = None,
    b: ParamValue | None = None,
    params: Sequence[ParamValue] | Mapping[str, ParamValue] | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    key_lengths: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    alibi_slopes: Tensor | None = None,
    scale: float | Tensor | None = None,
) -> Tensor:
    """The weights themselves, (B, H_q, T_q, T_k), float32 (float64 for float64), without gradient.

    For statistics and plots: unlike `attention` this holds all B·H_q·T_q·T_k of them in memory.
    Arguments as in `attention`. Rows sum to 1; a row that sees no key is 0.
    """
    resolved = _resolve_params(score, params, {"n": n, "b": b}, query)
    if isinstance(scale, Tensor):
        query, scale = _resolve_scale(query, scale.detach())
    return torch.ops.ssa.attention_weights(
        query, key, score, resolved, mask, bias, key_lengths, causal, scale, window, alibi_slopes
    )


def merge(
    out: Sequence[Tensor],
    lse: Sequence[Tensor],
    *,
    score: str = "ssa",
    params: Sequence[ParamValue] | Mapping[str, ParamValue] | None = None,
) -> tuple[Tensor, Tensor]:
    """The result over all keys, from results over disjoint sets of them (`attention(…, return_lse=True)`).

        lse = log Σ_k exp(lse[k]),   out = Σ_k exp(lse[k] - lse)·out[k]

    Args:
        out: one tensor (B, H_q, T_q, D_v) per set of keys.
        lse: one tensor (B, H_q, T_q) each. Where it is -inf, that set had no key for the query and its
            out is not read; where all are, out is 0 and lse -inf.
        score, params: as given to `attention`. softmax1 and sink have a term e^z in each part's
            normaliser (and not in lse): it is counted once, by the weights
            (exp(lse[k]) + e^z) / (exp(lse) + e^z). ssmax counts the keys of the part: give its parts
            sigma·log(N) / log(N_k) for sigma, N being the number of all keys.

    Returns:
        out and lse, differentiable in every argument.

    Raises:
        ValueError, TypeError: naming the argument, its shape or dtype, and what would be right.
    """
    if len(out) == 0:
        raise ValueError("out must have at least one tensor")
    return torch.ops.ssa.merge(out, lse, score, _resolve_params(score, params, {}, out[0]))


def last_attention_path() -> str:
    """Which path this thread's last attention took: "fused" (CPU), "triton", "composed", or "" before the first.

    Each path is also logged once per process; TORCH_CPP_LOG_LEVEL=INFO shows the line.
    """
    return torch.ops.ssa.last_attention_path()


def last_dropout_seed() -> int | None:
    """The seed of this thread's last attention with dropout, given or drawn; None before the first."""
    return torch.ops.ssa.last_dropout_seed()
