"""What tests are called on the page, and the order in which they are read."""

from __future__ import annotations

from ..counted import counted
from .evaluations import Condition, Item
from .metrics import PLACES, STATISTICS, metric_of, place

REFERENCE = "softmax"
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
    "blimp": "BLiMP, log-likelihood",
    "ppl": "Perplexity of texts",
    "zero-shot": "Zero-shot tasks",
}
# As rows of a figure, where there is little room.
_SHORT_TITLES = {
    "none": "no shift",
    "sigma": "inputs σ",
    "coefficients": "coefficients σ",
    "length": "longer",
    "both": "both σ",
    "grid": "grid σ × σ",
    "zorro": "Zorro",
    "zorro-mlm": "Zorro (PLL)",
    "blimp-mlm": "BLiMP (PLL)",
    "blimp": "BLiMP",
}
PUBLISHED_WORDS = "published (full corpus, for orientation)"
_SHIFT_ORDER = list(SHIFT_TITLES)
_SUITE_ORDER = list(SUITE_TITLES)


def primary(metric: str) -> bool:
    """Whether a metric is the one of its in-context task that figures show."""
    return metric_of(metric).primary


def shift_title(shift: str) -> str:
    return SHIFT_TITLES.get(shift, shift)


def signed(value: tuple[float, ...]) -> str:
    return " × ".join(f"{v:g}".replace("-", "−") for v in value) if value else "none"


def setting(condition: Condition | Item) -> str:
    """The value of a shift, or the item, as a row of a table says it."""
    if isinstance(condition, Item):
        return condition.name if condition.length is None else f"{condition.text}, {counted(condition.length, 'token')}"
    value = signed(condition.value)
    if condition.shift == "none":
        return f"N(0, 1), {counted(condition.points, 'point')}" if condition.points else "N(0, 1)"
    if condition.shift == "length":
        return counted(condition.points, "point")
    if condition.shift == "grid":
        return f"σₓ = {condition.value[0]:g}, σₐ = {condition.value[1]:g}"
    return f"{'x' if condition.shift == 'huge' else 'σ'} = {value}"


def group_title(condition: Condition | Item) -> str:
    """The heading under which a row stands: its suite; or its shift, and where relative to the huge value."""
    if isinstance(condition, Item):
        return SUITE_TITLES[condition.suite]
    if condition.metric in STATISTICS:
        return f"Attention of the last layer: {metric_of(condition.metric).words}"
    where = PLACES.get(place(condition.metric))
    return shift_title(condition.shift) + (f": {where}" if where else "")


def short_title(condition: Condition | Item) -> str:
    """Of the row of a figure that holds all values of one shift, lengths of one text, paradigms of one suite."""
    if isinstance(condition, Item):
        short = _SHORT_TITLES.get(condition.suite)
        name = condition.text if short is None else f"{short}: {'average' if condition.is_average else 'phenomena'}"
        if short is not None and not (condition.is_average or condition.is_phenomenon):
            name = f"{short}: paradigms"
        return (
            name
            if condition.metric in ("accuracy", "perplexity", "acc")
            else f"{name}, {metric_of(condition.metric).words}"
        )
    where = place(condition.metric)
    title = (
        f"huge: {where[1:]}"
        if where and condition.shift == "huge"
        else _SHORT_TITLES.get(condition.shift, condition.shift)
    )
    return title if primary(condition.metric) else f"{title}, {metric_of(condition.metric).words}"


def condition_order(condition: Condition | Item):
    if isinstance(condition, Item):
        order = 3 * len(_SHIFT_ORDER) + _SUITE_ORDER.index(condition.suite)
        return (
            order,
            not condition.is_average,
            not condition.is_phenomenon,
            condition.metric,
            condition.text,
            condition.length or 0,
        )
    shift = condition.shift
    position = _SHIFT_ORDER.index(shift) if shift in _SHIFT_ORDER else len(_SHIFT_ORDER)
    if condition.metric in STATISTICS:
        return (2 * len(_SHIFT_ORDER) + STATISTICS.index(condition.metric), shift, 0, False, "", condition.value, 0)
    suffix = place(condition.metric)
    return (
        position,
        shift,
        list(PLACES).index(suffix) if suffix in PLACES else -1,
        not primary(condition.metric),
        condition.metric,
        condition.value,
        condition.points,
    )


def order_scores(names) -> list[str]:
    """softmax (what others are compared with) first, then ssa, then the rest by name."""
    first = [REFERENCE, "ssa"]
    names = set(names)
    return [n for n in first if n in names] + sorted(names.difference(first))
