"""The table's arithmetic on results made by hand, against mpmath."""

import itertools
import json
import math
import shutil

import mpmath
import pytest

EXPERIMENT = """
[experiment]
name = "made"
seeds = {seeds}
scores = ["softmax", "ssa", "softcap"]
metrics = ["sigma=*/wrong"]
# base
[model]
layers = 1
heads = 2
width = 8
[train]
steps = 2000
batch = 1
eval_batches = 0
[[variant]]
name = "v"
"""
VALUES = {
    "softmax": [0.50, 0.40, 0.45, 0.55, 0.38],
    "ssa": [0.30, 0.25, 0.22, 0.36, 0.21],
    "softcap": [0.52, 0.39, 0.45, 0.53, 0.41],
}


def t_quantile(degrees, confidence=0.95):
    """The t of P(|T| <= t) = confidence."""
    inside = lambda t: mpmath.betainc(
        mpmath.mpf(1) / 2, mpmath.mpf(degrees) / 2, 0, t * t / (degrees + t * t), regularized=True
    )
    low, high = mpmath.mpf(0), mpmath.mpf(100)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < confidence else (low, middle)
    return low


def interval(values):
    values = [mpmath.mpf(value) for value in values]
    mean = mpmath.fsum(values) / len(values)
    variance = mpmath.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return float(mean), float(t_quantile(len(values) - 1) * mpmath.sqrt(variance / len(values)))


SIGNS = list(itertools.product((1, -1), repeat=5))
CHANCES = 6400 * 40  # of icl-shift without options: sequences times points


def log_odds(rate):
    """Jeffreys' estimate from the counts behind the rate."""
    errors = mpmath.mpf(round(rate * CHANCES))
    return mpmath.log((errors + 0.5) / (CHANCES - errors + 0.5))


def odds_ratios(score):
    return [log_odds(a) - log_odds(b) for a, b in zip(VALUES[score], VALUES["softmax"], strict=True)]


def p_of(values):
    """Of Student's t, two-sided."""
    mean, half = interval(values)
    degrees = len(values) - 1
    t = mpmath.mpf(mean) / (mpmath.mpf(half) / t_quantile(degrees))
    return float(mpmath.betainc(mpmath.mpf(degrees) / 2, 0.5, 0, degrees / (degrees + t * t), regularized=True))


def detectable(score):
    """The ratio of odds that five seeds with this spread show with probability 0.8."""
    _, half = interval(odds_ratios(score))
    return math.exp(half / t_quantile(4) * (t_quantile(4) + t_quantile(4, 0.6)))


def make(ssa, seeds, steps=2000):
    """An experiment's folder with results and no runs."""
    config = ssa.folder / "made.toml"
    config.write_text(EXPERIMENT.format(seeds=seeds).replace("2000", str(steps)))
    out = ssa.folder / "out"
    out.mkdir(exist_ok=True)
    base = resolved_config(ssa, config)
    lines = []
    for seed in range(1, seeds + 1):
        for score, values in VALUES.items():
            lines.append(
                {
                    "variant": "v",
                    "score": score,
                    "seed": seed,
                    "task": "icl-every",
                    "evaluation": "icl-shift",
                    "steps": steps,
                    "parameters": 38000,
                    "layers": 3,
                    "width": 64,
                    "heads": 8,
                    "batch": 64,
                    "seconds": 1.5,
                    "run": f"runs/v/{score}/seed-{seed}",
                    "metrics": {"none/40/wrong": 0.0, "sigma=10/40/wrong": values[seed - 1], "sigma=2/40/wrong": None},
                    "baselines": {"constant": {"sigma=10/40/wrong": 0.5}},
                    "score_parameters": [{"n": [1 + seed, 1.5]}] if score == "ssa" else [{}],
                    "config": cell_config(base, score, seed),
                    "options": {},
                }
            )
    (out / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return config, out


def resolved_config(ssa, config):
    """Every field of the experiment's base, as `ssa train` resolves it."""
    base = config.read_text().split("[[variant]]")[0].split("# base")[1]
    (ssa.folder / "base.toml").write_text(base)
    ssa("train", "base.toml", "--out", "base", "--stop-at", 1)
    values = json.loads((ssa.folder / "base/run.json").read_text())["config"]
    shutil.rmtree(ssa.folder / "base")
    return values


def cell_config(base, score, seed):
    return {**base, "model": {**base["model"], "score": score}, "train": {**base["train"], "seed": seed}}


def rows(out, metric):
    table = json.loads((out / "table.json").read_text())
    return {row["score"]: row for row in table if row["metric"] == metric}


def test_means_intervals_and_verdicts(ssa):
    config, out = make(ssa, seeds=5)
    printed = ssa("reproduce", config, "--out", out, "--table", "--markdown", "table.md").stdout
    table = rows(out, "sigma=10/40/wrong")
    for score, values in VALUES.items():
        mean, half = interval(values)
        assert table[score]["mean"] == pytest.approx(mean, rel=1e-12)
        assert table[score]["interval"] == pytest.approx(half, rel=1e-12)
        assert table[score]["seeds"] == [1, 2, 3, 4, 5]
        assert table[score]["baselines"] == {"constant": 0.5}
    for score in "ssa", "softcap":
        mean, half = interval([a - b for a, b in zip(VALUES[score], VALUES["softmax"], strict=True)])
        assert table[score]["difference"] == pytest.approx(mean, rel=1e-9)
        assert table[score]["difference_interval"] == pytest.approx(half, rel=1e-9)
        mean, half = interval(odds_ratios(score))
        assert table[score]["scale"] == "log-odds" and table[score]["better"] == "lower"
        assert table[score]["effect"] == pytest.approx(math.exp(mean), rel=1e-9)
        assert table[score]["effect_low"] == pytest.approx(math.exp(mean - half), rel=1e-9)
        assert table[score]["effect_high"] == pytest.approx(math.exp(mean + half), rel=1e-9)
        assert table[score]["p"] == pytest.approx(p_of(odds_ratios(score)), rel=1e-9)
        flips = [sum(s * v for s, v in zip(signs, odds_ratios(score), strict=True)) for signs in SIGNS]
        assert table[score]["p_sign_flip"] == sum(abs(f) >= abs(flips[0]) * (1 - 1e-12) for f in flips) / len(flips)
    # Two rows of the table are compared; Benjamini and Hochberg double the smaller p at most.
    small, large = table["ssa"]["p"], table["softcap"]["p"]
    assert table["ssa"]["p_adjusted"] == pytest.approx(min(2 * small, large), rel=1e-12)
    assert table["softcap"]["p_adjusted"] == pytest.approx(large, rel=1e-12)
    assert table["ssa"]["verdict"] == "lower"
    assert table["softcap"]["verdict"] == "not decided"
    verdicts = json.loads((out / "verdicts.json").read_text())
    assert [c["score"] for c in verdicts["counts"]] == ["ssa", "softcap", "all"]
    assert verdicts["counts"][0] == {
        "score": "ssa", "comparisons": 1, "better": 1, "worse": 0, "equivalent": 0, "not decided": 0
    }  # fmt: skip
    assert table["softmax"]["verdict"] == "" and table["softmax"]["difference"] is None

    not_finite = rows(out, "sigma=2/40/wrong")["ssa"]
    assert not_finite["mean"] is None and not_finite["verdict"] == "no verdict: not finite"
    mean, half = interval([log_odds(value) for value in VALUES["ssa"]])
    rate = lambda odds: 1 / (1 + math.exp(-odds))
    value = f"{rate(mean):.3g} [{rate(mean - half):.3g}, {rate(mean + half):.3g}]"
    assert f"  ssa      {rate(mean):.3g}  " in printed and value not in printed, "a terminal has no place for it"
    assert max(len(line) for line in printed.splitlines() if str(out) not in line) <= 100
    verdict = printed.split(" -o report.html\n\n")[1]
    assert verdict.splitlines() == [
        "Verdict: of 2 comparisons of 2 scores with softmax 1 better, 0 worse, 0 equivalent, 1 not decided.",
        f"Not seen: half of 1 undecided comparisons could not show less than a factor of {detectable('softcap'):.3g}.",
    ]
    assert "an earlier version: all seeds were tested on the same sequences" in printed
    assert "none/40/wrong" not in printed, "experiment.metrics leaves it out"
    everything = ssa("reproduce", config, "--out", out, "--table", "--all-metrics").stdout
    assert "none/40/wrong" in everything
    markdown = (ssa.folder / "table.md").read_text()
    assert value in markdown
    assert f"`ssa reproduce {config} --out {out} --markdown table.md`" in markdown
    mean, half = interval([log_odds(value) for value in VALUES["softmax"]])
    value = f"{rate(mean):.3g} [{rate(mean - half):.3g}, {rate(mean + half):.3g}]"
    assert f"| sigma=10/40/wrong | {value} | ssa | " in markdown
    mean, half = interval([2, 3, 4, 5, 6])
    assert f"\n| v | ssa | n | 1 | {mean:.1f} ± {half:.1f} | 1.5 ± 0 | 1-5 |\n" in markdown
    assert "icl-every, 3 layers, 8 heads, width 64, 38000 parameters, batch 64, 2000 steps" in markdown

    page = ssa.folder / "page.md"
    page.write_text("# What came out\n\n<!-- generated:begin -->\nold\n<!-- generated:end -->\n\nAnd why.\n")
    ssa("reproduce", config, "--out", out, "--table", "--markdown", "page.md")
    text = page.read_text()
    assert text.startswith("# What came out\n\n<!-- generated:begin -->\n## Table\n")
    assert text.endswith("<!-- generated:end -->\n\nAnd why.\n") and "old" not in text


@pytest.mark.parametrize(
    "text", ["my own", "<!-- generated:begin -->\n", "<!-- generated:end -->\n<!-- generated:begin -->\n"]
)
def test_a_page_of_ones_own_is_not_replaced(ssa, text):
    config, out = make(ssa, 3, 1000)
    (ssa.folder / "own.md").write_text(text)
    failed = ssa("reproduce", config, "--out", out, "--table", "--markdown", "own.md", code=1)
    assert failed.stderr.startswith("ssa: --markdown own.md: exists without a part between the lines")
    assert (ssa.folder / "own.md").read_text() == text


@pytest.mark.parametrize(
    "seeds, steps, verdict",
    [(2, 2000, "no verdict: too few seeds"), (3, 999, "smoke run, no verdict"), (3, 1000, "lower")],
)
def test_no_verdict_from_too_little(ssa, seeds, steps, verdict):
    config, out = make(ssa, seeds, steps)
    ssa("reproduce", config, "--out", out, "--table")
    assert rows(out, "sigma=10/40/wrong")["ssa"]["verdict"] == verdict


def test_lines_of_other_cells_are_left_out(ssa):
    config, out = make(ssa, seeds=5)
    config.write_text(config.read_text().replace("seeds = 5", "seeds = 3"))
    printed = ssa("reproduce", config, "--out", out, "--table").stdout
    assert "6 lines of results.jsonl belong to no cell" in printed
    assert rows(out, "sigma=10/40/wrong")["ssa"]["seeds"] == [1, 2, 3]


def test_a_broken_line_is_named(ssa):
    config, out = make(ssa, seeds=1)
    with (out / "results.jsonl").open("a") as file:
        file.write("{broken\n")
    failed = ssa("reproduce", config, "--out", out, "--table", code=1)
    assert "results.jsonl:4: not valid JSON" in failed.stderr
