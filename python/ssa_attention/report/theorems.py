"""Near the top: what the two theorems say of softmax and of SSA, and the weights w(s) beside e^s that they are about."""

from __future__ import annotations

import math
from html import escape

import plotly.graph_objects as go

from .names import REFERENCE, order_scores
from .page import Page, legend, panels, table
from .panel import Axis, Panel, label, log_ticks, palette
from .reading import Cell, Study
from .statistics import plain, summarise

_TITLES = {"magnification": "All scores magnified", "disproportion": "One score grows alone"}
_WORDS = {
    "magnification": "All scores are multiplied by λ. Softmax: the mass beside the largest score vanishes "
    "exponentially. SSA: it tends to a constant against positive scores, and falls like a power of λ against zero "
    "and negative ones.",
    "disproportion": "One score t grows and the others stay. Softmax: the mass beside it falls like e<sup>−t</sup>. "
    "SSA: like t<sup>−n</sup>.",
}
_X_TITLES = {"magnification": "λ (all scores times λ)", "disproportion": "t (the one large score)"}
_LOWEST = 1e-12  # of the mass that is shown: softmax falls out of every figure
_SMALLEST_X, _LARGEST_X = 0.1, 1e6


def _points(entry: dict) -> list[tuple[float, float]]:
    """(x, mass beside the largest score) of what both log axes can show."""
    return [
        (x, math.exp(miss))
        for x, miss in zip(entry["x"], entry["log_miss"], strict=True)
        if x is not None and miss is not None and _SMALLEST_X <= x <= _LARGEST_X and math.log(_LOWEST) <= miss <= 0
    ]


def theorem(entries: list[dict], colours: dict[str, str]) -> go.Figure:
    """1 − p_max of every score against the magnification or the one large score, on the same two log axes: there a power
    law is a line, an exponential a cliff."""
    x_title = _X_TITLES.get(entries[0]["theorem"], "x")
    figure = Panel(x_title, Axis("1 − p<sub>max</sub>", log=True)).figure
    everything = []
    for score in order_scores(e["score"] for e in entries):
        for entry in (e for e in entries if e["score"] == score):
            points = _points(entry)
            everything += points
            name = label(score)
            figure.add_scatter(
                x=[x for x, _ in points],
                y=[y for _, y in points],
                name=name,
                mode="lines",
                line={"color": colours[score], "width": 2.5, "dash": "solid" if score in (REFERENCE, "ssa") else "dot"},
                hovertext=[f"<b>{name}</b><br>{plain(x)}: 1 − p = {plain(y)}" for x, y in points],
                hoverinfo="text",
                meta={"kind": "computed", "name": name},
            )
    if everything:
        xs, ys = ([point[k] for point in everything] for k in (0, 1))
        figure.update_xaxes(type="log", **log_ticks(min(xs), max(xs)))
        figure.update_yaxes(**log_ticks(min(ys), max(ys)))
    return figure


def _slopes(entries: list[dict]) -> str:
    head = [f"<th scope=col>{h}</th>" for h in ("Case and score", "Slope per", "Fitted", "Predicted")]
    rows = []
    for t in entries:
        unit = "log x" if t["axis"] == "log" else "x"
        rows.append(
            f"<tr><th scope=row>{escape(t['case'])}: {escape(t['score'])}{_parameters(t)}</th><td>{unit}</td>"
            f"<td>{_slope(t['fitted_slope'])}</td><td>{_slope(t['predicted_slope'])}</td></tr>"
        )
    return f"<details><summary>Slopes, fitted and predicted</summary>{table(head, rows)}</details>"


def _slope(slope: float | None) -> str:
    if slope is None:
        return "not finite"
    return f"{round(slope, 4) + 0.0:.4f}".replace("-", "−") if abs(slope) < 1e6 else plain(slope)


def _parameters(entry: dict) -> str:
    told = ", ".join(f"{k} = {plain(v)}" for k, v in entry.get("params", {}).items())
    return f" <small>({escape(told)})</small>" if told else ""


# (n, b): the start of training, and two that are nearer to softmax.
_STARTS = [(1.5, 0.8), (3.0, 0.4), (10.0, 0.1)]
_SCORES = [k / 4 for k in range(-40, 41)]


def weight(s: float, n: float, b: float) -> float:
    """w(s) = (1 + b·|s|)^(sgn(s)·n), SSA's weight of a score before normalising."""
    return math.exp(math.copysign(n * math.log1p(b * abs(s)), s))


def trained(cells: list[Cell]) -> list[tuple[str, float, float]]:
    """(label, n, b) of every layer of score ssa: mean over heads, seeds and variants of one depth."""
    layers: dict[int, dict[str, list[float]]] = {}
    for cell in (c for c in cells if c.score == "ssa"):
        for k, layer in enumerate(cell.parameters):
            for name in ("n", "b"):
                mean = summarise(layer.get(name, ())).mean
                if mean is not None:
                    layers.setdefault(k, {"n": [], "b": []})[name].append(mean)
    found = [(k, *(summarise(of[name]).mean for name in ("n", "b"))) for k, of in sorted(layers.items())]
    return [
        (f"trained, layer {k + 1}: n = {plain(n)}, b = {plain(b)}", n, b)
        for k, n, b in found
        if n is not None and b is not None and 0 < n < 1e3 and 0 < b < 1e6
    ]


def weights(curves: list[tuple[str, float, float]], shades: list[str], colours: dict[str, str], log: bool) -> go.Figure:
    """w(s) of several n and b beside e^s."""
    figure = Panel("score s", Axis("weight before normalising", log=log)).figure
    shown = [("eˢ (softmax)", [math.exp(s) for s in _SCORES], colours[REFERENCE], "dash")]
    shown += [
        (label(name), [weight(s, n, b) for s in _SCORES], shade, "solid")
        for (name, n, b), shade in zip(curves, shades, strict=True)
    ]
    for name, y, colour, dash in shown:
        figure.add_scatter(
            x=_SCORES,
            y=y,
            name=name,
            mode="lines",
            line={"color": colour, "width": 2.5, "dash": dash},
            hovertext=[f"<b>{name}</b><br>s = {s:g}: {plain(v)}" for s, v in zip(_SCORES, y, strict=True)],
            hoverinfo="text",
            meta={"kind": "mean", "name": name},
        )
    if log:
        figure.update_yaxes(**log_ticks(math.exp(-10), math.exp(10)))
        return figure
    return figure.update_xaxes(range=[-3, 3]).update_yaxes(range=[0, 8])


_SHADES = ["#0072b2", "#56b4e9", "#009e73", "#cc79a7", "#8a6d00", "#6a3d9a", "#7f4f24", "#e6ab02"]


def _weights_body(study: Study, page: Page, colours: dict[str, str]) -> str:
    if "ssa" not in [*study.scores(), *(t["score"] for t in study.theorems)]:
        return ""
    curves = [(f"n = {plain(n)}, b = {plain(b)}", n, b) for n, b in _STARTS] + trained(study.cells)[:5]
    shades = [_SHADES[i % len(_SHADES)] for i in range(len(curves))]
    drawn = [
        page.panel(f"weights-{name}", title, note, weights(curves, shades, colours, log))
        for name, title, note, log in (
            ("near", "Near s = 0", "linear axis", False),
            ("far", "Far from it", "log axis: eˢ is a line", True),
        )
    ]
    key = legend({"eˢ (softmax)": colours[REFERENCE]} | dict(zip((c[0] for c in curves), shades, strict=True)))
    words = (
        "<p>SSA weighs a score s with w(s) = (1 + b·|s|)<sup>sgn(s)·n</sup>, softmax with e<sup>s</sup>. For large n "
        "and n·b = 1 the first tends to the second.</p>"
    )
    return f'<h3 id="weights">The weights w(s) beside eˢ</h3>{words}{key}{panels(drawn)}'


def section(study: Study, page: Page) -> None:
    colours = palette(study)
    body, subsections = "", []
    for name in dict.fromkeys(t["theorem"] for t in study.theorems):
        entries = [t for t in study.theorems if t["theorem"] == name]
        title, words = _TITLES.get(name, name), _WORDS.get(name, "")
        drawn = [
            page.panel(
                f"theorem-{name}-{k}",
                case.capitalize(),
                "",
                theorem([t for t in entries if t["case"] == case], colours),
            )
            for k, case in enumerate(dict.fromkeys(t["case"] for t in entries))
        ]
        anchor = page.identifier(f"theorem-{name}")
        subsections.append((anchor, title))
        body += f'<h3 id="{anchor}">{escape(title)}</h3><p>{words}</p>{panels(drawn)}{_slopes(entries)}'
    if body:
        used = {s: colours[s] for s in order_scores(t["score"] for t in study.theorems)}
        lead = "<p>How fast the attention mass beside the largest score vanishes, computed in double precision.</p>"
        body = lead + legend(used) + body
    shown = _weights_body(study, page, colours)
    if shown:
        subsections.append(("weights", "w(s) beside eˢ"))
        body += shown
    if body:
        title = "The two theorems" if study.theorems else "The weights of SSA and of softmax"
        page.section("theorems", title, body, subsections, open=bool(study.theorems))
