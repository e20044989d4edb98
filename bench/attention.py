"""Times ssa_attention's kernels against what a user has without them, on the CPU.

    make bench                       # everything, after the kernel tests; writes bench/results.json
    python bench/attention.py --shapes 2x12x1024x64 --rounds 3

Every peer does the same work on the same tensors in this process. A round times each peer once
(torch.utils.benchmark, several calls where one is short), in a new order; the ratio to PyTorch's softmax
attention (SDPA) is taken within a round, and the median over rounds is shown with the least and largest.
Work is counted as 4·D operations per visible (query, key) pair of a head forward and 10·D backward; the
ceiling is a matrix product of the same type, timed in the same rounds. Decoding reads every key and value
once; its ceiling is a copy that reads and writes together as many bytes.

Beside times: peak memory of a pass (each in a process of its own), one thread against all, and times under
other instruction sets (in processes whose torch is restricted as far as its own switches go).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cuda_attention
import memory
import torch
from cases import KINDS, OURS, PEER, Case
from ssa_attention.files import write_text
from timing import measure, thread_ratios

SHAPES = "64x8x82x32,16x8x12x32,8x8x128x32,8x24x1024x32,2x12x1024x64,1x8x4096x64,1x8x4096x128"
SECTIONS = ("times", "memory", "threads", "targets")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# SSA_TARGET and what restricts torch, MKL and oneDNN likewise.
TARGETS = {
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "SSE4": {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}
# Ratios to PEER that the kernels were built for, by Case.name.
WANTED = {
    "64x8x82x32 causal float32 fwd": 0.33,
    "64x8x82x32 causal float32 fwd+bwd": 0.30,
    "8x8x128x32 causal float32 fwd": 0.33,
    "8x8x128x32 causal float32 fwd+bwd": 0.30,
    "8x24x1024x32 causal float32 fwd": 0.53,
    "8x24x1024x32 causal float32 fwd+bwd": 0.50,
    "2x12x1024x64 causal float32 fwd": 0.55,
    "2x12x1024x64 causal float32 fwd+bwd": 0.50,
    "1x8x4096x64 causal float32 fwd": 0.74,
    "1x8x4096x64 causal float32 fwd+bwd": 0.67,
    "16x8x12x32 causal float32 fwd": 0.60,
    "16x8x12x32 causal float32 fwd+bwd": 0.60,
    "1x8x4096x64 decode float32 fwd": 0.80,
    "8x8x4096x64 decode float32 fwd": 0.80,
    "2x12x1024x64 causal bfloat16 fwd": 0.34,
    "2x12x1024x64 causal bfloat16 fwd+bwd": 0.36,
    "1x8x4096x64 causal bfloat16 fwd": 0.42,
    "1x8x4096x64 causal bfloat16 fwd+bwd": 0.50,
    "1x8x4096x64 decode bfloat16 fwd": 0.80,
    "8x8x4096x64 decode bfloat16 fwd": 0.80,
}
TARGET_ARGUMENTS = ("--kinds", "causal", "--dtypes", "float32", "--peers", "fused", "--sections", "times")


def shape_of(text: str) -> tuple[int, ...]:
    shape = tuple(int(n) for n in text.split("x") if n.isdigit())
    if len(shape) != 4 or min(shape) < 1:
        raise SystemExit(f"--shapes {text}: expected BATCHxHEADSxLENGTHxDIM, such as 2x12x1024x64")
    return shape


def chosen(option: str, text: str, known) -> list[str]:
    for name in text.split(","):
        if name not in known:
            raise SystemExit(f"{option} {name}: choose from {', '.join(known)}")
    return text.split(",")


def product(arguments) -> list[Case]:
    """Every combination of what the command line names; decoding has no backward."""
    return [
        Case(shape_of(shape), kind, DTYPES[dtype], backward, arguments.peers)
        for shape in arguments.shapes.split(",")
        for kind in chosen("--kinds", arguments.kinds, KINDS)
        for dtype in chosen("--dtypes", arguments.dtypes, DTYPES)
        for backward in ((False,) if kind.startswith("decode") else (False, True))
    ]


def plan() -> list[Case]:
    """What `make bench` times within half an hour: every shape with causality, a short and a long one in every
    other way; plain PyTorch, which is slow, and torch.compile, which is slow to start, on some."""
    found = []
    for dtype in DTYPES.values():
        for text in SHAPES.split(","):
            shape = shape_of(text)
            of_shape = {"64x8x82x32": "all", "2x12x1024x64": "all", "1x8x4096x64": "eager"}.get(text, "fused")
            found += [Case(shape, "causal", dtype, backward, of_shape) for backward in (False, True)]
        for text in ("64x8x82x32", "2x12x1024x64"):
            for kind in ("full", "padded", "gqa", "dropout"):
                found += [Case(shape_of(text), kind, dtype, backward, "fused") for backward in (False, True)]
        found.append(Case((1, 32, 16384, 64), "causal", dtype, False, "fused"))
        for batch in (1, 8):
            found += [
                Case((batch, 8, length, 64), "decode", dtype, False, "fused") for length in (128, 1024, 4096, 8192)
            ]
        found.append(Case((1, 32, 4096, 64), "decode-gqa", dtype, False, "fused"))
    return found


def memory_cases(cases: list[Case]) -> list[Case]:
    """Both passes of the causal ones, and long forward passes."""
    return [c for c in cases if c.kind == "causal" and (c.backward or c.shape[2] >= 8192)]


def thread_cases(cases: list[Case]) -> list[Case]:
    return [c for c in cases if c.kind in ("causal", "decode") and c.shape[2] < 8192]


def target_table(results: list[dict]) -> str:
    """Of the cases that have a target: the median ratio of ours beside it."""
    lines = []
    for result in results:
        if result["name"] in WANTED:
            wanted, ratio = WANTED[result["name"]], result["peers"][OURS]["ratio"]
            lines.append(f"| {result['name']} | {wanted:.2f} | {ratio:.3f} | {'yes' if ratio <= wanted else 'no'} |")
    head = [f"| work | {OURS} to {PEER}: wanted | measured | met |", "|---|---|---|---|"]
    return "\n".join([*head, *lines, ""]) + "\n" if lines else ""


def time_table(results: list[dict]) -> str:
    lines = [
        f"| (batch, heads, length, dim), work | peer | ms | ratio to {PEER} | share of the ceiling |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        for name, row in result["peers"].items():
            ratio = f"{row['ratio']:.2f} ({row['ratio_least']:.2f}–{row['ratio_largest']:.2f})"
            share = f"{row['share']:.0%} of {result['ceiling']}"
            lines.append(f"| {result['name']} | {name} | {row['milliseconds']:.3g} | {ratio} | {share} |")
    return "\n".join(lines) + "\n"


def other_tables(report: dict) -> str:
    lines = []
    if report.get("memory"):
        lines += [
            "",
            f"| work | query, key, value, out MiB | {PEER}: peak above inputs | {OURS} |",
            "|---|---|---|---|",
        ]
        for row in report["memory"]:
            peaks = " | ".join(f"{row['peers'][name]:.1f}" for name in (PEER, OURS))
            lines.append(f"| {row['name']} | {row['inputs']:.1f} | {peaks} |")
    if report.get("threads"):
        lines += ["", f"| time of 1 thread / of all | {PEER} | {OURS} |", "|---|---|---|"]
        for row in report["threads"]:
            ratios = " | ".join(f"{row['peers'][name]:.2f}" for name in (PEER, OURS))
            lines.append(f"| {row['name']}, {row['threads']} threads | {ratios} |")
    for target, results in report.get("targets", {}).items():
        lines += ["", f"Restricted to {target}:", "", time_table(results).rstrip()]
    return "\n".join(lines) + "\n"


def under_target(target: str, arguments) -> list[dict]:
    """Times in a process that is restricted to an instruction set."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "results.json"
        command = [sys.executable, __file__, "--shapes", arguments.target_shapes, *TARGET_ARGUMENTS]
        command += ["--rounds", str(arguments.rounds), "--out", str(out)]
        environment = os.environ | TARGETS[target] | {"SSA_TARGET": target}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"under SSA_TARGET={target}: {done.stderr}")
        return json.loads(out.read_text())["results"]


def facts() -> dict:
    models = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), flags=re.MULTILINE)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "cpu": models[0] if models else platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "commit": commit,
        "load": Path("/proc/loadavg").read_text().split()[0],
        "random_seed": torch.initial_seed(),
    }


def facts_line(known: dict) -> str:
    return ", ".join(f"{name} {value}" for name, value in known.items())


def around_markers(page: Path) -> list[str]:
    """What stands before and after the lines that <!-- bench:begin --> and <!-- bench:end --> enclose."""
    parts = re.split(r"(?<=<!-- bench:begin -->\n)(?:.*\n)?(?=<!-- bench:end -->)", page.read_text(), flags=re.DOTALL)
    if len(parts) != 2:
        raise SystemExit(f"{page}: expected one pair of the lines <!-- bench:begin --> and <!-- bench:end -->")
    return parts


def write_between_markers(page: Path, text: str) -> None:
    write_text(page, text.join(around_markers(page)))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shapes", help="BATCHxHEADSxLENGTHxDIM, separated by commas; default: what make bench times")
    parser.add_argument("--kinds", default="causal,full,padded,gqa", help=f"with --shapes; from {','.join(KINDS)}")
    parser.add_argument("--dtypes", default="float32,bfloat16", help="with --shapes")
    parser.add_argument("--peers", default="all", choices=("fused", "eager", "all"), help="fused: SDPA and ours only")
    parser.add_argument(
        "--sections", help=f"tables to make, from {','.join(SECTIONS)}; default: all, with --shapes times"
    )
    parser.add_argument("--target-shapes", default="64x8x82x32,2x12x1024x64", help="timed under other instruction sets")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="cuda: bench/cuda_attention.py")
    parser.add_argument("--minutes", type=float, default=8, help="with cuda: after them nothing more is begun")
    parser.add_argument("--out", type=Path, default=Path("bench/results.json"))
    parser.add_argument("--markdown", type=Path, help="page that gets the tables between its bench markers")
    parser.add_argument(
        "--from", type=Path, dest="earlier", help="print the tables of an earlier run's JSON, time nothing"
    )
    arguments = parser.parse_args()
    if arguments.markdown is not None:
        around_markers(arguments.markdown)  # refuses before the work, not after it
    if arguments.rounds < 1:
        raise SystemExit(f"--rounds {arguments.rounds}: at least 1")
    return arguments


def show(report: dict, page: Path | None) -> None:
    facts = facts_line(report["facts"])
    tables = f"{target_table(report['results'])}{time_table(report['results'])}{other_tables(report)}"
    print(f"\n{facts}\n\n{tables}")
    if page is not None:
        write_between_markers(page, f"Measured on: {facts}\n\n{tables}")


def main() -> int:
    arguments = parse()
    if arguments.device == "cuda":
        return cuda_attention.main(arguments.rounds, arguments.minutes)
    if arguments.earlier is not None:
        show(json.loads(arguments.earlier.read_text()), arguments.markdown)
        return 0
    cases, sections = (plan(), SECTIONS) if arguments.shapes is None else (product(arguments), ("times",))
    if arguments.sections is not None:
        sections = chosen("--sections", arguments.sections, SECTIONS)
    torch.manual_seed(0)
    random.seed(0)
    start = time.monotonic()
    report = {"facts": facts(), "results": [], "memory": [], "threads": [], "targets": {}}

    def save():
        write_text(arguments.out, json.dumps(report, indent=1) + "\n")

    for case in cases if "times" in sections else []:
        report["results"].append(measure(case, arguments.rounds))
        print(time_table(report["results"][-1:]).split("\n", 2)[2], end="", flush=True)
        save()
    for case in memory_cases(cases) if "memory" in sections else []:
        peaks = {name: memory.peak(case, name) for name in (PEER, OURS)}
        report["memory"].append({"name": case.name, "inputs": memory.inputs(case), "peers": peaks})
    for case in thread_cases(cases) if "threads" in sections else []:
        report["threads"].append(thread_ratios(case, arguments.rounds))
    for target in TARGETS if "targets" in sections else []:
        report["targets"][target] = under_target(target, arguments)
    report["facts"]["seconds"] = round(time.monotonic() - start)
    save()
    show(report, arguments.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
