"""Language models: perplexity by text and length, zero-shot tasks beside chance."""

from __future__ import annotations

from html import escape

import plotly.graph_objects as go

from .centres import centre
from .comparison import Effects
from .evaluations import BY_CHANCE, CHOICE_SUITE, MAJORITY, MODEL, PERPLEXITY_SUITE, Item
from .figures import by_score, value_axis
from .page import Page, legend, panels
from .panel import BASELINE_COLOUR, Panel, label, metric_axis, palette
from .reading import Cell, Study
from .sections import compared, numbered, scores_key, seeds
from .statistics import MIN_SEEDS, count, plain, summarise, told


def _items(cells: list[Cell], suite: str, predictor: str = MODEL) -> list[Item]:
    return list(dict.fromkeys(item for c in cells for p, item in c.items if p == predictor and item.suite == suite))


def _length(cells: list[Cell], item: Item) -> int:
    """Tokens of the windows; 1 for the first length where no file says it."""
    return item.length or next((c.first_length for c in cells if c.first_length), 1)


def _lengths(cells: list[Cell], items: list[Item], colours: dict[str, str]) -> go.Figure:
    """Perplexity of one text against the length of the windows."""
    panel = Panel("tokens of context", metric_axis("perplexity"))
    items = sorted(items, key=lambda item: _length(cells, item))
    x = [float(_length(cells, item)) for item in items]
    for score, of_score in by_score(cells).items():
        summaries = [centre(of_score, item) for item in items]
        if any(s.seeds for s in summaries):
            panel.line(x, summaries, score, colours[score], lambda at: f"{at:g} tokens")
    return value_axis(panel.finish(), x)


def perplexity_section(study: Study, found: Effects, page: Page) -> None:
    colours = palette(study)
    body = ""
    for i, variant, cells in numbered(study):
        items = [item for item in _items(cells, PERPLEXITY_SUITE) if item.metric == "perplexity"]
        drawn = []
        for text in dict.fromkeys(item.text for item in items):
            of_text = [item for item in items if item.text == text]
            figure = _lengths(cells, of_text, colours)
            drawn.append(page.panel(f"perplexity-{i}-{text}", text, seeds(cells), figure))
            ordered = sorted(of_text, key=lambda item: _length(cells, item))
            at = [float(_length(cells, item)) for item in ordered]
            drawn += compared(
                page, f"perplexity-{i}-{text}", text, cells, ordered, at, "tokens of context", found, colours
            )
        if drawn:
            body += f'<h3 id="texts-{i}">{escape(variant)}</h3>{panels(drawn)}'
    if body:
        lead = (
            "<p>Perplexity of each text, in windows of the trained length and of longer ones: lower is better. Texts of "
            "another kind than the training text are out of distribution. Geometric means over seeds with their 95 % "
            "intervals; beside them the ratio to softmax, paired by seed.</p>"
        )
        page.section("perplexity", "Perplexity by text and length", lead + legend(scores_key(study)) + body)


def _level(cells: list[Cell], task: Item, predictor: str) -> float | None:
    """Of a predictor that reads nothing; in every cell the same."""
    return summarise(c.items[predictor, task] for c in cells if (predictor, task) in c.items).mean


def _tasks(cells: list[Cell], tasks: list[Item], colours: dict[str, str]) -> go.Figure:
    """Tasks downwards: a mark for each score with its interval, a tick for chance and one for the most frequent answer."""
    figure = go.Figure()
    scores = by_score(cells)
    step = 0.7 / len(scores)
    for order, (score, of_score) in enumerate(scores.items()):
        summaries = [centre(of_score, task) for task in tasks]
        enough = max(s.seeds for s in summaries) >= MIN_SEEDS
        name = label(score)
        figure.add_scatter(
            x=[s.mean for s in summaries],
            y=[row + step * (order - (len(scores) - 1) / 2) for row in range(len(tasks))],
            error_x={"array": [s.interval for s in summaries], "thickness": 1.4, "width": 0} if enough else None,
            mode="markers",
            name=name,
            marker={"size": 8, "color": colours[score]},
            hovertext=[f"<b>{name}</b><br>{told(s)} % ({count(s.seeds, 'seed')})" for s in summaries],
            hoverinfo="text",
            meta={"kind": "mean", "name": name},
        )
    for predictor, symbol in ((BY_CHANCE, "line-ns-open"), (MAJORITY, "x-thin-open")):
        levels = [(row, _level(cells, task, predictor)) for row, task in enumerate(tasks)]
        known = [(row, value) for row, value in levels if value is not None]
        if known:
            figure.add_scatter(
                x=[value for _, value in known],
                y=[row for row, _ in known],
                mode="markers",
                name=predictor,
                marker={"symbol": symbol, "size": 18 if predictor == BY_CHANCE else 8, "color": BASELINE_COLOUR},
                hovertext=[f"<b>{predictor}</b><br>{plain(value)} %" for _, value in known],
                hoverinfo="text",
                meta={"kind": "level", "name": predictor},
            )
    axis = metric_axis("acc")
    figure.update_xaxes(title_text=axis.title, ticksuffix=axis.tick_suffix, rangemode="tozero")
    figure.update_yaxes(
        tickvals=list(range(len(tasks))),
        ticktext=[label(task.name.replace("_", " ")) for task in tasks],
        range=[len(tasks) - 0.5, -0.5],
        zeroline=False,
    )
    height = max(26, 11 * len(scores) + 8)
    return figure.update_layout(template="none", height=70 + height * len(tasks))


def choice_section(study: Study, page: Page) -> None:
    colours = palette(study)
    body = ""
    for i, variant, cells in numbered(study):
        tasks = [item for item in _items(cells, CHOICE_SUITE) if item.metric == "acc"]
        if tasks:
            measured = [c for c in cells if any(item.suite == CHOICE_SUITE for _, item in c.items)]
            panel = page.panel(f"choices-{i}", "Accuracy by task", seeds(measured), _tasks(measured, tasks, colours))
            body += f'<h3 id="tasks-{i}">{escape(variant)}</h3><div class="panels full">{panel}</div>'
    if body:
        lead = (
            "<p>Multiple-choice tasks without an example: the choice with the largest log-probability is the answer. The "
            "grey bar is chance, the cross what the most frequent right answer would get. A score whose interval "
            "holds chance shows nothing on that task.</p>"
        )
        key = page.marker_key([(BY_CHANCE, BASELINE_COLOUR, "bar"), (MAJORITY, BASELINE_COLOUR, "cross")])
        page.section("choices", "Zero-shot tasks beside chance", lead + legend(scores_key(study)) + key + body)
