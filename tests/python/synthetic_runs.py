"""Run folders and experiment folders of made-up numbers, in the form of docs/formats.md."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

from synthetic_tables import comparison_table, endpoint, verdicts

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
