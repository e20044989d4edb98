"""How every panel of the report looks: colours, axes, lines with bands."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import plotly.graph_objects as go

from .metrics import metric_of
from .names import order_scores
from .reading import Study
from .statistics import MIN_SEEDS, Summary, count, plain, told
from .verdicts import BETTER, EQUIVALENT, WORSE, Effect

# Okabe and Ito's colours, told apart by colour-blind readers too.
_COLOURS = {"softmax": "#d55e00", "ssa": "#0072b2"}
_MORE_COLOURS = ["#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#6a3d9a", "#7f4f24"]
# For sweeps, where a colour for each label matters more than telling all of them apart at a glance.
_MORE_COLOURS += ["#e6ab02", "#64748b", "#99c140", "#b10060", "#f4978e", "#0b6e75", "#b39ddb", "#e31a1c"]
GREY = "#7d858c"  # what no verdict is given on
BASELINE_COLOUR = "#7d858c"
BASELINE_DASHES = {
    "constant": "dot",
    "position": "longdashdot",
    "least-squares": "dash",
    "3-nearest": "dashdot",
    "average": "longdash",
}


@dataclass(frozen=True)
class Axis:
    title: str
    log: bool = False
    unit_scale: float = 1.0  # shares are shown in percent
    tick_suffix: str = ""
    bounds: tuple[float | None, float | None] = (None, None)  # what a band may not leave
    fixed: bool = False  # whether the axis always shows all of its bounds


def metric_axis(name: str) -> Axis:
    metric = metric_of(name)
    return Axis(
        label(metric.axis_title), metric.log_axis, metric.multiplier, metric.suffix, metric.bounds, metric.fixed
    )


def layer_colour(layer: int, layers: int) -> str:
    """A colour for each layer, from the first (dark) to the last (light), interpolated for deep models."""
    stops = ["#3b0f70", "#2c728e", "#28ae80", "#d8b70a"]
    if layers == 1:
        return stops[0]
    place = layer / (layers - 1) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    mix = place - low
    channels = [
        round(int(stops[low][i : i + 2], 16) * (1 - mix) + int(stops[low + 1][i : i + 2], 16) * mix) for i in (1, 3, 5)
    ]
    return "#{:02x}{:02x}{:02x}".format(*channels)


def palette(study: Study) -> dict[str, str]:
    """The colour of every score that the report shows anywhere."""
    scores = order_scores([*study.scores(), *(t["score"] for t in study.theorems)])
    others = [score for score in scores if score not in _COLOURS]
    return _COLOURS | {score: _MORE_COLOURS[i % len(_MORE_COLOURS)] for i, score in enumerate(others)}


def template() -> dict:
    """Shared look of all panels; the page hands it to plotly.js once, in the colours of its light or dark look."""
    axis = {
        "fixedrange": True,  # dragging scrolls the page
        "ticks": "outside",
        "ticklen": 4,
        "automargin": True,
        "title": {"standoff": 6},
    }
    layout = go.Layout(
        font={
            "family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif",
            "size": 12,
        },
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=False,
        height=250,
        margin={"l": 52, "r": 20, "t": 10, "b": 44},
        xaxis=axis | {"tickangle": 0},
        yaxis=axis,
        hovermode="closest",
        dragmode=False,
    )
    return {"layout": layout.to_plotly_json()}


def translucent(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def label(name: str) -> str:
    """A name from a file as plotly's text, which knows tags and links of its own."""
    return escape(name, quote=False)


SMALLEST = 1e-300  # on a log axis: what is smaller has no decade


class Panel:
    """A figure with one x and one y axis, drawn line by line."""

    def __init__(self, x_title: str, y: Axis):
        self.y = y  # its title may hold plotly's tags
        self._bands: list[tuple[list, list[Summary], str, str]] = []
        self._ends: list[float] = []  # of bands, as the axis shows them
        self._lines: list[go.Scatter] = []
        self.figure = go.Figure()
        self.figure.update_layout(template="none")
        self.figure.update_xaxes(title_text=x_title)
        self.figure.update_yaxes(title_text=y.title, type="log" if y.log else "linear", ticksuffix=y.tick_suffix)
        if not y.log and y.bounds[0] == 0:
            self.figure.update_yaxes(rangemode="tozero")
        if y.fixed:
            self.figure.update_yaxes(range=[y.unit_scale * b for b in y.bounds])

    def shown(self, value: float | None) -> float | None:
        """A value as the axis shows it; nothing where a log axis cannot."""
        if value is None or (self.y.log and value < SMALLEST):
            return None
        return value * self.y.unit_scale

    def line(
        self,
        x: list,
        summaries: list[Summary],
        name: str,
        colour: str,
        hover: Callable[[object], str],
        *,
        dash: str = "solid",
        markers: bool = True,
        width: float = 2,
    ) -> None:
        """Centres over seeds; with enough seeds a band of their 95 % interval, else each seed as a dot."""
        name = label(name)
        if max((s.seeds for s in summaries), default=0) >= MIN_SEEDS:
            self._bands.append((x, summaries, colour, name))
        elif markers:
            self._seed_dots(x, summaries, name, colour)
        text = [f"<b>{name}</b><br>{hover(at)}<br>{self._told(s)}" for at, s in zip(x, summaries, strict=True)]
        self._lines.append(
            go.Scatter(
                x=x,
                y=[self.shown(s.mean) for s in summaries],
                name=name,
                mode="lines+markers" if markers else "lines",
                line={"color": colour, "width": width, "dash": dash},
                marker={"size": 6},
                hovertext=text,
                hoverinfo="text",
                meta={"kind": "mean", "name": name},
            )
        )

    def _told(self, summary: Summary) -> str:
        return f"{told(summary, self.y.unit_scale)}{self.y.tick_suffix} ({count(summary.seeds, 'seed')})"

    def _seed_dots(self, x: list, summaries: list[Summary], name: str, colour: str) -> None:
        points = [(at, self.shown(v)) for at, s in zip(x, summaries, strict=True) if s.seeds > 1 for v in s.values]
        if points:
            self._lines.append(
                go.Scatter(
                    x=[p[0] for p in points],
                    y=[p[1] for p in points],
                    mode="markers",
                    hoverinfo="skip",
                    marker={"size": 4, "color": translucent(colour, 0.5)},
                    meta={"kind": "seeds", "name": name},
                )
            )

    def effects(self, curve: list[tuple[float | str, Effect]], name: str, colour: str) -> None:
        """Effects with the band of their intervals; a filled mark is a verdict."""
        name = label(name)
        judged = (BETTER, WORSE, EQUIVALENT)
        known = [(x, e) for x, e in curve if e.low is not None and e.high is not None]
        if known and len(known) == len(curve) and all(e.seeds >= MIN_SEEDS for _, e in known):
            edges = [
                [self.shown(end) for end in ends] for ends in zip(*((e.low, e.high) for _, e in known), strict=True)
            ]
            if None not in edges[0] and None not in edges[1]:
                self._ends += [*edges[0], *edges[1]]
                self.band([x for x, _ in known], *edges, colour, "band", name, 0.18)
        self._ends += [e.effect for _, e in curve] + [1.0]
        self._lines.append(
            go.Scatter(
                x=[x for x, _ in curve],
                y=[self.shown(e.effect) for _, e in curve],
                name=name,
                mode="lines+markers",
                line={"color": colour, "width": 2},
                marker={"size": 8, "symbol": ["circle" if e.kind in judged else "circle-open" for _, e in curve]},
                hovertext=[
                    f"<b>{name}</b><br>{label(str(x))}<br>" + "<br>".join(label(t) for t in e.hover().split("<br>"))
                    for x, e in curve
                ],
                hoverinfo="text",
                meta={"kind": "effect", "name": name},
            )
        )

    def baseline(self, x: list, values: list[float | None], name: str) -> None:
        dash = BASELINE_DASHES.get(name, "dot")
        name = label(name)
        text = [f"<b>{name}</b> (baseline)<br>{plain(v and v * self.y.unit_scale)}{self.y.tick_suffix}" for v in values]
        self._lines.insert(
            0,
            go.Scatter(
                x=x,
                y=[self.shown(v) for v in values],
                name=name,
                mode="lines",
                hovertext=text,
                hoverinfo="text",
                line={"color": BASELINE_COLOUR, "width": 1.5, "dash": dash},
                meta={"kind": "baseline", "name": name},
            ),
        )

    def band(self, x: list, low: list, high: list, colour: str, kind: str, name: str, opacity: float) -> None:
        """A light band between two curves: an interval, or the heads of a layer."""
        self.figure.add_scatter(
            x=[*x, *reversed(x)],
            y=[*high, *reversed(low)],
            fill="toself",
            mode="lines",
            line={"width": 0},
            fillcolor=translucent(colour, opacity),
            hoverinfo="skip",
            meta={"kind": kind, "name": name},
        )

    def _interval(self, x: list, summaries: list[Summary], colour: str, name: str) -> None:
        """Whole, whatever the axis has to hold for it."""
        for piece in _stretches(x, summaries):
            edges = [
                [self.shown(end) for end in ends] for ends in zip(*((s.low, s.high) for _, s in piece), strict=True)
            ]
            if None in edges[0] or None in edges[1]:
                continue  # a log axis has no place for it
            self._ends += [*edges[0], *edges[1]]
            self.band([at for at, _ in piece], *edges, colour, "band", name, 0.18)

    def _fit_to_scores(self) -> None:
        """Baselines far from every score would flatten the rest: the axis leaves them out, the caption names them."""
        values = {kind: [t for t in self._lines if (t.meta["kind"] == "baseline") == kind] for kind in (True, False)}
        scores = [v for trace in values[False] for v in trace.y if v is not None] + self._ends
        if not scores or max(scores) <= 0:
            return
        low, high = (min(scores) / 10, max(scores) * 10) if self.y.log else (0, max(scores) * 3)
        near, far = scores, []
        for trace in values[True]:
            known = [v for v in trace.y if v is not None]
            inside = [v for v in known if low <= v <= high]
            near = near + inside
            if known and not inside:
                ends = dict.fromkeys(plain(v, 2) + self.y.tick_suffix for v in (min(known), max(known)))
                far.append(f"{trace.name} ({' to '.join(ends)})")
        bottom, top = min(near), max(near)
        if self.y.log:
            bottom, top = max(SMALLEST, bottom), max(SMALLEST, top)
            self.figure.update_yaxes(**log_ticks(bottom, top, suffix=self.y.tick_suffix))
            pad = 0.06 * math.log10(top / bottom) + 0.02
            ends = [math.log10(bottom) - pad, math.log10(top) + pad]
        else:
            ends = [min(bottom, -0.02 * top), 1.06 * top]  # room for half a marker at 0
        if not self.y.fixed:
            self.figure.update_yaxes(range=ends)
        if far:
            self.figure.update_layout(meta={"off_scale": ", ".join(far)})

    def finish(self) -> go.Figure:
        for band in self._bands:
            self._interval(*band)
        self.figure.add_traces(self._lines)
        self._fit_to_scores()
        return self.figure


def log_ticks(low: float, high: float, prefix: str = "", suffix: str = "") -> dict:
    """Ticks of a log axis: 1, 2, 5 in every decade of a short range, else powers of ten."""
    low, high = (max(SMALLEST, end) for end in (low, high))
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    span = math.log10(high) - math.log10(low)
    factors = [1, 1.2, 1.5, 2, 3, 4, 5, 6, 8] if span < 0.5 else [1, 2, 5] if span < 1.6 else [1]
    every = max(1, round((last - first) / 6)) if span >= 2 else 1
    ticks = [f * 10.0**power for power in range(first, last + 1, every) for f in factors]
    return {"tickvals": ticks, "ticktext": [f"{prefix}{_tick(t)}{suffix}" for t in ticks]}


def _tick(value: float) -> str:
    if 0.0009 < value < 1001:
        return f"{value:.5g}"
    power = math.floor(math.log10(value) + 1e-9)
    factor = value / 10.0**power
    return (f"{factor:.3g}·" if factor > 1.01 else "") + f"10<sup>{power}</sup>".replace("-", "−")


def _stretches(x: list, summaries: list[Summary]) -> list[list[tuple[object, Summary]]]:
    """Runs of neighbouring points that have an interval: a band has gaps where its line has."""
    pieces: list[list] = [[]]
    for at, summary in zip(x, summaries, strict=True):
        if summary.low is None:
            pieces.append([])
        else:
            pieces[-1].append((at, summary))
    return [piece for piece in pieces if piece]
