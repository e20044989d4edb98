"""Heat maps of what `ssa attention` wrote: `python -m ssa_attention.report.attention FOLDER`.

One row per layer and head, the runs side by side, one colour scale for all of them. Needs plotly and the
standard library, not the compiled operator.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

import plotly.graph_objects as go

from ..counted import counted
from .evaluations import Parameters, need_parameters
from .page import Page, table, write_built
from .panel import template
from .records import ReportError, check_schema, load_json, need, need_numbers
from .statistics import count, plain, summarise

# Weight -> colour, straight lines in between. Steps of about three: next to one large weight the many small
# ones that uniform attention gives (1/80 at 40 points) stay visible.
_POSITIVE = [(0, "#ffffff"), (0.01, "#fff0bf"), (0.03, "#fdcf7c"), (0.1, "#f5895c"), (0.3, "#bb3784"), (1, "#2a0a55")]
# Some scores (sa-softmax) give negative weights too.
_NEGATIVE = [(-1, "#08306b"), (-0.3, "#2171b5"), (-0.1, "#6baed6"), (-0.01, "#dbe9f6")]
_HIDDEN = "#e9ecef"  # keys that a query may not see
_EVERY_TOKEN = 24  # up to that many tokens each has its label on the axes
_LABELS = 10  # of longer sequences


@dataclass
class Map:
    """What one run did with the input."""

    run: str
    score: str
    seed: int
    step: int
    predictions: list[float | None]  # one per x
    parameters: Parameters
    weights: list[list[list[list[float | None]]]]  # [layer][head][query][key]; a query's keys end at itself


@dataclass
class Maps:
    task: str
    x: list[float]
    y: list[float]
    maps: list[Map]

    @property
    def tokens(self) -> list[tuple[str, float]]:
        """("x1", 0.5), ("y1", 1.0), … as the model reads them."""
        points = zip(self.x, self.y, strict=True)
        return [pair for i, (x, y) in enumerate(points, start=1) for pair in ((f"x{i}", x), (f"y{i}", y))]


def _check_layer(values: dict[str, list], heads: list, at: str, layer: int, tokens: int) -> None:
    for name, of_heads in values.items():
        if len(of_heads) not in (1, len(heads)):
            raise ReportError(f'{at}.score_parameters[{layer}]: "{name}" must have 1 or {len(heads)} values')
    for head, rows in enumerate(heads):
        where = f"{at}.weights[{layer}][{head}]"
        if not isinstance(rows, list) or len(rows) != tokens:
            raise ReportError(f"{where}: expected a row for each of {tokens} tokens")
        for query, row in enumerate(rows):
            need_numbers({"row": row}, "row", f"{where}[{query}]", query + 1)


def _read_map(record, at: str, points: int) -> Map:
    found = Map(
        need(record, "run", str, at),
        need(record, "score", str, at),
        need(record, "seed", int, at),
        need(record, "step", int, at),
        need_numbers(record, "predictions", at, points),
        need_parameters(record, at),
        need(record, "weights", list, at),
    )
    if len(found.parameters) != len(found.weights):
        raise ReportError(f'{at}: "score_parameters" and "weights" must have as many layers')
    for k, (values, heads) in enumerate(zip(found.parameters, found.weights, strict=True)):
        if not isinstance(heads, list):
            raise ReportError(f"{at}.weights[{k}]: expected a list of heads")
        _check_layer(values, heads, at, k, 2 * points)
    return found


def read_maps(folder: Path) -> Maps:
    """attention.json in the folder. Raises ReportError naming the file and place of what is wrong."""
    path = folder / "attention.json"
    record = load_json(path)
    where = f"{path}:1"
    check_schema(record, where)
    x = need_numbers(record, "x", where)
    y = need_numbers(record, "y", where, len(x))
    if None in x + y:
        raise ReportError(f'{where}: "x" and "y" must be finite')
    runs = [_read_map(run, f"{path}: runs[{i}]", len(x)) for i, run in enumerate(need(record, "runs", list, where))]
    if not x or not runs:
        raise ReportError(f'{where}: "x" and "runs" must not be empty')
    return Maps(need(record, "task", str, where), x, y, runs)


def _told(token: tuple[str, float]) -> str:
    return f"{token[0]} = {token[1]:g}".replace("-", "−")


def _ticks(tokens: list[tuple[str, float]]) -> list[int]:
    """Tokens with a label: all, or some of the x and the largest of them, which is what one looks for."""
    if len(tokens) <= _EVERY_TOKEN:
        return list(range(len(tokens)))
    places = range(0, len(tokens), 2)
    largest = max(places, key=lambda i: abs(tokens[i][1]))
    every = 2 * -(-len(places) // _LABELS)
    return sorted([i for i in places if i % every == 0 and abs(i - largest) >= every] + [largest])


def _heat_map(rows: list[list[float | None]], tokens: list[tuple[str, float]]) -> go.Figure:
    labels = [_told(token) for token in tokens]
    # Three digits are more than a colour shows, and make the page a third as large.
    shown = [[None if w is None else float(f"{w:.3g}") for w in row] for row in rows]
    figure = go.Figure(
        go.Heatmap(
            x=labels,
            y=labels,
            z=[row + [None] * (len(tokens) - len(row)) for row in shown],
            zmin=-1,
            zmax=1,
            colorscale=[((weight + 1) / 2, colour) for weight, colour in _NEGATIVE + _POSITIVE],
            showscale=False,
            hoverongaps=False,
            hovertemplate="query %{y}<br>key %{x}<br><b>weight %{z}</b><extra></extra>",
        )
    )
    figure.update_layout(template="none", plot_bgcolor=_HIDDEN)  # its height is the style sheet's
    ticks = [labels[i] for i in _ticks(tokens)]
    axis = {"type": "category", "showgrid": False, "tickmode": "array", "tickvals": ticks, "tickfont": {"size": 10}}
    figure.update_xaxes(title_text="key", tickangle=-90, constrain="domain", **axis)
    # The first query on top, cells square.
    figure.update_yaxes(
        title_text="query", autorange="reversed", scaleanchor="x", constrain="domain", constraintoward="top", **axis
    )
    return figure


def _parameters(layer: dict[str, list[float | None]], head: int) -> str:
    """'n = 1.52, b = 0.80'; heads may share one value."""
    return ", ".join(f"{name} = {plain(values[head if len(values) > 1 else 0])}" for name, values in layer.items())


def _layer_section(maps: Maps, layer: int, page: Page) -> None:
    body = ""
    heads = max(len(m.weights[layer]) for m in maps.maps if layer < len(m.weights))
    for head in range(heads):
        row = ""
        for i, found in enumerate(maps.maps):
            if layer >= len(found.weights) or head >= len(found.weights[layer]):
                row += f"<figure><figcaption>{escape(found.score)}<small>has no such head</small></figcaption></figure>"
                continue
            note = "; ".join(filter(None, [found.run, _parameters(found.parameters[layer], head)]))
            figure = _heat_map(found.weights[layer][head], maps.tokens)
            row += page.panel(f"map-{layer}-{head}-{i}", found.score, note, figure)
        body += f'<h3>Head {head + 1}</h3><div class="maps">{row}</div>'
    page.section(f"layer-{layer}", f"Layer {layer + 1}", body, open=True)


def _key(maps: Maps) -> str:
    """The colour scale, as wide for each step as for the next; its negative half only where it is used."""
    every = (w for m in maps.maps for layer in m.weights for rows in layer for row in rows for w in row)
    scale = (_NEGATIVE if any(w is not None and w < 0 for w in every) else []) + _POSITIVE
    stops = [f"{colour} {100 * i / (len(scale) - 1):g}%" for i, (_, colour) in enumerate(scale)]
    values = "".join(f"<span>{weight:g}</span>".replace("-", "−") for weight, _ in scale)
    return (
        f'<div class="scale"><div style="background:linear-gradient(to right,{",".join(stops)})"></div>'
        f'<p>{values}</p></div><p class="legend"><span><i style="background:{_HIDDEN}"></i> '
        "later than the query: not visible</span></p>"
    )


def _wrong(maps: Maps, prediction: float | None, y: float) -> bool:
    """Whether a quantifier's answer has the wrong sign."""
    return maps.task != "icl-linear" and (prediction is None or prediction * y <= 0)


def _input_section(maps: Maps, page: Page) -> None:
    head = ["<th scope=col>Point</th>", "<th scope=col>x</th>", "<th scope=col>y</th>"]
    head += [f"<th scope=col>{escape(m.score)}<br><small>{escape(m.run)}</small></th>" for m in maps.maps]
    rows = []
    for i, (x, y) in enumerate(zip(maps.x, maps.y, strict=True)):
        answers = [
            f"<td>{plain(m.predictions[i])}{' ✗' if _wrong(maps, m.predictions[i], y) else ''}</td>" for m in maps.maps
        ]
        cells = "".join(f"<td>{v:g}</td>".replace("-", "−") for v in (x, y))
        rows.append(f"<tr><th scope=row>{i + 1}</th>{cells}{''.join(answers)}</tr>")
    words = "" if maps.task == "icl-linear" else " ✗ marks the wrong sign."
    body = f"<p>What each model answers at x, having read the points before it.{words}</p>{table(head, rows)}"
    page.section("input", "The input and the answers", body, open=True)


def _share(found: Map, token: int) -> float | None:
    """Of the attention of the queries that see a token, what it gets: mean over layers, heads and queries."""
    return summarise(row[token] for layer in found.weights for head in layer for row in head[token:]).mean


def _sentence(maps: Maps) -> str:
    """Where the largest input stands in each run's attention."""
    point = max(range(len(maps.x)), key=lambda i: abs(maps.x[i]))
    told = []
    for found in maps.maps:
        share = _share(found, 2 * point)
        told.append(f"{found.score} {'not finite' if share is None else plain(100 * share, 2) + ' %'}")
    return (
        f"The largest input, {_told(maps.tokens[2 * point])}, gets of the attention that may see it: {', '.join(told)}."
    )


def build(folder: Path) -> str:
    """The page of the attention.json in a folder, as one HTML text. Raises ReportError with one line."""
    maps = read_maps(folder)
    scores = ", ".join(dict.fromkeys(m.score for m in maps.maps))
    steps = ", ".join(dict.fromkeys(counted(m.step, "step") for m in maps.maps))
    lead = (
        f"Attention weights of {escape(scores)} on {escape(maps.task)} after {steps}, for one sequence of "
        f"{count(len(maps.x), 'point')}. A row is a query: what it gives to each key, 1 in all for most scores. Point "
        "at a cell for its value. The colour scale is the same everywhere."
    )
    page = Page(f"Attention: {scores}", _sentence(maps), lead, template())
    page.section("scale", "Colour scale", _key(maps), open=True)
    for layer in range(max(len(m.weights) for m in maps.maps)):
        _layer_section(maps, layer, page)
    _input_section(maps, page)
    return page.html()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ssa_attention.report.attention",
        description="Writes one HTML file of heat maps from the attention.json of `ssa attention`.",
        epilog="Example: python -m ssa_attention.report.attention maps -o attention.html",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="what `ssa attention --out` wrote")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where the page goes (default: FOLDER/attention.html)",
    )
    options = parser.parse_args(arguments)
    output = options.output or options.folder / "attention.html"
    return write_built("attention", lambda: build(options.folder), output)


if __name__ == "__main__":
    sys.exit(main())
