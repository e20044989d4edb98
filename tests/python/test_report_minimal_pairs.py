"""The HTML report of masked language models: accuracies of minimal pairs against the files that they come from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import synthetic_runs
from report_page import embedded, section, words
from ssa_attention import report
from ssa_attention.report import statistics
from synthetic_runs import PARADIGMS, write_experiment, write_lines, write_mlm_experiment, write_mlm_run
from synthetic_tables import mean_interval

SEEDS = (1, 2, 3)
SUITES = ("zorro", "zorro-mlm")
PUBLISHED = {"average": 77.9, "binding-principle_a": 88.55, "quantifiers-superlative": 67.5}
EVERY = "attention-only-every"


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("made") / "encoder"


@pytest.fixture(scope="module")
def evaluations(root) -> dict[tuple[str, str, int], dict]:
    return write_mlm_experiment(root, suites=SUITES)


@pytest.fixture(scope="module")
def text(root, evaluations) -> str:
    return report.build([root])


def accuracies(evaluations, suite: str, score: str, paradigm: str) -> list[float]:
    """Of each seed."""
    return [
        row["mean"]
        for seed in SEEDS
        for row in evaluations[suite, score, seed]["rows"]
        if (row["paradigm"], row["predictor"]) == (paradigm, "model")
    ]


def traces(figure: dict, kind: str) -> list[dict]:
    return [t for t in figure["data"] if t["meta"]["kind"] == kind]


@pytest.mark.parametrize("suite", SUITES)
def test_bars_show_means_and_intervals_over_seeds(text, evaluations, suite):
    figure = embedded(text, "figures")[f"accuracy-0-{suite}"]
    bars = traces(figure, "mean")
    assert [t["name"] for t in bars] == ["softmax", "ssa"]
    for bar in bars:
        expected = [
            mean_interval(accuracies(evaluations, suite, bar["name"], name)) for name in ("average", *PARADIGMS)
        ]
        assert bar["type"] == "bar" and bar["orientation"] == "h"
        assert bar["x"] == pytest.approx([mean for mean, _ in expected])
        assert bar["error_x"]["array"] == pytest.approx([half for _, half in expected])
        assert [round(y) for y in bar["y"]] == [0, 1, 2, 3], "each in the row of its paradigm"
    assert not traces(figure, "seeds")
    quantifiers = ["quantifiers-existential<br>there", "quantifiers-superlative"]
    assert figure["layout"]["yaxis"]["ticktext"] == ["<b>average</b>", "binding-principle a", *quantifiers]
    assert figure["layout"]["xaxis"]["range"] == [0, 100]


def test_chance_and_published_values_stand_beside_the_bars(text):
    figure = embedded(text, "figures")["accuracy-0-zorro"]
    (chance,) = figure["layout"]["shapes"]
    assert (chance["x0"], chance["x1"]) == (50, 50)
    assert [a["text"] for a in figure["layout"]["annotations"]] == ["chance"]
    (published,) = traces(figure, "published")
    assert published["name"] == "published (full corpus, for orientation)"
    rows = ["average", *PARADIGMS]
    assert dict(zip([rows[y] for y in published["y"]], published["x"], strict=True)) == PUBLISHED
    assert "published (full corpus, for orientation)" in words(section(text, "pairs"))


@pytest.mark.parametrize("name", ["average", "mean of quantifiers", *PARADIGMS])
def test_table_pairs_the_differences_by_seed(text, evaluations, name):
    softmax, ssa = (accuracies(evaluations, "zorro", score, name) for score in ("softmax", "ssa"))
    cells = [statistics.with_interval(*mean_interval(values)) for values in (softmax, ssa)]
    difference = mean_interval([b - a for a, b in zip(softmax, ssa, strict=True)])
    cells.append(statistics.with_interval(*difference, sign=True))
    cells += [statistics.plain(PUBLISHED[name])] if name in PUBLISHED else []
    shown = words(section(text, "pairs"))
    assert "Paradigm softmax ssa Difference Published (full corpus, for orientation)" in shown
    assert f" {name} {' '.join(cells)} " in shown


def test_higher_accuracy_is_better(root, text):
    rows = json.loads((root / "table.json").read_text())
    judged = [r for r in rows if r["score"] == "ssa" and (r["role"], r["family"]) == ("counted", "table")]
    higher = [r for r in judged if r["verdict"] == "higher"]
    assert len(judged) == 6 and len(higher) >= 2
    shown = words(section(text, "verdict"))
    assert f"▲ {len(higher)} better than softmax" in shown and "percentage points" not in shown
    figure = embedded(text, "figures")["forest-0-0"]
    assert figure["layout"]["xaxis"]["title"]["text"] == "ssa − softmax, percentage points"
    better = next(t for t in figure["data"] if t["name"] == "better than softmax")
    assert sorted(better["x"]) == pytest.approx(sorted(r["effect"] for r in higher)) and min(better["x"]) > 0
    assert [a["text"] for a in figure["layout"]["annotations"]] == ["← softmax better", "ssa better →"]
    row = next(r for r in judged if r["metric"] == "mean of binding/accuracy" and r["evaluation"] == "zorro")
    base = row["mean"] - row["difference"] if row["difference"] is not None else row["mean"] - row["effect"]
    told = f"mean of binding ▲ {statistics.plain(base)} → {statistics.plain(row['mean'])} %"
    assert told in words(section(text, "glance"))


def test_comparison_table_shows_the_rows_of_every_suite(root, text):
    table = json.loads((root / "table.json").read_text())
    shown = section(text, "table")
    rows = {(r["evaluation"], r["metric"]) for r in table if not r["metric"].startswith("training/")}
    assert shown.count("<tr><th scope=row>") == len(rows) == 12
    for title in ("Zorro, holistic – accuracy", "Zorro, pseudo-log-likelihood – accuracy"):
        assert title in words(shown)


def test_words_are_those_of_masked_language_models(root, text):
    figures = embedded(text, "figures")
    lines = [
        json.loads(line)
        for line in (root / "runs/babyberta/ssa/seed-1/metrics.jsonl").read_text().splitlines()
        if "validation" in line
    ]
    wrong = next(t for t in figures["validation-wrong-0"]["data"] if t["meta"] == {"kind": "mean", "name": "ssa"})
    assert wrong["x"] == [line["step"] for line in lines]
    assert figures["validation-wrong-0"]["layout"]["yaxis"]["title"]["text"] == "wrong tokens"
    assert "Validation: wrong tokens" in words(section(text, "training"))
    shown = " ".join(
        words(section(text, name)) for name in ("glance", "runs", "pairs", "training", "table", "definitions")
    )
    for foreign in ("curriculum", "positions", "in-context", "σ", "N(0", "Not evaluated"):
        assert foreign not in shown
    definitions = words(section(text, "definitions"))
    for term in ("a tie counts one half", "holistic", "pseudo-log-likelihood", "wrong tokens", "AO-CHILDES"):
        assert term in definitions
    assert "Zorro, holistic 6\u202f000 float32 fnv1a64:9f0c" in definitions
    assert "ssa, layer 1" in words(section(text, "final-parameters"))


def test_evaluations_of_a_cell_are_one_model(root, evaluations, tmp_path):
    """Also where only results.jsonl and table.json are at hand."""
    assert len(report.read_study([root]).cells) == 6
    for name in ("results.jsonl", "table.json"):
        (tmp_path / root.name).mkdir(exist_ok=True)
        shutil.copy(root / name, tmp_path / root.name / name)
    kept = [embedded(report.build([path]), "figures") for path in (root, tmp_path / root.name)]
    for suite in SUITES:
        assert kept[0][f"accuracy-0-{suite}"] == kept[1][f"accuracy-0-{suite}"]
    assert kept[0]["final-0-n"] == kept[1]["final-0-n"]


def test_few_seeds_are_dots_and_nothing_published_has_no_marker(tmp_path):
    for seed in (1, 2):
        for score in ("softmax", "ssa"):
            write_mlm_run(tmp_path / f"{score}-{seed}", score, seed, suites=("blimp-mlm",))
    text = report.build([tmp_path])
    figure = embedded(text, "figures")["accuracy-0-blimp-mlm"]
    assert not any("error_x" in t for t in traces(figure, "mean"))
    assert [len(t["x"]) for t in traces(figure, "seeds")] == [8, 8], "2 seeds of 4 rows"
    assert not traces(figure, "published")
    assert "published" not in words(section(text, "pairs")) + words(section(text, "definitions"))
    assert "No verdict yet" in text


def test_diverged_seed_is_not_left_out(tmp_path):
    for seed in SEEDS:
        for score in ("softmax", "ssa"):
            result = write_mlm_run(tmp_path / f"{score}-{seed}", score, seed)["zorro"]
            if (score, seed) == ("ssa", 2):
                result["rows"][0]["mean"] = None
                synthetic_runs.write_json(tmp_path / "ssa-2/evals/zorro.json", result)
    text = report.build([tmp_path])
    ssa = traces(embedded(text, "figures")["accuracy-0-zorro"], "mean")[1]
    assert [x is None for x in ssa["x"]] == [False, True, False, False]
    assert "not finite not finite" in words(section(text, "pairs"))


def test_folders_of_both_kinds_keep_what_each_shows_alone(root, text, tmp_path):
    write_experiment(tmp_path / "quick", seeds=3, variants=(EVERY,))
    alone = report.build([tmp_path / "quick"])
    assert 'id="pairs"' not in alone and "Minimal pairs" not in words(alone.split("<script")[0])
    mixed = report.build([tmp_path / "quick", root])
    figures = embedded(mixed, "figures")
    for name, figure in embedded(alone, "figures").items():
        if not name.startswith(("forest", "weights")):
            assert figures[name] == figure
    for name, figure in embedded(text, "figures").items():
        if name.startswith(("forest", "weights")):
            continue
        assert figures[name.replace("-0", "-1", 1)] == figure
    glance = words(section(mixed, "glance"))
    assert "Zorro, holistic – accuracy" in glance and "Inputs N(0, σ) – error" in glance
    assert "the curriculum" in words(section(mixed, "training"))


def _edit(file: Path, change) -> None:
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))


def _edit_line(file: Path, number: int, change) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    change(lines[number - 1])
    write_lines(file, lines)


RUN = "runs/babyberta/ssa/seed-1"
BROKEN = {
    "a key that names no paradigm": (
        lambda r: _edit_line(r / "results.jsonl", 2, lambda v: v.update(metrics={"binding": 50.0})),
        'results.jsonl:2: "binding" is not of the form PARADIGM/accuracy',
    ),
    "an accuracy that is text": (
        lambda r: _edit_line(r / "results.jsonl", 1, lambda v: v["metrics"].update({"average/accuracy": "x"})),
        'results.jsonl:1: "average/accuracy" must be a number, found a string',
    ),
    "published values that are no object": (
        lambda r: _edit_line(r / "results.jsonl", 1, lambda v: v.update(baselines={"published": 50})),
        'results.jsonl:1: "published" must be an object, found a whole number',
    ),
    "an evaluation that is no name": (
        lambda r: _edit_line(r / "results.jsonl", 3, lambda v: v.update(evaluation=1)),
        'results.jsonl:3: "evaluation" must be a string, found a whole number',
    ),
    "an evaluation twice": (
        lambda r: _edit_line(r / "results.jsonl", 2, lambda v: v.update(evaluation="zorro")),
        "results.jsonl:2: variant babyberta, score softmax, seed 1 stands twice with evaluation zorro",
    ),
    "a table row that names no paradigm": (
        lambda r: _edit(r / "table.json", lambda v: v[1].update(metric="none/40/wrong")),
        'table.json: row 1: "none/40/wrong" is not of the form PARADIGM/accuracy',
    ),
    "pairs without their scoring": (
        lambda r: _edit(r / RUN / "evals/zorro.json", lambda v: v.pop("scoring")),
        'zorro.json:1: "scoring" is missing',
    ),
    "a row without its paradigm": (
        lambda r: _edit(r / RUN / "evals/zorro-mlm.json", lambda v: v["rows"][2].pop("paradigm")),
        'zorro-mlm.json: rows[2]: "paradigm" is missing',
    ),
    "a row of another metric": (
        lambda r: _edit(r / RUN / "evals/zorro.json", lambda v: v["rows"][1].update(metric="wrong")),
        'zorro.json: rows[1]: "metric" must be "accuracy", found "wrong"',
    ),
    "a row twice": (
        lambda r: _edit(r / RUN / "evals/zorro.json", lambda v: v["rows"].append(v["rows"][0])),
        "the same predictor, paradigm and metric stand twice",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_malformed_files_are_named_with_their_line(root, evaluations, tmp_path, what):
    copy = tmp_path / "encoder"
    shutil.copytree(root, copy)
    spoil, told = BROKEN[what]
    spoil(copy)
    with pytest.raises(report.ReportError) as error:
        report.build([copy])
    message = str(error.value)
    assert told in message and message.startswith(str(copy)) and "\n" not in message
