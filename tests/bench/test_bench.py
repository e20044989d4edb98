"""bench/attention.py runs, counts its work right and refuses what it cannot do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(os.environ["SSA_SOURCE"]) / "bench/attention.py"
sys.path.insert(0, str(SCRIPT.parent))
import attention
import cases
import memory


def run(*arguments):
    command = [sys.executable, SCRIPT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_small_run_prints_and_writes_every_case(tmp_path):
    out = tmp_path / "results.json"
    done = run(
        "--shapes", "1x4x20x8", "--kinds", ",".join(cases.KINDS), "--dtypes", "float32", "--peers", "eager",
        "--rounds", 2, "--sections", "times", "--out", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())["results"]
    both = [(kind, work) for kind in ("causal", "full", "padded", "gqa", "dropout") for work in ("fwd", "fwd+bwd")]
    assert [r["name"] for r in results] == [
        f"1x4x20x8 {kind} float32 {work}" for kind, work in [*both, ("decode", "fwd"), ("decode-gqa", "fwd")]
    ]
    for result in results:
        assert result["peers"]["SDPA softmax"]["ratio"] == 1
        assert set(result["peers"]) == {"SDPA softmax", "ours ssa", "ours softmax", "SDPA math", "eager SSA"}
        assert result["ceiling"] == ("copy" if "decode" in result["name"] else "GEMM")
        for name, row in result["peers"].items():
            assert 0 < row["ratio_least"] <= row["ratio"] <= row["ratio_largest"], name
            assert row["share"] > 0
            assert f"| {result['name']} | {name} | " in done.stdout


def test_the_tables_go_between_the_markers_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    arguments = ("--shapes", "1x1x6x8", "--kinds", "causal", "--dtypes", "float32", "--peers", "fused", "--rounds", 1)
    for before in ("", "what an earlier run wrote\nin two lines\n"):
        page.write_text(f"# Speed\n<!-- bench:begin -->\n{before}<!-- bench:end -->\nThe end.\n")
        done = run(*arguments, "--out", tmp_path / "results.json", "--markdown", page)
        assert done.returncode == 0, done.stderr
        text = page.read_text()
        assert text.startswith("# Speed\n<!-- bench:begin -->\nMeasured on: cpu ")
        assert text.endswith("<!-- bench:end -->\nThe end.\n")
        assert "| 1x1x6x8 causal float32 fwd | SDPA softmax | " in text and "earlier run" not in text
    page.write_text("# Speed\n")
    done = run(*arguments, "--out", tmp_path / "other.json", "--markdown", page)
    assert done.returncode != 0 and "expected one pair of the lines <!-- bench:begin -->" in done.stderr
    assert page.read_text() == "# Speed\n" and not (tmp_path / "other.json").exists()


def test_memory_threads_and_targets(tmp_path):
    out = tmp_path / "results.json"
    done = run(
        "--shapes", "1x2x20x8", "--kinds", "causal,decode", "--dtypes", "bfloat16", "--peers", "fused", "--rounds", 1,
        "--sections", "memory,threads,targets", "--target-shapes", "1x1x6x8", "--out", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    assert report["results"] == []
    assert [row["name"] for row in report["memory"]] == ["1x2x20x8 causal bfloat16 fwd+bwd"]
    assert [row["name"] for row in report["threads"]] == [
        "1x2x20x8 causal bfloat16 fwd", "1x2x20x8 causal bfloat16 fwd+bwd", "1x2x20x8 decode bfloat16 fwd"
    ]  # fmt: skip
    for row in report["memory"] + report["threads"]:
        assert set(row["peers"]) == {"SDPA softmax", "ours ssa"}
    assert set(report["targets"]) == set(attention.TARGETS)
    for target, results in report["targets"].items():
        assert [r["name"] for r in results] == ["1x1x6x8 causal float32 fwd", "1x1x6x8 causal float32 fwd+bwd"]
        assert f"Restricted to {target}:" in done.stdout


def test_memory_is_that_of_the_pass():
    """Plain PyTorch holds length × length tensors, the kernels do not."""
    case = cases.Case((1, 2, 1500, 8), "causal", torch.float32, True, "eager")
    scores = 2 * 1500**2 * 4 / memory.MEBIBYTE
    assert memory.inputs(case) == 4 * 2 * 1500 * 8 * 4 / memory.MEBIBYTE
    assert memory.peak(case, "eager SSA") > 2 * scores
    assert memory.peak(case, "ours ssa") < scores / 2


def test_the_peers_do_the_same_work():
    for kind in ("causal", "full", "padded", "gqa", "decode", "decode-gqa"):
        problem = cases.Problem(cases.Case((2, 4, 30, 8), kind, torch.float32, False))
        torch.testing.assert_close(cases.ours(problem), cases.eager_ssa(problem))
        torch.testing.assert_close(cases.ours(problem, "softmax"), cases.sdpa(problem))
        torch.testing.assert_close(cases.sdpa_math(problem), cases.sdpa(problem))
    causal = cases.Problem(cases.Case((2, 4, 3, 8), "causal", torch.float32, True))
    assert causal.operations() == 2 * 4 * 6 * 8 * 14
    decode = cases.Problem(cases.Case((2, 4, 30, 8), "decode-gqa", torch.bfloat16, False))
    assert decode.operations() == 2 * 4 * 30 * 8 * 4
    assert decode.key_bytes() == 2 * (2 * 30 * 8) * 2


def test_dropout_drops():
    for function in (cases.ours, cases.sdpa, cases.eager_ssa):
        problem = cases.Problem(cases.Case((1, 2, 30, 8), "dropout", torch.float32, False))
        assert not torch.equal(function(problem), function(problem))


def test_what_make_bench_times():
    plan = attention.plan()
    assert len({(case.name, case.peers) for case in plan}) == len(plan)
    names = {case.name for case in plan}
    for dtype in ("float32", "bfloat16"):
        assert f"1x32x16384x64 causal {dtype} fwd" in names
        assert f"16x8x12x32 causal {dtype} fwd+bwd" in names
        for batch in (1, 8):
            assert {f"{batch}x8x{keys}x64 decode {dtype} fwd" for keys in (128, 1024, 4096, 8192)} <= names
    # Plain PyTorch would hold 32 GiB of scores.
    assert all(case.peers == "fused" for case in plan if case.shape[2] > 4096)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--shapes", "2x3x4"), "--shapes 2x3x4: expected BATCHxHEADSxLENGTHxDIM"),
        (("--shapes", "2x3x4x0"), "--shapes 2x3x4x0: expected BATCHxHEADSxLENGTHxDIM"),
        (("--shapes", "1x1x4x4", "--kinds", "some"), "--kinds some: choose from causal, full, padded, gqa"),
        (("--shapes", "1x1x4x4", "--dtypes", "int8"), "--dtypes int8: choose from float32, bfloat16"),
        (("--sections", "all"), "--sections all: choose from times, memory, threads, targets"),
        (("--rounds", 0), "--rounds 0: at least 1"),
    ],
)
def test_refusals(arguments, message):
    done = run(*arguments)
    assert done.returncode != 0 and message in done.stderr and "Traceback" not in done.stderr


def test_builds_are_compared_with_the_first(tmp_path):
    build = Path(os.environ["PYTHONPATH"].split(os.pathsep)[0])
    command = [sys.executable, SCRIPT.parent / "builds.py", "--shapes", "1x2x20x8", "--rounds", "1"]
    done = subprocess.run([*command, build, build], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"| work | {build} | {build} |" and len(lines) == 2 + 4
    for line in lines[2:]:
        assert line.startswith("| 1x2x20x8 causal ") and "(1.00) | " in line
    done = subprocess.run([*command, build, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and f"{tmp_path}: has no folder ssa_attention" in done.stderr
