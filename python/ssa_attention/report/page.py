"""One self-contained HTML file: text, tables, figures, plotly.js. Opening it needs no network."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from html import escape
from importlib import resources
from pathlib import Path

import plotly.graph_objects as go
import plotly.offline

from ..files import FileError, write_text
from .panel import BASELINE_COLOUR, BASELINE_DASHES
from .records import ReportError

# The browser is told to load nothing from anywhere; scripts and styles stand in the file.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
_DASH_ARRAYS = {"dot": "2 3", "dash": "6 4", "dashdot": "6 3 2 3", "longdash": "10 4", "longdashdot": "10 3 2 3"}


def _embedded(value) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


class Page:
    """Collects sections and figures; `html` puts them together. Same input, same bytes."""

    def __init__(self, title: str, lead: str, template: dict):
        self.title, self.lead, self.template = title, lead, template
        self.figures: dict[str, dict] = {}
        self._sections: list[tuple[str, str, list[tuple[str, str]], str]] = []
        self._taken = {name: "" for name in ("template", "figures", "trouble")}  # id -> what it was made from

    def identifier(self, name: str) -> str:
        """An id that markup, links and selectors can hold, from any text; another one for every other text."""
        plain = re.sub(r"[^A-Za-z0-9.=_-]+", "-", name)
        unique, number = plain, 1
        while self._taken.setdefault(unique, name) != name:
            number += 1
            unique = f"{plain}-{number}"
        return unique

    def section(self, name: str, title: str, body: str, subsections: list[tuple[str, str]] = ()) -> None:
        """subsections: (id, title) of headings inside the body, for the table of contents."""
        self._sections.append((name, title, list(subsections), body))

    def panel(self, name: str, title: str, note: str, figure: go.Figure) -> str:
        """A figure with its caption; the id of its element is made from `name`."""
        name = self.identifier(name)
        if name in self.figures:
            raise ValueError(f"two figures are called {name}")
        plain = figure.to_plotly_json()
        plain["layout"].pop("template", None)
        off_scale = plain["layout"].pop("meta", {}).get("off_scale")
        note = "; ".join([*filter(None, [note]), *([f"off the scale: {off_scale}"] if off_scale else [])])
        self.figures[name] = {"data": plain["data"], "layout": plain["layout"]}
        height = plain["layout"].get("height", self.template["layout"]["height"])
        small = f"<small>{escape(note)}</small>" if note else ""
        return (
            f"<figure><figcaption>{escape(title)}{small}</figcaption>"
            f'<div class="plot" id="{name}" style="height:{height}px"></div></figure>\n'
        )

    def html(self) -> str:
        contents, bodies = [], []
        for name, title, subsections, body in self._sections:
            inner = "".join(f'<li><a href="#{i}">{escape(t)}</a></li>' for i, t in subsections)
            inner = f"<ul>{inner}</ul>" if inner else ""
            contents.append(f'<li><a href="#{name}">{escape(title)}</a>{inner}</li>')
            bodies.append(f'<section id="{name}">\n<h2>{escape(title)}</h2>\n{body}\n</section>\n')
        here = resources.files(__package__)
        style, script = ((here / f).read_text(encoding="utf-8") for f in ("page.css", "page.js"))
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(self.title)}</title>
<style>
{style}</style>
</head>
<body>
<nav><b>Contents</b><ul>{"".join(contents)}</ul></nav>
<main>
<h1>{escape(self.title)}</h1>
<p class="lead">{self.lead}</p>
<p id="trouble"></p>
<noscript><p class="note">The figures need JavaScript; the tables do not.</p></noscript>
{"".join(bodies)}</main>
<script type="application/json" id="template">{_embedded(self.template)}</script>
<script type="application/json" id="figures">{_embedded(self.figures)}</script>
<script>{plotly.offline.get_plotlyjs()}</script>
<script>
{script}</script>
</body>
</html>
"""


def _sample(colour: str, dash: str | None, width: float) -> str:
    dashes = f' stroke-dasharray="{_DASH_ARRAYS[dash]}"' if dash else ""
    return (
        f'<svg width="28" height="10" aria-hidden="true"><line x1="0" y1="5" x2="28" y2="5" stroke="{colour}" '
        f'stroke-width="{width}"{dashes}/></svg>'
    )


def legend(colours: dict[str, str], baselines: list[str] = (), more: str = "") -> str:
    """The key to a row of panels: scores, then baselines."""
    parts = [f"<span>{_sample(c, None, 3)}{escape(name)}</span>" for name, c in colours.items()]
    parts += [
        f"<span>{_sample(BASELINE_COLOUR, BASELINE_DASHES.get(name, 'dot'), 2)}{escape(name)} (baseline)</span>"
        for name in baselines
    ]
    return f'<div class="legend">{"".join(parts)}{more}</div>\n'


def table(head: list[str], rows: list[str], kind: str = "") -> str:
    """head: cells already marked up as th; rows: whole tr elements."""
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{"".join(head)}</tr></thead>\n'
        f"<tbody>\n{chr(10).join(rows)}\n</tbody></table></div>\n"
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
