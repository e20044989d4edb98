"""Error against the length of training and against depth, where the folders hold models that differ in them."""

from __future__ import annotations

from html import escape

import plotly.graph_objects as go

from .centres import centre
from .evaluations import MODEL, Condition, Item
from .figures import by_score, value_axis
from .metrics import place
from .names import condition_order, group_title, primary, setting
from .page import Page, legend, panels
from .panel import Panel, metric_axis, palette
from .reading import Cell, Study
from .sections import scores_key, seeds

_KINDS = {"steps": "training steps", "layers": "layers"}
_MOST_PANELS = 6


def _size(cell: Cell, kind: str) -> int | None:
    return cell.steps if kind == "steps" else cell.facts.get("layers")


def _tests(cells: list[Cell]) -> list[Condition | Item]:
    """What is shown: the unshifted error, the furthest value of each shift, perplexity, averages."""
    keys = dict.fromkeys(key for c in cells for p, key in [*c.means, *c.items] if p == MODEL)
    chosen: dict[str, Condition | Item] = {}
    for key in sorted(keys, key=condition_order):
        if isinstance(key, Item):
            wanted = key.metric == "perplexity" or key.is_average
            if wanted:
                chosen[f"{key.suite}/{key.name}"] = key
        elif primary(key.metric) and place(key.metric) != "-before":
            chosen[group_title(key)] = key  # the last of a group has its largest value
    return list(chosen.values())


def _figure(cells: list[Cell], test: Condition | Item, kind: str, colours: dict[str, str]) -> go.Figure | None:
    panel = Panel(_KINDS[kind], metric_axis(test.metric))
    places: set[float] = set()
    for score, of_score in by_score(cells).items():
        sizes = sorted({_size(c, kind) for c in of_score} - {None})
        found = [(float(n), centre([c for c in of_score if _size(c, kind) == n], test)) for n in sizes if n > 0]
        found = [(at, summary) for at, summary in found if summary.seeds]
        if len(found) > 1:
            places |= {at for at, _ in found}
            told = _KINDS[kind]
            panel.line(
                [at for at, _ in found], [s for _, s in found], score, colours[score], lambda n, t=told: f"{n:g} {t}"
            )
    return value_axis(panel.finish(), sorted(places)) if places else None


def _comparable(cells: list[Cell], kind: str) -> list[list[Cell]]:
    """Cells that differ in that size and agree in the others, whose names say the same but for it."""
    groups: dict[tuple, list[Cell]] = {}
    others = [k for k in ("layers", "width", "heads", "batch", "steps") if k != kind]
    for cell in cells:
        sizes = tuple(cell.steps if k == "steps" else cell.facts.get(k) for k in others)
        model = cell.run.config["model"] if cell.run else {}
        block = tuple(str(model.get(k)) for k in ("mlp", "norm", "residual", "positions"))
        groups.setdefault((cell.task, sizes, block), []).append(cell)
    return [group for group in groups.values() if len({_size(c, kind) for c in group} - {None}) > 1]


def section(study: Study, page: Page) -> None:
    colours = palette(study)
    body = ""
    for kind, words in _KINDS.items():
        for number, cells in enumerate(_comparable(study.cells, kind)):
            drawn = []
            for k, test in enumerate(_tests(cells)[:_MOST_PANELS]):
                figure = _figure(cells, test, kind, colours)
                if figure is not None:
                    where = f"{group_title(test)}, {setting(test)}"
                    drawn.append(page.panel(f"growth-{kind}-{number}-{k}", where, seeds(cells), figure))
            if drawn:
                variants = ", ".join(dict.fromkeys(c.variant for c in cells))
                title = f"{cells[0].task} against {words}"
                body += f'<h3 id="growth-{kind}-{number}">{escape(title)}</h3><p>From {escape(variants)}.</p>{panels(drawn)}'
    if body:
        lead = "<p>Does the difference go away, or come, with longer training or more layers? Each point is a model of its own.</p>"
        page.section("growth", "Error against training steps and depth", lead + legend(scores_key(study)) + body)
