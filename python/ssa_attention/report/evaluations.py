"""What an evaluation of a run measured: the files evals/*.json, and the keys under which results.jsonl and table.json
hold the same figures (docs/formats.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..json_files import MAX_NUMBER
from .records import (
    MAX_WHOLE,
    ReportError,
    check_schema,
    load_json,
    need,
    need_count,
    need_numbers,
    optional,
    optional_count,
    optional_list,
)
from .statistics import count

SHIFT_SUITE = "icl-shift"
PAIR_SUITES = ("zorro", "zorro-mlm", "blimp-mlm", "blimp")
PERPLEXITY_SUITE, CHOICE_SUITE = "ppl", "zero-shot"
ITEM_SUITES = (*PAIR_SUITES, PERPLEXITY_SUITE, CHOICE_SUITE)
EVALUATIONS = (SHIFT_SUITE, *ITEM_SUITES)
MODEL, PUBLISHED, BY_CHANCE, MAJORITY = "model", "published", "chance", "majority"  # predictors; others are baselines


@dataclass(frozen=True)
class Condition:
    """What was measured: a shift of the test data, its strength, the points per sequence, the metric."""

    shift: str
    value: tuple[float, ...]  # one number; two for `grid`; none for `none`
    points: int  # 0 for statistics of the last layer's attention
    metric: str


@dataclass(frozen=True)
class Item:
    """What was measured outside of in-context tasks: the minimal pairs of a suite that test one thing (a paradigm) or
    the mean of several paradigms, a text (at a length, where it is not the first), a multiple-choice task."""

    suite: str
    name: str
    metric: str

    @property
    def text(self) -> str:
        """Without the length: books@512 -> books."""
        return self.name.partition("@")[0]

    @property
    def length(self) -> int | None:
        """Of the window, where it is not the first."""
        digits = self.name.partition("@")[2]
        return int(digits) if digits.isdecimal() and len(digits) < 10 else None

    @property
    def is_average(self) -> bool:
        """Over the whole suite."""
        return self.name == "average"

    @property
    def is_phenomenon(self) -> bool:
        return self.name.startswith("mean of ")


# The score's parameters by layer: {"n": one value per head, or a single one that they share}.
Parameters = list[dict[str, list[float | None]]]


@dataclass(frozen=True)
class Attention:
    """Means over sequences of one head of one layer under one shift."""

    shift: str
    value: tuple[float, ...]
    layer: int
    head: int
    mass_on_huge: float | None
    entropy: float | None
    p_max: float | None


@dataclass
class Evaluation:
    sequences: int
    data_seed: int
    chance: float | None
    majority: float | None
    huge_position: int | None  # of the planted value, counted from 1
    means: dict[tuple[str, Condition], float | None] = field(default_factory=dict)  # by (predictor, condition)
    trials: dict[tuple[str, Condition], int] = field(default_factory=dict)  # how many chances each mean had
    per_position: dict[tuple[str, Condition], list[float | None]] = field(default_factory=dict)
    attention: list[Attention] = field(default_factory=list)
    parameters: Parameters = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # conditions without rows, and why


@dataclass
class ItemEvaluation:
    """A run measured with a suite of minimal pairs, texts or multiple-choice tasks."""

    precision: str
    scoring: str  # of minimal pairs, else empty
    data: str  # a hash, of minimal pairs
    pairs: int = 0
    first_length: int | None = None  # of the windows of texts
    means: dict[tuple[str, Item], float | None] = field(default_factory=dict)  # as Cell.items
    parameters: Parameters = field(default_factory=list)


_VALUES = {"none": 0, "grid": 2}  # numbers that a shift has; the others have one


def _check_value(shift: str, value: tuple[float, ...], where: str) -> None:
    expected = _VALUES.get(shift, 1)
    if len(value) != expected or not all(abs(n) <= MAX_NUMBER for n in value):
        raise ReportError(f'{where}: a shift "{shift}" has {count(expected, "finite number")} as its value')


def _value(shift: str, raw, where: str) -> tuple[float, ...]:
    numbers = raw if isinstance(raw, list) else [] if raw is None or shift == "none" else [raw]
    if not all(type(n) in (int, float) for n in numbers):
        raise ReportError(f'{where}: "value" must be a number or a list of numbers')
    value = tuple(float(n) for n in numbers)
    _check_value(shift, value, where)
    return value


def need_parameters(record: dict, where: str, length: int | None = None) -> Parameters:
    """record["score_parameters"], each parameter a list of that many numbers (None: of any)."""
    layers = need(record, "score_parameters", list, where)
    for layer in layers:
        if not isinstance(layer, dict):
            raise ReportError(f'{where}: "score_parameters" must be a list of objects, one per layer')
        for name in layer:
            need_numbers(layer, name, where, length)
    return layers


def optional_parameters(record: dict, where: str) -> Parameters:
    """None in files of earlier versions."""
    return need_parameters(record, where) if "score_parameters" in record else []


TRAINING = "training/"  # metrics of the training, not of a test set


def condition_of_key(key: str, where: str) -> Condition:
    """The condition named SHIFT=VALUE/POINTS/METRIC in results.jsonl and table.json, or
    SHIFT=VALUE/last-layer/STATISTIC, whose points are 0."""
    try:
        shift, points, metric = key.split("/")
        shift, _, value = shift.partition("=")
        numbers = tuple(float(n) for n in value.split("x") if n)
        condition = Condition(shift, numbers, 0 if points == "last-layer" else int(points), metric)
    except ValueError:
        raise ReportError(f'{where}: "{key}" is not of the form SHIFT=VALUE/POINTS/METRIC') from None
    _check_value(shift, numbers, where)
    if not 0 <= condition.points <= MAX_WHOLE:
        raise ReportError(f'{where}: "{key}" has a number of points out of range')
    return condition


def item_of_key(suite: str, key: str, where: str) -> Item:
    """The item named NAME/METRIC in results.jsonl and table.json."""
    name, _, metric = key.rpartition("/")
    if not name or (suite in PAIR_SUITES and metric != "accuracy"):
        form = "PARADIGM/accuracy" if suite in PAIR_SUITES else "NAME/METRIC"
        raise ReportError(f'{where}: "{key}" is not of the form {form}')
    return Item(suite, name, metric)


def evaluation_of(record: dict, where: str) -> str:
    """Of a line of results.jsonl or a row of table.json."""
    return need(record, "evaluation", str, where) if "evaluation" in record else SHIFT_SUITE


def measured_of(evaluation: str, key: str, where: str) -> Condition | Item:
    return condition_of_key(key, where) if evaluation == SHIFT_SUITE else item_of_key(evaluation, key, where)


def _condition_and_value(row, where: str) -> tuple[str, tuple[float, ...]]:
    shift = need(row, "shift", str, where)
    return shift, _value(shift, row.get("value"), where)


def read_evaluation(path: Path) -> Evaluation:
    record = load_json(path)
    where = f"{path}:1"
    check_schema(record, where)
    evaluation = Evaluation(
        need_count(record, "sequences", where),
        need(record, "data_seed", int, where),
        optional(record, "chance", float, where),
        optional(record, "majority", float, where),
        optional_count(record, "huge_position", where),
        parameters=optional_parameters(record, where),
    )
    for index, row in enumerate(need(record, "rows", list, where)):
        _read_row(row, f"{path}: rows[{index}]", evaluation)
    for index, row in enumerate(optional_list(record, "attention", where)):
        at = f"{path}: attention[{index}]"
        shift, value = _condition_and_value(row, at)
        statistics = [optional(row, k, float, at) for k in ("mass_on_huge", "entropy", "p_max")]
        evaluation.attention.append(
            Attention(shift, value, need_count(row, "layer", at), need_count(row, "head", at), *statistics)
        )
    for index, row in enumerate(optional_list(record, "skipped", where)):
        at = f"{path}: skipped[{index}]"
        shift, value = _condition_and_value(row, at)
        told = " × ".join(f"{v:g}" for v in value)
        evaluation.skipped.append(f"{shift} {told}: {need(row, 'reason', str, at)}")
    return evaluation


def _read_row(row, at: str, evaluation: Evaluation) -> None:
    shift, value = _condition_and_value(row, at)
    condition = Condition(shift, value, need_count(row, "points", at), need(row, "metric", str, at))
    key = (need(row, "predictor", str, at), condition)
    if key in evaluation.means:
        raise ReportError(f"{at}: the same predictor, shift, points and metric stand twice")
    evaluation.means[key] = need(row, "mean", float, at)
    items = optional_count(row, "items", at)
    if items:
        evaluation.trials[key] = items
    if row.get("per_position") is not None:
        evaluation.per_position[key] = need_numbers(row, "per_position", at, condition.points)


def read_items(path: Path, suite: str) -> ItemEvaluation:
    """An evaluation whose rows are paradigms, texts or tasks."""
    record = load_json(path)
    where = f"{path}:1"
    check_schema(record, where)
    of_pairs = suite in PAIR_SUITES
    evaluation = ItemEvaluation(
        need(record, "precision", str, where),
        need(record, "scoring", str, where) if of_pairs else "",
        need(record, "data", str, where) if of_pairs else "",
        parameters=optional_parameters(record, where),
    )
    if suite == PERPLEXITY_SUITE:
        evaluation.first_length = first_length_of(record.get("lengths"))
    named = "paradigm" if of_pairs else "text"
    for index, row in enumerate(need(record, "rows", list, where)):
        at = f"{path}: rows[{index}]"
        metric = need(row, "metric", str, at)
        if of_pairs and metric != "accuracy":
            raise ReportError(f'{at}: "metric" must be "accuracy", found "{metric}"')
        key = (need(row, "predictor", str, at), Item(suite, need(row, named, str, at), metric))
        if key in evaluation.means:
            raise ReportError(f"{at}: the same predictor, {named} and metric stand twice")
        evaluation.means[key] = need(row, "mean", float, at)
        if of_pairs and key[0] == MODEL and key[1].is_average:
            evaluation.pairs = need_count(row, "items", at)
    return evaluation


def first_length_of(lengths) -> int | None:
    """Of the option "256,512" or the list [256, 512]; None where that is not what stands there."""
    first = (
        lengths.split(",")[0]
        if isinstance(lengths, str)
        else lengths[0]
        if isinstance(lengths, list) and lengths
        else None
    )
    try:
        return int(first)
    except (TypeError, ValueError):
        return None
