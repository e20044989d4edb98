"""Every config of the project runs, shrunk by --smoke."""

import json
import os
from pathlib import Path

import pytest

CONFIGS = sorted((Path(os.environ["SSA_SOURCE"]) / "configs").glob("*.toml"))


def test_there_are_configs():
    assert {"icl-every", "icl-some", "icl-linear"} <= {path.stem for path in CONFIGS}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_config_runs(ssa, config, data_for):
    data_for(config)
    # 1024 tokens of 114 M parameters take too long here.
    flags = ["--length", 32] if 'name = "lm"' in config.read_text() else []
    ssa("train", config, "--smoke", "--threads", 1, *flags)
    run = ssa.folder / "runs" / config.stem
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2]
    assert (run / "checkpoints/step-2/model.safetensors").is_file()


@pytest.mark.parametrize("task", ["every", "some", "linear"])
def test_paper_configs_hold_the_papers_settings(ssa, task):
    """The settings of arXiv 2508.14685 as far as they are known."""
    config = next(path for path in CONFIGS if path.stem == f"icl-{task}")
    ssa("train", config, "--out", "run", "--stop-at", 1, "--batch", 1, "--eval-batches", 0)
    values = json.loads((ssa.folder / "run/run.json").read_text())["config"]
    assert values["task"]["name"] == f"icl-{task}"
    model, train = values["model"], values["train"]
    assert (model["layers"], model["heads"], model["width"], model["dropout"]) == (12, 8, 256, 0)
    assert (model["positions"], model["max_positions"], model["norm"], model["mlp"]) == ("learned", 512, "layer", True)
    assert (train["optimizer"], train["learning_rate"], train["schedule"]) == ("adam", 1e-4, "constant")
    assert (train["steps"], train["weight_decay"], train["clip"]) == (500_001, 0, 0)
    curriculum = {key: value for key, value in values["task"].items() if key.startswith("points")}
    assert curriculum == {"points_start": 11, "points_end": 41, "points_step": 2, "points_interval": 2000}
    assert "batch = 64" in config.read_text()
