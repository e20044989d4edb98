"""Modules around the operator: trainable score parameters, and a self-attention layer to drop in."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from .operator import Kernel, ScoreInfo, ScoreParameter, _find_score, attention

Parametrization = Literal["softplus", "exp", "raw"]


def _to_raw(value: float, parametrization: Parametrization, param: ScoreParameter) -> float:
    """The raw number whose effective value is `value`."""
    if parametrization == "raw" or param.module_lower == -math.inf:
        return value
    if parametrization == "exp":
        return math.log(value)
    excess = value - param.module_lower
    # Inverse of softplus: log(exp(x) - 1), written so that a large x keeps its digits.
    return excess + math.log(-math.expm1(-excess))


def _initial_weights(
    info: ScoreInfo, parametrization: Parametrization, initial: Mapping[str, float]
) -> dict[str, float]:
    """The raw number of every parameter of the score, by name, where `initial` or the score's own values begin."""
    if parametrization not in ("softplus", "exp", "raw"):
        raise ValueError(f'parametrization must be "softplus", "exp" or "raw", got {parametrization!r}')
    weights = {}
    for param in info.params:
        value = float(initial.get(param.name, param.initial))
        lower = max(param.above, param.module_lower if parametrization == "softplus" else param.above)
        if not lower < value < math.inf:
            raise ValueError(f"initial {param.name} must be > {lower:g} ({parametrization}), got {value:g}")
        weights[param.name] = _to_raw(value, parametrization, param)
    return weights


def _effective_values(owner: nn.Module, info: ScoreInfo, parametrization: Parametrization) -> list[Tensor]:
    """What the raw parameters score_NAME of a module stand for, in the order that the operator wants."""
    values = []
    for param in info.params:
        raw = getattr(owner, f"score_{param.name}")
        if param.module_lower == -math.inf:
            values.append(raw)
        elif parametrization == "softplus":
            values.append(param.module_lower + nn.functional.softplus(raw))
        elif parametrization == "exp":
            values.append(raw.exp())
        else:
            values.append(raw)
    return values


class ScoreParameters(nn.Module):
    """The parameters of a scoring function for one layer: trained raw, used as effective values.

    `softplus` (default): value = lower + softplus(raw), where lower is the score's own bound (SSA: n > 1,
    b > 0); `exp`: value = exp(raw); `raw`: value = raw, and the operator refuses a value out of range. A
    parameter that may be any number (the sink's z) is always its own raw value.

    Args:
        heads: number of query heads.
        score: a name from `ssa_attention.scores()`.
        per_head: one value per head, or one for the layer.
        parametrization: "softplus", "exp" or "raw".
        initial: effective values to start from, by parameter name (default: the score's own).
        frozen: names of parameters that are not trained; None: those the score's list does not train.

    Weight decay should leave them alone: `[p for name, p in model.named_parameters() if "score_" in name]`.
    Calling the module returns the effective values, float32, in the order that the operator wants. The raw
    values stay float32 when the model is cast to a lower precision.
    """

    def __init__(
        self,
        heads: int,
        score: str = "ssa",
        *,
        per_head: bool = True,
        parametrization: Parametrization = "softplus",
        initial: Mapping[str, float] | None = None,
        frozen: Collection[str] | None = None,
    ) -> None:
        super().__init__()
        info = _find_score(score)
        names = [param.name for param in info.params]
        if isinstance(frozen, str):
            frozen = [frozen]
        for argument, given in (("initial", initial or ()), ("frozen", frozen or ())):
            if unknown := [name for name in given if name not in names]:
                raise ValueError(f"{argument}: score {score!r} has the parameters {names}, not {unknown}")
        self.score = score
        self.parametrization: Parametrization = parametrization
        self._info = info
        weights = _initial_weights(info, parametrization, initial or {})
        for param in info.params:
            raw = torch.full((heads if per_head else 1,), weights[param.name])
            trained = param.trained if frozen is None else param.name not in frozen
            self.register_parameter(f"score_{param.name}", nn.Parameter(raw.float(), requires_grad=trained))

    def forward(self) -> list[Tensor]:
        return _effective_values(self, self._info, self.parametrization)

    @torch.no_grad()
    def values(self) -> dict[str, Tensor]:
        """Effective values by name, each (heads) or (1): what a training log should show."""
        return {param.name: value.clone() for param, value in zip(self._info.params, self(), strict=True)}

    def _apply(self, fn, recurse=True):
        # model.bfloat16() would round n and b to three digits; the operator wants them in float32.
        # A float64 model gets float64 parameters, as the operator wants with float64 inputs.
        def keep_precision(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            if moved.dtype in (torch.float32, torch.float64):
                return moved
            return tensor.to(moved.device, torch.float32)

        return super()._apply(keep_precision, recurse)

    def extra_repr(self) -> str:
        sizes = {p.name: getattr(self, f"score_{p.name}").numel() for p in self._info.params}
        return f"score={self.score!r}, parametrization={self.parametrization!r}, sizes={sizes}"


class Attention(nn.Module):
    """`ssa_attention.attention` with score parameters that the module owns.

    Takes query, key and value that are already split into heads; no projections. Arguments of the
    constructor: those of `ScoreParameters`, then `window`, `alibi_slopes` (kept as a buffer), `dropout`
    (used in training mode only; one seed is drawn per call from torch's generator) and `kernel` as in
    `ssa_attention.attention`.
    """

    def __init__(
        self,
        heads: int,
        score: str = "ssa",
        *,
        per_head: bool = True,
        parametrization: Parametrization = "softplus",
        initial: Mapping[str, float] | None = None,
        frozen: Collection[str] | None = None,
        window: int | None = None,
        alibi_slopes: Tensor | None = None,
        dropout: float = 0.0,
        kernel: Kernel = "auto",
    ) -> None:
        super().__init__()
        self.parameters_of_score = ScoreParameters(
            heads,
            score,
            per_head=per_head,
            parametrization=parametrization,
            initial=initial,
            frozen=frozen,
        )
        self.window = window
        self.register_buffer("alibi_slopes", alibi_slopes)
        self.dropout = dropout
        self.kernel: Kernel = kernel

    @property
    def score(self) -> str:
        return self.parameters_of_score.score

    def score_values(self) -> dict[str, Tensor]:
        """Effective values of the score's parameters by name."""
        return self.parameters_of_score.values()

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        key_lengths: Tensor | None = None,
        causal: bool = False,
        scale: float | None = None,
        cu_query: Tensor | None = None,
        cu_key: Tensor | None = None,
    ) -> Tensor:
        """Shapes and meaning as in `ssa_attention.attention`; returns out (B, heads, T_q, D_v)."""
        return attention(
            query,
            key,
            value,
            score=self.score,
            params=self.parameters_of_score(),
            mask=mask,
            bias=bias,
            key_lengths=key_lengths,
            causal=causal,
            window=self.window,
            alibi_slopes=self.alibi_slopes,
            cu_query=cu_query,
            cu_key=cu_key,
            scale=scale,
            dropout=self.dropout if self.training else 0.0,
            kernel=self.kernel,
        )

    def extra_repr(self) -> str:
        return f"window={self.window}, dropout={self.dropout}, kernel={self.kernel!r}"


class SelfAttention(nn.Module):
    """Multi-head self-attention: projections to query, key and value, attention, output projection.

    Args:
        width: size of the input's and output's last dimension; a multiple of `heads`.
        heads: number of query heads, each of width/heads dimensions.
        kv_heads: number of key and value heads (grouped heads); None: as many as query heads.
        causal: whether position i sees only positions up to i.
        bias: whether the projections have a bias.
        score, per_head, parametrization, initial, frozen, window, alibi_slopes, dropout, kernel: as in
            `Attention`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        causal: bool = False,
        bias: bool = True,
        score: str = "ssa",
        per_head: bool = True,
        parametrization: Parametrization = "softplus",
        initial: Mapping[str, float] | None = None,
        frozen: Collection[str] | None = None,
        window: int | None = None,
        alibi_slopes: Tensor | None = None,
        dropout: float = 0.0,
        kernel: Kernel = "auto",
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or width % heads:
            raise ValueError(f"width must be a multiple of heads, got width {width} and {heads} heads")
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"heads must be a multiple of kv_heads, got {heads} and {kv_heads}")
        self.heads, self.kv_heads, self.causal = heads, kv_heads, causal
        self.head_dimension = width // heads
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, kv_heads * self.head_dimension, bias=bias)
        self.value = nn.Linear(width, kv_heads * self.head_dimension, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)
        self.attention = Attention(
            heads,
            score,
            per_head=per_head,
            parametrization=parametrization,
            initial=initial,
            frozen=frozen,
            window=window,
            alibi_slopes=alibi_slopes,
            dropout=dropout,
            kernel=kernel,
        )

    def forward(
        self,
        inputs: Tensor,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        key_lengths: Tensor | None = None,
        cu_lengths: Tensor | None = None,
    ) -> Tensor:
        """inputs (batch, length, width) to the same shape.

        mask (bool, True = may attend) and bias broadcast to (batch, heads, length, length);
        key_lengths, int64 (batch), is the number of real positions of each row, the rest being padding.
        cu_lengths, int64 (N + 1), are the cumulative lengths of N sequences packed into a batch of 1.
        """
        batch, length, width = inputs.shape

        def split(projected: Tensor, heads: int) -> Tensor:  # a view: the operator takes any strides
            return projected.view(batch, length, heads, self.head_dimension).transpose(1, 2)

        out = self.attention(
            split(self.query(inputs), self.heads),
            split(self.key(inputs), self.kv_heads),
            split(self.value(inputs), self.kv_heads),
            mask=mask,
            bias=bias,
            key_lengths=key_lengths,
            cu_query=cu_lengths,
            cu_key=cu_lengths,
            causal=self.causal,
        )
        return self.output(out.transpose(1, 2).reshape(batch, length, width))

    def extra_repr(self) -> str:
        return f"heads={self.heads}, kv_heads={self.kv_heads}, causal={self.causal}"
