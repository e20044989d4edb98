"""Bad input to the HTML report: one clear line. And the statistics that it computes itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mpmath
import pytest
from report_page import run_report
from ssa_attention import report
from ssa_attention.report import statistics
from synthetic_runs import write_experiment

EVERY = "attention-only-every"


def _edit(file: Path, change) -> None:
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))


def _replace_line(file: Path, number: int, line: str) -> None:
    lines = file.read_text().split("\n")
    lines[number - 1] = line
    file.write_text("\n".join(lines))


RUN = f"runs/{EVERY}/ssa/seed-1"
BROKEN = {
    "run.json is cut off": (
        lambda r: (r / RUN / "run.json").write_text('{"schema": 1,\n "na'),
        f"{RUN}/run.json:2: not valid JSON",
    ),
    "run.json of another schema": (
        lambda r: _edit(r / RUN / "run.json", lambda v: v.update(schema=9)),
        "run.json:1: schema 9 is unknown; this version reads schema 1",
    ),
    "no seed": (
        lambda r: _edit(r / RUN / "run.json", lambda v: v["config"]["train"].pop("seed")),
        'run.json:1: "seed" is missing',
    ),
    "metrics.jsonl is missing": (
        lambda r: (r / RUN / "metrics.jsonl").unlink(),
        f"{RUN}/metrics.jsonl: the file is missing",
    ),
    "a broken line": (
        lambda r: _replace_line(r / RUN / "metrics.jsonl", 3, '{"step": 60,'),
        "metrics.jsonl:3: not valid JSON",
    ),
    "a line that is no object": (
        lambda r: _replace_line(r / RUN / "metrics.jsonl", 3, "[1]"),
        "metrics.jsonl:3: expected an object, found a list",
    ),
    "a loss that is text": (
        lambda r: _replace_line(r / RUN / "metrics.jsonl", 3, '{"step": 60, "loss": "x"}'),
        'metrics.jsonl:3: "loss" must be a number, found a string',
    ),
    "NaN instead of null": (
        lambda r: _replace_line(r / RUN / "metrics.jsonl", 3, '{"step": 60, "loss": NaN}'),
        "metrics.jsonl:3: NaN is not JSON",
    ),
    "bytes that are no text": (
        lambda r: (r / RUN / "metrics.jsonl").write_bytes(b'{"step": \xff'),
        "metrics.jsonl: not UTF-8 at byte 9",
    ),
    "a row without its metric": (
        lambda r: _edit(r / RUN / "evals/icl-shift.json", lambda v: v["rows"][4].pop("metric")),
        'icl-shift.json: rows[4]: "metric" is missing',
    ),
    "a row twice": (
        lambda r: _edit(r / RUN / "evals/icl-shift.json", lambda v: v["rows"].append(v["rows"][0])),
        "the same predictor, shift, points and metric stand twice",
    ),
    "score parameters that are no objects": (
        lambda r: _edit(r / RUN / "evals/icl-shift.json", lambda v: v.update(score_parameters=[1.5])),
        'icl-shift.json:1: "score_parameters" must be a list of objects, one per layer',
    ),
    "a score parameter that is no list": (
        lambda r: _edit(r / RUN / "evals/icl-shift.json", lambda v: v["score_parameters"][1].update(n=1.5)),
        'icl-shift.json:1: "n" must be a list, found a number',
    ),
    "a metric of unknown form": (
        lambda r: _replace_line(
            r / "results.jsonl",
            1,
            json.dumps(json.loads((r / "results.jsonl").read_text().split("\n")[0]) | {"metrics": {"sigma5": 1.0}}),
        ),
        'results.jsonl:1: "sigma5" is not of the form SHIFT=VALUE/POINTS/METRIC',
    ),
    "a cell twice": (
        lambda r: _replace_line(r / "results.jsonl", 2, (r / "results.jsonl").read_text().split("\n")[0]),
        "results.jsonl:2: variant attention-only-every, score softmax, seed 1 stands twice",
    ),
    "a table that is no list": (
        lambda r: (r / "table.json").write_text("{}"),
        "table.json:1: expected a list of rows, found an object",
    ),
    "a table row without verdict": (
        lambda r: _edit(r / "table.json", lambda v: v[2].pop("verdict")),
        'table.json: row 2: "verdict" is missing',
    ),
    "theorems of unequal lengths": (
        lambda r: _edit(r / "theory.json", lambda v: v["theorems"][0]["x"].pop()),
        'theory.json: theorems[0]: "log_miss" must be a list of 40 numbers',
    ),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("small") / "quick"
    write_experiment(root, seeds=1, variants=(EVERY,), steps=200)
    return root


@pytest.mark.parametrize("what", BROKEN)
def test_malformed_files_are_named_with_their_line(small, tmp_path, what):
    root = tmp_path / "quick"
    shutil.copytree(small, root)
    spoil, told = BROKEN[what]
    spoil(root)
    with pytest.raises(report.ReportError) as error:
        report.build([root])
    message = str(error.value)
    assert told in message and message.startswith(str(root)) and "\n" not in message


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["absent"], "absent: no such folder; expected a run folder or an experiment folder"),
        (["."], "holds neither a run (run.json) nor an experiment (results.jsonl)"),
        (["quick", "-o", "absent/report.html"], "absent/report.html: cannot be written: No such file or directory"),
        (["quick", "--theory", "absent.json"], "absent.json: the file is missing"),
    ],
)
def test_command_line_errors(small, tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(tmp_path)
    if "quick" in arguments:
        shutil.copytree(small, tmp_path / "quick")
    result = run_report(*arguments)
    assert result.returncode == 1
    assert told in result.stderr and result.stderr.count("\n") == 1
    assert not list(tmp_path.glob("*.html"))


def test_t_quantiles():
    for degrees in (1, 2, 3, 4, 5, 9, 30, 100):
        t = statistics.t_quantile(degrees)
        x = mpmath.mpf(degrees) / (degrees + mpmath.mpf(t) ** 2)
        outside = mpmath.betainc(mpmath.mpf(degrees) / 2, 0.5, 0, x, regularized=True)
        assert float(outside) == pytest.approx(0.05, abs=1e-10)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((0.0143219, 0.0021, 100), "1.43 ± 0.21"),
        ((0.35, 0.0, 100), "35.0 ± 0"),
        ((12345.6, 432.1), "12\u202f346 ± 432"),
        ((0.5, None), "0.500"),
        ((None, None), "not finite"),
        ((-0.0001, 0.02), "0.000 ± 0.020"),
        ((0.012, 0.0034, 100, True), "+1.20 ± 0.34"),
        ((3e-9, 1e-9), "3.00e−09 ± 1.0e−09"),
    ],
)
def test_numbers_have_sensible_digits(arguments, told):
    assert statistics.with_interval(*arguments) == told
