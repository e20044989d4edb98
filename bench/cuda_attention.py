"""Times ssa_attention's Triton kernels on a CUDA device: what bench/attention.py --device cuda runs.

Peers: PyTorch's softmax attention (SDPA with its flash backend), FlexAttention with SSA as a score_mod, compiled (its
parameters fixed: a trained scalar inside a score_mod fails), and the composed path. Ours has the gradients of its
parameters too. Times are CUDA events; a round times every peer once, in a new order; ratios to SDPA are taken within a
round. What matters most comes first, and nothing begins after the minutes that are given: rows are printed as they come.
"""

from __future__ import annotations

import random
import statistics
import time

import formula
import ssa_attention
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

SHAPES = ((4, 16, 4096, 64), (4, 16, 4096, 128), (8, 12, 1024, 64))
WANTED = {"SDPA flash softmax": 1.25, "FlexAttention SSA": 0.5}  # ours to theirs, forward and backward, bfloat16


def peers(heads: int):
    """Each as its function and the parameters that it trains."""
    n = torch.full((heads,), 1.5, device="cuda", requires_grad=True)
    b = torch.full((heads,), 0.8, device="cuda", requires_grad=True)

    def softmax(query, key, value):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return scaled_dot_product_attention(query, key, value, is_causal=True)

    def ours(kernel, score="ssa"):
        params = {"n": n, "b": b} if score == "ssa" else {}

        def run(query, key, value):
            return ssa_attention.attention(query, key, value, score=score, causal=True, kernel=kernel, **params)

        return run, list(params.values())

    fixed_n, fixed_b = n.detach(), b.detach()

    def score_mod(score, batch, head, row, column):
        return formula.phi(score, fixed_n[head], fixed_b[head])

    return {
        "SDPA flash softmax": (softmax, []),
        "ours ssa": ours("fused"),
        "ours softmax": ours("fused", "softmax"),
        "FlexAttention SSA": (formula.flex(score_mod, "cuda"), []),
        "composed SSA": ours("composed"),
    }


def milliseconds(run, calls: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(calls):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / calls


def measure(shape: tuple[int, ...], dtype: torch.dtype, backward: bool, rounds: int) -> dict[str, list[float]]:
    query, key, value = (torch.randn(shape, device="cuda", dtype=dtype, requires_grad=backward) for _ in range(3))
    d_out = torch.randn_like(query)
    runs = {}
    for name, (function, params) in peers(shape[1]).items():

        def run(function=function, params=params):
            with torch.set_grad_enabled(backward):
                out = function(query, key, value)
            if backward:
                torch.autograd.grad(out, (query, key, value, *params), d_out)

        try:
            run()  # compiles
        except Exception as error:  # noqa: BLE001  (whatever a peer fails with, the others are timed)
            print(f"{name} cannot run {shape}: {str(error).splitlines()[0]}")
            continue
        runs[name] = run
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name in random.sample(list(runs), len(runs)):
            times[name].append(milliseconds(runs[name], 3 if name.startswith("composed") else 10))
    return times


def main(rounds: int, minutes: float) -> int:
    if not torch.cuda.is_available():
        raise SystemExit("--device cuda: torch sees no CUDA device; nothing was measured")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, TF32 {torch.backends.cuda.matmul.allow_tf32}\n")
    print("| (batch, heads, length, dim), causal | peer | ms | ratio to SDPA (least–largest) |\n|---|---|---|---|")
    end = time.monotonic() + 60 * minutes
    verdicts = []
    for dtype, backward in ((torch.bfloat16, True), (torch.bfloat16, False), (torch.float16, True)):
        for shape in SHAPES:
            work = f"{'x'.join(map(str, shape))} {str(dtype)[6:]} {'fwd+bwd' if backward else 'fwd'}"
            if time.monotonic() > end:
                verdicts.append(f"{work}: not measured, {minutes:g} minutes were over")
                continue
            times = measure(shape, dtype, backward, rounds)
            for name, each in times.items():
                ratios = [mine / theirs for mine, theirs in zip(each, times["SDPA flash softmax"], strict=True)]
                print(
                    f"| {work} | {name} | {statistics.median(each):.3g} | {statistics.median(ratios):.2f} "
                    f"({min(ratios):.2f}–{max(ratios):.2f}) |",
                    flush=True,
                )
            if not (backward and dtype == torch.bfloat16 and "ours ssa" in times):
                continue
            for peer in WANTED.keys() & times.keys():
                ratio = statistics.median(times["ours ssa"]) / statistics.median(times[peer])
                verdicts.append(f"{work}: ours ssa to {peer} {ratio:.2f}, wanted at most {WANTED[peer]}")
    print("", *verdicts, sep="\n")
    return 0
