"""The HTML report: its numbers against the files that it was made from."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import pytest
import synthetic_runs
from report_page import embedded, run_report, section, words
from ssa_attention import report
from ssa_attention.report import statistics
from synthetic_runs import write_experiment, write_run
from synthetic_tables import mean_interval, off_scale, on_scale, outcome, scale_of

SEEDS = (1, 2, 3)
SCORES = ("softmax", "ssa")
EVERY, LINEAR = "attention-only-every", "full-linear"


class Report:
    def __init__(self, root: Path, evaluations: dict, text: str):
        self.root, self.evaluations, self.text = root, evaluations, text
        self.figures = embedded(text, "figures")
        self.table = json.loads((root / "table.json").read_text())
        self.verdicts = json.loads((root / "verdicts.json").read_text())

    def trace(self, figure: str, kind: str, name: str | None = None) -> dict:
        found = [
            t
            for t in self.figures[figure]["data"]
            if t.get("meta", {}).get("kind") == kind and name in (None, t.get("name"))
        ]
        assert len(found) == 1, f"{figure} has {len(found)} traces of kind {kind} called {name}"
        return found[0]

    def bands(self, figure: str) -> list[dict]:
        return [t for t in self.figures[figure]["data"] if t["meta"]["kind"] == "band"]

    def rows(self, variant: str, score: str, shift: str, metric: str, predictor: str = "model") -> list[list[dict]]:
        """For each seed the rows of a shift, in the order of the evaluation."""
        return [
            [
                r
                for r in self.evaluations[variant, score, seed]["rows"]
                if (r["shift"], r["metric"], r["predictor"]) == (shift, metric, predictor)
            ]
            for seed in SEEDS
        ]

    def summaries(self, *which) -> list[tuple[float, float, float]]:
        """Centre and ends of the interval over seeds, of each row."""
        return [centre(rows, rows[0]["metric"]) for rows in zip(*self.rows(*which), strict=True)]


def centre(rows: list[dict], metric: str) -> tuple[float, float, float]:
    """Of rows with mean and items: the mean on the metric's scale and its interval, taken back."""
    scale = scale_of(metric)
    placed = [on_scale(r["mean"], scale, [round(r["mean"] * r["items"]), r["items"]]) for r in rows]
    mean, half = mean_interval(placed)
    return tuple(off_scale(v, scale) for v in (mean, mean - half, mean + half))


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Report:
    root = tmp_path_factory.mktemp("made") / "quick"
    evaluations = write_experiment(root, SCORES, len(SEEDS), (EVERY, LINEAR))
    output = root.parent / "report.html"
    result = run_report(root, "-o", output)
    assert result.returncode == 0, result.stderr
    assert [p.name for p in root.parent.iterdir() if p.is_file()] == ["report.html"]  # no temporary file left
    return Report(root, evaluations, output.read_text(encoding="utf-8"))


def close(values, scale: float = 1.0):
    return pytest.approx([v * scale for v in values], rel=1e-9)


# (figure, variant, shift, metric, the unshifted set stands in front, scale to what the axis shows)
CURVES = [
    ("sigma-0", EVERY, "sigma", "wrong", True, 100),
    ("length-0", EVERY, "length", "wrong", True, 100),
    ("sigma-1", LINEAR, "sigma", "relative-error", True, 1),
    ("coefficients-1", LINEAR, "coefficients", "relative-error", False, 1),
    ("both-1", LINEAR, "both", "relative-error", True, 1),
    *[
        (f"huge-{i}-{place}", variant, "huge", f"{metric}-{place}", False, scale)
        for i, variant, metric, scale in [(0, EVERY, "wrong", 100), (1, LINEAR, "relative-error", 1)]
        for place in ("before", "at", "after")
    ],
]


@pytest.mark.parametrize(("figure", "variant", "shift", "metric", "front", "scale"), CURVES)
def test_curves_show_means_and_intervals_over_seeds(study, figure, variant, shift, metric, front, scale):
    shown_bands = study.bands(figure)
    assert len(shown_bands) == len(SCORES)
    axis = study.figures[figure]["layout"]["yaxis"]
    for score, band in zip(SCORES, shown_bands, strict=True):
        summaries = study.summaries(variant, score, "none", metric) if front else []
        summaries += study.summaries(variant, score, shift, metric)
        line = study.trace(figure, "mean", score)
        assert line["y"] == close([mean for mean, _, _ in summaries], scale)
        assert band["y"] == close(
            [*(high for _, _, high in summaries), *(low for _, low, _ in reversed(summaries))], scale
        )
        assert band["x"] == [*line["x"], *reversed(line["x"])]
        low, high = (10**end for end in axis["range"])
        assert axis["type"] == "log" and low < min(band["y"]) and max(band["y"]) < high, "no band is cut"


@pytest.mark.parametrize(("figure", "variant", "shift", "metric", "front", "scale"), CURVES)
def test_ratios_are_those_of_the_table(study, figure, variant, shift, metric, front, scale):
    ratio = study.trace(f"{figure}-ratio", "effect", "ssa")
    rows = [
        r
        for r in study.table
        if (r["variant"], r["score"]) == (variant, "ssa")
        and r["metric"].split("/")[2] == metric
        and r["metric"].split("/")[0].split("=")[0] in ((shift, "none") if front else (shift,))
    ]
    assert ratio["y"] == close([r["effect"] for r in rows])
    (band,) = study.bands(f"{figure}-ratio")
    assert band["y"] == close([*(r["effect_high"] for r in rows), *(r["effect_low"] for r in reversed(rows))])
    judged = [r["verdict"] in ("lower", "higher", "equivalent") for r in rows]
    assert [s == "circle" for s in ratio["marker"]["symbol"]] == judged


def test_baselines_are_dashed_and_right(study):
    for figure, variant, metric, names, scale in [
        ("sigma-0", EVERY, "wrong", ["constant", "position"], 100),
        ("sigma-1", LINEAR, "relative-error", ["least-squares", "3-nearest", "average"], 1),
    ]:
        dashes = set()
        for name in names:
            line = study.trace(figure, "baseline", name)
            rows = (
                study.rows(variant, "ssa", "none", metric, name)[0]
                + study.rows(variant, "ssa", "sigma", metric, name)[0]
            )
            assert line["y"] == close([r["mean"] for r in rows], scale)
            dashes.add(line["line"]["dash"])
        assert len(dashes) == len(names) and "solid" not in dashes


def test_baselines_far_from_the_scores_do_not_flatten_them(tmp_path):
    """Least squares is exact on noiseless lines: 1e-14 on a log axis beside 0.1."""
    write_run(tmp_path, "icl-linear", "ssa", 1)
    file = tmp_path / "evals" / "icl-shift.json"
    evaluation = json.loads(file.read_text())
    for row in evaluation["rows"]:
        if row["predictor"] == "least-squares":
            row["mean"] = 2e-14
    file.write_text(json.dumps(evaluation))
    text = report.build([tmp_path])
    figure = embedded(text, "figures")["sigma-0"]
    lines = {t["name"]: t["y"] for t in figure["data"]}
    assert lines["least-squares"] == [2e-14] * 5
    low, high = (10**end for end in figure["layout"]["yaxis"]["range"])
    near = [v for name, y in lines.items() if name != "least-squares" for v in y]
    assert min(near) / 2 < low < min(near) and max(near) < high < 2 * max(near)
    assert "off the scale: least-squares (2.0e−14)" in words(section(text, "shifts"))


def test_axes_say_where_the_points_are(study):
    assert study.trace("sigma-0", "mean", "ssa")["x"] == [1, *synthetic_runs.SHIFTS["sigma"]]
    assert study.trace("length-0", "mean", "ssa")["x"] == [40, *synthetic_runs.SHIFTS["length"]]
    assert study.trace("huge-0-at", "mean", "ssa")["x"] == ["−1000", "−100", "−10", "10", "100", "1000"]
    for name, figure in study.figures.items():
        for axis in ("xaxis",) if name.startswith("forest") else ("xaxis", "yaxis"):
            assert figure["layout"][axis]["title"]["text"], f"{name} has no title on its {axis}"


def test_scores_keep_their_colours(study):
    colours: dict[str, set] = {}
    for name, figure in study.figures.items():
        for trace in figure["data"]:
            if trace.get("name") in SCORES and not name.startswith("parameter"):
                colours.setdefault(trace["name"], set()).add((trace.get("line") or trace["marker"])["color"])
    assert all(len(c) == 1 for c in colours.values()) and len(colours) == 2
    assert colours["softmax"] != colours["ssa"]


def test_grid_shows_errors_and_their_ratio(study):
    values = synthetic_runs.LINEAR_SHIFTS["grid"]
    means = {
        s: dict(
            zip(
                map(tuple, values), [m for m, _, _ in study.summaries(LINEAR, s, "grid", "relative-error")], strict=True
            )
        )
        for s in SCORES
    }
    for score in SCORES:
        z = study.figures[f"grid-1-{score}"]["data"][0]["z"]
        for j, b in enumerate((1, 2, 5)):
            assert z[j] == close([math.log10(means[score][a, b]) for a in (1, 2, 5)])
    rows = {r["metric"]: r for r in study.table if (r["variant"], r["score"]) == (LINEAR, "ssa")}
    (ratio,) = study.figures["grid-1-ssa-ratio"]["data"]
    for j, b in enumerate((1, 2, 5)):
        for i, a in enumerate((1, 2, 5)):
            row = rows[f"grid={a}x{b}/40/relative-error"]
            assert row["effect"] == pytest.approx(means["ssa"][a, b] / means["softmax"][a, b])
            judged = row["verdict"] in ("lower", "higher", "equivalent")
            assert ratio["z"][j][i] == (pytest.approx(math.log10(row["effect"])) if judged else None)
            assert ratio["text"][j][i] == statistics.plain(row["effect"], 2)


@pytest.mark.parametrize("statistic", ["mass_on_huge", "entropy"])
def test_attention_by_layer(study, statistic):
    for layer in range(3):
        for score in SCORES:
            expected = []
            for value in synthetic_runs.SHIFTS["huge"]:
                of_seeds = []
                for seed in SEEDS:
                    heads = [
                        r[statistic]
                        for r in study.evaluations[EVERY, score, seed]["attention"]
                        if (r["shift"], r["value"], r["layer"]) == ("huge", value, layer)
                    ]
                    of_seeds.append(sum(heads) / len(heads))
                expected.append(mean_interval(of_seeds)[0])
            line = study.trace(f"attention-0-{statistic}-{layer}", "mean", score)
            assert line["y"] == close(expected, 100 if statistic == "mass_on_huge" else 1)


def test_error_by_position(study):
    for i, variant, metric, scale in [(0, EVERY, "wrong", 100), (1, LINEAR, "squared-error", 1)]:
        rows = [of_seed[0]["per_position"] for of_seed in study.rows(variant, "ssa", "none", metric)]
        line = study.trace(f"position-{i}-0", "mean", "ssa")
        assert line["x"] == list(range(1, 41))
        n, kind = synthetic_runs.SEQUENCES, scale_of(metric)
        placed = [[on_scale(v, kind, [v * n, n]) for v in at] for at in zip(*rows, strict=True)]
        assert line["y"] == close([off_scale(sum(at) / len(SEEDS), kind) for at in placed], scale)
    shapes = study.figures["position-0-1"]["layout"]["shapes"]
    assert [s["x0"] for s in shapes] == [synthetic_runs.HUGE_AT]


def _metrics(study, variant: str, score: str) -> list[list[dict]]:
    files = [study.root / "runs" / variant / score / f"seed-{seed}" / "metrics.jsonl" for seed in SEEDS]
    return [[json.loads(line) for line in f.read_text().splitlines()] for f in files]


def test_loss_curves(study):
    for score in SCORES:
        runs = _metrics(study, EVERY, score)
        for figure, read in [
            ("training-loss-0", lambda line: line.get("loss")),
            ("validation-loss-0", lambda line: line.get("validation", {}).get("loss")),
        ]:
            series = [[(line["step"], read(line)) for line in run if read(line) is not None] for run in runs]
            line = study.trace(figure, "mean", score)
            assert line["x"] == [step for step, _ in series[0]]
            assert line["y"] == close(
                [math.prod(v for _, v in at) ** (1 / len(SEEDS)) for at in zip(*series, strict=True)]
            )


def test_parameters_over_time(study):
    runs = _metrics(study, EVERY, "ssa")
    for name in ("n", "b"):
        for layer in range(3):
            series = [[line["score_parameters"][layer][name][1] for line in run if "loss" in line] for run in runs]
            line = study.trace(f"parameter-0-ssa-{name}", "mean", f"layer {layer + 1}")
            assert line["y"] == close([sum(at) / len(SEEDS) for at in zip(*series, strict=True)])
    assert not any(name.startswith("parameter-0-softmax") for name in study.figures)


def _final(study, score: str, name: str) -> list[list[list[float]]]:
    """[seed][layer][head] at the end of training."""
    of_seeds = [study.evaluations[EVERY, score, seed]["score_parameters"] for seed in SEEDS]
    return [[layer[name] for layer in layers] for layers in of_seeds]


@pytest.mark.parametrize("name", ["n", "b"])
def test_parameters_after_training_by_layer_and_head(study, name):
    final = _final(study, "ssa", name)
    figure = f"final-0-{name}"
    line = study.trace(figure, "mean", "ssa")
    means = [[sum(layer) / len(layer) for layer in layers] for layers in final]
    summaries = [mean_interval(of_seeds) for of_seeds in zip(*means, strict=True)]
    assert line["y"] == close([mean for mean, _ in summaries])
    assert line["error_y"]["array"] == close([half for _, half in summaries])
    assert [round(x) for x in line["x"]] == [1, 2, 3]
    (dots,) = [t for t in study.figures[figure]["data"] if t["meta"]["kind"] == "heads"]
    assert dots["y"] == [v for k in range(3) for layers in final for v in layers[k]]
    assert dots["x"] == [x for x in line["x"] for _ in range(12)], "4 heads of 3 seeds"
    assert dots["hovertext"][16].startswith("<b>ssa</b>, seed 2<br>layer 2, head 1<br>")
    shown = words(section(study.text, "final-parameters"))
    for k in range(3):
        heads = [mean_interval([layers[k][h] for layers in final]) for h in range(4)]
        cells = [statistics.with_interval(*summary) for summary in [*heads, summaries[k]]]
        assert f"ssa, layer {k + 1} {' '.join(cells)}" in shown


def test_heads_that_share_a_parameter(tmp_path):
    for seed in SEEDS:
        result = write_run(tmp_path / f"ssa-{seed}", "icl-every", "ssa", seed)
        result["score_parameters"] = [{"n": [1.5 + k]} for k in range(3)]
        synthetic_runs.write_json(tmp_path / f"ssa-{seed}" / "evals" / "icl-shift.json", result)
    text = report.build([tmp_path])
    line = next(t for t in embedded(text, "figures")["final-0-n"]["data"] if t["meta"]["kind"] == "mean")
    assert line["y"] == [1.5, 2.5, 3.5]
    assert "ssa, layer 2 2.50 ± 0 2.50 ± 0" in words(section(text, "final-parameters"))


def test_scores_with_and_without_shared_heads_stand_in_one_table(tmp_path):
    for score, heads in ("ssa", 1), ("ssa-heads", 4):
        result = write_run(tmp_path / score, "icl-every", score, 1)
        result["score_parameters"] = [{"n": [1.5] * heads}] * 3
        synthetic_runs.write_json(tmp_path / score / "evals" / "icl-shift.json", result)
    shown = words(section(report.build([tmp_path]), "final-parameters"))
    assert "ssa, layer 1 one value for all heads 1.50" in shown
    assert "ssa-heads, layer 1 1.50 1.50 1.50 1.50 1.50" in shown


def test_files_of_earlier_versions_have_no_final_parameters(tmp_path):
    result = write_run(tmp_path / "ssa", "icl-every", "ssa", 1)
    del result["score_parameters"]
    synthetic_runs.write_json(tmp_path / "ssa" / "evals" / "icl-shift.json", result)
    assert 'id="final-parameters"' not in report.build([tmp_path])


def test_a_sweep_has_a_colour_for_every_label(tmp_path):
    labels = ["softmax", "ssa", *(f"ssa-{k}" for k in range(12))]
    write_experiment(tmp_path / "sweep", labels, 1, (EVERY,))
    figure = embedded(report.build([tmp_path / "sweep"]), "figures")["sigma-0"]
    colours = [t["line"]["color"] for t in figure["data"] if t["meta"]["kind"] == "mean"]
    assert len(set(colours)) == len(labels)


def test_theorems_stand_on_the_same_axes(study):
    theorems = synthetic_runs.theorems()["theorems"]
    for k, case in enumerate(("positive", "zero", "negative")):
        figure = study.figures[f"theorem-magnification-{k}"]
        assert [t["name"] for t in figure["data"]] == ["softmax", "ssa"]
        assert figure["layout"]["xaxis"]["type"] == figure["layout"]["yaxis"]["type"] == "log"
        for trace in figure["data"]:
            entry = next(t for t in theorems if (t["score"], t["case"]) == (trace["name"], case))
            misses = dict(zip(entry["x"], entry["log_miss"], strict=True))
            assert len(trace["x"]) > 5 and 0 not in trace["x"]
            assert trace["y"] == close([math.exp(misses[x]) for x in trace["x"]])
    assert "fitted and predicted" in section(study.text, "theorems")


def test_weights_beside_the_exponential(study):
    figure = study.figures["weights-far"]
    named = {t["name"]: dict(zip(t["x"], t["y"], strict=True)) for t in figure["data"]}
    assert named["eˢ (softmax)"][2] == pytest.approx(math.e**2)
    assert named["n = 1.50, b = 0.800"][5] == pytest.approx((1 + 0.8 * 5) ** 1.5)
    assert named["n = 1.50, b = 0.800"][-5] == pytest.approx((1 + 0.8 * 5) ** -1.5)
    assert sum(name.startswith("trained, layer") for name in named) == 3


def _counted(study) -> list[dict]:
    return [r for r in study.table if r["score"] == "ssa" and (r["role"], r["family"]) == ("counted", "table")]


def test_forest_shows_the_comparisons_that_the_terminal_counts(study):
    counts = next(c for c in study.verdicts["counts"] if c["score"] == "ssa")
    rows = _counted(study)
    figure = study.figures["forest-0-0"]
    words = {
        "better": "better than softmax",
        "worse": "worse than softmax",
        "equivalent": "equivalent within the margin",
        "not decided": "not decided",
    }
    shown = {t["name"]: t for t in figure["data"]}
    assert sum(len(t["x"]) for t in shown.values()) == counts["comparisons"] == len(rows) > 30
    for kind, name in words.items():
        of_kind = [r for r in rows if outcome(r) == kind]
        assert len(of_kind) == counts[kind]
        if of_kind:
            trace = shown[name]
            assert sorted(trace["x"]) == close(sorted(r["effect"] for r in of_kind))
            low = [x - d for x, d in zip(trace["x"], trace["error_x"]["arrayminus"], strict=True)]
            assert sorted(low) == close(sorted(r["effect_low"] for r in of_kind))
            assert (trace["marker"]["color"] in ("#0072b2", "#d55e00")) == (kind in ("better", "worse"))
    low, high = (10**end for end in figure["layout"]["xaxis"]["range"])
    assert low < min(r["effect_low"] for r in rows) and max(r["effect_high"] for r in rows) < high
    labels = figure["layout"]["yaxis"]["ticktext"]
    assert labels[:5] == [f"<b>{EVERY}</b>", "inputs σ", "longer", "huge: at", "huge: after"]


def test_one_sentence_says_how_it_came_out(study):
    counts = next(c for c in study.verdicts["counts"] if c["score"] == "ssa")
    sentence = (
        f"In {counts['comparisons']} comparisons, ssa beside softmax is better in {counts['better']}, worse in "
        f"{counts['worse']}, equivalent in {counts['equivalent']} and not decided in {counts['not decided']}."
    )
    assert f'<p class="verdict">{sentence}</p>' in study.text
    assert study.text.index(sentence) < study.text.index("<section")
    shown = words(section(study.text, "verdict"))
    assert f"▲ {counts['better']} better than softmax" in shown
    assert f"? {counts['not decided']} not decided" in shown


def test_endpoints_come_first(tmp_path):
    write_experiment(tmp_path / "quick", SCORES, 3, (EVERY,), endpoints=True)
    verdicts = json.loads((tmp_path / "quick/verdicts.json").read_text())
    text = report.build([tmp_path / "quick"])
    better = sum(e["verdict"] == "lower" for e in verdicts["endpoints"])
    count = statistics.count(len(verdicts["endpoints"]), "primary endpoint")
    assert f"On {count}, ssa beside softmax is better in {better}, worse in " in text
    first = verdicts["endpoints"][0]
    shown = words(section(text, "verdict"))
    low, effect, high = (statistics.plain(first[key]) for key in ("effect_low", "effect", "effect_high"))
    assert f"{first['name']} ssa {EVERY} 3 of 5 ×{effect} [{low}, {high}]" in shown
    assert next(iter(embedded(text, "figures"))) == "endpoints-0"


def test_tables_of_earlier_versions_give_no_verdict(tmp_path, study):
    """Intervals are computed by the same definitions, verdicts are not."""
    root = tmp_path / "quick"
    root.mkdir()
    shutil.copy(study.root / "results.jsonl", root)
    text = report.build([root])
    (trace,) = embedded(text, "figures")["forest-0-0"]["data"]
    assert trace["name"] == "no verdict" and "No verdict yet" in text
    counted = _counted(study)
    assert sorted(trace["x"]) == close(sorted(r["effect"] for r in counted))
    high = [x + d for x, d in zip(trace["x"], trace["error_x"]["array"], strict=True)]
    assert sorted(high) == close(sorted(r["effect_high"] for r in counted))


def test_means_are_those_of_the_table(tmp_path, study):
    """One home for the statistics: rows without counts of errors are compared as `ssa reproduce` does."""
    root = tmp_path / "quick"
    root.mkdir()
    shutil.copy(study.root / "results.jsonl", root)
    rows = json.loads((study.root / "table.json").read_text())
    row = next(r for r in rows if (r["variant"], r["metric"], r["score"]) == (EVERY, "sigma=5/40/wrong", "ssa"))
    row |= {"centre": 0.123, "centre_low": 0.1, "centre_high": 0.2}
    synthetic_runs.write_json(root / "table.json", rows)
    figure = embedded(report.build([root]), "figures")["sigma-0"]
    line = next(t for t in figure["data"] if t["meta"] == {"kind": "mean", "name": "ssa"})
    band = next(t for t in figure["data"] if t["meta"] == {"kind": "band", "name": "ssa"})
    at = line["x"].index(5)
    assert line["y"][at] == pytest.approx(12.3)
    assert [band["y"][at], band["y"][-1 - at]] == pytest.approx([20, 10])


def test_cells_without_a_verdict_are_grey(study):
    shown = section(study.text, "glance")
    rows = _counted(study)
    for kind, name, coloured in (("better", "better", True), ("not decided", "not-decided", False)):
        cells = re.findall(rf'<td class="{name}"[^>]*>', shown)
        assert len(cells) == sum(outcome(r) == kind for r in rows)
        assert all(("background:#0072b2" in cell) == coloured for cell in cells)


def test_table_shows_every_row(study):
    shown = section(study.text, "table")
    assert shown.count("<tr><th scope=row>") == len({(r["variant"], r["metric"]) for r in study.table})
    key = "huge=100/40/wrong-after"
    base, row = (
        next(r for r in study.table if (r["variant"], r["metric"], r["score"]) == (EVERY, key, score))
        for score in SCORES
    )
    cells = [
        f"{statistics.plain(100 * r['centre'])} [{statistics.plain(100 * r['centre_low'])}, "
        f"{statistics.plain(100 * r['centre_high'])}] %"
        for r in (base, row)
    ]
    low, ratio, high = (statistics.plain(row[key]) for key in ("effect_low", "effect", "effect_high"))
    cells += [f"×{ratio} [{low}, {high}]", statistics.plain(row["p_adjusted"], 2)]
    assert row["verdict"] == "lower"
    assert "x = 100 " + " ".join(cells) + " ▲ lower: better than softmax" in words(shown)


def test_says_what_was_run(study):
    shown = words(section(study.text, "runs"))
    for fact in ("38\u202f145", "1\u202f000", "icl-every", "icl-linear", "git abc1234", "torch 2.13.0"):
        assert fact in shown
    definitions = words(section(study.text, "definitions"))
    assert "6\u202f400 1234" in definitions  # sequences and data seed
    assert "800 tokens, max_positions is 512" in definitions  # what was not evaluated, and why
    for term in ("wrong positions", "relative squared error", "entropy of attention", "95 % interval"):
        assert term in definitions


def test_same_input_same_bytes(study):
    assert report.build([study.root]) == study.text


def test_names_are_text_not_markup(tmp_path):
    hostile = "</script><b>&amp;"
    write_experiment(tmp_path / "quick", SCORES, 3, (EVERY,))
    for name in ("results.jsonl", "table.json"):
        file = tmp_path / "quick" / name
        file.write_text(file.read_text().replace(f'"variant": "{EVERY}"', f'"variant": "{hostile}"'))
    text = report.build([tmp_path / "quick"])
    assert hostile not in text
    assert "&lt;/script&gt;&lt;b&gt;&amp;amp;" in text
    embedded(text, "figures")


def test_loose_runs_are_grouped_by_what_they_share(tmp_path):
    for seed in (1, 2):
        for score in SCORES:
            write_run(tmp_path / f"{score}-{seed}", "icl-every", score, seed)
    write_run(tmp_path / "other-width", "icl-every", "ssa", 1, width=128)
    text = report.build([tmp_path])
    study = report.read_study([tmp_path])
    assert {v: len(study.select(v)) for v in study.variants()} == {
        "icl-every, 3 layers, width 64, 1000 steps": 4,
        "icl-every, 3 layers, width 128, 1000 steps": 1,
    }
    assert "No verdict yet" in text
    # Two seeds: each is a dot, and there is no band.
    figures = embedded(text, "figures")
    kinds = [t["meta"]["kind"] for name, f in figures.items() if name.startswith("sigma") for t in f["data"]]
    assert "seeds" in kinds and "band" not in kinds


def test_results_alone_are_enough(tmp_path, study):
    """Finished rows are kept in version control without the run folders."""
    for name in ("results.jsonl", "table.json"):
        (tmp_path / "quick").mkdir(exist_ok=True)
        shutil.copy(study.root / name, tmp_path / "quick" / name)
    figures = embedded(report.build([tmp_path / "quick"]), "figures")
    for name in ("sigma-0", "huge-0-after", "coefficients-1", "final-0-n"):
        assert figures[name] == study.figures[name]
    assert not any(name.startswith("training") for name in figures)


def test_unfinished_experiment(tmp_path):
    root = tmp_path / "quick"
    write_run(root / "runs" / EVERY / "ssa" / "seed-1", "icl-every", "ssa", 1, steps=400, evaluated=False)
    information = json.loads((root / "runs" / EVERY / "ssa" / "seed-1" / "run.json").read_text())
    information["config"]["train"]["steps"] = 1000
    synthetic_runs.write_json(root / "runs" / EVERY / "ssa" / "seed-1" / "run.json", information)
    (root / "experiment.toml").write_text("[experiment]\n")
    shown = words(section(report.build([root]), "runs"))
    assert f"Not finished: {EVERY}, ssa, seed 1: at step 400 of 1000" in shown
    assert f"Not evaluated yet: {EVERY}, ssa, seed 1" in shown


def test_diverged_seed_is_not_left_out(tmp_path):
    for seed in SEEDS:
        write_run(tmp_path / f"ssa-{seed}", "icl-every", "ssa", seed)
    file = tmp_path / "ssa-2" / "evals" / "icl-shift.json"
    evaluation = json.loads(file.read_text())
    for row in evaluation["rows"]:
        if (row["shift"], row["value"], row["predictor"]) == ("sigma", 5, "model"):
            row["mean"] = None
    file.write_text(json.dumps(evaluation))
    line = next(t for t in embedded(report.build([tmp_path]), "figures")["sigma-0"]["data"] if t.get("name") == "ssa")
    assert [y is None for y in line["y"]] == [False, False, True, False, False]
    assert "not finite" in line["hovertext"][2]


def test_two_experiments_keep_their_variants_apart(tmp_path):
    for name in ("first", "second"):
        write_experiment(tmp_path / name, SCORES, 3, (EVERY,))
    study = report.read_study([tmp_path])
    assert study.variants() == [f"first: {EVERY}", f"second: {EVERY}"]
    assert {r["variant"] for rows in study.tables.values() for r in rows} == set(study.variants())
