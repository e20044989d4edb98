"""The answer first: one sentence, the primary endpoints, and a forest plot of every counted comparison."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from html import escape

import plotly.graph_objects as go

from .evaluations import Item
from .metrics import HIGHER, metric_of
from .names import REFERENCE, condition_order, order_scores, setting, short_title
from .page import Page, table
from .panel import GREY, label, palette, translucent
from .reading import Study
from .statistics import LOG, LOG_ODDS, count, plain
from .verdicts import (
    BETTER,
    EQUIVALENT,
    JUDGED,
    MARKS,
    OPEN,
    UNDECIDED,
    WORSE,
    Effect,
    counts,
    verdict_kind,
    verdict_words,
)

_ROW, _DENSE_ROW = 24, 17  # pixels
_POINT, _DENSE_POINT = 9, 6  # pixels for each value of a row
_MANY = 80  # comparisons from which on the figure is dense
_LABEL_SYMBOLS = {
    BETTER: "circle",
    WORSE: "diamond",
    EQUIVALENT: "square",
    UNDECIDED: "circle-open",
    OPEN: "circle-open",
}
_WORDS = {
    BETTER: f"better than {REFERENCE}",
    WORSE: f"worse than {REFERENCE}",
    EQUIVALENT: "equivalent within the margin",
    UNDECIDED: "not decided",
    OPEN: "no verdict",
}


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _came_out(found: Counter) -> str:
    """better in 2, worse in 3, …; never without what is not decided."""
    parts = [f"{kind} in {found[kind]}" for kind in (BETTER, WORSE, EQUIVALENT)]
    parts.append(f"not decided in {found[UNDECIDED]}")
    return _listed(parts) + (f"; {found[OPEN]} have no verdict" if found[OPEN] else "")


def _endpoints(study: Study) -> list[dict]:
    return [row for record in study.verdicts.values() for row in record["endpoints"]]


def verdict_sentence(study: Study, judged: list[Effect]) -> str:
    """What a reader who reads one sentence takes away."""
    endpoints = _endpoints(study)
    if endpoints:
        score = order_scores(e["score"] for e in endpoints)[0]
        found = Counter(verdict_kind(e["verdict"], e["better"]) for e in endpoints if e["score"] == score)
        return f"On {count(found.total(), 'primary endpoint')}, {score} beside {REFERENCE} is {_came_out(found)}."
    scores = order_scores(e.score for e in judged if e.counted)
    if not scores:
        return f"Nothing to compare: these folders hold no score beside {REFERENCE} with the same seeds."
    found = counts(study, judged, scores[0])
    if not any(found[kind] for kind in JUDGED):
        return (
            f"No verdict yet: {scores[0]} stands beside {REFERENCE} in {count(found.total(), 'comparison')}, "
            "none of them judged."
        )
    return f"In {count(found.total(), 'comparison')}, {scores[0]} beside {REFERENCE} is {_came_out(found)}."


def _tiles(found: Counter) -> str:
    judged = any(found[kind] for kind in JUDGED)
    shown = [kind for kind in (*JUDGED, OPEN) if found[kind] or (judged and kind != OPEN)]
    tiles = [f'<div class="tile"><b>{MARKS[k]} {found[k]}</b><span>{_WORDS[k]}</span></div>' for k in shown]
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _counts_table(study: Study, judged: list[Effect], scores: list[str]) -> str:
    head = ["Score", "Comparisons", *(f"{MARKS[k]} {_WORDS[k]}" for k in (*JUDGED, OPEN))]
    rows = []
    for score in scores:
        found = counts(study, judged, score)
        cells = "".join(f"<td>{n}</td>" for n in (found.total(), *(found[k] for k in (*JUDGED, OPEN))))
        rows.append(f"<tr><th scope=row>{escape(score)}</th>{cells}</tr>")
    return table([f"<th scope=col>{h}</th>" for h in head], rows)


def _endpoint_effect(row: dict) -> Effect:
    # An endpoint averages several tests: it has a name of its own, and its unit.
    condition = Item("zero-shot", row["name"], "acc" if row["unit"] == "percent" else "")
    figures = (row[key] for key in ("effect", "effect_low", "effect_high", "p_adjusted", "p_sign_flip", "detectable"))
    return Effect(
        row["variant"],
        row["score"],
        condition,
        len(row["seeds"]),
        0,
        row["better"],
        row["scale"],
        *figures,
        row["verdict"],
        True,
    )


def _endpoint_forests(endpoints: list[dict], page: Page, colours: dict[str, str]) -> str:
    """A row for each endpoint."""
    body = ""
    measured = [e for e in map(_endpoint_effect, endpoints) if e.effect is not None and e.score in colours]
    for k, (score, kind) in enumerate(dict.fromkeys((e.score, _axis_kind(e)) for e in measured)):
        of_kind = [e for e in measured if (e.score, _axis_kind(e)) == (score, kind)]
        rows = [("<br>".join(label(line) for line in textwrap.wrap(e.condition.name, 26)), [e]) for e in of_kind]
        used = {_WORDS[e.kind] for e in of_kind}
        key = page.marker_key([entry for entry in _key(score, colours) if entry[0] in used])
        title = f"{score} beside {REFERENCE}: {count(len(of_kind), 'primary endpoint')}"
        drawn = page.panel(f"endpoints-{k}", title, _note(of_kind), forest(rows, score, colours), key=key)
        body += f'<div class="panels full">{drawn}</div>'
    return body


def _endpoint_section(study: Study, page: Page) -> str:
    endpoints = _endpoints(study)
    if not endpoints:
        return ""
    head = ["Primary endpoint", "Variant", "Seeds", "Effect [95 %]", "p (Holm)", "Sign-flip p", "Verdict"]
    rows = []
    for row in endpoints:
        effect = _endpoint_effect(row)
        planned = f" of {row['planned']}" if row.get("planned") else ""
        cells = [escape(row["variant"]), f"{effect.seeds}{planned}", effect.told()]
        cells += ["–" if row[key] is None else plain(row[key], 2) for key in ("p_adjusted", "p_sign_flip")]
        words = f"{MARKS[effect.kind]} {escape(verdict_words(effect.verdict, effect.better))}"
        if effect.kind == UNDECIDED and effect.detectable is not None:
            words += f" <small>would have shown {'×/÷ ' if effect.is_ratio else ''}{plain(effect.detectable)}</small>"
        cells = "".join(f"<td>{c}</td>" for c in cells)
        name = f"{escape(row['name'])} <small>{escape(row['score'])}</small>"
        rows.append(
            f'<tr><th scope=row>{name}</th>{cells}<td class="left {effect.kind.replace(" ", "-")}">{words}</td></tr>'
        )
    shown = table([f"<th scope=col>{h}</th>" for h in head], rows)
    figures = _endpoint_forests(endpoints, page, palette(study))
    return f"{figures}<details><summary>Primary endpoints in numbers</summary>{shown}</details>"


def _axis_kind(effect: Effect) -> tuple:
    """What may stand on one axis."""
    metric = metric_of(effect.condition.metric)
    return (effect.is_ratio, effect.better) + (() if effect.is_ratio else (metric.suffix,))


def _axis_title(of_kind: list[Effect], score: str) -> str:
    if of_kind[0].is_ratio:
        return f"{score} ÷ {REFERENCE}"
    suffixes = {metric_of(e.condition.metric).suffix.strip() for e in of_kind}
    return f"{score} − {REFERENCE}" + (", percentage points" if suffixes == {"%"} else "")


def _note(of_kind: list[Effect]) -> str:
    scales = {e.scale for e in of_kind}
    what = "differences"
    if of_kind[0].is_ratio:
        what = {(LOG_ODDS,): "odds ratios of errors", (LOG,): "ratios"}.get(
            tuple(scales), "ratios, of shares of errors those of their odds"
        )
    return f"{what}, paired by seed, with 95 % intervals"


def _rows(of_kind: list[Effect]) -> list[tuple[str, list[Effect]]]:
    """(label, effects): a heading for each variant, then a row for each shift, text, task or group of paradigms."""
    rows = []
    for variant in dict.fromkeys(e.variant for e in of_kind):
        rows.append((f"<b>{label(variant)}</b>", []))
        groups: dict[str, list[Effect]] = {}
        for effect in sorted((e for e in of_kind if e.variant == variant), key=lambda e: condition_order(e.condition)):
            groups.setdefault(short_title(effect.condition), []).append(effect)
        rows += [(label(name), found) for name, found in groups.items()]
    return rows


def _shade(figure: go.Figure, better_below: bool, none: float, winners: tuple[str, str]) -> None:
    """Tints each side of no effect with the colour of the one that is better there, and says so."""
    for side, colour in zip((0, 1), winners if better_below else winners[::-1], strict=True):
        figure.add_shape(
            type="rect",
            xref="x domain",
            yref="paper",
            x0=side * 0.5,
            x1=0.5 + side * 0.5,
            y0=0,
            y1=1,
            fillcolor=translucent(colour, 0.06),
            line={"width": 0},
            layer="below",
        )
    figure.add_vline(x=none, line={"color": GREY, "width": 1.5})


def forest(rows: list[tuple[str, list[Effect]]], score: str, colours: dict[str, str]) -> go.Figure:
    """Effects with their intervals, a row for each shift and variant; the values of a shift stand under each other.

    The axis is symmetric around no effect, and as wide as the widest interval.
    """
    figure = go.Figure()
    of_kind = [effect for _, found in rows for effect in found]
    ratio, better = of_kind[0].is_ratio, of_kind[0].better
    row_height, point_height = (_DENSE_ROW, _DENSE_POINT) if len(of_kind) > _MANY else (_ROW, _POINT)
    y, places, heights = 0.0, [], {kind: [] for kind in _WORDS}
    for name, found in rows:
        height = max(row_height, 14 * name.count("<br>") + row_height, point_height * len(found) + 4)
        places.append((y + height / 2, name))
        for i, effect in enumerate(found):
            at = y + height / 2 + point_height * (i - (len(found) - 1) / 2)
            if effect.effect is not None:
                heights[effect.kind].append((at, effect))
        y += height
    tints = {BETTER: colours[score], WORSE: colours[REFERENCE]}
    for kind, found in heights.items():
        if found:
            _add_effects(figure, kind, found, tints.get(kind, GREY))
    ends = [v for found in heights.values() for _, e in found for v in (e.effect, e.low, e.high) if v is not None]
    if ratio:
        width = min(300.0, max([math.log10(1.5), *(abs(math.log10(max(v, 1e-300))) for v in ends)]) * 1.04)
        ticks = _ticks(width)
        told = [f"×{_tick(t) if 0.001 <= t <= 1000 else f'10<sup>{round(math.log10(t))}</sup>'}" for t in ticks]
        figure.update_xaxes(type="log", range=[-width, width], tickvals=ticks, ticktext=told)
    else:
        width = max([1e-9, *(abs(v) for v in ends)]) * 1.04
        figure.update_xaxes(range=[-width, width])
    _shade(figure, better != HIGHER, 1 if ratio else 0, (colours[score], colours[REFERENCE]))
    first, second = (score, REFERENCE) if better != HIGHER else (REFERENCE, score)
    for text, x, anchor in ((f"← {label(first)} better", 0, "left"), (f"{label(second)} better →", 1, "right")):
        figure.add_annotation(
            text=text, x=x, xref="x domain", xanchor=anchor, y=1, yref="paper", yanchor="bottom", showarrow=False
        )
    figure.update_xaxes(title_text=label(_axis_title(of_kind, score)))
    figure.update_yaxes(
        tickvals=[at for at, _ in places],
        ticktext=[name for _, name in places],
        range=[y, 0],
        showgrid=False,
        zeroline=False,
        ticks="",
    )
    return figure.update_layout(template="none", height=round(y) + 80, margin={"t": 24, "b": 48})


def _tick(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"


def _ticks(width: float) -> list[float]:
    """Few enough to have room on a telephone; width: decades on each side of 1."""
    if width < 0.75:
        above = [1.5] if width < 0.3 else [2] if width < 0.7 else [2, 5]
    else:
        every = max(1, math.ceil(width / 3))
        above = [10.0**power for power in range(every, math.floor(width) + 1, every)]
    return [*(1 / t for t in reversed(above)), 1, *above]


def _add_effects(figure: go.Figure, kind: str, found: list[tuple[float, Effect]], colour: str) -> None:
    x = [e.effect for _, e in found]
    ends = [(e.effect if e.low is None else e.low, e.effect if e.high is None else e.high) for _, e in found]
    figure.add_scatter(
        x=x,
        y=[at for at, _ in found],
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [high - v for v, (_, high) in zip(x, ends, strict=True)],
            "arrayminus": [v - low for v, (low, _) in zip(x, ends, strict=True)],
            "thickness": 1.2,
            "width": 0,
        },
        mode="markers",
        name=_WORDS[kind],
        marker={"size": 7, "symbol": _LABEL_SYMBOLS[kind], "color": colour},
        hovertext=[
            f"<b>{label(e.variant)}</b><br>{label(short_title(e.condition))}: {label(setting(e.condition))}<br>{label_lines(e)}"
            for _, e in found
        ],
        hoverinfo="text",
        meta={"kind": "effect", "name": _WORDS[kind]},
    )


def label_lines(effect: Effect) -> str:
    """The hover text, whose verdict may hold text from a file."""
    return "<br>".join(label(line) for line in effect.hover().split("<br>"))


def _key(score: str, colours: dict[str, str]) -> list[tuple[str, str, str]]:
    tints = {BETTER: colours[score], WORSE: colours[REFERENCE]}
    return [(_WORDS[kind], tints.get(kind, GREY), _LABEL_SYMBOLS[kind]) for kind in _WORDS]


def _forests(judged: list[Effect], score: str, page: Page, colours: dict[str, str], number: int) -> str:
    counted = [e for e in judged if e.counted and e.score == score]
    body = ""
    for k, kind in enumerate(dict.fromkeys(map(_axis_kind, counted))):
        of_kind = [e for e in counted if _axis_kind(e) == kind]
        used = {_WORDS[e.kind] for e in of_kind}
        figure = forest(_rows(of_kind), score, colours)
        key = page.marker_key([entry for entry in _key(score, colours) if entry[0] in used])
        title = f"{score} beside {REFERENCE}: {count(len(of_kind), 'comparison')}"
        body += f'<div class="panels full">{page.panel(f"forest-{number}-{k}", title, _note(of_kind), figure, key=key)}</div>'
    return body


_READING = (
    "<p>Each point is one test: the score against softmax, paired by seed, with its 95 % interval. A filled mark is a "
    "verdict after the correction for many comparisons; open grey ones are not decided, which says something about the "
    "number of seeds, not that there is no difference.</p>"
)


def section(study: Study, judged: list[Effect], page: Page) -> None:
    """First on the page, and open."""
    colours = palette(study)
    scores = order_scores(e.score for e in judged if e.counted)
    body = _endpoint_section(study, page)
    if scores:
        body += _tiles(counts(study, judged, scores[0])) + _forests(judged, scores[0], page, colours, 0) + _READING
    unjudged = [e for e in judged if e.counted and e.kind == OPEN]
    if unjudged:
        reasons = list(dict.fromkeys(e.verdict for e in unjudged))
        body += f'<p class="note">Without a verdict: {escape("; ".join(reasons))}. <code>ssa reproduce</code> writes verdicts.</p>'
    for number, score in enumerate(scores[1:], start=1):
        found = counts(study, judged, score)
        told = (
            count(found.total(), "comparison")
            + ", "
            + ", ".join(f"{found[k]} {k}" for k in (*JUDGED, OPEN) if found[k])
        )
        body += (
            f"<details><summary>{escape(score)} <small>{told.replace(OPEN, 'without a verdict')}</small></summary>"
            f"{_forests(judged, score, page, colours, number)}</details>"
        )
    if len(scores) > 1 and any(e.kind in JUDGED for e in judged if e.counted):
        body += f"<h3>Every score</h3>{_counts_table(study, judged, scores)}"
    if body:
        page.section("verdict", f"Every comparison with {REFERENCE}", body, open=True)
