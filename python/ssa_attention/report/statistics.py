"""Means over seeds with their 95 % intervals, and numbers as people read them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95
MIN_SEEDS = 3  # below that neither a band is drawn nor a verdict given


def _two_sided(t: float, degrees: int) -> float:
    """P(|T| <= t) of Student's distribution with whole degrees of freedom: the finite series of
    Abramowitz and Stegun 26.7.3 (odd) and 26.7.4 (even)."""
    theta = math.atan(t / math.sqrt(degrees))
    cosine = math.cos(theta)
    odd = degrees % 2
    total, term = 0.0, cosine if odd else 1.0
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    if odd:
        return 2 / math.pi * (theta + math.sin(theta) * total)
    return math.sin(theta) * total


@cache
def t_quantile(degrees: int) -> float:
    """The half width, in standard errors, of the 95 % interval of a mean of degrees + 1 values."""
    low, high = 0.0, 1000.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _two_sided(middle, degrees) < CONFIDENCE else (low, middle)
    return high


@dataclass(frozen=True)
class Summary:
    """Mean over seeds; `interval` is the half width of its 95 % interval (None below two seeds)."""

    mean: float | None
    interval: float | None
    values: tuple[float | None, ...]

    @property
    def seeds(self) -> int:
        return len(self.values)


def summarise(values) -> Summary:
    """A value that is not finite (None) makes the mean None: a diverged seed is never left out silently."""
    values = tuple(values)
    if not values or any(v is None for v in values):
        return Summary(None, None, values)
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Summary(mean, None, values)
    variance = math.fsum((v - mean) ** 2 for v in values) / (count - 1)
    return Summary(mean, t_quantile(count - 1) * math.sqrt(variance / count), values)


def plain(number: float | None, digits: int = 3) -> str:
    """A number with that many significant digits: 0.0143, 12.3, 1 340, 2.1e-07."""
    if number is None:
        return "not finite"
    if number == 0:
        return "0"
    size = math.floor(math.log10(abs(number)))
    if size < -4 or size > 6:
        return f"{number:.{digits - 1}e}".replace("-", "−")
    return _grouped(round(number, digits - 1 - size), max(0, digits - 1 - size))


def thousands(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")


def count(number: int, noun: str) -> str:
    """1 seed, 2 seeds."""
    return f"{thousands(number)} {noun}{'' if number == 1 else 's'}"


def _grouped(number: float, decimals: int) -> str:
    number = round(number, decimals) + 0.0  # + 0.0: no minus sign before a zero
    return f"{number:,.{decimals}f}".replace(",", "\u202f").replace("-", "−")


def with_interval(mean: float | None, interval: float | None, scale: float = 1.0, sign: bool = False) -> str:
    """mean ± interval, the interval with two significant digits and the mean with the same decimals."""
    if mean is None:
        return "not finite"
    mean *= scale
    plus = "+" if sign and mean > 0 else ""
    if interval is None:
        return plus + plain(mean)
    interval *= scale
    if interval == 0:
        return f"{plus}{plain(mean)} ± 0"
    decimals = max(0, 1 - math.floor(math.log10(interval)))
    if decimals > 6:
        return f"{plus}{plain(mean)} ± {plain(interval, 2)}"
    return f"{plus}{_grouped(mean, decimals)} ± {_grouped(interval, decimals)}"
