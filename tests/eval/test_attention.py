"""`ssa attention` on runs of a second: the weights it writes against a computation by hand, and what it refuses."""

import json
import math
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

FAILURE = 1
USAGE = 2
INPUT = [-0.5, 1.5, 100.0, 0.25]
LIST = ",".join(map(str, INPUT))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return tmp_path_factory.mktemp("trained")


@pytest.fixture
def run(ssa, tiny, trained):
    """run("ssa") trains a tiny model of attention alone (or takes the one at hand) and names its folder."""

    def make(score="ssa", task="icl-every"):
        name = f"{task}-{score}"
        if not (trained / name).exists():
            flags = ["--mlp", "false", "--norm", "none", "--init-std", 0.3, "--quiet", "--out", trained / name]
            ssa("train", tiny, "--task", task, "--score", score, *flags)
        shutil.copytree(trained / name, ssa.folder / name)
        return name

    return make


def test_numbers_that_overflow_are_no_weights(ssa, run):
    error = ssa("attention", run(), "--input", "1e38,1e38,-1e38", "--out", "maps", code=FAILURE).stderr
    assert "icl-every-ssa: the attention weights of layer 1 are not finite for these inputs" in error
    assert not (ssa.folder / "maps").exists()


def test_a_file_of_inputs_may_begin_with_a_byte_order_mark(ssa, run):
    (ssa.folder / "input.txt").write_bytes(b"\xef\xbb\xbf1.5,\r\n-0.5\r\n")
    ssa("attention", run(), "--input", "input.txt", "--out", "maps")
    assert read(ssa.folder / "maps")["x"] == [1.5, -0.5]


def read(folder):
    return json.loads((folder / "attention.json").read_text())


def weights_by_hand(folder, step, tokens, score):
    """[layer](head, query, key) in double precision, from the stored weights."""
    stored = load_file(folder / f"checkpoints/step-{step}/model.safetensors")
    stored = {name: weight.double() for name, weight in stored.items()}
    model = json.loads((folder / "run.json").read_text())["config"]["model"]
    heads, length = model["heads"], len(tokens)

    def linear(x, name):
        return x @ stored[f"{name}.weight"] + stored[f"{name}.bias"]

    hidden = linear(torch.tensor(tokens, dtype=torch.float64)[:, None], "read_in") + stored["wpe.weight"][:length]
    found = []
    for layer in range(model["layers"]):
        name = f"h.{layer}.attn"
        query, key, value = (
            part.view(length, heads, -1).transpose(0, 1) for part in linear(hidden, f"{name}.c_attn").chunk(3, -1)
        )
        s = query @ key.transpose(1, 2) / math.sqrt(query.shape[2])
        if score == "ssa":
            n, b = (torch.nn.functional.softplus(stored[f"{name}.score_{p}"])[:, None, None] for p in "nb")
            s = torch.sign(s) * (1 + n) * torch.log1p(b * s.abs())
        hidden_from = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = torch.softmax(s.masked_fill(hidden_from, -math.inf), -1)
        found.append(weights)
        mixed = (weights @ value).transpose(0, 1).reshape(length, -1)
        hidden = hidden + linear(mixed, f"{name}.c_proj")
    return found, linear(hidden, "read_out")[::2, 0]


@pytest.mark.parametrize("score", ["softmax", "ssa"])
def test_weights_are_those_of_a_direct_computation(ssa, run, score):
    folder = run(score)
    ssa("attention", folder, "--input", LIST, "--out", "maps")
    record = read(ssa.folder / "maps")
    assert record.keys() == {"schema", "task", "x", "y", "runs"}
    assert (record["schema"], record["task"], record["x"]) == (1, "icl-every", INPUT)
    assert record["y"] == [-1, -1, -1, -1]
    (found,) = record["runs"]
    assert (found["run"], found["score"], found["seed"], found["step"]) == (folder, score, 1, 6)
    tokens = [token for point in zip(INPUT, record["y"], strict=True) for token in point]
    expected, predictions = weights_by_hand(ssa.folder / folder, 6, tokens, score)
    assert found["predictions"] == pytest.approx(predictions.tolist(), rel=1e-4, abs=1e-4)
    assert [len(layer) for layer in found["weights"]] == [2, 2]
    for layer, by_hand in zip(found["weights"], expected, strict=True):
        for head, rows in enumerate(layer):
            for query, row in enumerate(rows):
                assert sum(row) == pytest.approx(1, abs=1e-5)
                assert row == pytest.approx(by_hand[head, query, : query + 1].tolist(), abs=1e-5)
    names = {"softmax": [], "ssa": ["n", "b"]}[score]
    for layer in found["score_parameters"]:
        assert list(layer) == names and all(len(values) == 2 for values in layer.values())


def test_runs_side_by_side_and_their_page(ssa, run):
    folders = [run("softmax"), run("ssa")]
    shown = ssa("attention", *folders, "--input", LIST, "--checkpoint", 3, "--out", "some/maps").stdout
    assert "python -m ssa_attention.report.attention some/maps" in shown
    record = read(ssa.folder / "some/maps")
    assert [(r["run"], r["score"], r["step"]) for r in record["runs"]] == [
        (folders[0], "softmax", 3),
        (folders[1], "ssa", 3),
    ]
    assert [path.name for path in (ssa.folder / "some/maps").iterdir()] == ["attention.json"], "nothing temporary"
    before = (ssa.folder / "some/maps/attention.json").read_bytes()
    ssa("attention", *folders, "--input", LIST, "--checkpoint", 3, "--out", "some/maps")
    assert (ssa.folder / "some/maps/attention.json").read_bytes() == before
    command = [sys.executable, "-m", "ssa_attention.report.attention", "some/maps"]
    subprocess.run(command, cwd=ssa.folder, check=True, timeout=120)
    assert (ssa.folder / "some/maps/attention.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("input.txt", "-0.5 1.5\n+100\n0.25\n"),
        ("input.json", "[-0.5, 1.5, 1e2, 0.25]"),
        ("pairs.txt", "-0.5:-1, 1.5:-1, 100:-1, 0.25:-1"),
        ("pairs.json", "[[-0.5, -1], [1.5, -1], [100, -1], [0.25, -1]]"),
    ],
)
def test_input_from_files(ssa, run, name, content):
    folder = run()
    (ssa.folder / name).write_text(content)
    ssa("attention", folder, "--input", name, "--out", "file")
    ssa("attention", folder, "--input", LIST, "--out", "list")
    assert read(ssa.folder / "file") == read(ssa.folder / "list")


def test_linear_functions_take_pairs(ssa, run):
    folder = run(task="icl-linear")
    ssa("attention", folder, "--input", "1:2.5,-2:-3.5,0.1:0.7", "--out", "maps")
    record = read(ssa.folder / "maps")
    assert (record["x"], record["y"]) == ([1, -2, 0.1], [2.5, -3.5, 0.7])
    message = ssa("attention", folder, "--input", "1,2", "--out", "none", code=FAILURE).stderr
    assert "--input: icl-linear has no rule that gives y: write pairs x:y" in message
    assert not (ssa.folder / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--input", "1,abc,2"], FAILURE, '--input: value 2, "abc", is neither a finite number nor a pair x:y'),
        (["--input", "1,nan"], FAILURE, '--input: value 2, "nan"'),
        (["--input", "1,2,1e39"], FAILURE, '--input: value 3, "1e39"'),
        (["--input", "1,2:x"], FAILURE, '--input: value 2, "2:x"'),
        (["--input", "1:2,3"], FAILURE, '--input: value 2, "3", lacks a y'),
        (["--input", "[1, null]"], FAILURE, "--input: value 2, null, is neither a finite number nor a pair [x, y]"),
        (["--input", "[1, 2"], FAILURE, "--input: not valid JSON"),
        (["--input", ""], FAILURE, "--input: holds no number"),
        (["--input", "[]"], FAILURE, "--input: holds no number"),
        (["--input", "absent.txt"], FAILURE, "--input absent.txt (no such file): value 1"),
        (["--input", "bad.txt"], FAILURE, '--input bad.txt: value 3, "three"'),
        (["--input", "empty.txt"], FAILURE, "--input empty.txt: holds no number"),
        (["--input", "."], FAILURE, "--input .: is a folder"),
        (["--input", ",".join(["1"] * 17)], FAILURE, "17 points are 34 tokens, more than max_positions = 32 of icl-every-ssa"),
        (["--input", "1", "--checkpoint", 4], FAILURE, "step-4: no such checkpoint"),
        (["--input", "1", "--out", "bad.txt"], FAILURE, "--out bad.txt: "),
        ([], USAGE, "--input is required"),
    ],
)  # fmt: skip
def test_bad_input_is_named(ssa, run, arguments, code, message):
    folder = run()
    (ssa.folder / "bad.txt").write_text("1 2\nthree")
    (ssa.folder / "empty.txt").write_text("\n")
    before = sorted(ssa.folder.rglob("*"))
    out = [] if "--out" in arguments else ["--out", "maps"]
    assert message in ssa("attention", folder, *arguments, *out, code=code).stderr
    assert sorted(ssa.folder.rglob("*")) == before


def test_folders_that_do_not_fit(ssa, run):
    (ssa.folder / "empty").mkdir()
    rest = ["--input", "1", "--out", "maps"]
    assert "absent: no such folder" in ssa("attention", run(), "absent", *rest, code=FAILURE).stderr
    assert "empty: holds no run" in ssa("attention", "empty", *rest, code=FAILURE).stderr
    message = ssa("attention", "icl-every-ssa", run(task="icl-some"), *rest, code=FAILURE).stderr
    assert "icl-some-ssa: was trained on icl-some, but icl-every-ssa on icl-every" in message
    assert "--out is required" in ssa("attention", "icl-every-ssa", "--input", "1", code=USAGE).stderr
    assert not (ssa.folder / "maps").exists()
