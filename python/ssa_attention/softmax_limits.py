"""Which parametrised scoring functions contain softmax, and where: the ground of `ssa_attention.hf.convert`.

Each such score has a path of one coordinate x >= 0 that reaches softmax at x = 0:

    ssa      x = 1/n, b = 1/n     sgn(s)·n·log(1 + |s|/n)         = s - sgn(s)·s²·x/2 + …
    softcap  x = 1/c              c·tanh(s/c)                     = s - s³·x²/3 + …
    entmax   x = alpha - 1        weights (1 + x·(s - u))^(1/x)   → exp(s - u)
    sink     x = e^z              e^z in the normaliser           → 0
    temperature  x = 1 - 1/tau    s/tau                           = s - s·x

The *departure* at x of a score of size S is by how much the score's logarithmic weight leaves that of softmax there;
`match` finds the x with a given one. Entmax's u is the row's threshold, where the weight is 1, and near log Σ exp(s): a
score at distance d from the row's largest, whose softmax weight is e^-h, loses x·((d + h)² - h²)/2 against the largest to
first order in x, which is what S² = d·(d + 2h) gives (at a departure of 2 exact to some 2 parts in 1000). ssmax is softmax where sigma·log N = 1, for one number N of keys. The others
(softmax1, sparsemax, entmax15, SA-softmax, sigmoid, cosFormer) do not contain it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .operator import find_score
from .score_parameters import Parametrisation, lower_bound


@dataclass(frozen=True)
class SoftmaxLimit:
    """How a score reaches softmax. Values are effective ones, by parameter name."""

    where: str
    """For tables: where the score is softmax."""
    size: str
    """What the size S is that the departure is taken at."""
    values: Callable[[float, float], dict[str, float]]
    """(x, slope) to values; slope is φ'(0), 1 for softmax's (scores without a slope of their own ignore it)."""
    coordinate: Callable[[Mapping[str, float]], float]
    """Values to x."""
    slope: Callable[[Mapping[str, float]], float]
    """Values to the slope."""
    departure: Callable[[float, float], float]
    """(x, S) to the departure, increasing in x."""
    nearest: Callable[[float], float]
    """S to the smallest x that is used: what lies nearer would lose more by rounding than it gains."""
    largest: float
    """x stays below this on the path."""


def _entmax_departure(x: float, size: float) -> float:
    return math.inf if x * size >= 1 else -math.log1p(-x * size) / x - size


def _nearer_for_large(x: float, size: float) -> float:
    """float32 keeps 24 bits: at `x` the departure of a score of size 16 is below 10⁻⁴, some 60 units of its last digit,
    and the raw weights of every parametrisation still tell neighbours apart. Larger scores get a smaller x."""
    return x * min(1.0, 16 / size) if size > 0 else x


_LIMITS: dict[str, SoftmaxLimit] = {
    "ssa": SoftmaxLimit(
        where="n → ∞ with n·b = 1",
        size="the largest |s| of the head",
        values=lambda x, slope: {"n": 1 / x, "b": slope * x},
        coordinate=lambda values: 1 / values["n"],
        slope=lambda values: values["n"] * values["b"],
        departure=lambda x, size: size - math.log1p(x * size) / x,
        nearest=lambda size: _nearer_for_large(2.0**-22, size),
        largest=math.inf,
    ),
    "softcap": SoftmaxLimit(
        where="c → ∞",
        size="the largest |s| of the head",
        values=lambda x, slope: {"c": 1 / x},
        coordinate=lambda values: 1 / values["c"],
        slope=lambda values: 1.0,
        departure=lambda x, size: size - math.tanh(x * size) / x,
        nearest=lambda size: _nearer_for_large(2.0**-14, size),
        largest=math.inf,
    ),
    "entmax": SoftmaxLimit(
        where="alpha → 1",
        size="the largest √(d·(d + 2h)) of a score: d below the largest of its row, whose softmax weight is e^-h",
        values=lambda x, slope: {"alpha": 1 + x},
        coordinate=lambda values: values["alpha"] - 1,
        slope=lambda values: 1.0,
        departure=_entmax_departure,
        nearest=lambda size: max(_nearer_for_large(2.0**-20, size), 2.0**-22),
        largest=math.inf,
    ),
    "sink": SoftmaxLimit(
        where="z → -∞",
        size="minus the smallest log Σ exp(s) of a row",
        values=lambda x, slope: {"z": math.log(x)},
        coordinate=lambda values: math.exp(values["z"]),
        slope=lambda values: 1.0,
        departure=lambda x, size: math.log1p(x * math.exp(size)),
        nearest=lambda size: math.exp(-size) * 2.0**-24,
        largest=math.inf,
    ),
    "temperature": SoftmaxLimit(
        where="tau = 1",
        size="the largest |s| of the head",
        values=lambda x, slope: {"tau": 1 / (1 - x)},
        coordinate=lambda values: 1 - 1 / values["tau"],
        slope=lambda values: 1.0,
        departure=lambda x, size: x * size,
        nearest=lambda size: 0.0,
        largest=1.0,
    ),
}


def softmax_limit(score: str) -> SoftmaxLimit:
    """Raises ValueError for a score that has none."""
    find_score(score)
    if score not in _LIMITS:
        raise ValueError(
            f"score {score!r} does not contain softmax as a limit of its parameters; those that do: "
            f"{', '.join(_LIMITS)}, and ssmax for one number of keys"
        )
    return _LIMITS[score]


def softmax_limits() -> Mapping[str, SoftmaxLimit]:
    """Every score that contains softmax as a limit, by name."""
    return dict(_LIMITS)


def match(
    score: str, size: float, strength: float = 0.0, parametrisation: Parametrisation = "softplus"
) -> dict[str, float]:
    """The values at which the score departs from softmax by `strength` at a score of size `size`.

    Args:
        score: one that has a `softmax_limit`, or "ssmax", for which `size` is log N and `strength` 0.
        size: S, >= 0; what of, `SoftmaxLimit.size` says.
        strength: the departure, >= 0, in the unit of scores (a weight changes by the factor e^strength there);
            0: as near to softmax as float32 keeps digits for.
        parametrisation: where its bounds end the path before the departure is reached, the values next to them.

    Returns:
        Effective values by name, SSA's with n·b = 1.
    """
    if not 0 <= strength < math.inf:
        raise ValueError(f"strength must be >= 0 and finite, got {strength}")
    if not (math.isfinite(size) and (size >= 0 or score == "sink")):
        raise ValueError(f"size must be >= 0 and finite, got {size}")
    if score == "ssmax":
        if strength:
            raise ValueError("ssmax is softmax at one number of keys only: strength must be 0")
        return {"sigma": 1 / max(size, math.log(2))}
    limit = softmax_limit(score)
    low, high = limit.nearest(size), _furthest(score, size, limit, parametrisation)
    if strength <= limit.departure(low, size):
        return limit.values(low, 1.0)
    if limit.departure(high, size) <= strength:
        return limit.values(high, 1.0)
    while high - low > 1e-12 * high:
        middle = math.sqrt(low * high) if low > 0 else high / 2 if high > 1e-9 else (low + high) / 2
        low, high = (middle, high) if limit.departure(middle, size) < strength else (low, middle)
    return limit.values(high, 1.0)


def _furthest(score: str, size: float, limit: SoftmaxLimit, parametrisation: Parametrisation) -> float:
    """The largest x of the path: SSA's n must stay above its bound."""
    if score == "ssa":
        n = find_score(score).params[0]
        lower = lower_bound(n, parametrisation)
        return 1 / (lower + 0.01)
    if score == "temperature":
        return 0.99
    if score == "sink":
        return math.exp(30 - size)
    return 1.0 if score == "entmax" else 1e3
