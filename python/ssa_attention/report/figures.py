"""The panels of the report: one small plotly figure each."""

from __future__ import annotations

import math
from collections.abc import Callable

import plotly.graph_objects as go

from .centres import centre
from .evaluations import MODEL, Attention, Condition
from .metrics import metric_of
from .names import order_scores, signed
from .panel import BASELINE_COLOUR, BASELINE_DASHES, Axis, Panel, label, layer_colour, metric_axis, translucent
from .reading import Cell
from .statistics import LOG_ODDS, PLAIN, Summary, plain, summarise, with_interval
from .verdicts import Effect

MAX_POINTS = 400  # of one line over steps; longer series are averaged in buckets


def by_score(cells: list[Cell]) -> dict[str, list[Cell]]:
    return {score: [c for c in cells if c.score == score] for score in order_scores(c.score for c in cells)}


def baseline_value(cells: list[Cell], predictor: str, condition: Condition) -> float | None:
    """A baseline depends on the test data alone, so cells of the same data seed agree."""
    return summarise(c.means[predictor, condition] for c in cells if (predictor, condition) in c.means).mean


def baselines(cells: list[Cell], conditions: list[Condition]) -> list[str]:
    names = {p for cell in cells for p, condition in cell.means if condition in conditions}
    return [n for n in BASELINE_DASHES if n in names] + sorted(names - {MODEL, *BASELINE_DASHES})


def curve(
    cells: list[Cell],
    conditions: list[Condition],
    x: list,
    x_title: str,
    colours: dict[str, str],
    describe: Callable[[object], str],
) -> go.Figure:
    """Error of every score over conditions[i] at x[i], baselines dashed. x: numbers, or strings for categories."""
    panel = Panel(x_title, metric_axis(conditions[0].metric))
    for score, of_score in by_score(cells).items():
        known = [
            (at, c) for at, c in zip(x, conditions, strict=True) if any((MODEL, c) in cell.means for cell in of_score)
        ]
        summaries = [centre(of_score, c) for _, c in known]
        if known:
            panel.line([at for at, _ in known], summaries, score, colours[score], describe)
    for name in baselines(cells, conditions):
        panel.baseline(x, [baseline_value(cells, name, c) for c in conditions], name)
    return value_axis(panel.finish(), x)


Curve = list[tuple[float | str, Effect]]  # (where on the axis, effect)


def effects(curves: list[tuple[str, Curve]], x_title: str, colours: dict[str, str]) -> go.Figure | None:
    """Ratios of every score to the reference over the values of a shift, paired by seed; marks without a verdict are open."""
    ratios = [(score, [(x, e) for x, e in curve if e.is_ratio and e.effect]) for score, curve in curves]
    ratios = [(score, curve) for score, curve in ratios if curve]
    if not ratios:
        return None
    odds = any(e.scale == LOG_ODDS for _, curve in ratios for _, e in curve)
    panel = Panel(x_title, Axis("odds ratio of errors" if odds else "ratio", log=True))
    for score, curve in ratios:
        panel.effects(curve, score, colours[score])
    figure = panel.finish()
    figure.add_hline(y=1, line={"color": BASELINE_COLOUR, "width": 1.5})
    places = [x for x in dict.fromkeys(x for _, curve in ratios for x, _ in curve)]
    return value_axis(figure, places)


def value_axis(figure: go.Figure, x: list) -> go.Figure:
    """The tested values of a shift, or its categories."""
    if isinstance(x[0], str):
        return _categories(figure, x)
    spread = max(x) / min(x) if min(x) > 0 else 1
    ticks = _spaced_ticks(sorted(x), log=spread >= 8)
    kind = "log" if spread >= 8 else "linear"
    return figure.update_xaxes(type=kind, tickvals=ticks, ticktext=[f"{t:g}" for t in ticks])


def _categories(figure: go.Figure, labels: list[str]) -> go.Figure:
    return figure.update_xaxes(
        type="category", categoryorder="array", categoryarray=labels, tickangle=0, tickfont={"size": 10}
    )


def _spaced_ticks(x: list[float], log: bool) -> list[float]:
    """The tested values, without those whose labels would overlap."""
    place = math.log if log else float
    gap = (place(max(x)) - place(min(x))) / 12
    ticks = [x[0]]
    for value in x[1:]:
        if place(value) - place(ticks[-1]) >= gap:
            ticks.append(value)
    return ticks


def per_position(cells: list[Cell], condition: Condition, colours: dict[str, str]) -> go.Figure | None:
    """Error at each position of the sequence."""
    panel = Panel("position in the sequence", metric_axis(condition.metric))
    drawn = False
    for score, of_score in by_score(cells).items():
        known = [c for c in of_score if c.evaluation and (MODEL, condition) in c.evaluation.per_position]
        curves = [c.evaluation.per_position[MODEL, condition] for c in known]
        if not curves:
            continue
        drawn = True
        scale, trials = metric_of(condition.metric).scale, [c.evaluation.sequences for c in known]
        summaries = [summarise(values, scale, trials) for values in zip(*curves, strict=True)]
        panel.line(
            list(range(1, len(summaries) + 1)),
            summaries,
            score,
            colours[score],
            lambda i: f"position {i}",
            markers=False,
        )
    for name in baselines(cells, [condition]):
        found = [
            c.evaluation.per_position[name, condition]
            for c in cells
            if c.evaluation and (name, condition) in c.evaluation.per_position
        ]
        if found:
            panel.baseline(list(range(1, len(found[0]) + 1)), found[0], name)
    if not drawn:
        return None
    figure = panel.finish()
    planted = {c.evaluation.huge_position for c in cells if c.evaluation} - {None}
    for position in sorted(planted) if condition.shift == "huge" else ():
        figure.add_vline(x=position, line={"color": BASELINE_COLOUR, "width": 1, "dash": "dot"})
        figure.add_annotation(
            x=position,
            y=1,
            yref="paper",
            text="planted",
            showarrow=False,
            xanchor="left",
            xshift=3,
            yanchor="top",
            font={"size": 10},
        )
    return figure


def attention(
    cells: list[Cell],
    statistic: str,
    layer: int,
    shift: str,
    values: list[tuple[float, ...]],
    axis: Axis,
    x_title: str,
    colours: dict[str, str],
) -> go.Figure | None:
    """Mean over heads of one attention statistic against the shift's value; the heads as a light band."""
    panel = Panel(x_title, axis)
    labels = [signed(v) for v in values]
    drawn = False
    for score, of_score in by_score(cells).items():
        tables = [
            _heads(c.evaluation.attention, statistic, layer, shift)
            for c in of_score
            if c.evaluation and c.evaluation.attention
        ]
        tables = [t for t in tables if all(v in t for v in values)]
        if not tables:
            continue
        drawn = True
        panel.line(
            labels,
            [summarise(summarise(t[v]).mean for t in tables) for v in values],
            score,
            colours[score],
            lambda label: f"value {label}, mean over heads",
        )
    if not drawn:
        return None
    return _categories(panel.finish(), labels)


def _heads(rows: list[Attention], statistic: str, layer: int, shift: str) -> dict[tuple, list[float | None]]:
    table: dict[tuple, list] = {}
    for row in rows:
        if row.layer == layer and row.shift == shift:
            table.setdefault(row.value, []).append(getattr(row, statistic))
    return table


def over_steps(
    cells: list[Cell],
    read: Callable[[dict], float | None],
    validation: bool,
    axis: Axis,
    colours: dict[str, str],
    scale: str = PLAIN,
) -> go.Figure | None:
    """A figure of metrics.jsonl over training steps, mean over seeds on the scale."""
    panel = Panel("step", axis)
    drawn = False
    for score, of_score in by_score(cells).items():
        series = [_series(c, read, validation) for c in of_score if c.run]
        series = [s for s in series if s]
        if not series:
            continue
        drawn = True
        steps, summaries = _aligned(series, scale)
        panel.line(steps, summaries, score, colours[score], lambda s: f"step {s:g}", markers=len(steps) < 15)
    return panel.finish() if drawn else None


def _series(cell: Cell, read: Callable[[dict], float | None], validation: bool) -> dict[int, float | None]:
    lines = cell.run.validation if validation else cell.run.training
    found = {}
    for line in lines:
        try:
            found[line["step"]] = read(line)
        except (KeyError, IndexError):
            continue  # not every line has every figure
    return found


def _aligned(series: list[dict[int, float | None]], scale: str = PLAIN) -> tuple[list[float], list[Summary]]:
    """Steps that every seed has reached, in at most MAX_POINTS buckets, summarised over seeds."""
    steps = sorted(set.intersection(*(set(s) for s in series))) or sorted(set().union(*series))
    size = math.ceil(len(steps) / MAX_POINTS)
    buckets = [steps[i : i + size] for i in range(0, len(steps), size)]
    positions = [sum(b) / len(b) for b in buckets]
    return positions, [
        summarise((summarise(s[i] for i in b if i in s).mean for s in series if b[0] in s), scale) for b in buckets
    ]


def score_parameter(cells: list[Cell], name: str) -> tuple[go.Figure, int] | None:
    """One parameter of the score over steps: a line per layer (mean over heads and seeds), a light band from
    the smallest to the largest head. Returns the figure and the number of layers."""
    runs = [c for c in cells if c.run]
    layers = max(
        (len(line["score_parameters"]) for c in runs for line in c.run.training if "score_parameters" in line),
        default=0,
    )
    panel = Panel("step", Axis(label(name)))
    drawn = False
    for layer in range(layers):
        columns = []
        for column in range(3):

            def read(line: dict, layer=layer, column=column) -> float | None:
                return line["score_parameters"][layer][name][column]

            series = [_series(c, read, validation=False) for c in runs]
            series = [s for s in series if s]
            columns.append(_aligned(series) if series else None)
        if columns[0] is None:
            continue
        drawn = True
        steps = columns[0][0]
        low, mean, high = ([s.mean for s in summaries] for _, summaries in columns)
        colour = layer_colour(layer, layers)
        if None not in low and None not in high:
            panel.band(steps, low, high, colour, "range", f"layer {layer + 1}", 0.09)
        told = [
            f"<b>layer {layer + 1}</b><br>step {s:g}<br>{label(name)} = {plain(m, 4)}<br>heads {plain(a, 4)} to {plain(b, 4)}"
            for s, a, m, b in zip(steps, low, mean, high, strict=True)
        ]
        panel.figure.add_scatter(
            x=steps,
            y=mean,
            name=f"layer {layer + 1}",
            mode="lines",
            line={"color": colour, "width": 2},
            hovertext=told,
            hoverinfo="text",
            meta={"kind": "mean", "name": f"layer {layer + 1}"},
        )
    return (panel.figure, layers) if drawn else None


def with_parameter(cells: list[Cell], name: str) -> list[Cell]:
    """The cells whose score has that parameter and whose files tell where it went."""
    return [c for c in cells if any(name in layer for layer in c.parameters)]


def final_parameter(cells: list[Cell], name: str, colours: dict[str, str]) -> go.Figure:
    """One parameter of the scores after training: a dot for every head of every seed; beside each other the means
    over heads, summarised over seeds, with their interval as a bar."""
    groups = by_score(with_parameter(cells, name))
    panel = Panel("layer", Axis(label(name)))
    layers = max(len(c.parameters) for c in cells)
    for order, (score, of_score) in enumerate(groups.items()):
        colour = colours[score]
        beside = 0.7 * ((order + 0.5) / len(groups) - 0.5)
        heads = [
            (k + 1, h + 1, c.seed, value)
            for k in range(len(of_score[0].parameters))
            for c in of_score
            for h, value in enumerate(c.parameters[k][name])
        ]
        panel.figure.add_scatter(
            x=[layer + beside for layer, _, _, _ in heads],
            y=[value for _, _, _, value in heads],
            mode="markers",
            marker={"size": 4, "color": translucent(colour, 0.45)},
            hovertext=[
                f"<b>{label(score)}</b>, seed {s}<br>layer {k}, head {h}<br>{plain(v, 4)}" for k, h, s, v in heads
            ],
            hoverinfo="text",
            meta={"kind": "heads", "name": label(score)},
        )
        means = layer_means(of_score, name)
        panel.figure.add_scatter(
            x=[k + 1 + beside for k in range(len(means))],
            y=[s.mean for s in means],
            error_y={"type": "data", "array": [s.interval for s in means], "thickness": 1.5, "width": 4},
            name=label(score),
            mode="markers",
            marker={"size": 8, "color": colour, "symbol": "diamond"},
            hovertext=[
                f"<b>{label(score)}</b><br>layer {k}, mean over heads<br>{with_interval(s.mean, s.interval)}"
                for k, s in enumerate(means, start=1)
            ],
            hoverinfo="text",
            meta={"kind": "mean", "name": label(score)},
        )
    panel.figure.update_layout(height=320)
    return panel.figure.update_xaxes(tickvals=list(range(1, layers + 1)), range=[0.5, layers + 0.5])


def layer_means(cells: list[Cell], name: str) -> list[Summary]:
    """For each layer a parameter's mean over heads, summarised over the seeds of one score."""
    return [summarise(summarise(c.parameters[k][name]).mean for c in cells) for k in range(len(cells[0].parameters))]


def heatmap(
    x: list[float],
    y: list[float],
    z: list[list[float | None]],
    text: list[list[str]],
    x_title: str,
    y_title: str,
    colours: list[str],
    bounds: tuple[float, float],
) -> go.Figure:
    """A coloured table over two shifts at once; z says the colour, text what stands in the cells."""
    labels = [[f"{v:g}" for v in axis] for axis in (x, y)]
    stops = [[i / (len(colours) - 1), colour] for i, colour in enumerate(colours)]
    figure = go.Figure(
        go.Heatmap(
            x=labels[0],
            y=labels[1],
            z=z,
            text=text,
            texttemplate="%{text}",
            zmin=bounds[0],
            zmax=bounds[1],
            colorscale=stops,
            hoverinfo="skip",
            xgap=1,
            ygap=1,
            showscale=False,
            textfont={"size": 11},
        )
    )
    figure.update_layout(template="none", height=300, plot_bgcolor="#c3c8cd")  # grey: cells without a colour
    figure.update_xaxes(title_text=x_title, type="category", showgrid=False)
    figure.update_yaxes(title_text=y_title, type="category", showgrid=False)
    return figure
