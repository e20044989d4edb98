"""The Triton kernels compile for processors that are not here: no register spills, shared memory in bounds. A chosen set;
scripts/triton_table compiles all and prints the table of docs/gpu.md."""

import os

os.environ["TRITON_INTERPRET"] = "0"  # before Triton is imported

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed: the GPU kernels are not compiled")
from ssa_attention.triton.compile import TARGETS, compile_call, example_call

CASES = [
    # target, type, head dimension, options
    ("sm_80", torch.bfloat16, 64, {}),
    ("sm_90", torch.bfloat16, 128, {}),
    ("sm_100", torch.float16, 64, {"score": "softmax"}),
    ("gfx942", torch.bfloat16, 64, {}),
    ("sm_90", torch.float32, 64, {"score": "sink", "mask": True, "dropout": 0.1}),
]


@pytest.mark.parametrize("target, dtype, dim, options", CASES, ids=str)
def test_no_spills_and_shared_memory_in_bounds(target, dtype, dim, options):
    compiled = compile_call(example_call(dim, dtype, **options), target)
    assert {each.kernel for each in compiled} == {"forward", "rows", "query", "key"}
    for each in compiled:
        assert each.spilled == 0, each
        assert 0 < each.shared <= TARGETS[target].shared_limit, each
        assert 0 < each.occupancy(TARGETS[target]) <= 1, each
