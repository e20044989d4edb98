"""Run folders and experiment folders of made-up numbers, in the form of docs/formats.md."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import mpmath

SHIFTS = {"sigma": [2, 5, 10, 40], "length": [41, 80, 200], "huge": [-1000, -100, -10, 10, 100, 1000]}
LINEAR_SHIFTS = SHIFTS | {
    "coefficients": [1, 2, 5, 10],
    "both": [2, 5],
    "grid": [[a, b] for a in (1, 2, 5) for b in (1, 2, 5)],
}
POINTS, HUGE_AT, SEQUENCES = 40, 11, 6400
PARAMETERS = {"ssa": ["n", "b"], "temperature": ["tau"]}
PARADIGMS = {
    "binding-principle_a": "binding",
    "quantifiers-existential_there": "quantifiers",
    "quantifiers-superlative": "quantifiers",
}
SCORINGS = {
    "blimp": "log-likelihood",
    "zorro": "holistic",
    "zorro-mlm": "pseudo-log-likelihood",
    "blimp-mlm": "pseudo-log-likelihood",
}


def write_json(path: Path, value) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def write_lines(path: Path, lines: list[dict]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def run_information(task: str, score: str, seed: int, steps: int, **model) -> dict:
    return {
        "schema": 1,
        "name": f"{task}-{score}-{seed}",
        "version": "0.1.0",
        "git": "abc1234",
        "torch": "2.13.0",
        "score": score,
        "parameters": 38145,
        "created": "2026-01-02T03:04:05Z",
        "config": {
            "model": {
                "preset": "gpt2-icl-tiny",
                "layers": 3,
                "heads": 4,
                "width": 64,
                "mlp": True,
                "norm": "layer",
                "residual": True,
                "score": score,
            }
            | model,
            "task": {"name": task, "sampler": "balanced", "points_start": 11, "points_end": 41},
            "train": {"steps": steps, "batch": 64, "accumulation": 1, "learning_rate": 5e-4, "seed": seed},
        },
    }


def metrics_lines(rng: random.Random, score: str, steps: int, task: str, layers: int = 3) -> list[dict]:
    lines = []
    for step in range(20, steps + 1, 20):
        loss = 0.7 * math.exp(-step / (0.3 * steps)) + 0.02 * rng.uniform(0.8, 1.2)
        names = PARAMETERS.get(score, [])
        drift = step / steps
        parameters = [
            {
                name: [1.2 + 0.1 * k, 1.5 + 0.1 * k + 0.4 * drift * (k - 1), 1.9 + 0.2 * k + 0.5 * drift]
                for name in names
            }
            for k in range(layers)
        ]
        lines.append(
            {
                "step": step,
                "loss": loss,
                "learning_rate": 5e-4,
                "gradient_norm": rng.uniform(0.2, 1.5),
                "seconds": step * 0.05,
                "tokens_per_second": 51000.0,
                "progress": {"pass": step / 68277} if task == "mlm" else {"points": 11 + step // 40},
                "score_parameters": parameters,
            }
        )
        if step % 200 == 0:
            figures = {"loss": loss * 1.1} | ({} if task == "icl-linear" else {"wrong": loss / 4})
            lines.append({"step": step, "validation": figures})
    return lines


def _mean(rng: random.Random, score: str, shift: str, value, metric: str) -> float:
    size = {"none": 1, "length": 1.5}.get(shift) or math.log(
        2 + abs(math.prod(value if isinstance(value, list) else [value]))
    )
    better = 0.55 if score == "ssa" and shift in ("sigma", "huge", "coefficients", "grid") else 1.0
    if metric.endswith("-at"):
        better, size = 1.0, 3 * size
    if metric.endswith("-before"):
        better, size = 1.0, 1.0
    scale = 0.02 if "wrong" in metric else 0.05
    return min(0.9, scale * size**1.5 * better * rng.uniform(0.85, 1.15))


def evaluation(rng: random.Random, task: str, score: str, steps: int) -> dict:
    linear = task == "icl-linear"
    metrics = ["squared-error", "relative-error"] if linear else ["wrong", "sequence-wrong"]
    predictors = ["model", "least-squares", "3-nearest", "average"] if linear else ["model", "constant", "position"]
    rows, attention = [], []
    for shift, values in {"none": [None], **(LINEAR_SHIFTS if linear else SHIFTS)}.items():
        for value in values:
            points = value if shift == "length" else POINTS
            for base in metrics:
                for metric in [f"{base}-{p}" for p in ("before", "at", "after")] if shift == "huge" else [base]:
                    for predictor in predictors:
                        # Baselines do not depend on the seed of the model.
                        source = rng if predictor == "model" else random.Random(f"{predictor} {shift} {value} {metric}")
                        mean = _mean(source, score if predictor == "model" else predictor, shift, value, metric)
                        trials = SEQUENCES * (1 if "sequence" in metric else points)
                        if "wrong" in metric:
                            mean = round(mean * trials) / trials
                        row = {
                            "shift": shift,
                            "value": value,
                            "points": points,
                            "predictor": predictor,
                            "metric": metric,
                            "mean": mean,
                            "standard_error": mean / 50,
                            "items": trials,
                        }
                        if metric in ("wrong", "squared-error", "wrong-after", "squared-error-after"):
                            row["per_position"] = [mean * source.uniform(0.5, 1.5) for _ in range(points)]
                        rows.append(row)
            if shift in ("none", "huge"):
                for layer in range(3):
                    for head in range(4):
                        strength = 0 if value is None else math.log10(abs(value)) / 3
                        mass = min(0.99, strength * rng.uniform(0.8, 1) * (0.4 if score == "ssa" else 1.0))
                        row = {
                            "shift": shift,
                            "value": value,
                            "layer": layer,
                            "head": head,
                            "entropy": 3 * (1 - mass),
                            "p_max": 0.2 + 0.7 * mass,
                        }
                        attention.append(row | ({"mass_on_huge": mass} if shift == "huge" else {}))
    return {
        "schema": 1,
        "suite": "icl-shift",
        "task": task,
        "score": score,
        "step": steps,
        "sequences": SEQUENCES,
        "data_seed": 1234,
        "points": POINTS,
        "huge_position": HUGE_AT,
        "attention_sequences": 64,
        "chance": None if linear else 0.5,
        "majority": None if linear else 0.7,
        "score_parameters": score_parameters(rng, score),
        "rows": rows,
        "attention": attention,
        "skipped": [{"shift": "length", "value": 400, "points": 400, "reason": "800 tokens, max_positions is 512"}],
    }


def score_parameters(rng: random.Random, score: str) -> list[dict]:
    return [
        {name: [1 + 0.1 * k + rng.uniform(0, 0.5) for _ in range(4)] for name in PARAMETERS.get(score, [])}
        for k in range(3)
    ]


def pair_evaluation(rng: random.Random, suite: str, score: str, steps: int) -> dict:
    """Minimal pairs; Zorro's with the values that were published of all but one paradigm."""
    accuracy = {name: rng.uniform(55, 65) + (20 if score == "ssa" and "binding" in name else 0) for name in PARADIGMS}

    def row(name: str, phenomenon: str, paradigms: list[str]) -> dict:
        return {
            "paradigm": name,
            "phenomenon": phenomenon,
            "predictor": "model",
            "metric": "accuracy",
            "mean": sum(accuracy[p] for p in paradigms) / len(paradigms),
            "standard_error": 1.1,
            "items": 2000 * len(paradigms),
            "ties": 3,
        }

    rows = [row(name, phenomenon, [name]) for name, phenomenon in PARADIGMS.items()]
    for phenomenon in dict.fromkeys(PARADIGMS.values()):
        rows.append(row(f"mean of {phenomenon}", phenomenon, [p for p, of in PARADIGMS.items() if of == phenomenon]))
    rows.append(row("average", "", list(PARADIGMS)))
    if not suite.startswith("blimp"):
        rows += [
            {"paradigm": name, "predictor": "published", "metric": "accuracy", "mean": value}
            for name, value in [("binding-principle_a", 88.55), ("quantifiers-superlative", 67.5), ("average", 77.9)]
        ]
    return {
        "schema": 1,
        "suite": suite,
        "task": "mlm",
        "score": score,
        "step": steps,
        "score_parameters": score_parameters(rng, score),
        "scoring": SCORINGS[suite],
        "precision": "float32",
        "data": "fnv1a64:9f0c",
        "chance": 50,
        "majority": 50,
        "seconds": 12.5,
        "rows": rows,
    }


def write_run(
    folder: Path, task: str, score: str, seed: int, steps: int = 1000, evaluated: bool = True, **model
) -> dict | None:
    """A run folder; returns its evaluation."""
    rng = random.Random(f"{folder.parts[-3:]} {seed}")
    write_json(folder / "run.json", run_information(task, score, seed, steps, **model))
    write_lines(folder / "metrics.jsonl", metrics_lines(rng, score, steps, task))
    if not evaluated:
        return None
    result = evaluation(rng, task, score, steps)
    write_json(folder / "evals" / "icl-shift.json", result)
    return result


def write_mlm_run(folder: Path, score: str, seed: int, steps: int = 1000, suites=("zorro",)) -> dict[str, dict]:
    """A run folder of a masked language model; returns its evaluations by suite."""
    rng = random.Random(f"{folder.parts[-3:]} {seed}")
    information = run_information("mlm", score, seed, steps, preset="babyberta")
    information["config"]["task"] = {"name": "mlm", "masking": "babyberta"}
    write_json(folder / "run.json", information)
    write_lines(folder / "metrics.jsonl", metrics_lines(rng, score, steps, "mlm"))
    results = {suite: pair_evaluation(rng, suite, score, steps) for suite in suites}
    for suite, result in results.items():
        write_json(folder / "evals" / f"{suite}.json", result)
    return results


def key(row: dict) -> str:
    if "paradigm" in row or "text" in row:
        return f"{row.get('paradigm') or row['text']}/{row['metric']}"
    value = row["value"]
    told = "" if value is None else "=" + "x".join(f"{v:g}" for v in (value if isinstance(value, list) else [value]))
    return f"{row['shift']}{told}/{row['points']}/{row['metric']}"


def result_line(variant: str, score: str, seed: int, task: str, steps: int, result: dict) -> dict:
    tables: dict[str, dict] = {}
    for row in result["rows"]:
        tables.setdefault(row["predictor"], {})[key(row)] = row["mean"]
    last = [row for row in result.get("attention", []) if row["layer"] == 2 and row["shift"] == "huge"]
    metrics = tables.pop("model")
    for value in SHIFTS["huge"] if last else ():
        heads = [row["mass_on_huge"] for row in last if row["value"] == value]
        metrics[f"huge={value}/last-layer/mass-on-huge"] = sum(heads) / len(heads)
    counts = {
        key(row): [round(row["mean"] * row["items"]), row["items"]]
        for row in result["rows"]
        if row["predictor"] == "model" and "wrong" in row["metric"]
    }
    return {
        "variant": variant,
        "score": score,
        "seed": seed,
        "task": task,
        "evaluation": result["suite"],
        "counts": counts,
        "steps": steps,
        "parameters": 38145,
        "layers": 3,
        "width": 64,
        "heads": 4,
        "batch": 64,
        "seconds": 41.2,
        "run": f"runs/{variant}/{score}/seed-{seed}",
        "metrics": metrics,
        "baselines": tables,
        "score_parameters": result["score_parameters"],
    }


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


VARIANTS = {
    "attention-only-every": ("icl-every", {"mlp": False, "norm": "none"}),
    "full-every": ("icl-every", {}),
    "attention-only-linear": ("icl-linear", {"mlp": False, "norm": "none"}),
    "full-linear": ("icl-linear", {}),
}


def write_experiment(
    root: Path,
    scores=("softmax", "ssa"),
    seeds: int = 5,
    variants=tuple(VARIANTS),
    steps: int = 1000,
    endpoints: bool = False,
) -> dict[tuple[str, str, int], dict]:
    """An experiment folder with its runs; returns the evaluations by (variant, score, seed)."""
    lines, evaluations = [], {}
    for variant in variants:
        task, model = VARIANTS[variant]
        for score in scores:
            for seed in range(1, seeds + 1):
                result = write_run(root / "runs" / variant / score / f"seed-{seed}", task, score, seed, steps, **model)
                evaluations[variant, score, seed] = result
                lines.append(result_line(variant, score, seed, task, steps, result))
    rows = write_table(root, lines)
    if endpoints:
        chosen = [r for r in rows if r["score"] == "ssa" and r["role"] == "counted" and r["family"] == "table"][::20]
        made = [endpoint(row, f"{row['variant']}, {row['metric']}") for row in chosen]
        write_json(root / "verdicts.json", verdicts(root.name, rows, made))
    write_json(root / "theory.json", theorems())
    return evaluations


def write_table(root: Path, lines: list[dict]) -> list[dict]:
    rows = comparison_table(lines)
    write_lines(root / "results.jsonl", lines)
    write_json(root / "table.json", rows)
    write_json(root / "verdicts.json", verdicts(root.name, rows, []))
    return rows


def write_mlm_experiment(
    root: Path,
    scores=("softmax", "ssa"),
    seeds: int = 3,
    suites=("zorro", "zorro-mlm"),
    variant: str = "babyberta",
    steps: int = 1000,
) -> dict[tuple[str, str, int], dict]:
    """An experiment folder of masked language models; returns the evaluations by (suite, score, seed)."""
    lines, evaluations = [], {}
    for seed in range(1, seeds + 1):
        for score in scores:
            run = root / "runs" / variant / score / f"seed-{seed}"
            for suite, result in write_mlm_run(run, score, seed, steps, suites).items():
                evaluations[suite, score, seed] = result
                line = result_line(variant, score, seed, "mlm", steps, result)
                line["metrics"]["training/milliseconds-per-step"] = 41.2
                lines.append(line)
    write_table(root, lines)
    return evaluations


TEXTS, LENGTHS = ("books", "wikipedia"), (256, 512, 1024)
TASKS = {"boolq": 50.0, "arc_easy": 25.0}  # and what chance gives


def language_evaluations(rng: random.Random, score: str, steps: int) -> dict[str, dict]:
    """Of a language model, by suite."""
    known = {"schema": 1, "task": "lm", "score": score, "step": steps, "precision": "float32"}
    known["score_parameters"] = score_parameters(rng, score)
    texts = []
    for text in TEXTS:
        for k, length in enumerate(LENGTHS):
            better = 0.8**k if score == "ssa" else 1.03
            mean = 60 * (k + 1) * better * rng.uniform(0.97, 1.03)
            name = text if k == 0 else f"{text}@{length}"
            row = {"text": name, "predictor": "model", "standard_error": 0.4, "items": 1000}
            texts.append(row | {"metric": "perplexity", "mean": mean})
            texts.append(row | {"metric": "bits-per-byte", "mean": math.log2(mean) / 4})
    choices = []
    for task, chance in TASKS.items():
        row = {"text": task, "metric": "acc", "items": 500}
        choices.append(row | {"predictor": "model", "mean": chance + rng.uniform(-2, 12), "standard_error": 2.0})
        choices.append(row | {"predictor": "chance", "mean": chance})
        choices.append(row | {"predictor": "majority", "mean": chance + 5})
    return {
        "ppl": known | {"suite": "ppl", "lengths": list(LENGTHS), "rows": texts},
        "zero-shot": known | {"suite": "zero-shot", "rows": choices},
        "blimp": pair_evaluation(rng, "blimp", score, steps) | {"task": "lm"},
    }


def write_lm_experiment(root: Path, seeds: int = 3, steps: int = 1000) -> dict[tuple[str, str, int], dict]:
    """An experiment folder of language models; returns the evaluations by (suite, score, seed)."""
    lines, evaluations = [], {}
    for seed in range(1, seeds + 1):
        for score in ("softmax", "ssa"):
            folder = root / "runs" / "books" / score / f"seed-{seed}"
            rng = random.Random(f"books {score} {seed}")
            information = run_information("lm", score, seed, steps, preset="nemotron-tiny")
            information["config"]["task"] = {"name": "lm"}
            write_json(folder / "run.json", information)
            write_lines(folder / "metrics.jsonl", metrics_lines(rng, score, steps, "mlm"))
            for suite, result in language_evaluations(rng, score, steps).items():
                evaluations[suite, score, seed] = result
                write_json(folder / "evals" / f"{suite}.json", result)
                line = result_line("books", score, seed, "lm", steps, result)
                lines.append(line | {"options": {"lengths": ",".join(map(str, LENGTHS))}})
    write_table(root, lines)
    return evaluations


def theorems() -> dict:
    entries = []
    for case, slopes in {"positive": (-0.5, 0.0), "zero": (-2.0, -1.5), "negative": (-3.0, -3.0)}.items():
        x = [float(v) for v in range(41)]
        entries.append(
            {
                "theorem": "magnification",
                "score": "softmax",
                "params": {},
                "case": case,
                "x": x,
                "log_miss": [slopes[0] * v - 0.7 for v in x],
                "axis": "linear",
                "fitted_slope": slopes[0],
                "predicted_slope": slopes[0],
            }
        )
        x = [10 ** (k / 8) for k in range(41)]
        entries.append(
            {
                "theorem": "magnification",
                "score": "ssa",
                "params": {"n": 1.5, "b": 0.8},
                "case": case,
                "x": x,
                "log_miss": [slopes[1] * math.log(1 + v) - 0.5 for v in x],
                "axis": "log",
                "fitted_slope": slopes[1] + 1e-4,
                "predicted_slope": slopes[1],
            }
        )
    entries.append(entries[1] | {"theorem": "disproportion", "case": "one large score"})
    return {"schema": 1, "theorems": entries}


if __name__ == "__main__":
    import sys

    write_experiment(Path(sys.argv[1]), endpoints=True)
