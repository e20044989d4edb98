"""What a conversion changed: numbers, text and a page with pictures."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ..counted import counted
from ..files import write_text


@dataclass(frozen=True)
class ConversionReport:
    """What `convert` did. Tensors are (heads), or (1) with share="layer", by module."""

    score: str
    strength: float
    parametrisation: str
    share: str
    texts: int
    """Number of texts that it was measured on."""
    tokens: int
    """Their tokens."""
    values: Mapping[str, Mapping[str, Tensor]]
    """Effective values, by module and parameter."""
    sizes: Mapping[str, Tensor]
    """S of `ssa_attention.softmax_limits`: the size of score that strength was taken at."""
    attention_moved: Mapping[str, Tensor]
    """Share of a row's attention that moved to other keys, in [0, 1], mean over rows; always (heads). Empty without
    texts."""
    measure: str
    """"perplexity", "embedding similarity" or "" without texts."""
    before: float | None
    after: float | None
    logit_change: float | None
    """Mean |change| of a logit of the first text, for perplexity."""

    def to_dict(self) -> dict:
        """Everything as what JSON knows."""
        plain = {
            name: getattr(self, name)
            for name in ("score", "strength", "parametrisation", "share", "texts", "tokens", "measure", "before", "after", "logit_change")
        }  # fmt: skip
        return plain | {
            "values": {name: {key: v.tolist() for key, v in each.items()} for name, each in self.values.items()},
            "sizes": {name: value.tolist() for name, value in self.sizes.items()},
            "attention_moved": {name: value.tolist() for name, value in self.attention_moved.items()},
        }

    def __str__(self) -> str:
        lines = [
            f"softmax to {self.score}, strength {self.strength:g}, {counted(len(self.values), 'attention module')}"
        ]
        for name, pictures in self._pictures().items():
            numbers = [number for row in pictures.values() for number in row]
            lines.append(f"{name}: {_shown(min(numbers))} to {_shown(max(numbers))}")
        if self.measure:
            lines.append(
                f"{self.measure} on {counted(self.texts, 'text')} of {counted(self.tokens, 'token')}: "
                f"{self.before:.6g} before, {self.after:.6g} after"
            )
        if self.logit_change is not None:
            lines.append(f"mean change of a logit: {self.logit_change:.3g}")
        return "\n".join(lines)

    def _pictures(self) -> dict[str, dict[str, list[float]]]:
        """Every quantity by module and head."""
        found: dict[str, dict[str, list[float]]] = {}
        for module, values in self.values.items():
            for name, value in values.items():
                found.setdefault(name, {})[module] = value.tolist()
        if self.attention_moved:
            moved = {module: value.tolist() for module, value in self.attention_moved.items()}
            found["share of attention moved"] = moved
        return found

    def html(self) -> str:
        """A page that needs nothing else: the text above, and a picture of modules × heads per quantity."""
        pictures = "".join(
            f"<h2>{html.escape(name)}</h2>{_heat_map(name, rows)}" for name, rows in self._pictures().items()
        )
        title = html.escape(f"From softmax to {self.score}")
        return (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            "<style>body{font:14px sans-serif;margin:2em;max-width:60em}svg text{font:11px sans-serif}</style></head>"
            f"<body><h1>{title}</h1><pre>{html.escape(str(self))}</pre>{pictures}</body></html>\n"
        )

    def save(self, path: str | os.PathLike) -> None:
        """The page as a file. Raises FileError (a ValueError) where it cannot be written."""
        write_text(Path(path), self.html())


def _shown(number: float) -> str:
    return f"{number:.4g}"


def _shade(number: float, low: float, high: float) -> str:
    """White for the smallest to blue for the largest, by logarithm where all are above 0 and span a decade."""
    if low > 0 and high > 10 * low:
        number, low, high = math.log(number), math.log(low), math.log(high)
    part = 0.5 if high <= low else (number - low) / (high - low)
    return f"rgb({round(247 - 214 * part)},{round(251 - 138 * part)},{round(255 - 74 * part)})"


def _heat_map(what: str, rows: Mapping[str, list[float]]) -> str:
    """Modules down, heads across; a cell's number is its tooltip."""
    cell, left, top = 18, 250, 18
    numbers = [number for row in rows.values() for number in row]
    low, high = min(numbers), max(numbers)
    heads = max(len(row) for row in rows.values())
    width, height = left + max(heads * cell, 180) + 4, top + len(rows) * cell + 24
    label = f"{html.escape(what, quote=True)} by module and head"
    parts = [
        f'<svg width="{width}" height="{height}" role="img" aria-label="{label}">',
    ]
    for head in range(0, heads, 4 if heads > 8 else 1):
        parts.append(f'<text x="{left + head * cell + 3}" y="{top - 5}">{head}</text>')
    for line, (module, row) in enumerate(rows.items()):
        y = top + line * cell
        name = module if len(module) <= 38 else "…" + module[-37:]
        parts.append(f'<text x="{left - 6}" y="{y + 13}" text-anchor="end">{html.escape(name)}</text>')
        for head, number in enumerate(row):
            parts.append(
                f'<rect x="{left + head * cell}" y="{y}" width="{cell - 1}" height="{cell - 1}" '
                f'fill="{_shade(number, low, high)}" stroke="#ccc" stroke-width="0.5"><title>'
                f"{html.escape(module)}, head {head}: {_shown(number)}</title></rect>"
            )
    parts.append(f'<text x="{left}" y="{height - 6}">white {_shown(low)}, blue {_shown(high)}</text></svg>')
    return "".join(parts)
