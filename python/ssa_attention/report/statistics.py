"""Means over seeds with their 95 % intervals on the scale of their metric, and numbers as people read them.

The definitions are those of `ssa reproduce` (src/experiment); verdicts come from its files alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95
MIN_SEEDS = 3  # below that neither a band is drawn nor a verdict given
PLAIN, LOG, LOG_ODDS = "plain", "log", "log-odds"


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
    """The centre of values of seeds and the ends of its 95 % interval (None below two seeds), in the values' unit."""

    mean: float | None
    low: float | None
    high: float | None
    values: tuple[float | None, ...]
    scale: str = PLAIN

    @property
    def seeds(self) -> int:
        return len(self.values)

    @property
    def interval(self) -> float | None:
        """Half width, of the plain scale."""
        return None if self.mean is None or self.high is None else self.high - self.mean


def to_scale(value: float | None, scale: str, trials: int | None = None) -> float | None:
    """A value on its scale; None where it has no place there.

    Log-odds of k wrong ones of N are Jeffreys': log((k + ½)/(N − k + ½)), finite for k = 0 and k = N. Without N only
    shares strictly between 0 and 1 have a place.
    """
    if value is None or scale == PLAIN:
        return value
    if scale == LOG:
        return math.log(value) if value > 0 else None
    if not 0 <= value <= 1:
        return None
    if trials:
        return math.log(value * trials + 0.5) - math.log((1 - value) * trials + 0.5)
    return math.log(value) - math.log1p(-value) if 0 < value < 1 else None


def from_scale(value: float, scale: str) -> float:
    if scale == PLAIN:
        return value
    if scale == LOG:
        return math.exp(min(value, 700.0))
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0


def mean_and_half_width(values: Sequence[float]) -> tuple[float, float | None]:
    """Of at least one value: the mean and half of its 95 % interval's width, None of a single value."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, None
    variance = math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)
    return mean, t_quantile(len(values) - 1) * math.sqrt(variance / len(values))


def summarise(
    values: Iterable[float | None], scale: str = PLAIN, trials: Iterable[int | None] | None = None
) -> Summary:
    """Of seeds: mean and interval on the scale, taken back. trials: the N of each share, for log-odds.

    A value that is not finite (None), or has no place on the scale, makes all None: a diverged seed is never left out
    silently.
    """
    values = tuple(values)
    counts = tuple(trials) if trials is not None else (None,) * len(values)
    placed = [to_scale(v, scale, n) for v, n in zip(values, counts, strict=True)]
    if not placed or None in placed:
        return Summary(None, None, None, values, scale)
    mean, half = mean_and_half_width(placed)
    low, high = (None, None) if half is None else (from_scale(mean + sign * half, scale) for sign in (-1, 1))
    return Summary(from_scale(mean, scale), low, high, values, scale)


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


def told(summary: Summary, multiplier: float = 1.0, digits: int = 3) -> str:
    """mean ± half width on the plain scale; elsewhere, where intervals are not symmetric, centre [low, high]."""
    if summary.mean is None or summary.scale == PLAIN:
        return with_interval(summary.mean, summary.interval, multiplier)
    centre = plain(summary.mean * multiplier, digits)
    if summary.low is None:
        return centre
    return f"{centre} [{plain(summary.low * multiplier, digits)}, {plain(summary.high * multiplier, digits)}]"
