"""Block sizes of the kernels by head dimension and type: chosen by the compiler's figures for registers and shared memory,
not measured on a device. docs/gpu.md says for which of them no register is spilled."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Config:
    block_m: int  # queries
    block_n: int  # keys
    warps: int
    stages: int  # of the loads that run ahead


@dataclass(frozen=True)
class Blocks:
    """For each kernel."""

    forward: Config
    rows: Config
    query: Config
    key: Config
    bias: Config


_NARROW = {  # bfloat16, float16: products on tensor cores
    64: Blocks(
        forward=Config(64, 64, 4, 2),
        rows=Config(64, 64, 4, 1),
        query=Config(64, 32, 4, 2),
        key=Config(32, 64, 4, 1),
        bias=Config(32, 32, 4, 1),
    ),
    128: Blocks(
        forward=Config(64, 64, 8, 2),
        rows=Config(32, 64, 8, 1),
        query=Config(32, 32, 4, 1),
        key=Config(32, 32, 4, 1),
        bias=Config(32, 32, 4, 1),
    ),
    256: Blocks(
        forward=Config(64, 32, 8, 1),
        rows=Config(16, 32, 4, 1),
        query=Config(16, 32, 4, 1),
        key=Config(16, 16, 4, 1),
        bias=Config(16, 32, 8, 1),
    ),
}
_FLOAT32 = {
    64: Blocks(
        forward=Config(32, 32, 4, 1),
        rows=Config(32, 32, 4, 1),
        query=Config(16, 32, 4, 1),
        key=Config(16, 16, 8, 1),
        bias=Config(16, 16, 4, 1),
    ),
    128: Blocks(
        forward=Config(32, 16, 8, 1),
        rows=Config(32, 32, 8, 1),
        query=Config(16, 16, 4, 1),
        key=Config(16, 16, 4, 1),
        bias=Config(16, 16, 4, 1),
    ),
    256: Blocks(
        forward=Config(32, 16, 8, 1),
        rows=Config(16, 16, 8, 1),
        query=Config(16, 16, 4, 1),
        key=Config(16, 16, 4, 1),
        bias=Config(16, 16, 8, 1),
    ),
}


def blocks_for(dim: int, dtype: torch.dtype) -> Blocks:
    """dim: the larger one of the head dimensions of keys and values, at most 256."""
    sizes = _FLOAT32 if dtype == torch.float32 else _NARROW
    return next(blocks for most, blocks in sizes.items() if dim <= most)
