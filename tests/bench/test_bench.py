"""bench/attention.py runs, counts its work right and refuses what it cannot do."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(os.environ["SSA_SOURCE"]) / "bench/attention.py"


def run(*arguments):
    command = [sys.executable, SCRIPT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_small_run_prints_and_writes_every_case(tmp_path):
    out = tmp_path / "results.json"
    done = run(
        "--shapes", "1x4x20x8", "--dtypes", "float32", "--peers", "eager", "--rounds", 2, "--out", out
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())["results"]
    assert [r["name"] for r in results] == [
        f"1x4x20x8 {kind} float32 {work}" for kind in ("causal", "full", "padded", "gqa") for work in ("fwd", "fwd+bwd")
    ]
    for result in results:
        assert result["peers"]["SDPA softmax"]["ratio"] == 1
        assert set(result["peers"]) == {"SDPA softmax", "ours ssa", "ours softmax", "SDPA math", "eager SSA"}
        for name, row in result["peers"].items():
            assert 0 < row["ratio_least"] <= row["ratio"] <= row["ratio_largest"], name
            assert f"| {result['name']} | {name} | " in done.stdout


def test_the_peers_do_the_same_work():
    spec = importlib.util.spec_from_file_location("bench_attention", SCRIPT)
    bench = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = bench  # dataclasses look their module up
    spec.loader.exec_module(bench)
    for kind in ("causal", "full", "padded", "gqa"):
        problem = bench.Problem(bench.Case((2, 4, 30, 8), kind, torch.float32, False))
        torch.testing.assert_close(bench.ours(problem), bench.eager_ssa(problem))
        torch.testing.assert_close(bench.ours(problem, "softmax"), bench.sdpa(problem))
        torch.testing.assert_close(bench.sdpa_math(problem), bench.sdpa(problem))
    causal = bench.Problem(bench.Case((2, 4, 3, 8), "causal", torch.float32, True))
    assert causal.operations() == 2 * 4 * 6 * 8 * 14


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--shapes", "2x3x4"), "--shapes 2x3x4: expected BATCHxHEADSxLENGTHxDIM"),
        (("--shapes", "1x1x4x4", "--kinds", "some"), "--kinds some: causal, full, padded or gqa"),
        (("--shapes", "1x1x4x4", "--dtypes", "int8"), "--dtypes int8: float32 or bfloat16"),
        (("--rounds", 0), "--rounds 0: at least 1"),
    ],
)
def test_refusals(arguments, message):
    done = run(*arguments)
    assert done.returncode != 0 and message in done.stderr and "Traceback" not in done.stderr
