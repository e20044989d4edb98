"""Training on other devices than the CPU: what can be shown without one."""

import json
import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)
LIBRARY = Path(os.environ["SSA_BINARY"]).parents[1] / "lib/libmeta_step.so"


def without_gradient(ssa, monkeypatch, config, **changes):
    """Takes the first step of the config on the device "meta"; which parameters have got no gradient."""
    torch.ops.load_library(str(LIBRARY))
    monkeypatch.chdir(ssa.folder)
    lines = config.splitlines()
    for name, value in changes.items():
        section, key = name.split("__")
        lines.insert(lines.index(f"[{section}]") + 1, f"{key} = {json.dumps(value)}")
    Path("meta.toml").write_text("\n".join(lines))
    return torch.ops.ssa_meta_step.meta_step("meta.toml")


@pytest.mark.parametrize("score", ["ssa", "cosformer", "entmax", "ssmax"])
def test_numbers(ssa, tiny, monkeypatch, score):
    changes = {"model__score": score, "model__dropout": 0.0 if score == "cosformer" else 0.1}
    assert without_gradient(ssa, monkeypatch, tiny.read_text(), **changes) == []


@pytest.mark.parametrize("recompute", [False, True])
def test_masked_language(masked, monkeypatch, recompute):
    ssa = masked(["the dog likes the cats .", "ring a ring o' roses"])
    config = (ssa.folder / "config.toml").read_text()
    assert without_gradient(ssa, monkeypatch, config, train__recompute=recompute, model__dropout=0.1) == []


@pytest.mark.parametrize("documents", ["apart", "across"])
@pytest.mark.parametrize("preset", ["nemotron-tiny", "gpt2-tiny", "llama-tiny"])
def test_language(language, monkeypatch, preset, documents):
    ssa = language([f"{i} the dog the cat " * 8 for i in range(40)])
    config = (ssa.folder / "config.toml").read_text().replace("nemotron-tiny", preset)
    changes = {"task__documents": documents, "train__optimizer": "muon", "model__dropout": 0.1}
    assert without_gradient(ssa, monkeypatch, config, **changes) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is there")
def test_a_device_that_is_not_there_is_one_line(ssa, tiny):
    def refusal(*arguments):
        return ssa(*arguments, code=1).stderr

    error = refusal("train", tiny, "--out", "run", "--device", "cuda")
    assert error.startswith('ssa: train.device = "cuda": torch ') and error.endswith("; there is: cpu\n")
    assert not (ssa.folder / "run").exists()
    ssa("train", tiny, "--out", "run", "--stop-at", 2, "--quiet")
    for command in (["eval", "run"], ["attention", "run", "--input", "1,2", "--out", "maps"]):
        assert refusal(*command, "--device", "cuda:1").startswith('ssa: --device = "cuda:1": torch ')
    assert 'train.device = "tpu": expected cpu, cuda or cuda:N' in refusal("train", tiny, "--device", "tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is there")
def test_a_run_goes_on_on_another_device(ssa, tiny):
    ssa("train", tiny, "--out", "run", "--stop-at", 2, "--quiet")
    file = ssa.folder / "run/run.json"
    record = json.loads(file.read_text())
    record["config"]["train"]["device"] = "cuda"
    file.write_text(json.dumps(record))
    assert 'train.device = "cuda": ' in ssa("train", "--out", "run", "--resume", code=1).stderr
    ssa("train", "--out", "run", "--resume", "--device", "cpu", "--quiet")
    assert json.loads(file.read_text())["config"]["train"]["device"] == "cpu"
