"""A training run from outside: its folder, its words, its metrics."""

import json
import re

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_run_folder_holds_what_is_documented(ssa, tiny):
    ssa("train", tiny, "--out", "run")
    run = ssa.folder / "run"
    assert {p.name for p in run.iterdir()} == {
        "run.json",
        "metrics.jsonl",
        "log.txt",
        "status.json",
        "checkpoints",
        "evals",
    }
    record = json.loads((run / "run.json").read_text())
    keys = ["schema", "name", "version", "git", "target", "torch", "score", "parameters", "processes", "created"]
    assert list(record) == [*keys, "config", "data"]
    assert (record["schema"], record["name"], record["score"]) == (1, "run", "ssa")
    weights = load_file(run / "checkpoints/step-6/model.safetensors")
    assert record["parameters"] == sum(w.size for w in weights.values())
    assert {p.name for p in (run / "checkpoints").iterdir()} == {"step-3", "step-6"}
    assert {p.name for p in (run / "checkpoints/step-6").iterdir()} == {"model.safetensors", "trainer.safetensors"}


def test_metrics_lines_hold_what_is_documented(ssa, tiny):
    ssa("train", tiny, "--out", "run", "--log-interval", 2, "--warmup-steps", 4)
    lines = metrics(ssa.folder / "run")
    assert [(line["step"], "validation" in line) for line in lines] == [
        (2, False), (3, True), (4, False), (6, False), (6, True)]  # fmt: skip
    training = [line for line in lines if "validation" not in line]
    assert all(
        list(line) == ["step", "loss", "learning_rate", "gradient_norm", "seconds", "tokens_per_second",
                       "progress", "score_parameters"] for line in training)  # fmt: skip
    assert [line["learning_rate"] for line in training] == [5e-4, 1e-3, 1e-3]
    assert [line["progress"]["points"] for line in training] == [3, 3, 4]
    assert all(line["loss"] > 0 and line["gradient_norm"] > 0 and line["tokens_per_second"] > 0 for line in training)
    for layer in training[-1]["score_parameters"]:
        assert list(layer) == ["n", "b"]
        assert all(low <= mean <= high for low, mean, high in layer.values())
        assert 1.4 < layer["n"][1] < 1.6 and 0.7 < layer["b"][1] < 0.9
    assert len(training[-1]["score_parameters"]) == 2
    validation = lines[-1]["validation"]
    assert validation["loss"] > 0 and 0 <= validation["wrong"] <= 1


@pytest.mark.parametrize("score, kernel", [("ssa", "fused"), ("softmax", "fused"), ("softcap", "composed")])
def test_log_begins_with_score_and_path_that_ran(ssa, tiny, score, kernel):
    done = ssa("train", tiny, "--out", "run", "--score", score, "--score-kernel", kernel)
    lines = (ssa.folder / "run/log.txt").read_text().splitlines()
    assert re.match(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d  score {score}: phi\(s\) = ", lines[0])
    assert re.search(rf"  attention ran on the {kernel} path", lines[1])
    assert [line.split("  ", 1)[1] for line in lines] == done.stdout.splitlines()


def test_pipes_get_no_control_characters(ssa, tiny):
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", ssa("train", tiny, "--out", "run").stdout)


def test_terminals_get_a_bar(ssa, tiny):
    shown = ssa.on_terminal("train", tiny, "--out", "run", stream="stdout")
    assert re.search(rb"\r\x1b\[K\[#{30}\] 6/6  loss ", shown)
    assert b"\x1b" not in (ssa.folder / "run/log.txt").read_bytes()


def test_quiet_says_nothing(ssa, tiny):
    done = ssa("train", tiny, "--out", "run", "--quiet")
    assert done.stdout == done.stderr == ""
    assert "finished" in (ssa.folder / "run/log.txt").read_text()


def test_checkpoints_are_read_by_the_safetensors_library(ssa, tiny):
    ssa("train", tiny, "--out", "run")
    folder = ssa.folder / "run/checkpoints/step-6"
    with safe_open(folder / "model.safetensors", "np") as weights:
        assert weights.metadata()["format"] == "pt"
        identity = weights.metadata()["checkpoint_id"]
        names = list(weights.keys())
        assert all(np.isfinite(weights.get_tensor(name)).all() for name in names)
    assert "h.0.attn.c_attn.weight" in names and "h.1.attn.score_n" in names
    with safe_open(folder / "trainer.safetensors", "np") as trainer:
        assert trainer.metadata()["step"] == "6" and trainer.metadata()["checkpoint_id"] == identity
        moments = [name for name in list(trainer.keys()) if name.startswith("second_moment.")]
        assert moments and all((trainer.get_tensor(name) >= 0).all() for name in moments)


def test_only_the_newest_checkpoints_stay(ssa, tiny):
    ssa("train", tiny, "--out", "run", "--checkpoint-interval", 1, "--keep-checkpoints", 2)
    assert {p.name for p in (ssa.folder / "run/checkpoints").iterdir()} == {"step-5", "step-6"}


def test_intervals_of_zero_mean_only_at_the_end(ssa, tiny):
    ssa("train", tiny, "--out", "run", "--eval-interval", 0, "--checkpoint-interval", 0)
    assert [line["step"] for line in metrics(ssa.folder / "run") if "validation" in line] == [6]
    assert [p.name for p in (ssa.folder / "run/checkpoints").iterdir()] == ["step-6"]


def test_same_seed_same_bytes_other_seed_other_bytes(ssa, tiny):
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        ssa("train", tiny, "--out", name, "--seed", seed)
    a, b, c = [(ssa.folder / name / "checkpoints/step-6/model.safetensors").read_bytes() for name in "abc"]
    assert a == b != c


def test_accumulation_averages(ssa, tiny):
    """Two batches of 4 for one step: the loss is the mean of two losses, not their sum."""
    ssa("train", tiny, "--out", "run", "--accumulation", 2)
    assert 0.5 < metrics(ssa.folder / "run")[0]["loss"] < 1.0, "binary cross-entropy begins near log 2"


def test_frozen_parameters_stay(ssa, tiny):
    ssa("train", tiny, "--out", "run", "--score-frozen", "b", "--learning-rate", 0.1)
    last = [line for line in metrics(ssa.folder / "run") if "loss" in line][-1]
    for layer in last["score_parameters"]:
        assert layer["b"] == pytest.approx([0.8, 0.8, 0.8], rel=1e-6)
        assert layer["n"][0] != pytest.approx(1.5, rel=1e-3)


@pytest.mark.parametrize(
    "score, parametrisation, where",
    [
        ("softmax", "softplus", r"loss \S*nan, .*; first not finite: attention weights of layer [01]"),
        ("ssa", "softplus", r"loss \S*nan, .*; first not finite: .*"),
        ("ssa", "raw", r".*; out of range: layer \d+: [nb] = \S+, which must be finite and > 0"),
        ("sigmoid", "raw", r"loss \S*nan, .*; first not finite: .*"),
    ],
)
def test_divergence_stops_the_run_and_keeps_the_last_good_checkpoint(ssa, tiny, score, parametrisation, where):
    huge = ["--learning-rate", 1e30, "--checkpoint-interval", 1, "--score", score]
    huge += ["--parametrisation", parametrisation]
    error = ssa("train", tiny, "--out", "run", *huge, code=1).stderr
    stop = re.fullmatch(
        rf"ssa: run: stopped in step (\d+) at learning rate 1e\+30: {where}; "
        r"last good checkpoint: run/checkpoints/step-(?P<kept>\d+)\n",
        error,
    )
    assert stop, error
    assert int(stop["kept"]) == int(stop[1]) - 1
    weights = load_file(ssa.folder / f"run/checkpoints/step-{stop['kept']}/model.safetensors")
    assert all(np.isfinite(value).all() for value in weights.values())
