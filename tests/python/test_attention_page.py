"""The page of attention maps: its figures against attention.json, what it refuses, and a browser's opinion."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from browser import opened
from report_page import (
    assert_drawn,
    assert_loads_nothing,
    embedded,
    needs_chromium,
    run_report,
    section,
    words,
)
from ssa_attention.report import attention
from synthetic_runs import write_json

X = [0.5, -1.25, 100.0]


def rows(sharpness: float, tokens: int) -> list[list[float]]:
    """Weights that fall with the distance, each row summing to 1."""
    found = []
    for query in range(tokens):
        plain = [math.exp(-sharpness * (query - key)) for key in range(query + 1)]
        found.append([w / sum(plain) for w in plain])
    return found


def attention_map(run: str, score: str, tokens: int, layers: int = 2, heads: int = 2, **fields) -> dict:
    values = {"n": [1.5, 1.625][:heads], "b": [0.8]} if score == "ssa" else {}
    return {
        "run": run,
        "score": score,
        "seed": 1,
        "step": 1000,
        "predictions": [2.5, 1.25, None] + [0.0] * (tokens // 2 - 3),
        "score_parameters": [values] * layers,
        "weights": [[rows(0.1 * (1 + head) + layer, tokens) for head in range(heads)] for layer in range(layers)],
    } | fields


def write_maps(folder: Path, x=tuple(X), scores=("softmax", "ssa"), task="icl-every") -> dict:
    record = {
        "schema": 1,
        "task": task,
        "x": list(x),
        "y": [1 if all(v > 0 for v in x[: i + 1]) else -1 for i in range(len(x))],
        "runs": [attention_map(f"runs/{score}", score, 2 * len(x)) for score in scores],
    }
    write_json(folder / "attention.json", record)
    return record


@pytest.fixture
def page(tmp_path):
    record = write_maps(tmp_path)
    result = run_report(tmp_path, module="ssa_attention.report.attention")
    assert result.returncode == 0, result.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["attention.html", "attention.json"]
    return record, (tmp_path / "attention.html").read_text(encoding="utf-8")


def test_every_head_of_every_run_has_its_map(page):
    record, text = page
    figures = embedded(text, "figures")
    assert list(figures) == [f"map-{k}-{h}-{i}" for k in range(2) for h in range(2) for i in range(2)]
    labels = ["x1 = 0.5", "y1 = 1", "x2 = −1.25", "y2 = −1", "x3 = 100", "y3 = −1"]
    scales = set()
    for name, figure in figures.items():
        layer, head, run = (int(part) for part in name.split("-")[1:])
        (trace,) = figure["data"]
        weights = record["runs"][run]["weights"][layer][head]
        for query, row in enumerate(trace["z"]):
            assert row[: query + 1] == pytest.approx(weights[query], rel=5e-3)
            assert row[query + 1 :] == [None] * (5 - query), "keys after the query are not drawn"
        assert trace["x"] == trace["y"] == labels
        scales.add(json.dumps([trace["zmin"], trace["zmax"], trace["colorscale"]]))
    assert len(scales) == 1, "one colour scale for all"
    # Runs of one layer and head stand in one row.
    for layer in range(2):
        for head in range(2):
            first, second = (text.index(f'id="map-{layer}-{head}-{i}"') for i in range(2))
            assert "</div>\n</div>" not in text[first:second] and "<h3>" not in text[first:second]


def test_says_what_was_read_and_answered(page):
    told = words(page[1])
    assert "ssa runs/ssa; n = 1.50, b = 0.800" in told and "runs/ssa; n = 1.62, b = 0.800" in told
    assert "1 0.5 1 2.50 2.50" in told
    assert "2 −1.25 −1 1.25 ✗ 1.25 ✗" in told
    assert "3 100 −1 not finite ✗ not finite ✗" in told
    assert "icl-every after 1000 steps, for one sequence of 3 points" in told


def test_linear_answers_have_no_wrong_sign(tmp_path):
    write_maps(tmp_path, task="icl-linear")
    assert "✗" not in attention.build(tmp_path)


def test_runs_of_unequal_size(tmp_path):
    record = write_maps(tmp_path)
    record["runs"][1] = attention_map("runs/small", "ssa", 6, layers=1, heads=1)
    write_json(tmp_path / "attention.json", record)
    text = attention.build(tmp_path)
    assert list(embedded(text, "figures")) == ["map-0-0-0", "map-0-0-1", "map-0-1-0", "map-1-0-0", "map-1-1-0"]
    assert words(text).count("has no such head") == 3


def test_long_inputs_label_some_tokens_and_the_largest(tmp_path):
    write_maps(tmp_path, x=[0.5] * 17 + [-300.0] + [0.5] * 22)
    figure = embedded(attention.build(tmp_path), "figures")["map-0-0-0"]
    ticks = figure["layout"]["xaxis"]["tickvals"]
    assert "x18 = −300" in ticks and "x1 = 0.5" in ticks and len(ticks) <= 11
    assert "x17 = 0.5" not in ticks, "labels do not overlap"


def test_negative_weights_have_their_half_of_the_scale(tmp_path):
    record = write_maps(tmp_path)
    assert "−0.1" not in words(section(attention.build(tmp_path), "scale"))
    record["runs"][0]["weights"][0][0][2] = [0.5, -0.25, 0.75]
    write_json(tmp_path / "attention.json", record)
    text = attention.build(tmp_path)
    assert words(section(text, "scale")).split()[2:12] == [
        "−1",
        "−0.3",
        "−0.1",
        "−0.01",
        "0",
        "0.01",
        "0.03",
        "0.1",
        "0.3",
        "1",
    ]
    (trace,) = embedded(text, "figures")["map-0-0-0"]["data"]
    assert trace["z"][2] == [0.5, -0.25, 0.75, None, None, None]
    assert (trace["zmin"], trace["zmax"]) == (-1, 1)
    places = [place for place, _ in trace["colorscale"]]
    assert places == sorted(places) and (places[0], places[-1]) == (0, 1)
    assert [0.5, "#ffffff"] in trace["colorscale"], "0 is white"


def test_weights_that_are_not_finite_are_gaps(tmp_path):
    record = write_maps(tmp_path)
    record["runs"][0]["weights"][0][0][2] = [None, None, None]
    write_json(tmp_path / "attention.json", record)
    assert embedded(attention.build(tmp_path), "figures")["map-0-0-0"]["data"][0]["z"][2] == [None] * 6


def test_names_are_text_not_markup(tmp_path):
    record = write_maps(tmp_path)
    record["runs"][0] |= {"run": "<img src=x>", "score": "</script>"}
    write_json(tmp_path / "attention.json", record)
    text = attention.build(tmp_path)
    assert "<img" not in text
    assert_loads_nothing(text)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda r: r.pop("x"), 'attention.json:1: "x" is missing'),
        (lambda r: r.update(schema=2), "attention.json:1: schema 2 is unknown"),
        (lambda r: r.update(runs=[]), '"x" and "runs" must not be empty'),
        (lambda r: r["x"].__setitem__(1, None), 'attention.json:1: "x" and "y" must be finite'),
        (lambda r: r["y"].pop(), 'attention.json:1: "y" must be a list of 3 numbers'),
        (lambda r: r["runs"][1].pop("score"), 'attention.json: runs[1]: "score" is missing'),
        (lambda r: r["runs"][0]["weights"].pop(), '"score_parameters" and "weights" must have as many layers'),
        (lambda r: r["runs"][0]["weights"][1][0].pop(), "runs[0].weights[1][0]: expected a row for each of 6 tokens"),
        (lambda r: r["runs"][0]["weights"][1][1][4].pop(), 'runs[0].weights[1][1][4]: "row" must be a list of 5 numbers'),
        (lambda r: r["runs"][0]["weights"].__setitem__(0, {}), "runs[0].weights[0]"),
        (lambda r: r["runs"][1]["score_parameters"].__setitem__(0, []), 'runs[1]: "score_parameters" must be a list of objects'),
        (lambda r: r["runs"][1]["score_parameters"][0].update(n=[1.5, 1.5, 1.5]), "runs[1].score_parameters[0]"),
    ],
)  # fmt: skip
def test_malformed_files_are_named(tmp_path, capsys, change, told):
    record = write_maps(tmp_path)
    change(record)
    write_json(tmp_path / "attention.json", record)
    assert attention.main([str(tmp_path)]) == 1
    message = capsys.readouterr().err
    assert told in message and message.startswith("attention: ") and message.count("\n") == 1
    assert not (tmp_path / "attention.html").exists()


def test_folders_without_maps(tmp_path, capsys):
    assert attention.main([str(tmp_path)]) == 1
    assert "attention.json: the file is missing" in capsys.readouterr().err
    write_maps(tmp_path)
    assert attention.main([str(tmp_path), "-o", str(tmp_path / "absent/page.html")]) == 1
    assert "absent/page.html: cannot be written" in capsys.readouterr().err


@needs_chromium
@pytest.mark.parametrize("width", [1200, 400])
def test_browser_draws_every_map(page, tmp_path, width):
    text = page[1]
    assert_loads_nothing(text)
    figures = embedded(text, "figures")
    assert_drawn(opened(tmp_path / "profile", tmp_path / "attention.html", len(figures), width), figures)
