"""`ssa eval` on runs of a second: what it writes, that it repeats itself, and what it refuses."""

import json
import math
import shutil

import pytest

FAILURE = 1
USAGE = 2
FEW = ["--sequences", 20]
SHORT = ["--length", 50, "--sigma", "1,5", "--huge", "100,-100"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs of each task, made once; `ssa` of a test works beside copies of them."""
    return {"folder": tmp_path_factory.mktemp("trained")}


@pytest.fixture
def run(ssa, tiny, trained):
    """run("icl-every", score="ssa") trains a tiny model (or takes the one at hand) and names its folder."""

    def make(task="icl-every", score="ssa"):
        name = f"{task}-{score}"
        kept = trained["folder"] / name
        if not kept.exists():
            ssa("train", tiny, "--task", task, "--score", score, "--max-positions", 100, "--quiet", "--out", name)
            shutil.copytree(ssa.folder / name, kept)
        elif not (ssa.folder / name).exists():
            shutil.copytree(kept, ssa.folder / name)
        return ssa.folder / name

    return make


def test_numbers_that_overflow_are_no_results(ssa, run):
    error = ssa("eval", run(), *FEW, "--sigma", "1e30", code=FAILURE).stderr
    assert "shift sigma 1e+30: the model's predictions are not finite for inputs of up to" in error


def read(folder):
    return json.loads((folder / "evals/icl-shift.json").read_text())


def figures(record, predictor="model"):
    """{(shift, value, metric): row}"""
    return {
        (row["shift"], json.dumps(row["value"]), row["metric"]): row
        for row in record["rows"]
        if row["predictor"] == predictor
    }


def test_a_terminal_shows_how_far_it_is(ssa, run):
    flags = ["--sequences", 2, "--length", 50, "--sigma", 5, "--huge", 100]
    shown = ssa.on_terminal("eval", run(), *flags, stream="stderr")
    lines = shown.split(b"\r\x1b[K")
    assert [line for line in lines if line] == [b"shift %d of 4" % number for number in (1, 2, 3, 4)]
    assert lines[-1] == b"", "the line is cleared at the end"
    assert ssa("eval", run(), *flags).stderr == ""


def test_quantifier_file(ssa, run):
    folder = run()
    shown = ssa("eval", folder, *FEW).stdout
    record = read(folder)
    facts = {"schema": 1, "suite": "icl-shift", "task": "icl-every", "score": "ssa", "step": 6, "grid": "reduced"}
    assert facts.items() <= record.items()
    facts = {"sampler": "balanced", "sequences": 20, "data_seed": 1234, "points": 40, "huge_position": 11}
    assert facts.items() <= record.items()
    assert record["chance"] == 0.5 and 0 < record["majority"] <= 0.5
    model = figures(record)
    assert {shift for shift, _, _ in model} == {"none", "length", "sigma", "huge"}
    assert {value for shift, value, _ in model if shift == "huge"} == {"10", "100", "1000", "-10", "-100", "-1000"}
    assert {value for shift, value, _ in model if shift == "sigma"} == {"1", "2", "5", "10", "40"}
    none = model["none", "null", "wrong"]
    assert 0 <= none["mean"] <= 1 and none["items"] == 20 * 40
    assert math.isclose(sum(none["per_position"]) / 40, none["mean"], rel_tol=1e-12)
    assert none["mean"] == model["sigma", "1", "wrong"]["mean"]
    for part in ["at", "after", "before"]:
        assert ("huge", "100", f"wrong-{part}") in model and ("huge", "100", f"sequence-wrong-{part}") in model
    assert figures(record, "constant").keys() == figures(record, "position").keys() == model.keys()
    # 100 positions are 50 points: 80 and 200 are left out, and the file and the table say so.
    assert [(s["shift"], s["value"]) for s in record["skipped"]] == [("length", 80), ("length", 200)]
    assert shown.count("skipped: ") == 2
    assert not any(row["points"] > 50 for row in record["rows"])
    for layer in record["score_parameters"]:
        assert list(layer) == ["n", "b"] and all(len(values) == 2 for values in layer.values())
    heads = [(entry["layer"], entry["head"]) for entry in record["attention"] if entry["shift"] == "none"]
    assert heads == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for entry in record["attention"]:
        assert ("mass_on_huge" in entry) == (entry["shift"] == "huge")
        assert 0 <= entry["entropy"] <= math.log(80) and 1 / 80 <= entry["p_max"] <= 1


def test_linear_file(ssa, run):
    folder = run("icl-linear")
    ssa("eval", folder, *FEW, "--length", 41, "--coefficients", "1,5")
    record = read(folder)
    assert record["sampler"] is None and record["chance"] is None and record["majority"] is None
    model = figures(record)
    assert {shift for shift, _, _ in model} == {"none", "length", "sigma", "huge", "coefficients", "both", "grid"}
    assert {value for shift, value, _ in model if shift == "grid"} == {"[1, 1]", "[1, 5]", "[5, 1]", "[5, 5]"}
    for predictor in ["least-squares", "3-nearest", "average"]:
        assert figures(record, predictor).keys() == model.keys()
    none = ("none", "null", "relative-error")
    assert model[none]["items"] == 20 * 38, "positions from the third on"
    # y is a line: two pairs determine it, up to the rounding of x and y to float.
    assert figures(record, "least-squares")[none]["mean"] < 1e-9
    assert figures(record, "3-nearest")[none]["mean"] < 1
    assert ("huge", "1000", "relative-error-after") in model


def test_two_runs_give_the_same_bytes(ssa, run):
    folder = run()
    file = folder / "evals/icl-shift.json"
    ssa("eval", folder, *FEW, *SHORT)
    first = file.read_bytes()
    file.unlink()
    ssa("eval", folder, *FEW, *SHORT)
    assert file.read_bytes() == first
    assert [path.name for path in file.parent.iterdir()] == [file.name], "nothing temporary is left"
    ssa("eval", folder, *FEW, *SHORT, "--data-seed", 7)
    assert file.read_bytes() != first


def test_every_score_sees_the_same_sequences(ssa, run):
    baselines = []
    for score in ["ssa", "softmax"]:
        folder = run(score=score)
        ssa("eval", folder, *FEW, *SHORT)
        record = read(folder)
        assert record["score"] == score
        baselines.append([row for row in record["rows"] if row["predictor"] != "model"])
    assert baselines[0] == baselines[1]


def test_checkpoint_and_sampler_are_chosen_and_recorded(ssa, run):
    folder = run()
    newest, earlier = [], []
    ssa("eval", folder, *FEW, *SHORT)
    newest = read(folder)
    ssa("eval", folder, *FEW, *SHORT, "--checkpoint", 3, "--sampler", "plain", "--huge-position", 40)
    earlier = read(folder)
    assert (newest["step"], newest["sampler"]) == (6, "balanced")
    assert (earlier["step"], earlier["sampler"], earlier["huge_position"]) == (3, "plain", 40)
    # With plain N(0,1) *every* is nearly always -1, and the constant answer shows it.
    assert earlier["majority"] < 0.05 < newest["majority"]
    metrics = {metric for shift, _, metric in figures(earlier) if shift == "huge"}
    assert metrics == {"wrong-before", "wrong-at", "sequence-wrong-before", "sequence-wrong-at"}


def test_score_parameters_are_those_of_the_checkpoint(ssa, run):
    """Their mean over heads is what the run logged at that step."""
    folder = run()
    logged = {line["step"]: line for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
              if "score_parameters" in line}  # fmt: skip
    for step in (3, 6):
        ssa("eval", folder, *FEW, *SHORT, "--checkpoint", step)
        for layer, course in zip(read(folder)["score_parameters"], logged[step]["score_parameters"], strict=True):
            for name, (low, mean, high) in course.items():
                assert [min(layer[name]), max(layer[name])] == pytest.approx([low, high], rel=1e-6)
                assert sum(layer[name]) / 2 == pytest.approx(mean, rel=1e-6)
    softmax = run(score="softmax")
    ssa("eval", softmax, *FEW, *SHORT)
    assert read(softmax)["score_parameters"] == [{}, {}]


def test_own_values_and_full_grid(ssa, run):
    folder = run()
    ssa("eval", folder, "--sequences", 1, "--grid", "full", "--length", 41, "--huge", "-7.5")
    record = read(folder)
    assert record["grid"] == "full"
    assert record["options"] == {
        "sequences": 1, "data_seed": 1234, "grid": "full", "sampler": None, "huge_position": 11, "length": [41],
        "sigma": [], "coefficients": [], "huge": [-7.5],
    }  # fmt: skip
    assert record["sweep"]["huge"] == [-7.5] and record["sweep"]["sigma"] == list(range(1, 41))
    model = figures(record)
    assert ("huge", "-7.5", "wrong-after") in model
    assert model["sigma", "40", "wrong"]["standard_error"] is None, "one sequence has none"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--suite", "icl"], FAILURE, "--suite icl: no such suite for a model of icl-every; there is icl-shift"),
        (
            ["--sequences", 0],
            USAGE,
            "--sequences: evaluation.sequences = 0: expected an integer of at least 1 and of at most 1000000000",
        ),
        (["--sequences", "many"], USAGE, "--sequences"),
        (["--sigma", -1], USAGE, "--sigma: evaluation.sigma = [-1.0]: expected a list of finite numbers above 0"),
        (["--sigma", "1,0"], USAGE, "--sigma: evaluation.sigma = [1.0,0.0]: expected a list of finite numbers above 0"),
        (["--sigma", "2,2"], FAILURE, "--sigma 2: stands twice"),
        (
            ["--length", 0],
            USAGE,
            "--length: evaluation.length = [0]: expected a list of integers of at least 1 and of at most 1000000",
        ),
        (["--huge", 0], FAILURE, "--huge 0: must be a number other than 0"),
        (["--huge", "nan"], USAGE, "--huge: evaluation.huge"),
        (
            ["--huge-position", 41],
            USAGE,
            "--huge-position: evaluation.huge_position = 41: expected an integer of at least 1 and of at most 40",
        ),
        (["--coefficients", 2], FAILURE, "--coefficients: only icl-linear has coefficients"),
        (["--grid", "fine"], USAGE, '--grid: evaluation.grid = "fine": expected one of reduced, full'),
        (["--sampler", "uniform"], USAGE, '--sampler: evaluation.sampler = "uniform": expected one of balanced, plain'),
        (["--data-seed", -1], USAGE, "--data-seed: evaluation.data_seed = -1: expected an integer of at least 0"),
        (["--data-seed", "x"], USAGE, "--data-seed"),
        (["--checkpoint", 4], FAILURE, "4"),
        (["--seed", 4], USAGE, "unknown flag --seed"),
    ],
)
def test_bad_options_are_named(ssa, run, arguments, code, message):
    folder = run()
    assert message in ssa("eval", folder, *arguments, code=code).stderr
    noted = ["icl-shift.failed"] if code == FAILURE and arguments[0] != "--suite" else []
    assert [file.name for file in folder.glob("evals/*")] == noted, "no results"


def test_folders_that_are_no_run(ssa, tmp_path):
    assert "absent" in ssa("eval", "absent", code=FAILURE).stderr
    (tmp_path / "empty").mkdir()
    assert "empty" in ssa("eval", "empty", code=FAILURE).stderr
    assert "run" in ssa("eval", code=USAGE).stderr


def test_run_without_a_checkpoint(ssa, run):
    folder = run()
    shutil.rmtree(folder / "checkpoints")
    assert "checkpoint" in ssa("eval", folder, code=FAILURE).stderr


@pytest.mark.parametrize("keep", [0, 5, 300])
def test_broken_checkpoint_is_named(ssa, run, keep):
    folder = run()
    weights = folder / "checkpoints/step-6/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    assert "step-6/model.safetensors" in ssa("eval", folder, *FEW, code=FAILURE).stderr
    assert [file.name for file in folder.glob("evals/*")] == ["icl-shift.failed"], "no results"


def test_model_too_short_for_any_sequence(ssa, tiny):
    ssa("train", tiny, "--smoke", "--quiet", "--out", "short")
    message = ssa("eval", "short", *FEW, code=FAILURE).stderr
    assert "80 tokens are more than the model's max_positions = 32" in message
