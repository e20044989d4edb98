"""How a score compares with softmax: effects and verdicts as `ssa reproduce` wrote them (table.json, verdicts.json).

Where there is no table, effects with their intervals are computed from the cells by the same definitions, and stay
without a verdict: corrected p-values and margins have their home in src/experiment.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from .evaluations import MODEL, Condition, Item
from .metrics import HIGHER, LOWER, STATISTICS, metric_of, place
from .names import REFERENCE, order_scores, primary
from .reading import Cell, Study
from .statistics import PLAIN, count, mean_and_half_width, plain, to_scale

BETTER, WORSE, EQUIVALENT, UNDECIDED, OPEN, DESCRIBED = (
    "better",
    "worse",
    "equivalent",
    "not decided",
    "open",
    "described",
)
JUDGED = (BETTER, WORSE, EQUIVALENT, UNDECIDED)
MARKS = {BETTER: "▲", WORSE: "▼", EQUIVALENT: "=", UNDECIDED: "?", OPEN: "·", DESCRIBED: ""}
_UNJUDGED = "no verdict: no table of `ssa reproduce` with corrected p-values"


@dataclass(frozen=True)
class Effect:
    """A score against softmax in one test, paired by seed.

    effect: odds ratio (log-odds) or ratio (log) of score / softmax, or the difference score − softmax (plain);
    low, high: the ends of its 95 % interval.
    """

    variant: str
    score: str
    condition: Condition | Item
    seeds: int
    steps: int
    better: str
    scale: str
    effect: float | None
    low: float | None
    high: float | None
    p_adjusted: float | None
    p_sign_flip: float | None
    detectable: float | None
    verdict: str
    counted: bool  # among the comparisons that the terminal counts

    @property
    def is_ratio(self) -> bool:
        return self.scale != PLAIN

    @property
    def kind(self) -> str:
        return verdict_kind(self.verdict, self.better)

    def told(self) -> str:
        """×0.42 [0.30, 0.59], or +1.2 [0.4, 2.0]."""
        if self.effect is None:
            return "not measured" if self.seeds == 0 else "not finite"
        metric = metric_of(self.condition.metric)
        show = plain if self.is_ratio else lambda v: signed_number(v * metric.multiplier)
        suffix = "" if self.is_ratio else metric.suffix
        interval = "" if self.low is None or self.high is None else f" [{show(self.low)}, {show(self.high)}]"
        return f"{'×' if self.is_ratio else ''}{show(self.effect)}{interval}{suffix}"

    def hover(self) -> str:
        lines = [self.told(), count(self.seeds, "pair") + " of seeds"]
        if self.p_adjusted is not None:
            lines.append(f"adjusted p = {plain(self.p_adjusted, 2)}")
        if self.p_sign_flip is not None:
            lines.append(f"sign-flip p = {plain(self.p_sign_flip, 2)}")
        if self.detectable is not None and self.kind == UNDECIDED:
            seen = f"×/÷ {plain(self.detectable)}" if self.is_ratio else plain(self.detectable)
            lines.append(f"smallest effect that would show: {seen}")
        return "<br>".join([*lines, verdict_words(self.verdict, self.better)])


def signed_number(value: float) -> str:
    return ("+" if value > 0 else "") + plain(value)


def verdict_kind(verdict: str, better: str) -> str:
    if verdict in (LOWER, HIGHER):
        return DESCRIBED if not better else BETTER if verdict == better else WORSE
    if verdict in (EQUIVALENT, UNDECIDED):
        return verdict
    return OPEN


def verdict_words(verdict: str, better: str) -> str:
    kind = verdict_kind(verdict, better)
    return f"{verdict}: {kind} than {REFERENCE}" if kind in (BETTER, WORSE) else verdict


def _of_row(row: dict) -> Effect:
    return Effect(
        row["variant"],
        row["score"],
        row["condition"],
        len(row["seeds"]),
        row["steps"],
        row["better"],
        row["scale"],
        *(row[key] for key in ("effect", "effect_low", "effect_high")),
        *(row.get(key) for key in ("p_adjusted", "p_sign_flip", "detectable")),
        row["verdict"],
        row["role"] == "counted" and row["family"] == "table",
    )


_NEEDED = ("effect", "effect_low", "effect_high", "better", "scale", "role", "family")


def is_current(row: dict) -> bool:
    """Whether a row of table.json has effects; those of earlier versions do not."""
    return all(key in row for key in _NEEDED)


def _values(cells: list[Cell], condition: Condition | Item) -> dict[int, float | None]:
    """By seed, on the metric's scale."""
    of = (lambda c: c.items) if isinstance(condition, Item) else (lambda c: c.means)
    scale = metric_of(condition.metric).scale
    return {
        c.seed: to_scale(of(c)[MODEL, condition], scale, c.trials.get(condition))
        for c in cells
        if (MODEL, condition) in of(c)
    }


def _computed(cells: list[Cell], references: list[Cell], condition: Condition | Item) -> Effect | None:
    metric = metric_of(condition.metric)
    base = _values(references, condition)
    pairs = [(v, base[seed]) for seed, v in _values(cells, condition).items() if seed in base]
    if not pairs:
        return None
    ends: tuple[float | None, float | None, float | None] = (None, None, None)
    if not any(None in pair for pair in pairs):
        mean, half = mean_and_half_width([a - b for a, b in pairs])
        back = (lambda v: v) if metric.scale == PLAIN else lambda v: math.exp(max(-700.0, min(700.0, v)))
        ends = (back(mean), None, None) if half is None else (back(mean), back(mean - half), back(mean + half))
    return Effect(
        cells[0].variant,
        cells[0].score,
        condition,
        len(pairs),
        cells[0].steps,
        metric.better,
        metric.scale,
        *ends,
        None,
        None,
        None,
        _UNJUDGED,
        _compared(condition),
    )


def _compared(condition: Condition | Item) -> bool:
    """Without a table: what is shifted, by the one metric of its task, and no repetition of another test."""
    if isinstance(condition, Item):
        shown = {"ppl": "perplexity", "zero-shot": "acc"}.get(condition.suite)
        return condition.metric == shown if shown else condition.is_average or condition.is_phenomenon
    repeated = condition.value == (1.0,) and condition.shift != "huge" or place(condition.metric) == "-before"
    return primary(condition.metric) and condition.shift != "none" and not repeated


def effects(study: Study) -> list[Effect]:
    """Every score other than softmax in every test: of the tables where they hold effects, else computed."""
    judged = [_of_row(r) for rows in study.tables.values() for r in rows if r["score"] != REFERENCE and is_current(r)]
    known = {(e.variant, e.score, e.condition) for e in judged}
    for variant in study.variants():
        references = study.select(variant, REFERENCE)
        for score in order_scores(c.score for c in study.select(variant))[1 if references else 0 :]:
            cells = study.select(variant, score)
            tested = dict.fromkeys(key for c in cells for p, key in [*c.means, *c.items] if p == MODEL)
            for condition in tested:
                if condition.metric in STATISTICS or (variant, score, condition) in known:
                    continue
                computed = _computed(cells, references, condition) if references else None
                if computed:
                    judged.append(computed)
    return judged


def counts(study: Study, judged: list[Effect], score: str) -> Counter:
    """How many comparisons came out how: as the experiments' verdicts.json says, which is what the terminal prints;
    without one, counted from the rows."""
    total: Counter = Counter()
    for experiment in {c.experiment for c in study.cells} | set(study.tables):
        record = study.verdicts.get(experiment)
        if record:
            for row in record["counts"]:
                if row["score"] == score:
                    total.update({kind: row[kind] for kind in JUDGED})
                    total[OPEN] += max(0, row["comparisons"] - sum(row[kind] for kind in JUDGED))
            continue
        variants = {c.variant for c in study.cells if c.experiment == experiment}
        variants |= {r["variant"] for r in study.tables.get(experiment, ())}
        total.update(e.kind for e in judged if e.score == score and e.counted and e.variant in variants)
    return total
