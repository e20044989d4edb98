"""Compiles the kernels for a processor that is not there, by the very launches that a call makes, on tensors without
data, and reads the compiler's figures. Needs no driver: Triton's package has the assembler."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget

from .launch import Call, Launch, backward, forward
from .scores import SCORES


@dataclass(frozen=True)
class Target:
    gpu: GPUTarget
    shared_limit: int  # bytes of shared memory of one block of threads
    shared_total: int  # of a multiprocessor
    registers: int  # 32-bit ones of a multiprocessor
    threads: int  # resident on a multiprocessor


TARGETS = {
    "sm_80": Target(GPUTarget("cuda", 80, 32), 163 << 10, 164 << 10, 1 << 16, 2048),
    "sm_90": Target(GPUTarget("cuda", 90, 32), 227 << 10, 228 << 10, 1 << 16, 2048),
    "sm_100": Target(GPUTarget("cuda", 100, 32), 227 << 10, 228 << 10, 1 << 16, 2048),
    "gfx942": Target(GPUTarget("hip", "gfx942", 64), 64 << 10, 64 << 10, 4 * 512 * 64, 2048),
}


class _Driver:
    """What the compiler asks a driver: for what to compile."""

    def __init__(self, target: GPUTarget) -> None:
        self._target = target
        # Triton keeps what it has compiled by the device's number.
        self._device = 1000 + [each.gpu for each in TARGETS.values()].index(target)

    def get_current_target(self):
        return self._target

    def get_current_device(self):
        return self._device

    def get_current_stream(self, device):
        return 0


@contextmanager
def _compiling_for(target: Target) -> Iterator[None]:
    config = triton.runtime.driver
    before = config._active
    config.set_active(_Driver(target.gpu))
    try:
        yield
    finally:
        config._active = before


@dataclass(frozen=True)
class Compiled:
    """A kernel and the figures of its code."""

    kernel: str
    block_m: int
    block_n: int
    warps: int
    stages: int
    registers: int  # of a thread
    spilled: int  # bytes of a thread that found no register
    shared: int  # bytes of a block of threads

    def occupancy(self, target: Target) -> float:
        """The share of a multiprocessor's threads that can be resident, by arithmetic."""
        threads = self.warps * target.gpu.warp_size
        by_registers = target.registers // (max(1, -(-self.registers // 8) * 8) * threads)
        by_shared = target.shared_total // (self.shared + 1024)
        return min(by_registers, by_shared, target.threads // threads) * threads / target.threads


def _figures(compiled) -> tuple[int, int]:
    """Registers of a thread and bytes that it spills."""
    if "cubin" in compiled.asm:
        tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(compiled.asm["cubin"])
            file.flush()
            usage = subprocess.run([tool, "-res-usage", file.name], check=True, capture_output=True, text=True).stdout
        found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", usage)
        return int(found[1]), int(found[2]) + int(found[3])
    code = compiled.asm["amdgcn"]

    def number(name: str) -> int:
        return int(re.search(rf"\.{name}:\s*(\d+)", code)[1])

    # Scalar registers spill into lanes of vector registers, which costs no memory.
    return number("vgpr_count"), number("private_segment_fixed_size")


def compile_call(call: Call, target: str, *, gradients: bool = True) -> list[Compiled]:
    """Every kernel that the call and its gradients start, compiled for a target of TARGETS. Tensors are on the device
    "meta"."""
    results: list[Compiled] = []

    class Compile(Launch):
        def start(self, kernel, programs, config, *arguments, **constants):
            compiled = kernel.warmup(
                *arguments, O=self.options, BLOCK_M=config.block_m, BLOCK_N=config.block_n, num_warps=config.warps,
                num_stages=config.stages, grid=(programs,), **constants,
            )  # fmt: skip
            registers, spilled = _figures(compiled)
            results.append(
                Compiled(
                    kernel.__name__.removesuffix("_kernel"),
                    config.block_m,
                    config.block_n,
                    config.warps,
                    config.stages,
                    registers,
                    spilled,
                    compiled.metadata.shared,
                )
            )

    query, value = call.query, call.value
    out = query.new_empty((*query.shape[:3], value.shape[3]))
    lse = torch.empty(query.shape[:3], device=query.device)
    with _compiling_for(TARGETS[target]):
        forward(call, out, lse, Compile)
        if gradients:
            wanted = [True] * (3 + len(call.params) + (call.bias is not None))
            backward(call, out, lse, torch.empty_like(out), None, wanted, Compile)
    return results


def example_call(dim: int, dtype: torch.dtype, *, score: str = "ssa", causal: bool = True, mask: bool = False,
                 bias: bool = False, dropout: float = 0.0, window: int | None = None) -> Call:  # fmt: skip
    """Self-attention of 4 × 16 heads, length 4096, on tensors without data."""

    def empty(*shape, dtype=torch.float32):
        return torch.empty(shape, dtype=dtype, device="meta")

    tensor = empty(4, 16, 4096, dim, dtype=dtype)
    return Call(
        query=tensor, key=tensor, value=tensor, score=score, params=[empty(16) for _ in SCORES[score].dphi_dparams],
        mask=empty(4096, 4096, dtype=torch.bool) if mask else None, bias=empty(4096, 4096) if bias else None,
        key_lengths=None, causal=causal, scale=None, dropout=dropout,
        seed=empty(1, dtype=torch.int64) if dropout > 0 else None, kernel="auto", window=window, alibi_slopes=None,
        cu_query=None, cu_key=None,
    )  # fmt: skip
