"""The comparison in words and tables: what was run, where a score is better, worse or the same."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from html import escape

from .figures import signed
from .page import Page, legend, table
from .panel import base_metric, metric_axis, palette
from .reading import Cell, Condition, Paradigm, Study, order_scores
from .statistics import count, plain, thousands, with_interval

REFERENCE = "softmax"
METRIC_WORDS = {
    "wrong": "wrong positions",
    "sequence-wrong": "sequences with any wrong sign",
    "squared-error": "squared error",
    "relative-error": "relative squared error",
    "mass-on-huge": "attention mass on the huge token",
    "entropy": "entropy of attention (nats)",
    "p-max": "largest attention weight",
    "wrong-tokens": "wrong tokens",
    "accuracy": "accuracy",
}
STATISTICS = ("mass-on-huge", "entropy", "p-max")  # of attention: neither low nor high is better
PLACES = {"-before": "before the huge value", "-at": "at the huge value", "-after": "after the huge value"}
SHIFT_TITLES = {
    "none": "No shift: inputs N(0, 1), 40 points",
    "sigma": "Inputs N(0, σ)",
    "coefficients": "Coefficients N(0, σ)",
    "length": "Longer sequences",
    "huge": "One huge value",
    "both": "Inputs and function both N(0, σ)",
    "grid": "Inputs N(0, σₓ) × coefficients N(0, σₐ)",
}
SUITE_TITLES = {
    "zorro": "Zorro, holistic",
    "zorro-mlm": "Zorro, pseudo-log-likelihood",
    "blimp-mlm": "BLiMP, pseudo-log-likelihood",
}
PUBLISHED_WORDS = "published (full corpus, for orientation)"
_SHIFT_ORDER = list(SHIFT_TITLES)
_PRIMARY = ("wrong", "relative-error")


def primary(metric: str) -> bool:
    """Whether a metric is the one that figures and the overview show: one per task."""
    return base_metric(metric) in _PRIMARY


def metric_words(metric: str) -> str:
    base = base_metric(metric)
    place = PLACES.get(metric.removeprefix(base))
    return METRIC_WORDS.get(base, base) + (f", {place}" if place else "")


def shift_title(shift: str) -> str:
    return SHIFT_TITLES.get(shift, shift)


def setting(condition: Condition | Paradigm) -> str:
    """The value of a shift, or the paradigm, as a row of a table says it."""
    if isinstance(condition, Paradigm):
        return condition.name
    value = signed(condition.value)
    if condition.shift == "none":
        return f"N(0, 1), {condition.points} points" if condition.points else "N(0, 1)"
    if condition.shift == "length":
        return f"{condition.points} points"
    if condition.shift == "grid" and len(condition.value) == 2:
        return f"σₓ = {condition.value[0]:g}, σₐ = {condition.value[1]:g}"
    return f"{'x' if condition.shift == 'huge' else 'σ'} = {value}"


def group_title(condition: Condition | Paradigm) -> str:
    """The heading under which a row stands: its suite; or its shift, and where relative to the huge value."""
    if isinstance(condition, Paradigm):
        return SUITE_TITLES[condition.suite]
    if condition.metric in STATISTICS:
        return f"Attention of the last layer: {METRIC_WORDS[condition.metric]}"
    place = PLACES.get(condition.metric.removeprefix(base_metric(condition.metric)))
    return shift_title(condition.shift) + (f": {place}" if place else "")


def _place_order(metric: str) -> int:
    suffix = metric.removeprefix(base_metric(metric))
    return list(PLACES).index(suffix) if suffix in PLACES else -1


def condition_order(condition: Condition | Paradigm):
    if isinstance(condition, Paradigm):
        suite = list(SUITE_TITLES).index(condition.suite)
        return (3 * len(_SHIFT_ORDER) + suite, not condition.is_average, not condition.is_phenomenon, condition.name)
    shift = condition.shift
    position = _SHIFT_ORDER.index(shift) if shift in _SHIFT_ORDER else len(_SHIFT_ORDER)
    if condition.metric in STATISTICS:
        return (2 * len(_SHIFT_ORDER) + STATISTICS.index(condition.metric), shift, 0, False, "", condition.value, 0)
    return (
        position,
        shift,
        _place_order(condition.metric),
        base_metric(condition.metric) not in _PRIMARY,
        condition.metric,
        condition.value,
        condition.points,
    )


@dataclass(frozen=True)
class _Quantity:
    """What is compared, and the verdict that is good."""

    name: str
    better: str
    worse: str
    digits: int  # of means in the overview


_ERROR = _Quantity("error", "lower", "higher", 2)
_ACCURACY = _Quantity("accuracy", "higher", "lower", 3)


def _quantity(condition: Condition | Paradigm) -> _Quantity:
    return _ACCURACY if isinstance(condition, Paradigm) else _ERROR


def verdict_kind(row: dict) -> str:
    """better (the lower error, the higher accuracy), worse, same, open (no verdict, e.g. too few seeds), or plain
    (neither error nor accuracy)."""
    verdict, quantity = row["verdict"], _quantity(row["condition"])
    if verdict in ("lower", "higher") and row["condition"].metric in STATISTICS:
        return "plain"
    return {quantity.better: "better", quantity.worse: "worse", "no difference measurable": "same"}.get(verdict, "open")


MARKS = {"better": "▲", "worse": "▼", "same": "≈", "open": "·"}


def verdict_words(row: dict) -> str:
    judged = verdict_kind(row) in ("better", "worse")
    return f"{row['verdict']} {_quantity(row['condition']).name}" if judged else row["verdict"]


def _number(row: dict, which: str = "mean") -> str:
    axis = metric_axis(row["condition"].metric)
    interval = row["interval"] if which == "mean" else row["difference_interval"]
    return with_interval(row[which], interval, axis.unit_scale, sign=which != "mean") + axis.tick_suffix


def _difference(row: dict) -> str:
    """Of the score from softmax: their ratio where values span decades."""
    if row["ratio"] is None:
        return _number(row, "difference")
    if row["ratio_low"] is None:
        return f"×{plain(row['ratio'])}"
    return f"×{plain(row['ratio'])} [{plain(row['ratio_low'])}, {plain(row['ratio_high'])}]"


def _tint(kind: str, score: str, colours: dict[str, str]) -> str:
    """Background of a verdict: the winner's colour."""
    winner = {"better": score, "worse": REFERENCE}.get(kind)
    return f' style="background:{colours[winner]}26"' if winner in colours else ""


def _all_rows(study: Study) -> list[dict]:
    return [row for rows in study.tables.values() for row in rows]


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


def runs_section(study: Study, page: Page) -> None:
    head = [
        f"<th scope=col>{h}</th>"
        for h in (
            "Variant and score",
            "Seeds",
            "Steps",
            "Batch",
            "Layers",
            "Heads",
            "Width",
            "Parameters",
            "Time per seed",
        )
    ]
    rows = []
    for variant in study.variants():
        cells = study.select(variant)
        rows.append(
            f'<tr class="group"><th colspan={len(head)}>{escape(variant)} '
            f"<small>task {escape(cells[0].task)}</small></th></tr>"
        )
        for score in order_scores(c.score for c in cells):
            of_score = study.select(variant, score)
            steps = " / ".join(dict.fromkeys(thousands(c.steps) for c in of_score))
            entries = [f"{len(of_score)}", steps]
            entries += [_facts(of_score, k) for k in ("batch", "layers", "heads", "width", "parameters")]
            entries.append(_duration(of_score))
            rows.append(f"<tr><th scope=row>{escape(score)}</th>" + "".join(f"<td>{e}</td>" for e in entries) + "</tr>")
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
    silent = [f"{c.variant}, {c.score}, seed {c.seed}" for c in study.cells if not (c.means or c.accuracies)]
    if silent:
        body += f'<p class="note">Not evaluated yet: {escape("; ".join(silent))}.</p>'
    page.section("runs", "What was run", body)


def _tiles(rows: list[dict]) -> str:
    counts = {kind: sum(verdict_kind(r) == kind for r in rows) for kind in MARKS}
    words = {
        "better": f"better than {REFERENCE}",
        "worse": f"worse than {REFERENCE}",
        "same": "no difference measurable",
        "open": "no verdict",
    }
    return (
        '<div class="tiles">'
        + "".join(
            f'<div class="tile"><b>{MARKS[kind]} {counts[kind]}</b><span>{words[kind]}</span></div>'
            for kind in MARKS
            if counts[kind] or kind != "open"
        )
        + "</div>"
    )


def _overview(score: str, rows: list[dict], every: list[dict], colours: dict[str, str]) -> str:
    """Conditions down, variants across; each cell says who is better, and the two means."""
    reference = {(r["variant"], r["condition"]): r for r in every if r["score"] == REFERENCE}
    found = {(r["variant"], r["condition"]): r for r in rows}
    variants = list(dict.fromkeys(r["variant"] for r in rows))
    keys = {(group_title(c), setting(c)): c for c in sorted((r["condition"] for r in rows), key=condition_order)}
    head = ["<th scope=col></th>"]
    for variant in variants:
        row = next(r for r in rows if r["variant"] == variant)
        head.append(
            f"<th scope=col>{escape(variant)}<br><small>{escape(METRIC_WORDS.get(base_metric(row['condition'].metric), row['condition'].metric))}"
            f", {count(len(row['seeds']), 'seed')}, {count(row['steps'], 'step')}</small></th>"
        )
    lines, group = [], None
    for title, label in keys:
        if title != group:
            lines.append(f'<tr class="group"><th colspan={len(head)}>{escape(title)}</th></tr>')
            group = title
        cells = []
        for variant in variants:
            row = next(
                (r for (v, c), r in found.items() if v == variant and (group_title(c), setting(c)) == (title, label)),
                None,
            )
            cells.append(_overview_cell(row, reference, score, colours) if row else "<td></td>")
        lines.append(f"<tr><th scope=row>{escape(label)}</th>{''.join(cells)}</tr>")
    return table(head, lines, "glance")


def _overview_cell(row: dict, reference: dict, score: str, colours: dict[str, str]) -> str:
    kind = verdict_kind(row)
    axis = metric_axis(row["condition"].metric)
    base = reference.get((row["variant"], row["condition"]))
    means = [r["mean"] if r else None for r in (base, row)]
    digits = _quantity(row["condition"]).digits
    shown = " → ".join("?" if m is None else plain(m * axis.unit_scale, digits) for m in means)
    word = "minus" if row["ratio"] is None else "over"
    hover = f"{score} {word} {REFERENCE}: {_difference(row)}. {verdict_words(row)}"
    return (
        f'<td class="{kind}" title="{escape(hover)}"{_tint(kind, score, colours)}>'
        f'<span class="mark">{MARKS[kind]}</span> {shown}{axis.tick_suffix}</td>'
    )


def _judged(condition: Condition | Paradigm) -> bool:
    """Whether the overview shows a condition. Left out: single paradigms, which have their own section; the grid,
    which has its own maps; σ = 1 and the positions before the huge value, which are the unshifted set again."""
    if isinstance(condition, Paradigm):
        return condition.is_average or condition.is_phenomenon
    return (
        primary(condition.metric)
        and condition.shift != "grid"
        and (condition.value != (1.0,) or condition.shift == "huge")
        and not condition.metric.endswith("-before")
    )


def glance_section(study: Study, page: Page) -> None:
    colours = palette(study)
    every = _all_rows(study)
    compared = [r for r in every if r["score"] != REFERENCE and _judged(r["condition"])]
    if not compared:
        page.section(
            "glance",
            "At a glance",
            "<p>There is no table of comparisons among these folders: only runs, "
            "without a <code>table.json</code> of <code>ssa reproduce</code>. The figures below show each "
            "score; verdicts need an experiment.</p>",
        )
        return
    body = ""
    for score, quantity in itertools.product(order_scores(r["score"] for r in compared), (_ERROR, _ACCURACY)):
        rows = [r for r in compared if r["score"] == score and _quantity(r["condition"]) == quantity]
        if not rows:
            continue
        judged = sum(verdict_kind(r) != "open" for r in rows)
        name, better = quantity.name, quantity.better
        where, ratio = "", " (of relative errors: of the ratio, contains 1)"
        if quantity == _ACCURACY:
            where, ratio = " on minimal pairs: the average and the phenomena", ""
        body += f"<h3>{escape(score)} beside {REFERENCE}{where}</h3>{_tiles(rows)}"
        body += (
            f"<p>Each cell: {name} of {REFERENCE} → {name} of {escape(score)}, means over seeds; {better} is better. "
            f"▲ {escape(score)} has the {better} {name}, ▼ the {quantity.worse} one, ≈ no difference measurable: the "
            f"95 % interval of the difference, paired by seed, contains 0{ratio}. Coloured by the winner. "
        )
        if judged:
            body += (
                f"Of {judged} judged comparisons about {max(1, round(0.05 * judged))} would look "
                "different by chance alone if there were no difference anywhere."
            )
        reasons = list(dict.fromkeys(r["verdict"] for r in rows if verdict_kind(r) == "open" and r["verdict"]))
        if reasons:
            body += f"Marked · : {escape('; '.join(reasons))}."
        body += "</p>" + legend({s: colours[s] for s in (REFERENCE, score) if s in colours})
        body += _overview(score, rows, every, colours)
    page.section("glance", "At a glance", body)


def table_section(study: Study, page: Page) -> None:
    """Every row of table.json, conditions down, scores across."""
    every = _all_rows(study)
    if not every:
        return
    body = (
        f"<p>Every measured figure: means over seeds ± half width of their 95 % interval. Difference = score minus "
        f"{REFERENCE}, paired by seed, with its own interval.</p>"
    )
    for variant in dict.fromkeys(r["variant"] for r in every):
        rows = [r for r in every if r["variant"] == variant]
        seeds = " / ".join(dict.fromkeys(str(len(r["seeds"])) for r in rows))
        steps = " / ".join(dict.fromkeys(thousands(r["steps"]) for r in rows))
        body += (
            f"<details><summary>{escape(variant)} <small>seeds: {seeds}, steps: {steps}</small></summary>"
            f"{_variant_table(rows, palette(study))}</details>"
        )
    page.section("table", "Comparison table", body)


def _variant_table(rows: list[dict], colours: dict[str, str]) -> str:
    scores = order_scores(r["score"] for r in rows)
    found = {(r["condition"], r["score"]): r for r in rows}
    head = ["<th scope=col>Test data</th>"]
    for score in scores:
        head.append(f"<th scope=col>{escape(score)}</th>")
        if score != REFERENCE:
            head.append("<th scope=col>Difference</th><th scope=col class=left>Verdict</th>")
    columns = 1 + sum(1 if s == REFERENCE else 3 for s in scores)
    lines, group = [], None
    for condition in sorted({r["condition"] for r in rows}, key=condition_order):
        title = group_title(condition)
        if condition.metric not in STATISTICS:
            title += f" – {METRIC_WORDS.get(base_metric(condition.metric), condition.metric)}"
        if title != group:
            group = title
            lines.append(f'<tr class="group"><th colspan={columns}>{escape(group)}</th></tr>')
        cells = "".join(_table_cells(found.get((condition, score)), score, colours) for score in scores)
        lines.append(f"<tr><th scope=row>{escape(setting(condition))}</th>{cells}</tr>")
    return table(head, lines)


def _table_cells(row: dict | None, score: str, colours: dict[str, str]) -> str:
    if row is None:
        return "<td></td>" * (1 if score == REFERENCE else 3)
    mean = f"<td>{_number(row)}</td>"
    if score == REFERENCE:
        return mean
    kind = verdict_kind(row)
    difference = _difference(row) if row["difference"] is not None else ""
    return (
        f'{mean}<td>{difference}</td><td class="left {kind}"{_tint(kind, score, colours)}>'
        f'<span class="mark">{MARKS.get(kind, "")}</span> {escape(verdict_words(row))}</td>'
    )
