"""Times ssa_attention's kernels against what a user has without them, on the CPU.

    make bench                       # everything, after the kernel tests; writes bench/results.json
    python bench/attention.py --shapes 2x12x1024x64 --rounds 3

Every peer does the same work on the same tensors in this process. A round times each peer once
(torch.utils.benchmark, several calls where one is short), in a new order; the ratio to PyTorch's softmax
attention (SDPA) is taken within a round, and the median over rounds is shown with the least and largest.
Work is counted as 4·D operations per visible (query, key) pair of a head forward and 10·D backward; the
ceiling is a matrix product of the same type, timed in the same rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import re
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import ssa_attention
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.benchmark import Timer

FULL = "64x8x82x32,16x8x12x32,8x8x128x32,8x24x1024x32,2x12x1024x64,1x8x4096x64,1x8x4096x128"
PEER = "SDPA softmax"
SLOW_ROUNDS = 3  # of peers that take more than a second a round: eager SSA takes 7 s at length 4096


@dataclass(frozen=True)
class Case:
    """What is attended to: causal, full, padded (key lengths between half and all), or GQA (causal, a quarter
    of the heads for keys and values)."""

    shape: tuple[int, int, int, int]  # batch, query heads, length, head dimension
    kind: str
    dtype: torch.dtype
    backward: bool

    @property
    def name(self) -> str:
        size = "x".join(map(str, self.shape))
        return f"{size} {self.kind} {str(self.dtype)[6:]} {'fwd+bwd' if self.backward else 'fwd'}"


class Problem:
    def __init__(self, case: Case):
        generator = torch.Generator().manual_seed(0)
        batch, heads, length, dim = case.shape
        kv_heads = max(1, heads // 4) if case.kind == "gqa" else heads

        def normal(count):  # as a projection gives it: heads inside of length
            flat = torch.randn(batch, length, count, dim, generator=generator, dtype=torch.float32)
            return flat.to(case.dtype).transpose(1, 2).requires_grad_(case.backward)

        self.case = case
        self.query, self.key, self.value = normal(heads), normal(kv_heads), normal(kv_heads)
        self.d_out = torch.randn(batch, heads, length, dim, generator=generator).to(case.dtype)
        self.causal = case.kind in ("causal", "gqa")
        self.key_lengths = self.mask = None
        if case.kind == "padded":
            self.key_lengths = torch.linspace(length // 2, length, batch).long()
            self.mask = (torch.arange(length) < self.key_lengths.view(-1, 1)).view(batch, 1, 1, length)
        self.n, self.b = torch.full((heads,), 1.5), torch.full((heads,), 0.8)
        if case.backward:
            self.n.requires_grad_()
            self.b.requires_grad_()

    def pairs(self) -> float:
        """Visible (query, key) pairs of all heads."""
        batch, heads, length, _ = self.case.shape
        if self.causal:
            return batch * heads * length * (length + 1) / 2
        keys = batch * length if self.key_lengths is None else int(self.key_lengths.sum())
        return heads * length * keys

    def operations(self) -> float:
        return self.pairs() * self.case.shape[3] * (14 if self.case.backward else 4)

    def run(self, function) -> None:
        """One forward pass, and the gradients of everything."""
        if not self.case.backward:
            with torch.no_grad():
                function(self)
            return
        leaves = (self.query, self.key, self.value, self.n, self.b)
        out = function(self)
        torch.autograd.grad(out, leaves, self.d_out, allow_unused=True)


def ours(p: Problem, score: str = "ssa"):
    params = [p.n, p.b] if score == "ssa" else []
    return ssa_attention.attention(
        p.query, p.key, p.value, score=score, params=params, causal=p.causal, key_lengths=p.key_lengths
    )


def sdpa(p: Problem):
    gqa = p.query.shape[1] != p.key.shape[1]
    return scaled_dot_product_attention(p.query, p.key, p.value, attn_mask=p.mask, is_causal=p.causal, enable_gqa=gqa)


def sdpa_math(p: Problem):
    with sdpa_kernel(SDPBackend.MATH):
        return sdpa(p)


def eager_ssa(p: Problem):
    """What the formula says, in plain PyTorch."""
    group = p.query.shape[1] // p.key.shape[1]
    key, value = p.key.repeat_interleave(group, 1), p.value.repeat_interleave(group, 1)
    scores = (p.query @ key.transpose(2, 3)).float() * p.query.shape[3] ** -0.5
    phi = scores.sign() * p.n.view(-1, 1, 1) * torch.log1p(p.b.view(-1, 1, 1) * scores.abs())
    if p.causal:
        hidden = torch.ones(phi.shape[2:], dtype=torch.bool).triu(1)
        phi = phi.masked_fill(hidden, -math.inf)
    if p.mask is not None:
        phi = phi.masked_fill(~p.mask, -math.inf)
    return torch.softmax(phi, -1).to(value.dtype) @ value


def compiled(function):
    whole = torch.compile(function, dynamic=False)
    return lambda p: whole(p)


def flex_ssa():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    whole = torch.compile(flex_attention, dynamic=False)
    masks = {}

    def call(p: Problem):
        def phi(score, batch, head, query, key):
            return torch.sign(score) * 1.5 * torch.log1p(0.8 * torch.abs(score))

        mask = None
        if p.causal:
            length = p.query.shape[2]
            if length not in masks:
                masks[length] = create_block_mask(lambda b, h, q, k: q >= k, None, None, length, length, "cpu")
            mask = masks[length]
        return whole(p.query, p.key, p.value, score_mod=phi, block_mask=mask)

    return call


def peers(case: Case, chosen: str) -> dict:
    found = {PEER: sdpa, "ours ssa": ours, "ours softmax": lambda p: ours(p, "softmax")}
    if chosen != "fused":
        found |= {"SDPA math": sdpa_math, "eager SSA": eager_ssa}
    if chosen == "all":
        found["torch.compile of eager SSA"] = compiled(eager_ssa)
        if case.kind in ("causal", "full") and not case.backward:  # FlexAttention has no backward on the CPU
            found["FlexAttention SSA"] = flex_ssa()
    return found


def gemm_rate(dtype: torch.dtype) -> float:
    """Operations a second of a large matrix product."""
    a, b = (torch.randn(2048, 2048).to(dtype) for _ in range(2))
    return 2 * 2048**3 / Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads()).timeit(3).median


def measure(case: Case, chosen: str, rounds: int) -> dict:
    problem = Problem(case)
    timers = {}
    for name, function in peers(case, chosen).items():
        problem.run(function)  # compiles, and fills caches
        timers[name] = Timer(
            "problem.run(function)",
            globals={"problem": problem, "function": function},
            num_threads=torch.get_num_threads(),
        )
    once = timers[PEER].timeit(1).median
    calls = max(1, round(0.1 / once))  # a tenth of a second of SDPA's
    times: dict[str, list[float]] = {name: [] for name in timers}
    rates = []
    for count in range(rounds):
        for name in random.sample(list(timers), len(timers)):
            if count >= SLOW_ROUNDS and times[name][0] * calls > 1:
                continue
            times[name].append(timers[name].timeit(calls).median)
        rates.append(gemm_rate(case.dtype))
    ceiling = statistics.median(rates)
    rows = {}
    for name, each in times.items():
        ratios = [mine / theirs for mine, theirs in zip(each, times[PEER], strict=False)]
        rows[name] = {
            "milliseconds": 1e3 * statistics.median(each),
            "ratio": statistics.median(ratios),
            "ratio_least": min(ratios),
            "ratio_largest": max(ratios),
            "share_of_gemm": problem.operations() / statistics.median(each) / ceiling,
        }
    facts = asdict(case) | {"dtype": str(case.dtype)[6:], "name": case.name, "rounds": rounds, "calls": calls}
    return facts | {"gemm_gflops": ceiling / 1e9, "peers": rows}


def table(results: list[dict]) -> str:
    lines = [
        f"| (batch, heads, length, dim), work | peer | ms | ratio to {PEER} | share of GEMM |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        for name, row in result["peers"].items():
            ratio = f"{row['ratio']:.2f} ({row['ratio_least']:.2f}–{row['ratio_largest']:.2f})"
            lines.append(
                f"| {result['name']} | {name} | {row['milliseconds']:.2f} | {ratio} | {row['share_of_gemm']:.0%} |"
            )
    return "\n".join(lines) + "\n"


def cases(arguments) -> list[Case]:
    found = []
    for text in arguments.shapes.split(","):
        shape = tuple(int(n) for n in text.split("x"))
        if len(shape) != 4:
            raise SystemExit(f"--shapes {text}: expected BATCHxHEADSxLENGTHxDIM, such as 2x12x1024x64")
        for kind in arguments.kinds.split(","):
            if kind not in ("causal", "full", "padded", "gqa"):
                raise SystemExit(f"--kinds {kind}: causal, full, padded or gqa")
            for dtype in arguments.dtypes.split(","):
                if dtype not in ("float32", "bfloat16"):
                    raise SystemExit(f"--dtypes {dtype}: float32 or bfloat16")
                for backward in (False, True):
                    found.append(Case(shape, kind, getattr(torch, dtype), backward))
    return found


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
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shapes", default=FULL, help="BATCHxHEADSxLENGTHxDIM, separated by commas")
    parser.add_argument("--kinds", default="causal,full,padded,gqa")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--peers", default="all", choices=("fused", "eager", "all"), help="fused: SDPA and ours only")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("bench/results.json"))
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        raise SystemExit(f"--rounds {arguments.rounds}: at least 1")
    torch.manual_seed(0)
    results = []
    for case in cases(arguments):
        results.append(measure(case, arguments.peers, arguments.rounds))
        print(table(results[-1:]).split("\n", 2)[2], end="", flush=True)
        partial = arguments.out.with_name(arguments.out.name + ".partial")
        partial.write_text(json.dumps({"facts": facts(), "results": results}, indent=1) + "\n")
        partial.replace(arguments.out)
    print(f"\n{facts()}\n\n{table(results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
