"""One self-contained HTML file: text, tables, figures, plotly.js. Opening it needs no network.

plotly.js, the figures and long tables are stored compressed, and browsers unpack them: the file has a third of the size.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import sys
from collections.abc import Callable
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path

import plotly.graph_objects as go
import plotly.offline

from ..files import FileError, write_text
from .panel import BASELINE_COLOUR, BASELINE_DASHES, label
from .records import ReportError
from .statistics import plain

_LONG = 64_000  # characters of a section without figures from which on it is stored compressed
_DASH_ARRAYS = {"dot": "2 3", "dash": "6 4", "dashdot": "6 3 2 3", "longdash": "10 4", "longdashdot": "10 3 2 3"}
_MARKERS = {  # paths in a box of 12
    "circle": '<circle cx="6" cy="6" r="4.5" fill="{0}"/>',
    "circle-open": '<circle cx="6" cy="6" r="4" fill="none" stroke="{0}" stroke-width="1.5"/>',
    "diamond": '<path d="M6 1 11 6 6 11 1 6z" fill="{0}"/>',
    "diamond-open": '<path d="M6 1 11 6 6 11 1 6z" fill="none" stroke="{0}" stroke-width="1.5"/>',
    "bar": '<path d="M6 0v12" stroke="{0}" stroke-width="1.5"/>',
    "cross": '<path d="M2 2l8 8M10 2l-8 8" stroke="{0}" stroke-width="1.5"/>',
    "square": '<path d="M2 2h8v8H2z" fill="{0}"/>',
}


def _embedded(value) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _packed(text)


def _packed(text: str) -> str:
    """gzip in base 85; "," stands for the "<" of Python's alphabet, so that no markup appears."""
    return base64.b85encode(gzip.compress(text.encode(), 9, mtime=0)).decode().replace("<", ",")


@cache
def _plotly() -> tuple[str, str]:
    """plotly.js packed, and its hash."""
    script = plotly.offline.get_plotlyjs()
    return _packed(script), _hash(script)


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _policy(*hashes: str) -> str:
    """The browser runs the page's own scripts and no others, and loads nothing from anywhere."""
    return (
        f"default-src 'none'; script-src {' '.join(hashes)}; style-src 'unsafe-inline'; img-src data: blob:; "
        "font-src data:; base-uri 'none'; form-action 'none'"
    )


def _spoken(figure: dict, title: str) -> str:
    """A figure in words: what a screen reader says."""
    axes = [figure["layout"].get(a, {}).get("title", {}).get("text", "") for a in ("yaxis", "xaxis")]
    parts = [title + ("" if not axes[0] else f": {axes[0]}" + (f" against {axes[1]}" if axes[1] else ""))]
    for trace in figure["data"]:
        values = [v for v in trace.get("y") or () if isinstance(v, int | float)]
        if trace.get("meta", {}).get("kind") in ("mean", "computed") and trace.get("name") and values:
            ends = f"{plain(values[0])}" if len(values) == 1 else f"from {plain(values[0])} to {plain(values[-1])}"
            parts.append(f"{trace['name']} {ends}")
    return re.sub(r"<[^>]+>", "", "; ".join(parts))


def _body(markup: str) -> str:
    """Of a section: as it stands, or packed, to be unpacked when the section is opened."""
    if len(markup) < _LONG or 'class="plot"' in markup:
        return markup
    return f'<script type="application/gzip" class="packed">{_packed(markup)}</script>'


class Page:
    """Collects sections and figures; `html` puts them together. Same input, same bytes."""

    def __init__(self, title: str, verdict: str, lead: str, template: dict):
        """verdict: one sentence, text; lead: markup."""
        self.title, self.verdict, self.lead, self.template = title, verdict, lead, template
        self.figures: dict[str, dict] = {}
        self._sections: list[tuple[str, str, list[tuple[str, str]], str, bool]] = []
        reserved = ("template", "figures", "plotly", "trouble", "open-all")
        self._taken = {name: "" for name in reserved}  # id -> what it was made from

    def identifier(self, name: str) -> str:
        """An id that markup, links and selectors can hold, from any text; another one for every other text."""
        plain_name = re.sub(r"[^A-Za-z0-9.=_-]+", "-", name)
        unique, number = plain_name, 1
        while self._taken.setdefault(unique, name) != name:
            number += 1
            unique = f"{plain_name}-{number}"
        return unique

    def section(
        self, name: str, title: str, body: str, subsections: list[tuple[str, str]] = (), *, open: bool = False
    ) -> None:
        """A section of the page, collapsed unless open. subsections: (id, title) of headings inside the body, for the
        table of contents."""
        self._sections.append((name, title, list(subsections), body, open))

    def panel(self, name: str, title: str, note: str, figure: go.Figure, *, key: str = "") -> str:
        """A figure with its caption; the id of its element is made from `name`. key: markup between the two."""
        name = self.identifier(name)
        if name in self.figures:
            raise ValueError(f"two figures are called {name}")
        content = figure.to_plotly_json()
        content["layout"].pop("template", None)
        off_scale = content["layout"].pop("meta", {}).get("off_scale")
        note = "; ".join([*filter(None, [note]), *([f"off the scale: {off_scale}"] if off_scale else [])])
        self.figures[name] = {"data": content["data"], "layout": content["layout"]}
        height = content["layout"].get("height", self.template["layout"]["height"])
        small = f"<small>{escape(note)}</small>" if note else ""
        told = escape(_spoken(self.figures[name], title))
        return (
            f'<figure><figcaption><span>{escape(title)}{small}</span><button type="button" class="save" '
            f'data-figure="{name}" title="Save as an image" aria-label="Save as an image: {escape(title)}">⤓</button>'
            f'</figcaption>{key}<div class="plot" id="{name}" role="img" aria-label="{told}" style="height:{height}px">'
            "</div></figure>\n"
        )

    @staticmethod
    def marker_key(entries: list[tuple[str, str, str]]) -> str:
        """The key of a figure's marks: (name, colour, symbol)."""
        parts = [
            _key_entry(name, f'<svg width="12" height="12" aria-hidden="true">{_MARKERS[symbol].format(colour)}</svg>')
            for name, colour, symbol in entries
        ]
        return f'<div class="legend">{"".join(parts)}</div>'

    def _contents(self) -> str:
        items = []
        for name, title, subsections, _, _ in self._sections:
            inner = "".join(f'<li><a href="#{i}">{escape(t)}</a></li>' for i, t in subsections)
            inner = f"<ul>{inner}</ul>" if inner else ""
            items.append(f'<li><a href="#{name}">{escape(title)}</a>{inner}</li>')
        return "".join(items)

    def html(self) -> str:
        bodies = [
            f'<section id="{name}"><details{" open" if open else ""}><summary><h2>{escape(title)}</h2></summary>\n'
            f"{_body(body)}\n</details></section>\n"
            for name, title, _, body, open in self._sections
        ]
        here = resources.files(__package__)
        style, script = ((here / f).read_text(encoding="utf-8") for f in ("page.css", "page.js"))
        library, library_hash = _plotly()
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(_hash(script), library_hash)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(self.title)}</title>
<style>
{style}</style>
</head>
<body>
<nav aria-label="Contents"><details open><summary>Contents</summary><ul>{self._contents()}</ul>
<button type="button" id="open-all">Open all sections</button></details></nav>
<main>
<h1>{escape(self.title)}</h1>
<p class="verdict">{escape(self.verdict)}</p>
<p class="lead">{self.lead}</p>
<p id="trouble" role="alert"></p>
<noscript><p class="note">The figures and the longest tables need JavaScript.</p></noscript>
{"".join(bodies)}</main>
<script type="application/gzip" id="template">{_embedded(self.template)}</script>
<script type="application/gzip" id="figures">{_embedded(self.figures)}</script>
<script type="application/gzip" id="plotly">{library}</script>
<script>{script}</script>
</body>
</html>
"""


def _sample(colour: str, dash: str | None, width: float) -> str:
    dashes = f' stroke-dasharray="{_DASH_ARRAYS[dash]}"' if dash else ""
    return (
        f'<svg width="28" height="10" aria-hidden="true"><line x1="0" y1="5" x2="28" y2="5" stroke="{colour}" '
        f'stroke-width="{width}"{dashes}/></svg>'
    )


def _key_entry(name: str, sample: str, told: str = "") -> str:
    """A button that hides and shows what is called so in the figures of its section."""
    return (
        f'<button type="button" class="key" aria-pressed="true" data-trace="{escape(label(name))}" '
        f'title="Hide or show">{sample}{escape(told or name)}</button>'
    )


def legend(colours: dict[str, str], baselines: list[str] = (), more: str = "") -> str:
    """The key to the panels of a section: scores, then baselines; each switches its lines off and on."""
    parts = [_key_entry(name, _sample(c, None, 3)) for name, c in colours.items()]
    parts += [
        _key_entry(name, _sample(BASELINE_COLOUR, BASELINE_DASHES.get(name, "dot"), 2), f"{name} (baseline)")
        for name in baselines
    ]
    return f'<div class="legend">{"".join(parts)}{more}</div>\n'


def table(head: list[str], rows: list[str], kind: str = "") -> str:
    """head: cells already marked up as th; rows: whole tr elements."""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Table"><table class="{kind}"><thead><tr>'
        f"{''.join(head)}</tr></thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody></table></div>\n"
    )


def panels(figures: list[str]) -> str:
    """Three to a row where there is room; two where three would leave one alone."""
    wide = len(figures) in (1, 2, 4)
    return f'<div class="panels{" wide" if wide else ""}">\n{"".join(figures)}</div>\n'


def write_built(program: str, build: Callable[[], str], path: Path) -> int:
    """Builds the page, writes it and says so under the program's name; the exit code."""
    try:
        text = build()
        write_text(path, text)
    except (ReportError, FileError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    print(f"{program}: wrote {path} ({len(text.encode()) / 1e6:.1f} MB)")
    return 0
