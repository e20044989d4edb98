"""ssa reproduce: whole comparisons of tiny models, what stops them, and what goes on."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

TINY = """
[experiment]
name = "tiny"
seeds = 2

[evaluation]
sequences = 4
sampler = "plain"

[model]
preset = "attention-only-tiny"
layers = 1
heads = 2
width = 8

[task]
points_start = 3
points_end = 5
points_step = 1
points_interval = 1

[train]
steps = 3
batch = 2
eval_batches = 1
log_interval = 1
threads = 1

[[variant]]
name = "every"

[[variant]]
name = "linear"
task.name = "icl-linear"
"""


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def results(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def cells(folder):
    return [(r["variant"], r["score"], r["seed"]) for r in results(folder)]


def figures(folder):
    """What must not depend on time: metrics by cell."""
    found = {}
    for r in results(folder):
        assert r["metrics"].pop("training/milliseconds-per-step") > 0  # no two runs agree in that
        found[r["variant"], r["score"], r["seed"]] = (r["metrics"], r["baselines"])
    return found


def until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def lines_of(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_whole_comparison_then_nothing_left(ssa, tiny):
    out = ssa.folder / "out"
    first = ssa("reproduce", tiny, "--out", out, "--jobs", 2)
    order = [(v, s, k) for k in (1, 2) for v in ("every", "linear") for s in ("softmax", "ssa")]
    assert sorted(cells(out)) == sorted(order)
    for result in results(out):
        run = json.loads((out / result["run"] / "run.json").read_text())
        assert run["config"]["model"]["score"] == result["score"]
        assert run["config"]["train"]["seed"] == result["seed"]
        assert result["task"] == run["config"]["task"]["name"]
        assert (result["steps"], result["batch"], result["layers"], result["heads"]) == (3, 2, 1, 2)
        assert result["parameters"] == run["parameters"]
        evaluation = json.loads((out / result["run"] / "evals/icl-shift.json").read_text())
        assert result["score_parameters"] == evaluation["score_parameters"]
        sampler = "plain" if result["variant"] == "every" else None
        assert (evaluation["step"], evaluation["sequences"], evaluation["sampler"]) == (3, 4, sampler)
        none = {
            row["metric"]: row["mean"]
            for row in evaluation["rows"]
            if row["shift"] == "none" and row["predictor"] == "model"
        }
        for metric, mean in none.items():
            assert result["metrics"][f"none/40/{metric}"] == mean
    assert first.stdout.count("[8/8]") == 1
    assert "smoke run, no verdict" in first.stdout
    assert "1 layer, 2 heads, width 8" in first.stdout
    assert f"python -m ssa_attention.report {out}" in first.stdout
    assert "\x1b" not in first.stdout and "\r" not in first.stdout

    before = (out / "results.jsonl").read_bytes()
    second = ssa("reproduce", tiny, "--out", out)
    assert "[" not in second.stdout.split("\nevery\n")[0]
    assert (out / "results.jsonl").read_bytes() == before
    assert second.stdout.split("\nevery\n")[1] == first.stdout.split("\nevery\n")[1]
    listed = ssa("reproduce", tiny, "--out", out, "--list").stdout
    assert listed.count(": finished\n") == 8 and "8 cells, 0 left" in listed

    one_at_a_time = ssa.folder / "one"
    ssa("reproduce", tiny, "--out", one_at_a_time, "--jobs", 1, "--variant", "linear")
    assert cells(one_at_a_time) == [c for c in order if c[0] == "linear"]
    both = figures(out)
    assert all(both[cell] == values for cell, values in figures(one_at_a_time).items())


def test_a_line_cut_off_is_said_and_made_again(ssa, tiny):
    out = ssa.folder / "out"
    ssa("reproduce", tiny, "--out", out, "--variant", "every")
    before = figures(out)
    file = out / "results.jsonl"
    text = file.read_text()
    file.write_text(text[:-40])
    again = ssa("reproduce", tiny, "--out", out, "--variant", "every")
    assert "its last line was cut off" in again.stdout
    assert again.stdout.count("[1/1]") == 1
    assert figures(out) == before


def test_a_field_that_a_later_version_added_is_no_change(ssa, tiny):
    out = ssa.folder / "out"
    ssa("reproduce", tiny, "--out", out, "--variant", "every", "--jobs", 1)
    for file in [out / "results.jsonl", *out.glob("runs/*/*/*/run.json")]:
        older = re.sub(r'"causal": ?true,\s*', "", file.read_text())
        assert older != file.read_text(), file
        file.write_text(older)
    assert "[1/" not in ssa("reproduce", tiny, "--out", out, "--variant", "every").stdout


def test_changed_settings_are_never_mixed(ssa, tiny):
    out = ssa.folder / "out"
    ssa("reproduce", tiny, "--out", out, "--variant", "every", "--jobs", 1)
    change(tiny, "threads = 1", "threads = 2")
    ssa("reproduce", tiny, "--out", out, "--table")
    change(tiny, "steps = 3", "steps = 4")
    for flags in [], ["--table"], ["--list"]:
        failed = ssa("reproduce", tiny, "--out", out, *flags, code=1)
        assert "every softmax seed 1 was run with train.steps = 3, now 4" in failed.stderr
        assert "use another --out, or delete" in failed.stderr
    change(tiny, "steps = 4", "steps = 3")
    change(tiny, "sequences = 4", "sequences = 5")
    failed = ssa("reproduce", tiny, "--out", out, code=1)
    assert "every softmax seed 1 was evaluated with evaluation.sequences = 4, now 5" in failed.stderr
    # Evaluated again, not trained again:
    trained = (out / "runs/every/ssa/seed-1/metrics.jsonl").read_bytes()  # it holds seconds
    (out / "results.jsonl").unlink()
    ssa("reproduce", tiny, "--out", out, "--variant", "every")
    assert (out / "runs/every/ssa/seed-1/metrics.jsonl").read_bytes() == trained
    # A run that was begun counts as well, though it has no result:
    (out / "results.jsonl").unlink()
    change(tiny, "width = 8", "width = 16")
    failed = ssa("reproduce", tiny, "--out", out, code=1)
    assert "seed-1/run.json: every softmax seed 1 was run with model.width = 8, now 16" in failed.stderr


def test_every_seed_is_tested_on_sequences_of_its_own(ssa, tiny):
    out = ssa.folder / "out"
    ssa("reproduce", tiny, "--out", out, "--variant", "every")
    seeds = {}
    for result in results(out):
        evaluation = json.loads((out / result["run"] / "evals/icl-shift.json").read_text())
        assert evaluation["data_seed"] == result["options"]["data_seed"] == 1234 + result["seed"]
        constant = json.dumps(result["baselines"]["constant"])
        assert seeds.setdefault(result["seed"], constant) == constant, "the scores of a seed share them"
        row = next(r for r in evaluation["rows"] if (r["shift"], r["value"], r["metric"]) == ("sigma", 5, "wrong"))
        assert result["counts"]["sigma=5/40/wrong"] == [row["wrong"], row["items"]] == [row["wrong"], 160]
        assert result["metrics"]["sigma=5/40/wrong"] == row["wrong"] / 160
        assert (row["better"], row["scale"]) == ("lower", "log-odds")
        assert result["kinds"]["wrong"] == {"better": "lower", "scale": "log-odds"}
        run = json.loads((out / result["run"] / "run.json").read_text())
        assert result["program"] == {"git": run["git"], "target": run["target"]}
        assert result["metrics"]["training/loss"] > 0
    assert seeds[1] != seeds[2]
    # Lines of earlier versions shared them: they are shown, and nothing is added to them.
    lines = results(out)
    for line in lines:
        for key in "counts", "kinds", "program":
            del line[key]
        del line["options"]["data_seed"]
    (out / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "all seeds were tested on the same sequences" in ssa("reproduce", tiny, "--out", out, "--table").stdout
    refused = ssa("reproduce", tiny, "--out", out, code=1).stderr
    assert "now each seed has its own: use another --out" in refused


def test_the_cost_is_said_and_nothing_kept(ssa, tiny):
    change(tiny, "steps = 3", "steps = 3000")
    printed = ssa("reproduce", tiny, "--out", ssa.folder / "out", "--cost").stdout
    rows = [line.split() for line in printed.splitlines() if line.startswith(("every", "linear"))]
    assert [row[:4] for row in rows] == [[v, s, "2", "3000"] for v in ("every", "linear") for s in ("softmax", "ssa")]
    for *_, milliseconds, hours in rows:
        assert float(hours) == pytest.approx(float(milliseconds) * 6000 / 3.6e6, abs=0.006)
    assert not (ssa.folder / "out/cost").exists() and not (ssa.folder / "out/runs").exists()


def test_a_cell_that_fails_leaves_the_others(ssa, tiny):
    """A learning rate at which training cannot go on."""
    with tiny.open("a") as file:
        file.write("train.learning_rate = 1e30\n")
    out = ssa.folder / "out"
    failed = ssa.start("reproduce", tiny, "--out", out)
    stdout, stderr = failed.communicate(timeout=120)
    assert failed.returncode == 1
    assert sorted(cells(out)) == [("every", s, k) for s in ("softmax", "ssa") for k in (1, 2)]
    assert stdout.count("FAILED linear") == 4
    lines = stderr.splitlines()
    assert len(lines) == 4 and all(line.startswith("ssa: failed: linear ") for line in lines)
    reason = "stopped in step 2 at learning rate 1e+30"
    assert all("exit code 1: ssa: " in line and reason in line for line in lines)
    log = Path(lines[0].rsplit("(log: ", 1)[1].rstrip(")"))
    assert reason in log.read_text()
    assert "4 of 8 cells are not finished" in stdout
    listed = ssa("reproduce", tiny, "--out", out, "--list").stdout
    assert "8 cells, 4 left" in listed


def test_a_cell_that_fails_says_why_where_its_log_cannot(ssa, tiny):
    """A limit on the size of files stands for the disk."""
    change(tiny, "steps = 3", "steps = 100")
    command = f"trap '' XFSZ; ulimit -f 4; exec '{ssa.binary}' reproduce tiny.toml --out out --variant every"
    done = subprocess.run(["bash", "-c", command], cwd=ssa.folder, check=False, capture_output=True, text=True)
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and len(lines) == 4, done.stderr
    for line in lines:
        assert re.search(r": exit code 1: ssa: out/runs/\S+: cannot be written: File too large \(log: ", line), line


def test_cells_measured_on_different_files_are_not_compared(language):
    ssa = language([f"the dog likes {number} cats . where is the dog ? a bird sees a fish ." for number in range(40)])
    config = (ssa.folder / "config.toml").read_text()

    def reproduce(seeds, code=0):
        (ssa.folder / "x.toml").write_text(
            f'[experiment]\nname = "x"\nscores = ["softmax"]\nseeds = {seeds}\nevaluations = ["ppl"]\n'
            f'[evaluation]\ntexts = "text.txt"\n{config}\n[[variant]]\nname = "v"\n'
        )
        return ssa("reproduce", "x.toml", "--out", "out", code=code)

    (ssa.folder / "text.txt").write_text("the dog\n")
    reproduce(seeds=1)
    (ssa.folder / "text.txt").write_text("the cat\n")
    done = reproduce(seeds=2, code=1)
    assert "out/results.jsonl: softmax seed 2 of v was evaluated on other files (fnv1a64:" in done.stderr
    (ssa.folder / "text.txt").write_text("the dog\n")
    reproduce(seeds=2)


LONG = TINY.replace("steps = 3", "steps = 1500").replace("log_interval = 1", "log_interval = 50")
LONG = LONG.replace("seeds = 2", "seeds = 1").split('[[variant]]\nname = "linear"')[0]


@pytest.fixture
def long(tmp_path):
    """Two cells of a few seconds."""
    path = tmp_path / "long.toml"
    path.write_text(LONG)
    return path


@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_comparison_goes_on_bit_for_bit(ssa, long, sent, code):
    out = ssa.folder / "out"
    running = ssa.start("reproduce", long, "--out", out, "--jobs", 2)
    metrics = [out / f"runs/every/{score}/seed-1/metrics.jsonl" for score in ("softmax", "ssa")]
    until(lambda: all(lines_of(path) >= 2 for path in metrics))
    running.send_signal(sent)
    stdout, _ = running.communicate(timeout=120)
    assert running.returncode == code
    assert "interrupted: 2 running cells save their state and stop" in stdout
    assert f"ssa reproduce {long} --out {out}" in stdout
    assert not (out / "results.jsonl").exists()
    assert ssa("reproduce", long, "--out", out, "--list").stdout.count(": at step ") == 2
    ssa("reproduce", long, "--out", out)

    ssa("reproduce", long, "--out", "straight")
    assert figures(out) == figures(ssa.folder / "straight")


def children(pid):
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def test_a_killed_cell_is_one_failed_cell(ssa, long):
    out = ssa.folder / "out"
    running = ssa.start("reproduce", long, "--out", out, "--jobs", 1)
    until(lambda: lines_of(out / "runs/every/softmax/seed-1/metrics.jsonl") >= 1)
    (child,) = children(running.pid)
    os.kill(child, signal.SIGKILL)
    _, stderr = running.communicate(timeout=120)
    assert running.returncode == 1
    assert "every softmax seed 1: signal 9 (Killed)" in stderr
    assert cells(out) == [("every", "ssa", 1)]


def test_children_stop_when_their_parent_is_killed(ssa, long):
    out = ssa.folder / "out"
    running = ssa.start("reproduce", long, "--out", out, "--jobs", 1)
    until(lambda: lines_of(out / "runs/every/softmax/seed-1/metrics.jsonl") >= 1)
    (child,) = children(running.pid)
    second = ssa("reproduce", long, "--out", out, code=1)
    assert "another process" in second.stderr
    running.kill()
    running.communicate(timeout=120)
    until(lambda: not Path(f"/proc/{child}").exists())
    assert ssa("reproduce", long, "--out", out, "--list").stdout.count(": at step ") == 1


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("seeds = 2", "sedes = 2", "tiny.toml:4: unknown key experiment.sedes; did you mean experiment.seeds?"),
        ("seeds = 2", 'seeds = "2"', "tiny.toml:4: experiment.seeds"),
        ("sequences = 4", "sequences = 0", "tiny.toml:7: evaluation.sequences = 0"),
        ("sequences = 4", "sequence = 4", "tiny.toml:7: unknown key evaluation.sequence"),
        ("sequences = 4", 'grid = "fine"', 'tiny.toml:7: evaluation.grid = "fine": expected one of reduced, full'),
        (
            "sequences = 4",
            "huge_position = 41",
            "tiny.toml:7: evaluation.huge_position = 41: expected an integer of at least 1",
        ),
        ("sequences = 4", "sigma = [2, 2]", "tiny.toml: [evaluation]: --sigma 2: stands twice"),
        ("sequences = 4", 'choices = "x.tsv"', "tiny.toml:7: evaluation.choices: is a file to write"),
        ("[evaluation]", "[evalution]", "unknown section [evalution]"),
        ("steps = 3", "steps = 0", "tiny.toml:23: train.steps = 0"),
        ("batch = 2", "batch = 2\nscore = 'ssa'", "unknown key train.score; did you mean model.score?"),
        ("width = 8", "width = 7", "tiny.toml: variant every, score softmax"),
        ("[experiment]", "[experiment", "tiny.toml:2: not valid TOML"),
    ],
)
def test_everything_is_validated_before_the_first_cell(ssa, tiny, old, new, message):
    change(tiny, old, new)
    assert message in ssa("reproduce", tiny, "--out", "out", code=1).stderr
    assert not (ssa.folder / "out").exists()


def test_errors_of_the_command(ssa, tiny):
    assert "absent.toml: no such file" in ssa("reproduce", "absent.toml", code=1).stderr
    assert "--jobs" in ssa("reproduce", tiny, "--jobs", 0, code=2).stderr
    unknown = ssa("reproduce", tiny, "--out", "out", "--variant", "evry", code=1)
    assert unknown.stderr.endswith("has no such variant; there are every, linear; did you mean every?\n")
    assert "no finished cell" in ssa("reproduce", tiny, "--out", "out", "--table", code=1).stderr
    (ssa.folder / "file").write_text("")
    assert "file: is a file, not a folder" in ssa("reproduce", tiny, "--out", "file", code=1).stderr
    (ssa.folder / "other").mkdir()
    (ssa.folder / "other/thesis.txt").write_text("")
    assert "other: holds other files" in ssa("reproduce", tiny, "--out", "other", code=1).stderr
    assert (ssa.folder / "other/thesis.txt").exists()


CONFIGS = sorted((Path(os.environ["SSA_SOURCE"]) / "configs/experiments").glob("*.toml"))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_configs_run_shrunk(ssa, config, data_for):
    """Each config of the project, one seed and 2 steps a cell."""
    data_for(config)
    (ssa.folder / "configs").symlink_to(Path(os.environ["SSA_SOURCE"]) / "configs")
    if config.stem.startswith("lm-"):
        # 114 M parameters, 96 batches a step, and bfloat16 on a CPU without products of it take minutes each.
        ssa("reproduce", config, "--list")
        small = ssa.folder / config.name
        small.write_text(
            config.read_text()
            .replace('"nemotron-114m"', '"nemotron-small"')
            .replace("accumulation = 96", "accumulation = 1")
            .replace('precision = "bfloat16"', 'precision = "float32"')
        )
        config = small
    done = ssa("reproduce", config, "--out", "out", "--smoke")
    assert "smoke run, no verdict" in done.stdout
    table = json.loads((ssa.folder / "out/table.json").read_text())
    assert {row["variant"] for row in table} == set(variants_of(ssa, config))


def test_data_that_are_missing_are_missed_before_the_first_cell(ssa, small_data, monkeypatch):
    (config,) = (path for path in CONFIGS if path.stem == "babyberta-small")
    monkeypatch.setenv("SSA_DATA", str(small_data))
    shutil.rmtree(small_data / "zorro")
    refused = ssa("reproduce", config, "--out", "out", "--smoke", code=1).stderr
    assert 'experiment.evaluations: zorro: "zorro/sentences": no such file or folder, nor is there' in refused
    assert not (ssa.folder / "out/runs").exists()
    monkeypatch.setenv("SSA_DATA", "nowhere")
    assert '"nowhere/' in ssa("reproduce", config, "--out", "out", "--smoke", code=1).stderr
    assert "16 cells, 16 left" in ssa("reproduce", config, "--out", "out", "--list").stdout


def test_the_sweep_holds_fixed_what_it_says(ssa):
    (config,) = (path for path in CONFIGS if path.stem == "icl-sweep")
    ssa("reproduce", config, "--out", "out", "--smoke")
    after = {result["score"]: result["score_parameters"] for result in results(ssa.folder / "out")}
    assert after.pop("softmax") == [{}, {}]
    expected = {label: (1.5, "") for label in ("ssa", "ssa-layer", "ssa-exp", "ssa-raw")}
    expected["ssa-n-trained"] = (1.5, "b")
    for n in (1, 1.5, 2, 3):
        expected |= {f"ssa-n{n:g}": (n, "nb"), f"ssa-n{n:g}-b-trained": (n, "n")}
    assert after.keys() == expected.keys()
    for label, (n, fixed) in expected.items():
        for name, initial in ("n", n), ("b", 0.8):
            values = [value for layer in after[label] for value in layer[name]]
            assert len(values) == (2 if label == "ssa-layer" else 8), "one a layer, or one a head"
            assert values == pytest.approx([initial] * len(values), rel=0.02), "two steps do not go far"
            assert (values == [initial] * len(values)) == (name in fixed), (label, name)


def variants_of(ssa, config):
    listed = ssa("reproduce", config, "--out", "elsewhere", "--list").stdout
    return {line.split(" ")[0] for line in listed.splitlines() if ": to do" in line}
