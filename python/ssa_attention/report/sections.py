"""The figure sections of the report, in the order in which they are read."""

from __future__ import annotations

import math
from dataclasses import replace
from html import escape

from . import figures
from .centres import centre
from .comparison import Effects
from .evaluations import MODEL, Condition, Item
from .metrics import PLACES, metric_of, place
from .names import REFERENCE, condition_order, order_scores, primary, setting, shift_title, signed
from .page import Page, legend, panels, table
from .panel import Axis, layer_colour, metric_axis, palette
from .reading import Cell, Study
from .statistics import LOG, PLAIN, count, plain, summarise, with_interval
from .verdicts import JUDGED, UNDECIDED, Effect

_LINE = (
    "The line is the mean over seeds on the scale of the comparison (of log-odds or logarithms), the band its 95 % interval; "
    "with fewer than 3 seeds each seed is a dot."
)
_EFFECTS = " Beside it the same test paired by seed: below 1 the score has the lower error, the band is the interval of the ratio."
_X_TITLES = {
    "sigma": "σ of the inputs",
    "coefficients": "σ of the coefficients",
    "length": "points in the sequence",
    "both": "σ of inputs and function",
    "huge": "planted value",
}
_SHIFT_WORDS = {
    "sigma": "Inputs drawn with a larger spread than in training (σ = 1).",
    "coefficients": "Linear functions whose coefficients are drawn with a larger spread than in training.",
    "length": "Sequences longer than in training.",
    "both": "Inputs and function shifted together, as far as each was shifted alone.",
    "grid": "Both spreads at once.",
}


def _conditions(cells: list[Cell], shift: str) -> list[Condition]:
    found = {c for cell in cells for p, c in cell.means if p == MODEL and c.shift == shift and primary(c.metric)}
    return sorted(found, key=condition_order)


def seeds(cells: list[Cell]) -> str:
    """'5 seeds', or the count of each score where they differ."""
    counts = {s: sum(c.score == s for c in cells) for s in order_scores(c.score for c in cells)}
    if len(set(counts.values())) == 1:
        return count(next(iter(counts.values())), "seed")
    return ", ".join(f"{s}: {count(n, 'seed')}" for s, n in counts.items())


def numbered(study: Study) -> list[tuple[int, str, list[Cell]]]:
    return [(i, v, study.select(v)) for i, v in enumerate(study.variants())]


def scores_key(study: Study) -> dict[str, str]:
    colours = palette(study)
    return {score: colours[score] for score in study.scores()}


def _legend(study: Study, conditions: list[Condition]) -> str:
    return legend(scores_key(study), figures.baselines(study.cells, conditions))


def _with_unshifted(cells: list[Cell], shift: str, conditions: list[Condition]) -> list[Condition]:
    """Puts the unshifted set in front: it is σ = 1, and the shortest length."""
    none = [c for c in _conditions(cells, "none") if c.metric == conditions[0].metric]
    if shift == "length":
        return none + [c for c in conditions if c.points not in {n.points for n in none}]
    ones = [c for c in conditions if c.value == (1.0,)]
    return conditions if ones or not none else none + conditions


def _position(shift: str, condition: Condition) -> float | str:
    """Where a condition stands on that shift's axis."""
    if shift == "huge":
        return signed(condition.value)
    if shift == "length":
        return float(condition.points)
    return condition.value[0] if condition.value else 1.0


def _curve(study: Study, cells: list[Cell], shift: str, conditions: list[Condition]):
    symbol = {"huge": "x", "length": "points"}.get(shift, "σ")

    def describe(at) -> str:
        return f"{symbol} = {at if isinstance(at, str) else format(at, 'g')}"

    return figures.curve(
        cells,
        conditions,
        [_position(shift, c) for c in conditions],
        _X_TITLES.get(shift, shift),
        palette(study),
        describe,
    )


def compared(
    page: Page,
    name: str,
    title: str,
    cells: list[Cell],
    tests: list[Condition | Item],
    places: list[float | str],
    x_title: str,
    found: Effects,
    colours: dict[str, str],
) -> list[str]:
    """The panel of the effects of tests[i] at places[i], where scores are compared at all."""
    variant = cells[0].variant
    curves = [
        (
            score,
            [
                (at, found[variant, score, t])
                for at, t in zip(places, tests, strict=True)
                if (variant, score, t) in found
            ],
        )
        for score in order_scores(c.score for c in cells)
        if score != REFERENCE
    ]
    figure = figures.effects(curves, x_title, colours)
    if figure is None:
        return []
    return [page.panel(f"{name}-ratio", f"{title}: ratio to {REFERENCE}", "paired by seed", figure)]


def _drawn(
    study: Study,
    page: Page,
    name: str,
    title: str,
    cells: list[Cell],
    shift: str,
    conditions: list[Condition],
    found: Effects,
) -> list[str]:
    """A panel of errors and, where scores are compared, one of the effects."""
    drawn = [page.panel(name, title, seeds(cells), _curve(study, cells, shift, conditions))]
    places = [_position(shift, c) for c in conditions]
    x_title = _X_TITLES.get(shift, shift)
    return drawn + compared(page, name, title, cells, conditions, places, x_title, found, palette(study))


def shifts_section(study: Study, found: Effects, page: Page) -> None:
    body, subsections = "", []
    for shift in ("sigma", "coefficients", "length", "both"):
        drawn, shown = [], []
        for i, variant, cells in numbered(study):
            conditions = _conditions(cells, shift)
            if not conditions:
                continue
            conditions = _with_unshifted(cells, shift, conditions)
            shown += conditions
            drawn += _drawn(study, page, f"{shift}-{i}", variant, cells, shift, conditions, found)
        if drawn:
            subsections.append((f"shift-{shift}", shift_title(shift)))
            body += (
                f'<h3 id="shift-{shift}">{shift_title(shift)}</h3><p>{_SHIFT_WORDS[shift]} {_LINE}{_EFFECTS}</p>'
                f"{_legend(study, shown)}{panels(drawn)}"
            )
    grid = _grid(study, found, page)
    if grid:
        subsections.append(("shift-grid", shift_title("grid")))
        body += f'<h3 id="shift-grid">{shift_title("grid")}</h3>{grid}'
    if body:
        page.section("shifts", "Error under shifts of the test data", body, subsections)


# The map of the ratio has its full colours where one error is four times the other.
_RATIO_BOUNDS = (-math.log10(4), math.log10(4))


def _grid(study: Study, found: Effects, page: Page) -> str:
    """Two shifts at once: a map of each score's error, and of its ratio to the reference."""
    body = ""
    colours = palette(study)
    for i, variant, cells in numbered(study):
        conditions = _conditions(cells, "grid")
        if not conditions:
            continue
        means = {
            s: {c.value: centre([k for k in cells if k.score == s], c).mean for c in conditions}
            for s in order_scores(c.score for c in cells)
        }
        sizes = [math.log10(m) for table in means.values() for m in table.values() if m]
        bounds = (min(sizes, default=0.0), max(sizes, default=1.0))
        drawn = [
            _grid_panel(
                page,
                f"grid-{i}-{s}",
                f"{variant}: {s}",
                "relative squared error",
                means[s],
                ["#ffffff", "#8e7cc3"],
                bounds,
            )
            for s in means
        ]
        for score in [s for s in means if s != REFERENCE and REFERENCE in means]:
            ratios = {c.value: found.get((variant, score, c)) for c in conditions}
            drawn.append(
                _ratio_panel(
                    page, f"grid-{i}-{score}-ratio", f"{variant}: {score} ÷ {REFERENCE}", ratios, score, colours
                )
            )
        body += panels(drawn)
    if body:
        body = (
            f"<p>{_SHIFT_WORDS['grid']} Means over seeds. The maps of the ratio have the winner's "
            f"colour; cells without a verdict are grey.</p>{body}"
        )
    return body


def _grid_panel(
    page: Page,
    name: str,
    title: str,
    note: str,
    values: dict[tuple[float, ...], float | None],
    colours: list[str],
    bounds: tuple[float, float],
) -> str:
    x, y = (sorted({v[k] for v in values}) for k in (0, 1))
    rows = [[values.get((a, b)) for a in x] for b in y]
    z = [[math.log10(v) if v else None for v in row] for row in rows]
    text = [["" if v is None else plain(v, 2) for v in row] for row in rows]
    figure = figures.heatmap(x, y, z, text, _X_TITLES["sigma"], _X_TITLES["coefficients"], colours, bounds)
    return page.panel(name, title, note, figure)


def _ratio_panel(
    page: Page,
    name: str,
    title: str,
    ratios: dict[tuple[float, ...], Effect | None],
    score: str,
    colours: dict[str, str],
) -> str:
    """Effects over two shifts at once: coloured where there is a verdict, else grey."""
    x, y = (sorted({v[k] for v in ratios}) for k in (0, 1))
    rows = [[ratios.get((a, b)) for a in x] for b in y]
    z = [
        [math.log10(e.effect) if e and e.effect and e.kind in JUDGED and e.kind != UNDECIDED else None for e in row]
        for row in rows
    ]
    text = [["" if e is None or e.effect is None else plain(e.effect, 2) for e in row] for row in rows]
    scale = [colours[score], "#ffffff", colours[REFERENCE]]
    figure = figures.heatmap(x, y, z, text, _X_TITLES["sigma"], _X_TITLES["coefficients"], scale, _RATIO_BOUNDS)
    return page.panel(name, title, f"below 1: {score} has the lower error; grey: no verdict", figure)


def huge_section(study: Study, found: Effects, page: Page) -> None:
    body, shown = "", []
    for i, variant, cells in numbered(study):
        tested = _conditions(cells, "huge")
        drawn = []
        for suffix, words in PLACES.items():
            conditions = [c for c in tested if place(c.metric) == suffix]
            if conditions:
                drawn += _drawn(study, page, f"huge-{i}{suffix}", words.capitalize(), cells, "huge", conditions, found)
        shown += tested
        if drawn:
            body += f'<h3 id="huge-{i}">{escape(variant)}</h3>{panels(drawn)}'
    if body:
        lead = (
            "<p>Sequences of N(0, 1) in which one input is set to the value on the axis. Who is right <i>at</i> the "
            "huge position and who is right <i>after</i> it are different questions. Before it nothing is shifted: "
            f"with causal attention these positions cannot see it. {_LINE}</p>"
        )
        page.section("huge", "One huge value", lead + _legend(study, shown) + body)


def positions_section(study: Study, page: Page) -> None:
    """Error at each position: N(0, 1), and the largest planted values."""
    colours = palette(study)
    body, shown = "", []
    for i, variant, cells in numbered(study):
        keys = sorted(
            {c for cell in cells if cell.evaluation for p, c in cell.evaluation.per_position if p == MODEL},
            key=condition_order,
        )
        plain_sets = [c for c in keys if c.shift == "none"]
        planted = [c for c in keys if c.shift == "huge"]
        chosen = plain_sets + planted[:1] + planted[1:][-1:]
        drawn = []
        for number, condition in enumerate(chosen):
            figure = figures.per_position(cells, condition, colours)
            if figure is not None:
                shown.append(condition)
                drawn.append(page.panel(f"position-{i}-{number}", _condition_title(condition), seeds(cells), figure))
        if drawn:
            body += f'<h3 id="positions-{i}">{escape(variant)}</h3>{panels(drawn)}'
    if body:
        lead = (
            "<p>Error at each position of the sequence. A model that always gives the same answer shows here, though "
            f"its mean may look good: compare with the dotted baselines. {_LINE}</p>"
        )
        page.section("positions", "Error by position", lead + _legend(study, shown) + body)


def _condition_title(condition: Condition) -> str:
    return shift_title("none") if condition.shift == "none" else f"{shift_title(condition.shift)}: {setting(condition)}"


# Field of the evaluation -> the same statistic's name among metrics.
_STATISTICS = {"mass_on_huge": "mass-on-huge", "entropy": "entropy"}


def attention_section(study: Study, page: Page) -> None:
    colours = palette(study)
    body = ""
    for i, variant, cells in numbered(study):
        rows = [row for c in cells if c.evaluation for row in c.evaluation.attention]
        values = sorted({row.value for row in rows if row.shift == "huge"})
        drawn = []
        for statistic, metric in _STATISTICS.items():
            axis = metric_axis(metric)
            for layer in sorted({row.layer for row in rows}):
                figure = figures.attention(cells, statistic, layer, "huge", values, axis, "planted value", colours)
                if values and figure is not None:
                    drawn.append(
                        page.panel(
                            f"attention-{i}-{statistic}-{layer}",
                            f"Layer {layer + 1}: {axis.title}",
                            seeds(cells),
                            figure,
                        )
                    )
        if drawn:
            body += f'<h3 id="attention-{i}">{escape(variant)}</h3>{panels(drawn)}'
    if body:
        lead = (
            "<p>Where attention goes when one input is huge, layer by layer: means over sequences, heads and "
            "seeds; the mass counts queries at and after the huge input, the entropy all queries. All mass on the huge token, and an entropy near 0, is the collapse that "
            f"the paper describes for softmax. {_LINE}</p>"
        )
        page.section("attention", "What attention does with a huge value", lead + legend(scores_key(study)) + body)


def parameters_section(study: Study, page: Page) -> None:
    body = ""
    for i, variant, cells in numbered(study):
        drawn, layers = [], 0
        for score in order_scores(c.score for c in cells):
            of_score = [c for c in cells if c.score == score and c.run]
            names = dict.fromkeys(
                n
                for c in of_score
                for line in c.run.training
                for layer in line.get("score_parameters", [])
                for n in layer
            )
            for name in names:
                panel = figures.score_parameter(of_score, name)
                if panel is not None:
                    layers = max(layers, panel[1])
                    drawn.append(
                        page.panel(f"parameter-{i}-{score}-{name}", f"{score}: {name}", seeds(of_score), panel[0])
                    )
        if drawn:
            key = legend({f"layer {k + 1}": layer_colour(k, layers) for k in range(layers)})
            body += f'<h3 id="parameters-{i}">{escape(variant)}</h3>{key}{panels(drawn)}'
    if body:
        lead = (
            "<p>The trained parameters of the scoring functions over training: for each layer the mean over heads "
            "and seeds; the band reaches from the smallest to the largest head (means over seeds).</p>"
        )
        page.section("parameters", "Score parameters over time", lead + body)


def final_parameters_section(study: Study, page: Page) -> None:
    """Where the parameters ended, by layer and head."""
    colours = palette(study)
    body, shown = "", []
    for i, variant, cells in numbered(study):
        names = list(dict.fromkeys(name for c in cells for layer in c.parameters for name in layer))
        if not names:
            continue
        of_names = [(name, figures.with_parameter(cells, name)) for name in names]
        shown += [c.score for _, known in of_names for c in known]
        drawn = [
            page.panel(f"final-{i}-{name}", name, seeds(known), figures.final_parameter(known, name, colours))
            for name, known in of_names
        ]
        tables = "".join(_parameter_table(name, known) for name, known in of_names)
        body += (
            f'<h3 id="final-{i}">{escape(variant)}</h3>{panels(drawn)}'
            f"<details><summary>Values of every layer and head</summary>{tables}</details>"
        )
    if body:
        lead = (
            "<p>The parameters of the scoring functions in the evaluated checkpoint. A dot is one head of one seed, a "
            "diamond the mean over heads and seeds, its bar the 95 % interval over seeds. Parameters that are fixed "
            "stay where they began. The tables give each head's mean over seeds with its interval; heads of different "
            "seeds have nothing in common but their place.</p>"
        )
        key = legend({score: colours[score] for score in order_scores(shown)})
        page.section("final-parameters", "Score parameters after training", lead + key + body)


def _parameter_table(name: str, cells: list[Cell]) -> str:
    """Layers of every score down, heads across; one wide entry where the heads share the value."""
    heads = max(len(layer[name]) for c in cells for layer in c.parameters)
    columns = [f"{name}: score and layer", *(f"Head {h + 1}" for h in range(heads)), "Mean over heads"]
    rows = []
    for score in order_scores(c.score for c in cells):
        of_score = [c for c in cells if c.score == score]
        for k, mean in enumerate(figures.layer_means(of_score, name)):
            of_heads = zip(*(c.parameters[k][name] for c in of_score), strict=True)
            summaries = [*map(summarise, of_heads), mean]
            entries = [f"<td>{with_interval(s.mean, s.interval)}</td>" for s in summaries]
            if len(entries) < heads + 1:
                entries[:-1] = [f"<td colspan={heads}>one value for all heads</td>"]
            rows.append(f"<tr><th scope=row>{escape(score)}, layer {k + 1}</th>{''.join(entries)}</tr>")
    return table([f"<th scope=col>{escape(column)}</th>" for column in columns], rows)


def validation_metric(task: str, name: str) -> str:
    """The metric's name on the page: what a masked language model calls wrong are tokens, not positions."""
    return "wrong-tokens" if (task, name) == ("mlm", "wrong") else name


def training_section(study: Study, page: Page) -> None:
    colours = palette(study)
    body = ""
    for i, variant, cells in numbered(study):
        validation = dict.fromkeys(n for c in cells if c.run for line in c.run.validation for n in line["validation"])
        loss = Axis("loss", log=True)
        wanted = [("training-loss", "Training loss", lambda line: line["loss"], False, loss, LOG)]
        for name in validation:
            metric = validation_metric(cells[0].task, name)
            # Without the number of tests a share of 0 has no place on the scale of log-odds.
            axis = loss if name == "loss" else replace(metric_axis(metric), log=False)
            wanted.append(
                (
                    f"validation-{name}",
                    f"Validation: {metric_of(metric).words}",
                    lambda line, n=name: line["validation"][n],
                    True,
                    axis,
                    LOG if name == "loss" else PLAIN,
                )
            )
        norm = Axis("norm", log=True)
        wanted.append(("gradient-norm", "Gradient norm", lambda line: line["gradient_norm"], False, norm, LOG))
        drawn = []
        for name, title, read, held_out, axis, scale in wanted:
            figure = figures.over_steps(cells, read, held_out, axis, colours, scale)
            if figure is not None:
                drawn.append(page.panel(f"{name}-{i}", title, seeds([c for c in cells if c.run]), figure))
        if drawn:
            body += f'<h3 id="training-{i}">{escape(variant)}</h3>{panels(drawn)}'
    if body:
        lead = f"{_LINE} Series of more than {figures.MAX_POINTS} steps are averaged in buckets."
        if any(c.task.startswith("icl-") for c in study.cells):
            lead += " A loss of in-context learning that steps up is the curriculum: sequences grow."
        page.section("training", "Training", f"<p>{lead}</p>" + legend(scores_key(study)) + body)
