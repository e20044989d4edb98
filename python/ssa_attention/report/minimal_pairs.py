"""The section of minimal pairs: how often the grammatical one of two sentences wins, by paradigm."""

from __future__ import annotations

import textwrap
from html import escape

import plotly.graph_objects as go

from .evaluations import MODEL, PAIR_SUITES, PUBLISHED, Item
from .figures import by_score
from .names import PUBLISHED_WORDS, REFERENCE, SUITE_TITLES, condition_order
from .page import Page, legend, table
from .panel import BASELINE_COLOUR, label, metric_axis, palette
from .reading import Cell, Study
from .sections import numbered, scores_key, seeds
from .statistics import MIN_SEEDS, Summary, count, plain, summarise, with_interval

CHANCE = 50
_PUBLISHED_MARKER = {"symbol": "diamond", "size": 9, "color": "white", "line": {"color": "#7d858c", "width": 1.5}}
_PUBLISHED_KEY = (
    '<span><svg width="12" height="12" aria-hidden="true"><path d="M6 1 11 6 6 11 1 6z" fill="white" '
    f'stroke="#7d858c" stroke-width="1.5"/></svg>{PUBLISHED_WORDS}</span>'
)


def _paradigms(cells: list[Cell], suite: str) -> list[Item]:
    """The average, means of phenomena, single paradigms."""
    return sorted({p for c in cells for _, p in c.items if p.suite == suite}, key=condition_order)


def _accuracy(cells: list[Cell], paradigm: Item, predictor: str = MODEL) -> Summary:
    return summarise(c.items[predictor, paradigm] for c in cells if (predictor, paradigm) in c.items)


def _difference(cells: list[Cell], references: list[Cell], paradigm: Item) -> Summary:
    """To the reference, over the seeds that both have."""
    key = (MODEL, paradigm)
    base = {c.seed: c.items[key] for c in references if key in c.items}
    pairs = [(c.items[key], base[c.seed]) for c in cells if key in c.items and c.seed in base]
    return summarise(None if None in pair else pair[0] - pair[1] for pair in pairs)


def _label(paradigm: Item) -> str:
    if paradigm.is_average:
        return f"<b>{label(paradigm.name)}</b>"
    return "<br>".join(label(line) for line in textwrap.wrap(paradigm.name.replace("_", " "), 28))


def _bars(cells: list[Cell], paradigms: list[Item], colours: dict[str, str]) -> go.Figure:
    """Paradigms downwards, a bar for each score."""
    axis = metric_axis("accuracy")
    figure = go.Figure()
    scores = by_score(cells)
    thickness = 0.8 / len(scores)  # of a bar, where a paradigm has a height of 1
    for order, (score, of_score) in enumerate(scores.items()):
        y = [row + thickness * (order - (len(scores) - 1) / 2) for row in range(len(paradigms))]
        _add_score(figure, score, [_accuracy(of_score, p) for p in paradigms], y, 0.9 * thickness, colours[score])
    _add_published(figure, {row: _accuracy(cells, p, PUBLISHED).mean for row, p in enumerate(paradigms)})
    figure.add_vline(x=CHANCE, line={"color": BASELINE_COLOUR, "width": 1.5, "dash": "dot"})
    figure.add_annotation(
        x=CHANCE, y=1, yref="paper", yanchor="bottom", text="chance", showarrow=False, font={"size": 11}
    )
    figure.update_xaxes(title_text=axis.title, ticksuffix=axis.tick_suffix, range=list(axis.bounds))
    figure.update_yaxes(
        tickvals=list(range(len(paradigms))),
        ticktext=[_label(p) for p in paradigms],
        tickfont={"size": 11},
        range=[len(paradigms) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
    )
    row_height = max(30, 10 * len(scores) + 12)  # pixels: a label of two lines needs 30, a bar 10
    return figure.update_layout(
        template="none", height=70 + row_height * len(paradigms), margin={"t": 22}, barmode="overlay"
    )


def _add_score(
    figure: go.Figure, score: str, summaries: list[Summary], y: list[float], width: float, colour: str
) -> None:
    """Means over seeds; with enough seeds a whisker for their 95 % interval, else each seed as a dot."""
    enough = max(s.seeds for s in summaries) >= MIN_SEEDS
    figure.add_bar(
        x=[s.mean for s in summaries],
        y=y,
        orientation="h",
        width=width,
        name=label(score),
        marker={"color": colour},
        error_x={"array": [s.interval for s in summaries], "thickness": 1.2, "width": 2} if enough else None,
        hovertext=[
            f"<b>{label(score)}</b><br>{with_interval(s.mean, s.interval)} % ({count(s.seeds, 'seed')})"
            for s in summaries
        ],
        hoverinfo="text",
        meta={"kind": "mean", "name": label(score)},
    )
    dots = [(v, at) for at, s in zip(y, summaries, strict=True) if s.seeds > 1 for v in s.values]
    if dots and not enough:
        figure.add_scatter(
            x=[v for v, _ in dots],
            y=[at for _, at in dots],
            mode="markers",
            marker={"size": 4, "color": "#7d858c"},
            hoverinfo="skip",
            meta={"kind": "seeds", "name": label(score)},
        )


def _add_published(figure: go.Figure, values: dict[int, float | None]) -> None:
    """By row; a paradigm that nobody published has no marker."""
    known = {row: value for row, value in values.items() if value is not None}
    if known:
        figure.add_scatter(
            x=list(known.values()),
            y=list(known),
            mode="markers",
            marker=_PUBLISHED_MARKER,
            name=PUBLISHED_WORDS,
            hovertext=[f"<b>{PUBLISHED_WORDS}</b><br>{plain(value)} %" for value in known.values()],
            hoverinfo="text",
            meta={"kind": "published", "name": PUBLISHED_WORDS},
        )


def _table(cells: list[Cell], paradigms: list[Item]) -> str:
    scores = by_score(cells)
    references = scores.get(REFERENCE, [])
    known = any((PUBLISHED, p) in c.items for c in cells for p in paradigms)
    columns = ["Paradigm"]
    for score in scores:
        columns += [score, "Difference"] if references and score != REFERENCE else [score]
    columns += [PUBLISHED_WORDS.capitalize()] if known else []
    rows = []
    for paradigm in paradigms:
        entries = []
        for score, of_score in scores.items():
            entries.append(_entry(_accuracy(of_score, paradigm)))
            if references and score != REFERENCE:
                entries.append(_entry(_difference(of_score, references, paradigm), sign=True))
        if known:
            published = _accuracy(cells, paradigm, PUBLISHED)  # in every cell the same
            entries.append(plain(published.mean) if published.seeds else "")
        rows.append(f"<tr><th scope=row>{escape(paradigm.name)}</th>{''.join(f'<td>{e}</td>' for e in entries)}</tr>")
    return table([f"<th scope=col>{escape(column)}</th>" for column in columns], rows)


def _entry(summary: Summary, sign: bool = False) -> str:
    return with_interval(summary.mean, summary.interval, sign=sign) if summary.seeds else ""


def section(study: Study, page: Page) -> None:
    colours = palette(study)
    body, known = "", False
    for i, variant, cells in numbered(study):
        for suite in PAIR_SUITES:
            asked = [c for c in cells if any(p.suite == suite for _, p in c.items)]
            if not asked:
                continue
            paradigms = _paradigms(asked, suite)
            known = known or any(predictor == PUBLISHED for c in asked for predictor, _ in c.items)
            figure = _bars(asked, [p for p in paradigms if not p.is_phenomenon], colours)
            panel = page.panel(f"accuracy-{i}-{suite}", "Accuracy by paradigm", seeds(asked), figure)
            body += (
                f'<h3 id="pairs-{i}-{suite}">{escape(variant)}: {SUITE_TITLES[suite]}</h3>'
                f'<div class="panels full">{panel}</div>'
                "<details><summary>Accuracy in percent, means of phenomena too</summary>"
                f"{_table(asked, paradigms)}</details>"
            )
    if body:
        lead = (
            "<p>Two sentences that differ in their grammar alone: how often the grammatical one wins. A bar is the "
            "mean over seeds, its whisker the 95 % interval; with fewer than 3 seeds each seed is a dot. Differences "
            f"are paired by seed.</p>{legend(scores_key(study), more=_PUBLISHED_KEY if known else '')}"
        )
        page.section("pairs", "Minimal pairs", lead + body)
