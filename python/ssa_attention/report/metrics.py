"""Every metric that the report knows: its words, its axis, which direction is better, on which scale it is compared.

Direction, scale and which are primary are those of src/eval/metric_kind.cc; a test holds the two lists together.
"""

from __future__ import annotations

from dataclasses import dataclass

from .statistics import LOG, LOG_ODDS, PLAIN

LOWER, HIGHER = "lower", "higher"


@dataclass(frozen=True)
class Metric:
    words: str  # in tables and titles
    better: str = ""  # LOWER, HIGHER, or empty for what only describes
    scale: str = PLAIN  # on which values of seeds are averaged and compared
    multiplier: float = 1.0  # from the file's unit to the shown one: shares are shown in percent
    suffix: str = ""  # of the shown unit
    axis: str = ""  # title of an axis, where it is not the words
    bounds: tuple[float | None, float | None] = (None, None)  # of a linear axis, in the file's unit
    fixed: bool = False  # whether a linear axis always shows all of its bounds
    primary: bool = False  # the one of its in-context task that figures show

    @property
    def log_axis(self) -> bool:
        return self.scale != PLAIN

    @property
    def axis_title(self) -> str:
        return self.axis or self.words


def _share(words: str, **more) -> Metric:
    return Metric(words, LOWER, LOG_ODDS, 100, " %", **more)


def _percent(words: str) -> Metric:
    return Metric(words, HIGHER, PLAIN, 1, " %", bounds=(0, 100))


METRICS = {
    "wrong": _share("wrong positions", primary=True),
    "sequence-wrong": _share("sequences with any wrong sign", axis="wrong sequences"),
    "squared-error": Metric("squared error", LOWER, LOG),
    "relative-error": Metric("relative squared error", LOWER, LOG, primary=True),
    "mass-on-huge": Metric(
        "attention mass on the huge token", "", PLAIN, 100, " %", "mass on the huge token", (0, 1), fixed=True
    ),
    "entropy": Metric("entropy of attention (nats)", axis="entropy (nats)", bounds=(0, None)),
    "p-max": Metric("largest attention weight", "", PLAIN, 100, " %", "largest weight", (0, 1)),
    "wrong-tokens": _share("wrong tokens"),
    "accuracy": _percent("accuracy"),
    "perplexity": Metric("perplexity", LOWER, LOG),
    "rare-perplexity": Metric("perplexity of the rarest tokens", LOWER, LOG),
    "word-perplexity": Metric("perplexity of words", LOWER, LOG),
    "bits-per-byte": Metric("bits per byte", LOWER, LOG),
    "acc": _percent("accuracy"),
    "acc_norm": _percent("accuracy by character"),
    "acc_bytes": _percent("accuracy by byte"),
    "em": _percent("exact match"),
    "f1": _percent("F1"),
    "loss": Metric("loss", LOWER, PLAIN),
    "validation-loss": Metric("validation loss", LOWER, PLAIN),
    "milliseconds-per-step": Metric("milliseconds per step", "", LOG),
}
STATISTICS = ("mass-on-huge", "entropy", "p-max")  # of attention
PLACES = {"-before": "before the huge value", "-at": "at the huge value", "-after": "after the huge value"}


def base_metric(metric: str) -> str:
    """wrong-after -> wrong."""
    for suffix in PLACES:
        metric = metric.removesuffix(suffix)
    return metric


def place(metric: str) -> str:
    """wrong-after -> -after; empty for a metric of the whole sequence."""
    return metric.removeprefix(base_metric(metric))


def metric_of(name: str) -> Metric:
    """What is known of a metric; an unknown one has its name for words, and no better direction."""
    return METRICS.get(base_metric(name), Metric(name))
