"""Trainable parameters of scoring functions: raw weights, what they stand for, and the precision that they keep."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from .operator import ScoreInfo, ScoreParameter, find_score

Parametrisation = Literal["softplus", "exp", "raw"]


def lower_bound(param: ScoreParameter, parametrisation: Parametrisation) -> float:
    """Effective values are above this under the parametrisation; -inf: any number."""
    if parametrisation == "softplus":
        return max(param.above, param.module_lower)
    return param.above


def _least_above(lower: float, dtype: torch.dtype) -> float:
    """The smallest value above `lower` that a module uses: the next number; above 0, one whose square's reciprocal times a
    score is still finite, for derivatives hold such products."""
    if lower == 0:
        return 2.0**-60
    return torch.nextafter(torch.tensor(lower, dtype=dtype), torch.tensor(math.inf, dtype=dtype)).item()


# Made once, so that a training step makes no tensors for them.
_LEAST = {
    (lower, dtype): _least_above(lower, dtype) for lower in (0.0, 1.0) for dtype in (torch.float32, torch.float64)
}
_LARGEST_EXPONENT = {torch.float32: 88.0, torch.float64: 709.0}  # whose exponentials are still finite


def raw_weight(value: float, parametrisation: Parametrisation, param: ScoreParameter) -> float:
    """The raw number whose effective value is `value`. Raises ValueError for a value out of range."""
    lower = lower_bound(param, parametrisation)
    if not lower < value < math.inf:
        raise ValueError(f"initial {param.name} must be > {lower:g} ({parametrisation}), got {value:g}")
    if parametrisation == "raw" or param.module_lower == -math.inf:
        return value
    if parametrisation == "exp":
        return math.log(value)
    excess = value - param.module_lower
    # Inverse of softplus: log(exp(x) - 1), written so that a large x keeps its digits.
    return excess + math.log(-math.expm1(-excess))


def initial_weights(
    info: ScoreInfo, parametrisation: Parametrisation, initial: Mapping[str, float]
) -> dict[str, float]:
    """The raw number of every parameter of the score, by name, where `initial` or the score's own values begin.
    Raises ValueError for an unknown parametrisation and for a value out of range."""
    if parametrisation not in ("softplus", "exp", "raw"):
        raise ValueError(f'parametrisation must be "softplus", "exp" or "raw", got {parametrisation!r}')
    return {
        param.name: raw_weight(float(initial.get(param.name, param.initial)), parametrisation, param)
        for param in info.params
    }


def effective_value(raw: Tensor, parametrisation: Parametrisation, param: ScoreParameter) -> Tensor:
    """What a raw weight (float32 or float64) stands for, in its type.

    softplus: lower + softplus(raw); exp: exp(raw); raw, and a parameter that may be any number: raw itself. The first
    two never leave the open interval by rounding (1 + softplus(-17) would be 1, exp(-110) 0 and exp(89) inf in
    float32): the value is then the nearest one inside that derivatives stay finite at, with the parametrisation's own gradient below, none above.
    """
    if param.module_lower == -math.inf or parametrisation == "raw":
        return raw
    if parametrisation == "softplus":
        value = nn.functional.softplus(raw)
        if param.module_lower != 0:
            value = param.module_lower + value
    else:
        value = raw.clamp(max=_LARGEST_EXPONENT[raw.dtype]).exp()
    lower = lower_bound(param, parametrisation)
    least = _LEAST.get((lower, raw.dtype)) or _least_above(lower, raw.dtype)
    fixed = value.detach()
    return torch.where(fixed < least, least + (value - fixed), value)


def effective_values(
    owner: nn.Module, info: ScoreInfo, parametrisation: Parametrisation, dtype: torch.dtype | None = None
) -> list[Tensor]:
    """What the raw weights score_NAME of a module stand for, in the operator's order. `dtype` (None: that of the raw
    weights) is the type they are computed in: a value rounded afterwards could reach the edge of its interval."""
    raws = [getattr(owner, f"score_{param.name}") for param in info.params]
    return [
        effective_value(raw if dtype is None else raw.to(dtype), parametrisation, param)
        for raw, param in zip(raws, info.params, strict=True)
    ]


def compute_type(query: Tensor) -> torch.dtype:
    """The type that the operator wants parameters in: float64 with a float64 query, else float32."""
    return torch.float64 if query.dtype == torch.float64 else torch.float32


def new_weight_type() -> torch.dtype:
    """The type of new raw weights: float64 where torch's default is (a float64 model), else float32."""
    return torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32


def keeping_precision(fn: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """`fn` of nn.Module._apply (what .to, .half, .bfloat16, .double call) without the loss of digits: what it would
    turn into a lower precision becomes float32. bfloat16 would round n and b to three digits."""

    def keep(tensor: Tensor) -> Tensor:
        moved = fn(tensor)
        if moved.dtype in (torch.float32, torch.float64):
            return moved
        return tensor.to(moved.device, torch.float32)

    return keep


class ScoreParameters(nn.Module):
    """The parameters of a scoring function for one layer: trained raw, used as effective values.

    `softplus` (default): value = lower + softplus(raw), where lower is the score's own bound (SSA: n > 1,
    b > 0); `exp`: value = exp(raw); `raw`: value = raw, and the operator refuses a value out of range. A
    parameter that may be any number (the sink's z) is always its own raw value. Under softplus and exp no raw
    value is out of range (`effective_value`).

    Args:
        heads: number of query heads.
        score: a name from `ssa_attention.scores()`.
        per_head: one value per head, or one for the layer.
        parametrisation: "softplus", "exp" or "raw".
        initial: effective values to start from, by parameter name (default: the score's own).
        frozen: names of parameters that are not trained; None: those the score's list does not train.

    Weight decay should leave them alone: `[p for name, p in model.named_parameters() if "score_" in name]`.
    Calling the module returns the effective values in the order that the operator wants. The raw values are float32
    whatever the module is cast to, float64 in a float64 model.
    """

    def __init__(
        self,
        heads: int,
        score: str = "ssa",
        *,
        per_head: bool = True,
        parametrisation: Parametrisation = "softplus",
        initial: Mapping[str, float] | None = None,
        frozen: Collection[str] | None = None,
    ) -> None:
        super().__init__()
        info = find_score(score)
        names = [param.name for param in info.params]
        if isinstance(frozen, str):
            frozen = [frozen]
        for argument, given in (("initial", initial or ()), ("frozen", frozen or ())):
            if unknown := [name for name in given if name not in names]:
                raise ValueError(f"{argument}: score {score!r} has the parameters {names}, not {unknown}")
        self.score = score
        self.parametrisation: Parametrisation = parametrisation
        self._info = info
        weights = initial_weights(info, parametrisation, initial or {})
        for param in info.params:
            raw = torch.full((heads if per_head else 1,), weights[param.name], dtype=new_weight_type())
            trained = param.trained if frozen is None else param.name not in frozen
            self.register_parameter(f"score_{param.name}", nn.Parameter(raw, requires_grad=trained))

    def forward(self, dtype: torch.dtype | None = None) -> list[Tensor]:
        """The effective values, in `dtype` (float32 or float64), None: that of the raw ones."""
        return effective_values(self, self._info, self.parametrisation, dtype)

    @torch.no_grad()
    def values(self) -> dict[str, Tensor]:
        """Effective values by name, each (heads) or (1): what a training log should show."""
        return {param.name: value.clone() for param, value in zip(self._info.params, self(), strict=True)}

    def _apply(self, fn, recurse=True):
        return super()._apply(keeping_precision(fn), recurse)

    def extra_repr(self) -> str:
        sizes = {p.name: getattr(self, f"score_{p.name}").numel() for p in self._info.params}
        return f"score={self.score!r}, parametrisation={self.parametrisation!r}, sizes={sizes}"
