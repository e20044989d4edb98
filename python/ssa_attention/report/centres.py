"""The mean of a score over its seeds in one test: what table.json says, or computed by the same definitions."""

from __future__ import annotations

from .evaluations import MODEL, Condition, Item
from .metrics import metric_of
from .reading import Cell
from .statistics import Summary, summarise


def values(cells: list[Cell], condition: Condition | Item) -> list[tuple[Cell, float | None]]:
    """Of the cells that were measured."""
    tables = [(c, c.items if isinstance(condition, Item) else c.means) for c in cells]
    return [(c, table[MODEL, condition]) for c, table in tables if (MODEL, condition) in table]


def centre(cells: list[Cell], condition: Condition | Item) -> Summary:
    """Over the cells of one score: the mean on the metric's scale with its 95 % interval, taken back.

    Rows of earlier versions lack the counts of errors, which `ssa reproduce` knows how to find: its figures are taken
    where the cells are those of its table.
    """
    known = values(cells, condition)
    scale = metric_of(condition.metric).scale
    written = {c.centres.get(condition) for c, _ in known}
    one_variant = len({(c.variant, c.score) for c, _ in known}) == 1
    found = written.pop() if len(written) == 1 else None
    if found and one_variant and found.seeds == len(known):
        return Summary(found.centre, found.low, found.high, tuple(v for _, v in known), scale)
    return summarise((v for _, v in known), scale, [c.trials.get(condition) for c, _ in known])
