"""Bad input gets one clear line and a non-zero exit, and loses nothing."""

import subprocess

import pytest

USAGE = 2
FAILURE = 1


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["trian"], USAGE, "unknown command trian; did you mean train? (see ssa --help)"),
        (["xyz"], USAGE, "unknown command xyz (see ssa --help)"),
        (["--verison"], USAGE, "unknown flag --verison; did you mean --version? (see ssa --help)"),
        (["--hlep"], USAGE, "unknown flag --hlep; did you mean --help? (see ssa --help)"),
        (["help", "trian"], USAGE, "unknown command trian; did you mean train? (see ssa --help)"),
        (["help", "tokenizer", "encod"], USAGE, "unknown command encod; did you mean encode? (see ssa tokenizer --help)"),
        (["help", "train", "more"], USAGE, "unknown argument more (see ssa train --help)"),
        (["eval", "runs/t", "--sequenecs=3"], USAGE, "unknown flag --sequenecs; did you mean --sequences? (see ssa eval --help)"),
        (["eval", "runs/t", "--precision", "float23"], USAGE, '--precision: evaluation.precision = "float23": expected one of float32, bfloat16; did you mean "float32"? (see ssa eval --help)'),
        (["generate", "runs/t", "--precision", "float23"], USAGE, "--precision: float23: expected one of float32, bfloat16; did you mean float32? (see ssa generate --help)"),
        (["import", "folder", "--score", "sofmax", "--out", "run"], USAGE, "; did you mean softmax? (see ssa import --help)"),
        (["train", "tiny.toml", "--layer", "3"], USAGE, "unknown flag --layer; did you mean --layers? (see ssa train --help)"),
        (["train", "tiny.toml", "--preset", "gtp2-icl"], FAILURE, '; did you mean "gpt2-icl"?'),
        (["train", "tiny.toml", "--task", "icl-evrey"], FAILURE, '; did you mean "icl-every"?'),
        (["train", "tiny.tml"], FAILURE, "tiny.tml: no such file; did you mean tiny.toml?"),
        (["eval", "emtpy"], FAILURE, "emtpy: no such folder; did you mean empty?"),
        (["train", "--resume", "--out", "ful"], FAILURE, "ful: no such folder; did you mean full?"),
        (["tokenizer", "info", "full/leter.txt"], FAILURE, "full/leter.txt: no such file; did you mean full/letter.txt?"),
        (["train", "tiny.toml", "--layers"], USAGE, "--layers"),
        (["train"], FAILURE, "train: a CONFIG.toml is needed"),
        (["train", "--resume"], FAILURE, "train: a CONFIG.toml is needed"),
        (["train", "absent.toml"], FAILURE, "absent.toml: no such file"),
        (["train", "."], FAILURE, ".: not a file"),
        (["train", "tiny.toml", "--steps", "0"], FAILURE, "--steps: train.steps = 0: expected an integer of at least 1"),
        (["train", "tiny.toml", "--steps", "-1"], FAILURE, "--steps: train.steps = -1: expected an integer of at least 1"),
        (["train", "tiny.toml", "--steps", "many"], FAILURE, '--steps: train.steps = "many": expected an integer'),
        (["train", "tiny.toml", "--learning-rate", "nan"], FAILURE, "--learning-rate: train.learning_rate = nan: expected a finite number"),
        (["train", "tiny.toml", "--mlp", "maybe"], FAILURE, '--mlp: model.mlp = "maybe": expected true or false'),
        (["train", "tiny.toml", "--score", "sofmax"], FAILURE, 'did you mean "softmax"?'),
        (["train", "tiny.toml", "--score-initial", "1.5"], FAILURE, "model.score_initial has 1 value, but ssa has 2"),
        (["train", "tiny.toml", "--width", "17"], FAILURE, "tiny.toml: model.width = 17 is not a multiple"),
        (["train", "tiny.toml", "--points-end", "17"], FAILURE, "tiny.toml: task.points_end = 17 makes sequences of 34"),
        (["train", "tiny.toml", "--preset", "babyberta-tiny"], FAILURE, 'gives sequences of numbers, but model.input = "tokens"'),
        (["train", "tiny.toml", "--layers", "1000000000"], FAILURE, "--layers: model.layers = 1000000000: expected an integer of at least 1 and of at most 10000"),
        (["train", "tiny.toml", "--batch", "10000000"], FAILURE, "--batch: train.batch = 10000000: expected an integer of at least 1 and of at most 1048576"),
        (["train", "tiny.toml", "--width", "1000000"], FAILURE, "out of memory before the first step: weights, gradients and moments of this model take"),
        (["train", "tiny.toml", "--stop-at", "0"], USAGE, "--stop-at: 0: expected a whole number from 1 to"),
        (["tokenizer"], USAGE, "(see ssa tokenizer --help)"),
        (["tokenizer", "encod"], USAGE, "unknown command encod; did you mean encode? (see ssa tokenizer --help)"),
        (["tokenizer", "encode", "t.json", "--json"], USAGE, "unknown flag --json; did you mean --jsonl? (see ssa tokenizer encode --help)"),
        (["tokenizer", "encode"], USAGE, "tokenizer is required (see ssa tokenizer encode --help)"),
        (["tokenizer", "info", "absent.json"], FAILURE, "absent.json: no such file"),
        (["eval", "runs/t", "--data-seed", "99999999999999999999"], USAGE, "--data-seed: evaluation.data_seed = \"99999999999999999999\": expected an integer of at least 0"),
        (["eval", "runs/t", "--sequences", "1e3"], USAGE, "--sequences: evaluation.sequences = \"1e3\": expected an integer of at least 1 and of at most 1000000000"),
        (["eval", "runs/t", "--length", "40,0"], USAGE, "--length: evaluation.length = [40,0]: expected a list of integers of at least 1"),
        (["train", "tiny.toml", "--resume", "--out", "absent"], FAILURE, "absent: no such folder"),
        (["train", "--resume", "--out", "absent"], FAILURE, "absent: no such folder"),
        (["train", "tiny.toml", "--resume", "--out", "empty"], FAILURE, "empty: holds no run (run.json is missing)"),
        (["train", "tiny.toml", "--out", "full"], FAILURE, "full: is not a new or empty folder, and holds no run"),
        (["train", "tiny.toml", "--out", "tiny.toml"], FAILURE, "tiny.toml: is a file, not a folder"),
        (["train", "tiny.toml", "--out", "tiny.toml/run"], FAILURE, "tiny.toml/run"),
    ],
)  # fmt: skip
def test_bad_arguments(ssa, tiny, arguments, code, message):
    (tiny.parent / "empty").mkdir()
    (tiny.parent / "full").mkdir()
    (tiny.parent / "full/letter.txt").write_text("dear")
    before = sorted(tiny.parent.rglob("*"))
    assert message in ssa(*arguments, code=code).stderr
    assert sorted(tiny.parent.rglob("*")) == before


@pytest.mark.parametrize("arguments", [["scores"], ["--help"], ["train", "tiny.toml", "--out", "run"]])
def test_output_that_cannot_be_written_is_a_failure(ssa, tiny, arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [ssa.binary, *arguments], cwd=ssa.folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == FAILURE
    assert done.stderr.startswith("ssa: standard output: cannot be written") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "text, message",
    [
        ("[model]\nlayer = 3\n", "bad.toml:2: unknown key model.layer; did you mean model.layers?"),
        ("[model]\nlayers = 'x'\n", 'bad.toml:2: model.layers = "x": expected an integer of at least 1'),
        ("[model]\nlayers =\n", "bad.toml:2: not valid TOML"),
        ("[modle]\nlayers = 2\n", "bad.toml:2: unknown section [modle]; did you mean [model]?"),
        ("steps = 2\n", "bad.toml:1: steps stands outside a [section]"),
        ("[train]\nlearning_rate = inf\n", "bad.toml:2: train.learning_rate"),
        ("[train]\n" + ".".join("a" * 80000) + " = 1\n", "bad.toml:2: more than 256 dots in a key"),
        ("[train]\nsteps = " + "[" * 80000, "bad.toml:2: not valid TOML"),
    ],
)
def test_bad_config_files(ssa, tmp_path, text, message):
    (tmp_path / "bad.toml").write_text(text)
    assert message in ssa("train", "bad.toml", code=FAILURE).stderr
    assert [p.name for p in tmp_path.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "run.json: not valid JSON"),
        ("[]", 'run.json: expected "schema": 1'),
        ('{"schema": 2}', 'run.json: expected "schema": 1'),
        ('{"schema": 1, "name": "x"}', 'run.json: field "config" is missing'),
        ('{"schema": 1, "name": "x", "config": []}', 'run.json: field "config": expected an object'),
        ("[" * 80000, "run.json: JSON nested more than 64 deep"),
        (
            '{"schema": 1, "name": "x", "config": {}, "data": [1]}',
            'run.json: field "data": expected an object of hashes',
        ),
        (
            '{"schema": 1, "name": "x", "config": {"train": {"steps": 1e400}}}',
            "run.json: JSON with a number that is too large",
        ),
        ('{"schema": 1, "name": "x", "config": {"model": {"depth": 1}}}', "run.json: unknown key model.depth"),
        ('{"schema": 1, "name": "x", "config": {"model": {"width": null}}}', "run.json: model.width = null: expected"),
    ],
)
def test_broken_run_json(ssa, tmp_path, content, message):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").write_text(content)
    assert message in ssa("train", "--resume", "--out", "run", code=FAILURE).stderr
