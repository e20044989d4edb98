"""Reads run folders and experiment folders (docs/formats.md) into cells.

A cell is one trained model: variant × score × seed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from ..counted import counted
from .evaluations import (
    EVALUATIONS,
    MODEL,
    PERPLEXITY_SUITE,
    SHIFT_SUITE,
    TRAINING,
    Condition,
    Evaluation,
    Item,
    ItemEvaluation,
    Parameters,
    condition_of_key,
    evaluation_of,
    first_length_of,
    measured_of,
    need_parameters,
    optional_parameters,
    read_evaluation,
    read_items,
)
from .names import order_scores
from .records import (
    ReportError,
    check_schema,
    kind_of,
    load_json,
    load_lines,
    need,
    need_count,
    need_figures,
    need_numbers,
    optional,
    optional_count,
)

SIZES = ("layers", "heads", "width")  # of a model


@dataclass
class Run:
    """A run folder."""

    path: Path
    information: dict  # run.json
    training: list[dict]
    validation: list[dict]
    evaluation: Evaluation | None
    item_evaluations: dict[str, ItemEvaluation]  # by suite

    @property
    def config(self) -> dict:
        return self.information["config"]

    @property
    def seed(self) -> int:
        return self.config["train"]["seed"]

    @property
    def last_step(self) -> int:
        return max((line["step"] for line in self.training + self.validation), default=0)


@dataclass(frozen=True)
class Centre:
    """Of a score in one test, as `ssa reproduce` wrote it."""

    seeds: int
    centre: float | None
    low: float | None
    high: float | None


@dataclass
class Cell:
    """One trained model of a comparison; `run` is None where only results.jsonl is at hand."""

    experiment: str | None
    variant: str
    score: str
    seed: int
    task: str
    steps: int
    facts: dict  # parameters, layers, width, heads, batch, seconds: whatever is known
    run: Run | None
    means: dict[tuple[str, Condition], float | None] = field(default_factory=dict)  # by (predictor, condition)
    items: dict[tuple[str, Item], float | None] = field(default_factory=dict)  # by (predictor, item)
    trials: dict[Condition, int] = field(default_factory=dict)  # of the model's shares of errors: out of how many
    parameters: Parameters = field(default_factory=list)  # after training; empty where nothing tells
    first_length: int | None = None  # of windows of texts
    centres: dict[Condition | Item, Centre] = field(default_factory=dict)  # of its score, as table.json says

    def __post_init__(self) -> None:
        """Begins with what the run's own evaluations say, which all tell the same parameters."""
        if self.run is None:
            return
        shifts, measured = self.run.evaluation, self.run.item_evaluations.values()
        if shifts:
            self.means |= shifts.means
            self.trials |= {condition: n for (predictor, condition), n in shifts.trials.items() if predictor == MODEL}
        for evaluation in measured:
            self.items |= evaluation.means
            self.first_length = self.first_length or evaluation.first_length
        self.parameters = next((e.parameters for e in (shifts, *measured) if e and e.parameters), self.parameters)

    @property
    def evaluation(self) -> Evaluation | None:
        return self.run.evaluation if self.run else None


@dataclass
class Study:
    """Everything that one report shows."""

    cells: list[Cell] = field(default_factory=list)
    tables: dict[str, list[dict]] = field(default_factory=dict)  # experiment -> table.json
    verdicts: dict[str, dict] = field(default_factory=dict)  # experiment -> verdicts.json
    theorems: list[dict] = field(default_factory=list)

    def variants(self) -> list[str]:
        return list(dict.fromkeys(cell.variant for cell in self.cells))

    def scores(self) -> list[str]:
        return order_scores(cell.score for cell in self.cells)

    def select(self, variant: str, score: str | None = None) -> list[Cell]:
        chosen = [c for c in self.cells if c.variant == variant and score in (None, c.score)]
        return sorted(chosen, key=lambda c: (c.score, c.seed))


def _read_metrics(path: Path) -> tuple[list[dict], list[dict]]:
    training, validation = [], []
    for where, line in load_lines(path):
        need_count(line, "step", where)
        if "validation" in line:
            need_figures(line, "validation", where)
            validation.append(line)
            continue
        need(line, "loss", float, where)
        for name in ("learning_rate", "gradient_norm", "seconds", "tokens_per_second"):
            optional(line, name, float, where)
        if "progress" in line:
            need_figures(line, "progress", where)
        if "score_parameters" in line:
            need_parameters(line, where, length=3)
        training.append(line)
    return training, validation


def read_run(path: Path) -> Run:
    information_path = path / "run.json"
    information = load_json(information_path)
    where = f"{information_path}:1"
    check_schema(information, where)
    need(information, "score", str, where)
    need_count(information, "parameters", where)
    for name in ("version", "git", "torch"):
        optional(information, name, str, where)
    config = need(information, "config", dict, where)
    need(need(config, "task", dict, where), "name", str, where)
    model = need(config, "model", dict, where)
    for name in SIZES:
        optional_count(model, name, where)
    train = need(config, "train", dict, where)
    need(train, "seed", int, where)
    need_count(train, "steps", where)
    for name in ("batch", "accumulation"):
        optional_count(train, name, where)
    training, validation = _read_metrics(path / "metrics.jsonl")
    files = {name: path / "evals" / f"{name}.json" for name in EVALUATIONS}
    shifts = files.pop(SHIFT_SUITE)
    return Run(
        path,
        information,
        training,
        validation,
        read_evaluation(shifts) if shifts.exists() else None,
        {suite: read_items(file, suite) for suite, file in files.items() if file.exists()},
    )


def _run_facts(run: Run) -> dict:
    model, train = run.config["model"], run.config["train"]
    facts = {key: model.get(key) for key in SIZES}
    batch, accumulation = train.get("batch"), train.get("accumulation", 1)
    facts["batch"] = None if batch is None or accumulation is None else batch * accumulation
    facts["parameters"] = run.information["parameters"]
    facts["seconds"] = run.training[-1].get("seconds") if run.training else None
    return facts


def _cell_of_run(run: Run, experiment: str | None, variant: str, score: str, seed: int) -> Cell:
    return Cell(
        experiment,
        variant,
        score,
        seed,
        run.config["task"]["name"],
        run.config["train"]["steps"],
        _run_facts(run),
        run,
    )


def _cell_of_result(root: Path, experiment: str, where: str, line: dict) -> Cell:
    facts = {key: optional_count(line, key, where) for key in (*SIZES, "batch", "parameters")}
    facts["seconds"] = optional(line, "seconds", float, where)
    folder = root / need(line, "run", str, where)
    run = read_run(folder) if (folder / "run.json").exists() else None
    return Cell(
        experiment,
        need(line, "variant", str, where),
        need(line, "score", str, where),
        need(line, "seed", int, where),
        need(line, "task", str, where),
        need_count(line, "steps", where),
        facts,
        run,
    )


def _add_result(cell: Cell, evaluation: str, where: str, line: dict) -> None:
    """One line of results.jsonl; a cell has one for each evaluation."""
    cell.parameters = optional_parameters(line, where) or cell.parameters
    tables = {MODEL: need(line, "metrics", dict, where)}
    baselines = need(line, "baselines", dict, where) if "baselines" in line else {}
    tables |= {predictor: need(baselines, predictor, dict, where) for predictor in baselines}
    known = cell.means if evaluation == SHIFT_SUITE else cell.items
    if evaluation == PERPLEXITY_SUITE:
        options = optional(line, "options", dict, where) or {}
        cell.first_length = cell.first_length or first_length_of(options.get("lengths"))
    for predictor, table in tables.items():
        for key in table:
            if not key.startswith(TRAINING):
                known[predictor, measured_of(evaluation, key, where)] = need(table, key, float, where)
    if evaluation == SHIFT_SUITE and "counts" in line:
        for key in need(line, "counts", dict, where):
            _, trials = need_numbers(line["counts"], key, where, 2)
            if type(trials) is not int or trials < 1:
                raise ReportError(f'{where}: counts of "{key}" must be [errors, chances]')
            cell.trials[condition_of_key(key, where)] = trials


_TABLE_FIGURES = ("mean", "interval", "difference", "difference_interval", "ratio", "ratio_low", "ratio_high")
# Files of earlier versions lack them: they hold no verdict that this report shows.
_EFFECT_FIGURES = ("effect", "effect_low", "effect_high", "p", "p_adjusted", "p_sign_flip", "detectable")
_EFFECT_FIGURES += ("centre", "centre_low", "centre_high")
_TABLE_CHOICES = {
    "better": ("lower", "higher", ""),
    "scale": ("log-odds", "log", "plain"),
    "role": ("counted", "control", "repeat", "description"),
    "family": ("table", "others"),
    "unit": ("", "percent", "nats"),
}


def _read_table(path: Path) -> list[dict]:
    rows = load_json(path)
    if not isinstance(rows, list):
        raise ReportError(f"{path}:1: expected a list of rows, found {kind_of(rows)}")
    shown = []
    for index, row in enumerate(rows):
        at = f"{path}: row {index}"
        for key in ("variant", "metric", "score", "verdict"):
            need(row, key, str, at)
        need_numbers(row, "seeds", at)
        need_count(row, "steps", at)
        for key in (*_TABLE_FIGURES, *(k for k in _EFFECT_FIGURES if k in row)):
            figure = need(row, key, float, at)
            if "interval" in key and figure is not None and figure < 0:
                raise ReportError(f'{at}: "{key}" is half the width of an interval and must not be negative')
        for key, choices in _TABLE_CHOICES.items():
            if key in row and need(row, key, str, at) not in choices:
                raise ReportError(f'{at}: "{key}" must be one of {", ".join(choices)}, found "{row[key]}"')
        _check_effect(row, at)
        evaluation = evaluation_of(row, at)
        if evaluation in EVALUATIONS and not row["metric"].startswith(TRAINING):
            shown.append(row | {"condition": measured_of(evaluation, row["metric"], at)})
    return shown


def _add_centres(cells: dict[tuple[str, str, int], Cell], rows: list[dict]) -> None:
    figures: dict[tuple[str, str], dict] = {}
    for row in rows:
        if "centre" in row:
            centre = Centre(len(row["seeds"]), *(row.get(key) for key in ("centre", "centre_low", "centre_high")))
            figures.setdefault((row["variant"], row["score"]), {})[row["condition"]] = centre
    for (variant, score, _), cell in cells.items():
        cell.centres = figures.get((variant, score), {})


def _check_effect(row: dict, at: str) -> None:
    """That ratios are no negative numbers, and p-values probabilities."""
    ratios = ("effect", "effect_low", "effect_high") if row.get("scale") in ("log", "log-odds") else ()
    for key in ratios:
        if row.get(key) is not None and row[key] < 0:
            raise ReportError(f'{at}: "{key}" is a ratio and must not be negative')
    for key in ("p", "p_adjusted", "p_sign_flip"):
        if row.get(key) is not None and not 0 <= row[key] <= 1:
            raise ReportError(f'{at}: "{key}" must be between 0 and 1')


def _read_verdicts(path: Path) -> dict:
    """The counts of comparisons and the primary endpoints of an experiment."""
    record = load_json(path)
    where = f"{path}:1"
    check_schema(record, where)
    for index, row in enumerate(need(record, "counts", list, where)):
        at = f"{path}: counts[{index}]"
        need(row, "score", str, at)
        for key in ("comparisons", "better", "worse", "equivalent", "not decided"):
            need_count(row, key, at)
    for index, row in enumerate(need(record, "endpoints", list, where)):
        at = f"{path}: endpoints[{index}]"
        for key in ("name", "variant", "score", "verdict"):
            need(row, key, str, at)
        for key in ("better", "scale", "unit"):
            if need(row, key, str, at) not in _TABLE_CHOICES[key]:
                raise ReportError(f'{at}: "{key}" must be one of {", ".join(_TABLE_CHOICES[key])}')
        need_numbers(row, "seeds", at)
        optional_count(row, "planned", at)
        for key in ("effect", "effect_low", "effect_high", "p", "p_adjusted", "p_sign_flip", "detectable"):
            need(row, key, float, at)
        _check_effect(row, at)
    for key in ("seeds_planned", "cells", "cells_finished"):
        optional_count(record, key, where)
    optional(record, "margin", float, where)
    return record


def _read_experiment(root: Path, name: str, study: Study) -> None:
    """An experiment folder, finished or not: cells of results.jsonl, then runs that have no line yet."""
    cells: dict[tuple[str, str, int], Cell] = {}
    seen: set[tuple[tuple[str, str, int], str]] = set()  # cells with their evaluations
    results = root / "results.jsonl"  # absent until the first cell has finished
    for where, line in load_lines(results) if results.exists() else []:
        evaluation = evaluation_of(line, where)
        if evaluation not in EVALUATIONS:
            continue
        cell = _cell_of_result(root, name, where, line)
        key = (cell.variant, cell.score, cell.seed)
        if (key, evaluation) in seen:
            told = f"variant {key[0]}, score {key[1]}, seed {key[2]} stands twice with evaluation {evaluation}"
            raise ReportError(f"{where}: {told}")
        seen.add((key, evaluation))
        _add_result(cells.setdefault(key, cell), evaluation, where, line)
    for file in sorted(root.glob("runs/*/*/seed-*/run.json")):
        run, (variant, score) = read_run(file.parent), file.parts[-4:-2]
        cells.setdefault((variant, score, run.seed), _cell_of_run(run, name, variant, score, run.seed))
    study.cells.extend(cells.values())
    if (root / "table.json").exists():
        study.tables[name] = _read_table(root / "table.json")
        _add_centres(cells, study.tables[name])
    if (root / "verdicts.json").exists():
        study.verdicts[name] = _read_verdicts(root / "verdicts.json")


def read_theorems(path: Path) -> list[dict]:
    """What `ssa theory --json` wrote."""
    record = load_json(path)
    where = f"{path}:1"
    check_schema(record, where)
    theorems = need(record, "theorems", list, where)
    for index, theorem in enumerate(theorems):
        at = f"{path}: theorems[{index}]"
        for key in ("theorem", "score", "case", "axis"):
            need(theorem, key, str, at)
        if theorem["axis"] not in ("linear", "log"):
            raise ReportError(f'{at}: "axis" must be "linear" or "log", found "{theorem["axis"]}"')
        for key in ("fitted_slope", "predicted_slope"):
            need(theorem, key, float, at)
        if "params" in theorem:
            need_figures(theorem, "params", at)
        x = need_numbers(theorem, "x", at)
        need_numbers(theorem, "log_miss", at, length=len(x))
    return theorems


def _loose_variant(run: Run) -> str:
    """What a run outside of an experiment is, so that runs differing in score and seed alone fall together."""
    model, train = run.config["model"], run.config["train"]
    parts = [run.config["task"]["name"], f"{counted(model.get('layers'), 'layer')}, width {model.get('width')}"]
    parts += [f"no {key}" for key in ("mlp", "norm", "residual") if model.get(key) in (False, "none")]
    parts.append(counted(train["steps"], "step"))
    return ", ".join(parts)


def _compared(run: Run) -> str:
    """The configuration without what a comparison varies: runs that agree in it belong together."""
    config = {
        section: {k: v for k, v in fields.items() if not k.startswith("score") and k not in ("seed", "threads")}
        for section, fields in run.config.items()
        if isinstance(fields, dict)
    }
    return json.dumps(config, sort_keys=True)


def _read_loose(folders: list[Path], study: Study) -> None:
    labels: dict[str, str] = {}  # label -> the configuration it stands for
    taken = set()
    for folder in folders:
        run = read_run(folder)
        score, label = run.information["score"], _loose_variant(run)
        if labels.setdefault(label, _compared(run)) != _compared(run) or (label, score, run.seed) in taken:
            label = f"{label} ({folder.name})"  # differs in something that the label does not tell
        taken.add((label, score, run.seed))
        study.cells.append(_cell_of_run(run, None, label, score, run.seed))


def find_runs(root: Path) -> list[Path]:
    """Run folders at or below root."""
    if not root.is_dir():
        raise ReportError(f"{root}: no such folder; expected a run folder or an experiment folder")
    return sorted({file.parent for file in root.rglob("run.json")})


def _find(root: Path) -> tuple[list[Path], list[Path]]:
    """Experiment folders below root, and run folders outside of them."""
    runs = find_runs(root)
    marks = ("results.jsonl", "experiment.toml")
    experiments = sorted({file.parent for mark in marks for file in root.rglob(mark)})
    loose = [run for run in runs if not any(e in run.parents for e in experiments)]
    if not experiments and not loose:
        raise ReportError(f"{root}: holds neither a run (run.json) nor an experiment (results.jsonl)")
    return experiments, loose


def _tell_experiments_apart(study: Study) -> None:
    if len(study.tables.keys() | study.verdicts.keys() | {c.experiment for c in study.cells}) < 2:
        return
    for cell in study.cells:
        if cell.experiment:
            cell.variant = f"{cell.experiment}: {cell.variant}"
    for experiment, rows in study.tables.items():
        for row in rows:
            row["variant"] = f"{experiment}: {row['variant']}"
    for experiment, record in study.verdicts.items():
        for row in record["endpoints"]:
            row["variant"] = f"{experiment}: {row['variant']}"


def read_study(roots: list[Path], theory: Path | None = None) -> Study:
    """All runs and experiments found below the given folders."""
    experiments, loose = [], []
    for root in roots:
        found = _find(root)
        experiments += [e for e in found[0] if e not in experiments]
        loose += [r for r in found[1] if r not in loose]
    study = Study()
    names: dict[str, Path] = {}
    for experiment in experiments:
        name = experiment.resolve().name
        if name in names:
            raise ReportError(f"{experiment}: an experiment of the same name was given: {names[name]}")
        names[name] = experiment
        _read_experiment(experiment, name, study)
    _read_loose(loose, study)
    files = [theory] if theory else sorted({file for root in roots for file in root.rglob("theory.json")})
    for file in files:
        study.theorems += read_theorems(file)
    _check_parameters(study)
    _tell_experiments_apart(study)
    return study


def _check_parameters(study: Study) -> None:
    """That the models of one score and variant have the same parameters in the same places."""
    for variant in study.variants():
        for score in study.scores():
            known = [c for c in study.select(variant, score) if c.parameters]
            shapes = [[{name: len(of) for name, of in layer.items()} for layer in c.parameters] for c in known]
            for cell, shape in zip(known, shapes, strict=True):
                if shape != shapes[0]:
                    raise ReportError(
                        f"{variant}, {score}: the score_parameters of seed {cell.seed} have another form "
                        f"than those of seed {known[0].seed}"
                    )
