"""The comparison in tables: what was run, every counted comparison at a glance, every measured figure."""

from __future__ import annotations

from html import escape

from .centres import centre
from .evaluations import MODEL, Condition, Item
from .metrics import STATISTICS, base_metric, metric_of
from .names import REFERENCE, condition_order, group_title, order_scores, setting
from .page import Page, legend, table
from .panel import palette
from .reading import Cell, Study
from .statistics import count, plain, thousands, told
from .verdicts import BETTER, DESCRIBED, EQUIVALENT, MARKS, UNDECIDED, WORSE, Effect, verdict_words

Effects = dict[tuple[str, str, Condition | Item], Effect]


def by_place(judged: list[Effect]) -> Effects:
    return {(e.variant, e.score, e.condition): e for e in judged}


def _facts(cells: list[Cell], key: str) -> str:
    values = list(dict.fromkeys(c.facts.get(key) for c in cells))
    return " / ".join("?" if v is None else thousands(v) for v in values)


def _duration(cells: list[Cell]) -> str:
    seconds = [c.facts["seconds"] for c in cells if c.facts.get("seconds") is not None]
    if not seconds:
        return "?"
    mean = sum(seconds) / len(seconds)
    return f"{mean:.0f} s" if mean < 120 else f"{mean / 60:.0f} min" if mean < 7200 else f"{mean / 3600:.1f} h"


def _unfinished(study: Study) -> list[str]:
    return [
        f"{c.variant}, {c.score}, seed {c.seed}: at step {c.run.last_step} of {c.steps}"
        for c in study.cells
        if c.run and c.run.last_step < c.steps
    ]


def _run_row(of_score: list[Cell], score: str) -> str:
    steps = " / ".join(dict.fromkeys(thousands(c.steps) for c in of_score))
    entries = [f"{len(of_score)}", steps]
    entries += [_facts(of_score, k) for k in ("batch", "layers", "heads", "width", "parameters")]
    entries.append(_duration(of_score))
    return f"<tr><th scope=row>{escape(score)}</th>" + "".join(f"<td>{e}</td>" for e in entries) + "</tr>"


def runs_section(study: Study, page: Page) -> None:
    names = ("Variant and score", "Seeds", "Steps", "Batch", "Layers", "Heads", "Width", "Parameters", "Time per seed")
    head = [f"<th scope=col>{name}</th>" for name in names]
    rows = []
    for variant in study.variants():
        cells = study.select(variant)
        task = escape(cells[0].task)
        rows.append(f'<tr class="group"><th colspan={len(head)}>{escape(variant)} <small>task {task}</small></th></tr>')
        rows += [_run_row(study.select(variant, s), s) for s in order_scores(c.score for c in cells)]
    body = table(head, rows)
    builds = sorted(
        {
            f"{c.run.information.get('version', '?')} (git {c.run.information.get('git', '?')}, "
            f"torch {c.run.information.get('torch', '?')})"
            for c in study.cells
            if c.run
        }
    )
    if builds:
        body += f"<p>Made with ssa {escape('; '.join(builds))}.</p>"
    if len(builds) > 1:
        body += '<p class="note">The runs were made with different builds: differences may come from there.</p>'
    unfinished = _unfinished(study)
    if unfinished:
        body += f'<p class="note">Not finished: {escape("; ".join(unfinished))}.</p>'
    silent = [f"{c.variant}, {c.score}, seed {c.seed}" for c in study.cells if not (c.means or c.items)]
    if silent:
        body += f'<p class="note">Not evaluated yet: {escape("; ".join(silent))}.</p>'
    page.section("runs", "What was run", body)


def _tint(kind: str, score: str, colours: dict[str, str]) -> str:
    """Background of a verdict: the winner's colour. Without a verdict it is grey, by the style sheet."""
    winner = {BETTER: score, WORSE: REFERENCE}.get(kind)
    return f' style="background:{colours[winner]}30"' if winner in colours else ""


def _class(kind: str) -> str:
    return kind.replace(" ", "-")


def _overview(study: Study, score: str, counted: list[Effect], colours: dict[str, str]) -> str:
    """Conditions down, variants across; each cell says who is better, and the two centres."""
    places = {(e.variant, group_title(e.condition), setting(e.condition), _quantity(e.condition)): e for e in counted}
    variants = list(dict.fromkeys(e.variant for e in counted))
    compared = {v: {s: study.select(v, s) for s in (REFERENCE, score)} for v in variants}
    ordered = sorted((e.condition for e in counted), key=condition_order)
    keys = dict.fromkeys((group_title(c), setting(c), _quantity(c)) for c in ordered)
    head = ["<th scope=col>Test</th>"]
    for variant in variants:
        first = next(e for e in counted if e.variant == variant)
        facts = ", ".join([count(first.seeds, "seed"), count(first.steps, "step")])
        head.append(f"<th scope=col>{escape(variant)}<br><small>{facts}</small></th>")
    lines, group = [], None
    for title, told_setting, quantity in keys:
        if (title, quantity) != group:
            group = (title, quantity)
            words = escape(f"{title} – {quantity}")
            lines.append(f'<tr class="group"><th colspan={len(head)}>{words}</th></tr>')
        cells = []
        for variant in variants:
            effect = places.get((variant, title, told_setting, quantity))
            cells.append(_overview_cell(compared[variant], effect, score, colours) if effect else "<td></td>")
        lines.append(f"<tr><th scope=row>{escape(told_setting)}</th>{''.join(cells)}</tr>")
    return table(head, lines, "glance")


def _quantity(condition: Condition | Item) -> str:
    """Errors of all in-context tasks stand in one group, whatever each task calls its own."""
    if isinstance(condition, Item):
        return metric_of(condition.metric).words
    return (
        "error" if base_metric(condition.metric) in ("wrong", "relative-error") else metric_of(condition.metric).words
    )


def _overview_cell(cells: dict[str, list[Cell]], effect: Effect, score: str, colours: dict[str, str]) -> str:
    metric = metric_of(effect.condition.metric)
    centres = [centre(cells[s], effect.condition).mean for s in (REFERENCE, score)]
    digits = 3 if metric.scale == "plain" else 2
    shown = " → ".join("?" if m is None else plain(m * metric.multiplier, digits) for m in centres)
    hover = f"{score} against {REFERENCE}: {effect.told()}. {verdict_words(effect.verdict, effect.better)}"
    return (
        f'<td class="{_class(effect.kind)}" title="{escape(hover)}"{_tint(effect.kind, score, colours)}>'
        f'<span class="mark">{MARKS[effect.kind]}</span> {shown}{metric.suffix}</td>'
    )


def glance_section(study: Study, judged: list[Effect], page: Page) -> None:
    """Every counted comparison as a coloured table, one for each score."""
    colours = palette(study)
    body = ""
    for score in order_scores(e.score for e in judged if e.counted):
        counted = [e for e in judged if e.counted and e.score == score]
        body += f"<h3>{escape(score)} beside {REFERENCE}</h3>" + legend({s: colours[s] for s in (REFERENCE, score)})
        body += _overview(study, score, counted, colours)
    if body:
        lead = (
            f"<p>Each cell: {REFERENCE} → the score, means over seeds on the scale of the comparison. "
            f"{MARKS[BETTER]} better, {MARKS[WORSE]} worse, in the winner's colour; {MARKS[EQUIVALENT]} equivalent within "
            f"the margin; {MARKS[UNDECIDED]} and grey: not decided; · and grey: no verdict.</p>"
        )
        page.section("glance", "Every comparison in a table", lead + body)


def table_section(study: Study, judged: list[Effect], page: Page) -> None:
    """Every measured figure, conditions down, scores across."""
    if not any(c.means or c.items for c in study.cells):
        return
    found = by_place(judged)
    body = (
        "<p>Every measured figure over seeds with its 95 % interval: mean ± half width, or on scales of ratios the "
        f"centre [low, high]. The effect compares with {REFERENCE}, paired by seed: × is a ratio (of shares of errors the "
        "ratio of their odds), ± a difference. p is adjusted for the number of comparisons.</p>"
    )
    for variant in study.variants():
        cells = study.select(variant)
        seeds = " / ".join(dict.fromkeys(str(len(study.select(variant, s))) for s in {c.score: 0 for c in cells}))
        steps = " / ".join(dict.fromkeys(thousands(c.steps) for c in cells))
        body += (
            f"<details><summary>{escape(variant)} <small>seeds: {seeds}, steps: {steps}</small></summary>"
            f"{_variant_table(study, variant, found, palette(study))}</details>"
        )
    page.section("table", "Every measured figure", body)


def _variant_table(study: Study, variant: str, found: Effects, colours: dict[str, str]) -> str:
    cells = study.select(variant)
    scores = order_scores(c.score for c in cells)
    of_scores = {score: [c for c in cells if c.score == score] for score in scores}
    conditions = dict.fromkeys(key for c in cells for p, key in [*c.means, *c.items] if p == MODEL)
    head = ["<th scope=col>Test</th>"]
    for score in scores:
        head.append(f"<th scope=col>{escape(score)}</th>")
        if score != REFERENCE:
            head.append("<th scope=col>Effect</th><th scope=col>p</th><th scope=col class=left>Verdict</th>")
    columns = 1 + sum(1 if s == REFERENCE else 4 for s in scores)
    lines, group = [], None
    for condition in sorted(conditions, key=condition_order):
        title = group_title(condition)
        if condition.metric not in STATISTICS:
            title += f" – {metric_of(condition.metric).words}"
        if title != group:
            group = title
            lines.append(f'<tr class="group"><th colspan={columns}>{escape(group)}</th></tr>')
        entries = []
        for score in scores:
            entries.append(_centre_cell(of_scores[score], condition))
            if score != REFERENCE:
                entries.append(_effect_cells(found.get((variant, score, condition)), score, colours))
        lines.append(f"<tr><th scope=row>{escape(setting(condition))}</th>{''.join(entries)}</tr>")
    return table(head, lines)


def _centre_cell(cells: list[Cell], condition: Condition | Item) -> str:
    summary = centre(cells, condition)
    metric = metric_of(condition.metric)
    return f"<td>{told(summary, metric.multiplier) + metric.suffix if summary.seeds else ''}</td>"


def _effect_cells(effect: Effect | None, score: str, colours: dict[str, str]) -> str:
    if effect is None:
        return "<td></td>" * 3
    p = "" if effect.p_adjusted is None else plain(effect.p_adjusted, 2)
    words = "" if effect.kind == DESCRIBED else verdict_words(effect.verdict, effect.better)
    return (
        f'<td>{effect.told()}</td><td>{p}</td><td class="left {_class(effect.kind)}"{_tint(effect.kind, score, colours)}>'
        f'<span class="mark">{MARKS[effect.kind]}</span> {escape(words)}</td>'
    )
