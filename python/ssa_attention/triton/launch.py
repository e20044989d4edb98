"""ssa::attention and its gradients by the Triton kernels: from tensors to grids. Nothing here waits for the device.

Arguments have been checked (src/op/check.cc); values on the device have not, so that lengths are clamped to what the
tensors hold.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
import triton
from torch import Tensor

from .backward import RowBuffers, key_kernel, query_kernel, rows_kernel
from .bias_gradient import BiasGrid, bias_kernel
from .blocks import blocks_for
from .forward import count_keys_kernel, forward_kernel
from .problem import HeadValues, Options, Packed, Problem, Tensor4
from .scores import SCORES

MAX_DIM = 256


@cache
def _source_digest() -> str:
    folder = Path(__file__).parent
    text = b"".join((folder / name).read_bytes() for name in ("scores.py", "primitives.py"))
    return hashlib.sha256(text).hexdigest()[:16]


@dataclass(frozen=True)
class Call:
    """The arguments of ssa::attention."""

    query: Tensor
    key: Tensor
    value: Tensor
    score: str
    params: list[Tensor]
    mask: Tensor | None
    bias: Tensor | None
    key_lengths: Tensor | None
    causal: bool
    scale: float | None
    dropout: float
    seed: Tensor | None
    kernel: str
    window: int | None
    alibi_slopes: Tensor | None
    cu_query: Tensor | None
    cu_key: Tensor | None


def obstacle(call: Call) -> str | None:
    """Why the kernels cannot take the call; None where they can."""
    if call.score not in SCORES:
        return f'score "{call.score}" is not of the phi family'
    if call.query.dtype == torch.float64:
        return "inputs are float64"
    if max(call.query.shape[3], call.value.shape[3]) > MAX_DIM:
        return f"a head dimension is above {MAX_DIM}"
    return None


def _tensor(tensor: Tensor) -> Tensor4:
    return Tensor4(tensor, *tensor.stride())


def _pairs(call: Call, tensor: Tensor | None) -> Tensor4 | None:
    """A mask or bias as (batch, query heads, query length, key length) with strides 0 where it broadcasts."""
    if tensor is None:
        return None
    while tensor.dim() < 4:
        tensor = tensor.unsqueeze(0)
    shape = (call.query.shape[0], call.query.shape[1], call.query.shape[2], call.key.shape[2])
    pointer = tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor
    return Tensor4(pointer, *tensor.expand(shape).stride())


def _head_values(values: Tensor | None) -> HeadValues | None:
    return None if values is None else HeadValues(values, 0 if values.numel() == 1 else values.stride(0))


class Launch:
    """What all kernels of one call share."""

    def __init__(self, call: Call) -> None:
        query, key, value = call.query, call.key, call.value
        self.call = call
        self.score = SCORES[call.score]
        self.dim, self.v_dim = query.shape[3], value.shape[3]
        self.blocks = blocks_for(max(self.dim, self.v_dim), query.dtype)
        params = [_head_values(param) for param in call.params]
        self.param0, self.param1 = (params + [None, None])[:2]
        self.slopes = _head_values(call.alibi_slopes)
        self.mask, self.bias = _pairs(call, call.mask), _pairs(call, call.bias)
        self.options = Options(
            dim=self.dim,
            v_dim=self.v_dim,
            block_dim=max(16, triton.next_power_of_2(self.dim)),
            block_v_dim=max(16, triton.next_power_of_2(self.v_dim)),
            causal=call.causal,
            windowed=call.window is not None,
            alibi=call.alibi_slopes is not None,
            mask=call.mask is not None,
            bias=call.bias is not None,
            lengths=call.key_lengths is not None,
            packed=call.cu_query is not None,
            dropout=call.dropout > 0,
            params=len(call.params),
            one_key=call.window == 1,
            precise=query.dtype == torch.float32,
            wide=self._wide_strides(),
            input_precision="tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee",
            interpreted=triton.knobs.runtime.interpret,
            source=_source_digest(),
        )
        self.log_keys: Tensor | None = None
        self.cumulative = None
        if call.cu_query is not None:
            here = {"device": query.device, "dtype": torch.long, "non_blocking": True}  # they may lie on the CPU
            self.cumulative = (
                call.cu_query.to(**here).clamp(0, query.shape[2]),
                call.cu_key.to(**here).clamp(0, key.shape[2]),
            )
        if self.score.counts_keys:
            self.log_keys = self.row_buffer()
            self.run(count_keys_kernel, self.blocks.forward, self.log_keys, attention=False)

    def _wide_strides(self) -> bool:
        call = self.call
        pairs = [each for each in (call.mask, call.bias) if each is not None]
        strides = [stride for each in (call.query, call.key, call.value, *pairs) for stride in each.stride()[-2:]]
        return max(map(abs, strides)) >= 2**22  # times a block of up to 128 rows and 256 columns

    def row_buffer(self) -> Tensor:
        return torch.empty(self.call.query.shape[:3], dtype=torch.float32, device=self.call.query.device)

    def _scale(self) -> float:
        if self.call.scale is not None:
            return self.call.scale
        return 1.0 if self.dim == 0 else self.dim**-0.5

    def grid(self, block: int, of_keys: bool = False) -> tuple[Problem, Packed | None, int]:
        """Numbers for a kernel whose programs have `block` queries (or keys) each, and how many programs there are."""
        query, key, dropout = self.call.query, self.call.key, self.call.dropout
        of = key if of_keys else query
        packed = None
        count = triton.cdiv(of.shape[2], block)
        if self.cumulative is not None:
            packed, count = self._packed(block, of_keys)
        problem = Problem(
            blocks=count,
            heads=of.shape[1],
            group=query.shape[1] // max(1, key.shape[1]),
            rows=query.shape[2],
            keys=key.shape[2],
            window=0 if self.call.window is None else min(self.call.window, 2**30),
            scale=self._scale(),
            kept_scale=1.0 / (1.0 - dropout),
            threshold=int(dropout * 2.0**32),
        )
        return problem, packed, count * of.shape[0] * of.shape[1]

    def _packed(self, block: int, of_keys: bool) -> tuple[Packed, int]:
        """Every sequence has its own blocks. Their number depends on lengths that only the device knows: the grid has
        as many as there can be, and some do nothing."""
        cu_query, cu_key = self.cumulative
        cu = cu_key if of_keys else cu_query
        sequences = cu.numel() - 1
        total = (self.call.key if of_keys else self.call.query).shape[2]
        count = total // block + sequences
        ends = ((cu[1:] - cu[:-1]).clamp_min(0) + block - 1).div(block, rounding_mode="floor").cumsum(0)
        index = torch.arange(count, device=cu.device)
        sequence = torch.searchsorted(ends, index, right=True)
        starts = torch.cat([ends.new_zeros(1), ends])
        within = (index - starts[sequence]).int()
        return Packed(cu_query, cu_key, sequence.int(), within, sequences), count

    def run(self, kernel, config, *arguments, of_keys=False, attention=True, **constants) -> None:
        """Launches one kernel over its grid. `attention`: it computes scores, so that it takes all that they need."""
        problem, packed, programs = self.grid(config.block_n if of_keys else config.block_m, of_keys)
        call = self.call
        rest = (self.mask, self.bias, call.key_lengths, packed)
        if attention:
            rest = (self.param0, self.param1, self.slopes, *rest, call.seed)
            constants["S"] = self.score
        self.start(kernel, programs, config, *arguments, problem, *rest, **constants)

    def start(self, kernel, programs: int, config, *arguments, **constants) -> None:
        if programs > 0:
            kernel[(programs,)](
                *arguments, O=self.options, BLOCK_M=config.block_m, BLOCK_N=config.block_n, num_warps=config.warps,
                num_stages=config.stages, **constants,
            )  # fmt: skip

    def inputs(self) -> tuple[Tensor4, Tensor4, Tensor4]:
        return _tensor(self.call.query), _tensor(self.call.key), _tensor(self.call.value)


def forward(call: Call, out: Tensor, lse: Tensor, make: type[Launch] = Launch) -> None:
    """Writes out (B, H_q, T_q, D_v) and lse (B, H_q, T_q), contiguous."""
    launch = make(call)
    launch.run(forward_kernel, launch.blocks.forward, *launch.inputs(), _tensor(out), lse, launch.log_keys)


def backward(
    call: Call,
    out: Tensor,
    lse: Tensor,
    grad_out: Tensor | None,
    grad_lse: Tensor | None,
    wanted: list[bool],
    make: type[Launch] = Launch,
) -> list[Tensor]:
    """The wanted gradients of query, key, value, params…, bias, each shaped as its input."""
    launch = make(call)
    query, key, value = call.query, call.key, call.value
    if grad_out is None:
        grad_out = query.new_zeros(1).expand(out.shape)
    lse = lse.contiguous()
    grad_lse = None if grad_lse is None else grad_lse.contiguous()
    inputs = [query, key, value, *call.params] + ([] if call.bias is None else [call.bias])
    gradients = [torch.empty_like(tensor) if want else None for tensor, want in zip(inputs, wanted, strict=True)]
    d_query, d_key, d_value = (None if each is None else _tensor(each) for each in gradients[:3])
    kept = None if launch.score.sink2 is None else launch.row_buffer()
    buffers = RowBuffers(launch.row_buffer(), launch.row_buffer(), launch.row_buffer(), kept)
    views = (*launch.inputs(), _tensor(grad_out), grad_lse, launch.log_keys, buffers)
    launch.run(
        rows_kernel, launch.blocks.rows, *launch.inputs(), _tensor(out), lse, _tensor(grad_out), grad_lse,
        launch.log_keys, buffers,
    )  # fmt: skip
    wants_params = any(wanted[3 : 3 + len(call.params)])
    if d_query is not None or wants_params:
        params = len(call.params) if wants_params else 0
        programs = launch.grid(launch.blocks.query.block_m)[2]
        partial = torch.zeros((programs, params), dtype=torch.float32, device=query.device)
        launch.run(query_kernel, launch.blocks.query, *views, d_query, partial, PARAMS=params)
        if wants_params:
            _sum_params(call, partial, gradients)
    if d_key is not None or d_value is not None:
        launch.run(key_kernel, launch.blocks.key, *views, d_key, d_value, of_keys=True)
    if call.bias is not None and wanted[-1]:
        _bias_gradient(launch, views, gradients[-1])
    if query.numel() == 0 or key.numel() == 0:  # what broadcasts has elements also where the problem has none
        for each in gradients:
            if each is not None:
                each.zero_()
    return [each for each in gradients if each is not None]


def _sum_params(call: Call, partial: Tensor, gradients: list[Tensor | None]) -> None:
    """Σ over programs, in the order that torch.sum has for the shape."""
    batch, heads = call.query.shape[:2]
    by_head = partial.view(batch, heads, -1, partial.shape[1]).sum((0, 2), dtype=torch.float64)
    for index in range(partial.shape[1]):
        gradient = gradients[3 + index]
        if gradient is not None:
            values = by_head[:, index]
            gradient.copy_((values if gradient.numel() == heads else values.sum()).view_as(gradient))


def _bias_gradient(launch: Launch, views: tuple, gradient: Tensor) -> None:
    call = launch.call
    shape = gradient.shape
    shape = (1,) * (4 - len(shape)) + tuple(shape)
    config = launch.blocks.bias
    problem, _, _ = launch.grid(config.block_m)
    if 0 in (*call.query.shape[:3], call.key.shape[2]):
        return
    grid = BiasGrid(
        row_blocks=triton.cdiv(shape[2], config.block_m),
        column_blocks=triton.cdiv(shape[3], config.block_n),
        bias_heads=shape[1],
        batches=call.query.shape[0] // shape[0],
        heads=call.query.shape[1] // shape[1],
    )
    launch.start(
        bias_kernel, grid.row_blocks * grid.column_blocks * shape[0] * shape[1], config,
        *views, _tensor(gradient.view(shape)), grid, problem, launch.param0, launch.param1, launch.slopes, launch.mask,
        launch.bias, call.key_lengths, call.seed, S=launch.score,
        ONE_ROW=shape[2] == 1 and call.query.shape[2] > 1, ONE_COLUMN=shape[3] == 1 and call.key.shape[2] > 1,
    )  # fmt: skip
