"""table.json and verdicts.json of made-up rows: the statistics of `ssa reproduce`, written a second time for the tests."""

from __future__ import annotations

import math

import mpmath

# Two-sided 95 % quantiles of Student's t, by degrees of freedom.
T = {1: 12.706204736432095, 2: 4.302652729911275, 3: 3.182446305284263, 4: 2.7764451051977987}
MARGIN = 1.25


def mean_interval(values: list[float]) -> tuple[float, float | None]:
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, None
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    return mean, T[len(values) - 1] * deviation / math.sqrt(len(values))


def scale_of(metric: str) -> str:
    base = metric.removesuffix("-before").removesuffix("-at").removesuffix("-after")
    if base in ("wrong", "sequence-wrong"):
        return "log-odds"
    return "log" if base in ("relative-error", "squared-error", "perplexity", "word-perplexity") else "plain"


def better_of(metric: str) -> str:
    if metric in ("accuracy", "acc"):
        return "higher"
    return "" if metric in ("mass-on-huge", "entropy", "p-max") or "milliseconds" in metric else "lower"


def on_scale(value: float, scale: str, counts: list[int] | None) -> float:
    if scale == "log-odds":
        k, n = counts
        return math.log((k + 0.5) / (n - k + 0.5))
    return math.log(value) if scale == "log" else value


def off_scale(value: float, scale: str) -> float:
    return value if scale == "plain" else math.exp(value) if scale == "log" else 1 / (1 + math.exp(-value))


def _p_value(differences: list[float]) -> float | None:
    """Of the paired t-test, by the incomplete beta function."""
    if len(differences) < 2:
        return None
    mean, half = mean_interval(differences)
    degrees = len(differences) - 1
    if half == 0:
        return 1.0 if mean == 0 else 0.0
    t = mean / (half / T[degrees])
    return float(mpmath.betainc(degrees / 2, 0.5, 0, degrees / (degrees + t * t), regularized=True))


def _adjusted(p_values: list[float]) -> list[float]:
    """Benjamini and Hochberg."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i], reverse=True)
    adjusted, least = [1.0] * len(p_values), 1.0
    for rank, i in enumerate(order):
        least = min(least, p_values[i] * len(p_values) / (len(p_values) - rank))
        adjusted[i] = least
    return adjusted


def _role(key: str, better: str) -> str:
    if not better:
        return "description"
    if key.startswith(("sigma=1/", "coefficients=1/")):
        return "repeat"
    return "control" if key.startswith(("none/", "training/")) or key.endswith("-before") else "counted"


def _in_table(key: str) -> bool:
    """The metrics that an experiment asks for."""
    name, metric = key.rsplit("/", 1)
    if metric == "accuracy":
        return name == "average" or name.startswith("mean of ")
    return (
        metric in ("wrong", "relative-error", "perplexity", "acc")
        or metric.endswith(("-at", "-after"))
        and (metric.startswith(("wrong", "relative-error")))
    )


def comparison_row(of_variant: list[dict], key: str, score: str) -> dict:
    metric = key.rsplit("/", 1)[1]
    scale, better = scale_of(metric), better_of(metric)
    placed = {
        s: {
            line["seed"]: on_scale(line["metrics"][key], scale, line["counts"].get(key))
            for line in of_variant
            if line["score"] == s
        }
        for s in ("softmax", score)
    }
    plain_values = [line["metrics"][key] for line in of_variant if line["score"] == score]
    mean, interval = mean_interval(plain_values)
    centre, half = mean_interval(list(placed[score].values()))
    row = {
        "variant": of_variant[0]["variant"],
        "metric": key,
        "score": score,
        "evaluation": of_variant[0]["evaluation"],
        "seeds": sorted(placed[score]),
        "steps": of_variant[0]["steps"],
        "mean": mean,
        "interval": interval,
        "centre": off_scale(centre, scale),
        "centre_low": None if half is None else off_scale(centre - half, scale),
        "centre_high": None if half is None else off_scale(centre + half, scale),
        "better": better,
        "scale": scale,
        "unit": "percent" if metric in ("accuracy", "acc") else "",
        "role": _role(key, better),
        "family": "table" if _in_table(key) else "others",
        "verdict": "",
    }
    names = ("difference", "difference_interval", "ratio", "ratio_low", "ratio_high", "effect", "effect_low")
    row |= dict.fromkeys((*names, "effect_high", "p", "p_adjusted", "p_sign_flip", "detectable"))
    if score != "softmax":
        pairs = [value - placed["softmax"][seed] for seed, value in placed[score].items()]
        mean, half = mean_interval(pairs)
        back = (lambda v: v) if scale == "plain" else math.exp
        row["effect"], row["p"] = back(mean), _p_value(pairs)
        if half is not None:
            row["effect_low"], row["effect_high"] = back(mean - half), back(mean + half)
    return row


def _give_verdicts(rows: list[dict]) -> None:
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        if row["score"] == "softmax":
            continue
        if len(row["seeds"]) < 3:
            row["verdict"] = "no verdict: too few seeds"
        elif row["role"] == "repeat":
            row["verdict"] = "repeats none"
        else:
            groups.setdefault((row["role"], row["family"]), []).append(row)
    for of_group in groups.values():
        for row, p in zip(of_group, _adjusted([r["p"] for r in of_group]), strict=True):
            row["p_adjusted"] = p
            none = 0 if row["scale"] == "plain" else 1
            within = row["scale"] != "plain" and 1 / MARGIN < row["effect_low"] and row["effect_high"] < MARGIN
            sign = "lower" if row["effect"] < none else "higher"
            row["verdict"] = sign if p < 0.05 else "equivalent" if within else "not decided"


def comparison_table(lines: list[dict]) -> list[dict]:
    rows = []
    for variant, evaluation in dict.fromkeys((line["variant"], line["evaluation"]) for line in lines):
        of_variant = [line for line in lines if (line["variant"], line["evaluation"]) == (variant, evaluation)]
        scores = dict.fromkeys(line["score"] for line in of_variant)
        rows += [comparison_row(of_variant, key, score) for key in of_variant[0]["metrics"] for score in scores]
    _give_verdicts(rows)
    return rows


def outcome(row: dict) -> str:
    """better, worse, equivalent or not decided."""
    if row["verdict"] in ("lower", "higher"):
        return "better" if row["verdict"] == row["better"] else "worse"
    return row["verdict"]


def verdicts(name: str, rows: list[dict], endpoints: list[dict]) -> dict:
    counted = [r for r in rows if r["role"] == "counted" and r["family"] == "table" and r["score"] != "softmax"]
    counts = []
    for score in [*dict.fromkeys(r["score"] for r in counted), "all"]:
        of_score = [r for r in counted if score in (r["score"], "all")]
        kinds = {
            kind: sum(outcome(r) == kind for r in of_score) for kind in ("better", "worse", "equivalent", "not decided")
        }
        counts.append({"score": score, "comparisons": len(of_score)} | kinds)
    return {"schema": 1, "experiment": name, "margin": MARGIN, "counts": counts, "endpoints": endpoints}


def endpoint(row: dict, name: str) -> dict:
    """An endpoint of a single test, that of a row of the table."""
    kept = ("variant", "score", "evaluation", "better", "scale", "unit", "seeds", "effect", "effect_low", "effect_high")
    kept += ("p", "p_adjusted", "p_sign_flip", "detectable", "verdict")
    return {"name": name, "metrics": [row["metric"]], "planned": 5} | {key: row[key] for key in kept}
