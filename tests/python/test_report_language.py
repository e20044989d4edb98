"""The HTML report of language models, and of models that differ in size: figures against the files they come from."""

from __future__ import annotations

import json
import math
import shutil

import pytest
from report_page import assert_loads_nothing, embedded, section, words
from ssa_attention import report
from synthetic_runs import LENGTHS, TASKS, TEXTS, write_lm_experiment, write_run
from synthetic_tables import mean_interval, off_scale

SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("made") / "language"


@pytest.fixture(scope="module")
def evaluations(root):
    return write_lm_experiment(root)


@pytest.fixture(scope="module")
def text(root, evaluations) -> str:
    return report.build([root])


def means(evaluations, suite: str, score: str, name: str, metric: str, predictor: str = "model") -> list[float]:
    """Of each seed."""
    wanted = (name, metric, predictor)
    rows = [r for seed in SEEDS for r in evaluations[suite, score, seed]["rows"]]
    return [r["mean"] for r in rows if (r["text"], r["metric"], r["predictor"]) == wanted]


def traces(figure: dict, kind: str) -> list[dict]:
    return [t for t in figure["data"] if t["meta"]["kind"] == kind]


@pytest.mark.parametrize("name", TEXTS)
def test_perplexity_by_text_and_length(root, text, evaluations, name):
    figures = embedded(text, "figures")
    table = json.loads((root / "table.json").read_text())
    names = [name, *(f"{name}@{length}" for length in LENGTHS[1:])]
    for line in traces(figures[f"perplexity-0-{name}"], "mean"):
        logs = [[math.log(v) for v in means(evaluations, "ppl", line["name"], n, "perplexity")] for n in names]
        assert line["x"] == list(LENGTHS)
        assert line["y"] == pytest.approx([math.exp(sum(v) / 3) for v in logs])
    (ratio,) = traces(figures[f"perplexity-0-{name}-ratio"], "effect")
    rows = {r["metric"]: r for r in table if r["score"] == "ssa"}
    assert ratio["y"] == pytest.approx([rows[f"{n}/perplexity"]["effect"] for n in names])
    assert ratio["y"][2] < 0.7 < ratio["y"][0]


def test_zero_shot_tasks_beside_chance(text, evaluations):
    figure = embedded(text, "figures")["choices-0"]
    assert figure["layout"]["yaxis"]["ticktext"] == ["boolq", "arc easy"]
    for marks in traces(figure, "mean"):
        summaries = [mean_interval(means(evaluations, "zero-shot", marks["name"], task, "acc")) for task in TASKS]
        assert marks["x"] == pytest.approx([mean for mean, _ in summaries])
        assert marks["error_x"]["array"] == pytest.approx([half for _, half in summaries])
    levels = {t["name"]: t["x"] for t in traces(figure, "level")}
    assert levels == {"chance": list(TASKS.values()), "majority": [v + 5 for v in TASKS.values()]}


def test_every_suite_is_compared(text, root):
    counted = [
        r
        for r in json.loads((root / "table.json").read_text())
        if r["score"] == "ssa" and (r["role"], r["family"]) == ("counted", "table")
    ]
    assert {r["evaluation"] for r in counted} == {"ppl", "zero-shot", "blimp"}
    figures = embedded(text, "figures")
    shown = [len(t["x"]) for name, f in figures.items() if name.startswith("forest") for t in f["data"]]
    assert sum(shown) == len(counted)
    told = words(section(text, "table"))
    for title in ("Perplexity of texts – perplexity", "Zero-shot tasks – accuracy", "BLiMP, log-likelihood – accuracy"):
        assert title in told
    assert "wikipedia, 1024 tokens" in told
    assert "perplexity" in words(section(text, "definitions"))


def test_links_and_ids(text):
    assert_loads_nothing(text)


def test_rows_alone_are_enough(root, text, tmp_path):
    (tmp_path / "language").mkdir()
    for name in ("results.jsonl", "table.json", "verdicts.json"):
        shutil.copy(root / name, tmp_path / "language" / name)
    figures = embedded(report.build([tmp_path / "language"]), "figures")
    for name in ("perplexity-0-books", "choices-0", "forest-0-0"):
        assert figures[name] == embedded(text, "figures")[name]


@pytest.mark.parametrize(("kind", "sizes"), [("steps", (1000, 4000)), ("layers", (2, 6))])
def test_error_against_steps_and_depth(tmp_path, kind, sizes):
    expected = {}
    for size in sizes:
        for score in ("softmax", "ssa"):
            rows = []
            for seed in SEEDS:
                steps = size if kind == "steps" else 1000
                more = {"layers": size} if kind == "layers" else {}
                result = write_run(tmp_path / f"{score}-{size}-{seed}", "icl-every", score, seed, steps, **more)
                rows.append(next(r for r in result["rows"] if (r["shift"], r["predictor"]) == ("none", "model")))
            placed = [
                math.log((k + 0.5) / (n - k + 0.5)) for k, n in ((r["mean"] * r["items"], r["items"]) for r in rows)
            ]
            expected[score, size] = 100 * off_scale(sum(placed) / 3, "log-odds")
    figure = embedded(report.build([tmp_path]), "figures")[f"growth-{kind}-0-0"]
    for line in traces(figure, "mean"):
        assert line["x"] == list(sizes)
        assert line["y"] == pytest.approx([expected[line["name"], size] for size in sizes])
