"""Reads run folders and experiment folders (docs/formats.md) into cells.

A cell is one trained model: variant × score × seed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from ..json_files import MAX_NUMBER
from .records import (
    MAX_WHOLE,
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
    optional_list,
)
from .statistics import count

SHIFT_SUITE = "icl-shift"
PAIR_SUITES = ("zorro", "zorro-mlm", "blimp-mlm")
EVALUATIONS = (SHIFT_SUITE, *PAIR_SUITES)
MODEL, PUBLISHED = "model", "published"  # predictors; the others are baselines under shift


SIZES = ("layers", "heads", "width")  # of a model


@dataclass(frozen=True)
class Condition:
    """What was measured: a shift of the test data, its strength, the points per sequence, the metric."""

    shift: str
    value: tuple[float, ...]  # one number; two for `grid`; none for `none`
    points: int  # 0 for statistics of the last layer's attention
    metric: str


@dataclass(frozen=True)
class Paradigm:
    """What was measured: the minimal pairs of a suite that test one thing, or the mean of several such paradigms."""

    suite: str
    name: str
    metric: ClassVar[str] = "accuracy"

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
    per_position: dict[tuple[str, Condition], list[float | None]] = field(default_factory=dict)
    attention: list[Attention] = field(default_factory=list)
    parameters: Parameters = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # conditions without rows, and why


@dataclass
class MinimalPairs:
    """A run asked with a suite of minimal pairs."""

    scoring: str
    precision: str
    data: str  # a hash
    pairs: int = 0
    accuracies: dict[tuple[str, Paradigm], float | None] = field(default_factory=dict)  # percent, as Cell.accuracies
    parameters: Parameters = field(default_factory=list)


@dataclass
class Run:
    """A run folder."""

    path: Path
    information: dict  # run.json
    training: list[dict]
    validation: list[dict]
    evaluation: Evaluation | None
    minimal_pairs: dict[str, MinimalPairs]  # by suite

    @property
    def config(self) -> dict:
        return self.information["config"]

    @property
    def seed(self) -> int:
        return self.config["train"]["seed"]

    @property
    def last_step(self) -> int:
        return max((line["step"] for line in self.training + self.validation), default=0)


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
    accuracies: dict[tuple[str, Paradigm], float | None] = field(default_factory=dict)  # by (predictor, paradigm)
    parameters: Parameters = field(default_factory=list)  # after training; empty where nothing tells

    def __post_init__(self) -> None:
        """Begins with what the run's own evaluations say, which all tell the same parameters."""
        if self.run is None:
            return
        shifts, pairs = self.run.evaluation, self.run.minimal_pairs.values()
        if shifts:
            self.means |= shifts.means
        for asked in pairs:
            self.accuracies |= asked.accuracies
        self.parameters = next((e.parameters for e in (shifts, *pairs) if e and e.parameters), self.parameters)

    @property
    def evaluation(self) -> Evaluation | None:
        return self.run.evaluation if self.run else None


@dataclass
class Study:
    """Everything that one report shows."""

    cells: list[Cell] = field(default_factory=list)
    tables: dict[str, list[dict]] = field(default_factory=dict)  # experiment -> table.json
    theorems: list[dict] = field(default_factory=list)

    def variants(self) -> list[str]:
        return list(dict.fromkeys(cell.variant for cell in self.cells))

    def scores(self) -> list[str]:
        return order_scores(cell.score for cell in self.cells)

    def select(self, variant: str, score: str | None = None) -> list[Cell]:
        chosen = [c for c in self.cells if c.variant == variant and score in (None, c.score)]
        return sorted(chosen, key=lambda c: (c.score, c.seed))


def order_scores(names) -> list[str]:
    """softmax (what others are compared with) first, then ssa, then the rest by name."""
    first = ["softmax", "ssa"]
    names = set(names)
    return [n for n in first if n in names] + sorted(names.difference(first))


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


def _optional_parameters(record: dict, where: str) -> Parameters:
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


def paradigm_of_key(suite: str, key: str, where: str) -> Paradigm:
    """The paradigm named PARADIGM/accuracy in results.jsonl and table.json."""
    name, _, metric = key.rpartition("/")
    if not name or metric != Paradigm.metric:
        raise ReportError(f'{where}: "{key}" is not of the form PARADIGM/{Paradigm.metric}')
    return Paradigm(suite, name)


def _evaluation_of(record: dict, where: str) -> str:
    """Of a line of results.jsonl or a row of table.json."""
    return need(record, "evaluation", str, where) if "evaluation" in record else SHIFT_SUITE


def _measured(evaluation: str, key: str, where: str) -> Condition | Paradigm:
    return condition_of_key(key, where) if evaluation == SHIFT_SUITE else paradigm_of_key(evaluation, key, where)


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
        parameters=_optional_parameters(record, where),
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
    if row.get("per_position") is not None:
        evaluation.per_position[key] = need_numbers(row, "per_position", at, condition.points)


def read_minimal_pairs(path: Path, suite: str) -> MinimalPairs:
    record = load_json(path)
    where = f"{path}:1"
    check_schema(record, where)
    asked = MinimalPairs(
        *(need(record, key, str, where) for key in ("scoring", "precision", "data")),
        parameters=_optional_parameters(record, where),
    )
    for index, row in enumerate(need(record, "rows", list, where)):
        at = f"{path}: rows[{index}]"
        if need(row, "metric", str, at) != Paradigm.metric:
            raise ReportError(f'{at}: "metric" must be "{Paradigm.metric}", found "{row["metric"]}"')
        key = (need(row, "predictor", str, at), Paradigm(suite, need(row, "paradigm", str, at)))
        if key in asked.accuracies:
            raise ReportError(f"{at}: the same predictor and paradigm stand twice")
        asked.accuracies[key] = need(row, "mean", float, at)
        if key == (MODEL, Paradigm(suite, "average")):
            asked.pairs = need_count(row, "items", at)
    return asked


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
        {suite: read_minimal_pairs(file, suite) for suite, file in files.items() if file.exists()},
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
    cell.parameters = _optional_parameters(line, where) or cell.parameters
    tables = {MODEL: need(line, "metrics", dict, where)}
    baselines = need(line, "baselines", dict, where) if "baselines" in line else {}
    tables |= {predictor: need(baselines, predictor, dict, where) for predictor in baselines}
    known = cell.means if evaluation == SHIFT_SUITE else cell.accuracies
    for predictor, table in tables.items():
        for key in table:
            if not key.startswith(TRAINING):
                known[predictor, _measured(evaluation, key, where)] = need(table, key, float, where)


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
        for key in ("mean", "interval", "difference", "difference_interval", "ratio", "ratio_low", "ratio_high"):
            figure = need(row, key, float, at)
            if "interval" in key and figure is not None and figure < 0:
                raise ReportError(f'{at}: "{key}" is half the width of an interval and must not be negative')
        evaluation = _evaluation_of(row, at)
        if evaluation in EVALUATIONS and not row["metric"].startswith(TRAINING):
            shown.append(row | {"condition": _measured(evaluation, row["metric"], at)})
    return shown


def _read_experiment(root: Path, name: str, study: Study) -> None:
    """An experiment folder, finished or not: cells of results.jsonl, then runs that have no line yet."""
    cells: dict[tuple[str, str, int], Cell] = {}
    seen: set[tuple[tuple[str, str, int], str]] = set()  # cells with their evaluations
    results = root / "results.jsonl"  # absent until the first cell has finished
    for where, line in load_lines(results) if results.exists() else []:
        evaluation = _evaluation_of(line, where)
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
    parts = [run.config["task"]["name"], f"{model.get('layers')} layers, width {model.get('width')}"]
    parts += [f"no {key}" for key in ("mlp", "norm", "residual") if model.get(key) in (False, "none")]
    parts.append(f"{train['steps']} steps")
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
    if len(study.tables.keys() | {c.experiment for c in study.cells}) < 2:
        return
    for cell in study.cells:
        if cell.experiment:
            cell.variant = f"{cell.experiment}: {cell.variant}"
    for experiment, rows in study.tables.items():
        for row in rows:
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
