"""Every refusal names the argument and what would be right."""

import math

import pytest
import ssa_attention
import torch


def attention(query=(2, 4, 6, 8), key=(2, 2, 7, 8), value=(2, 2, 7, 3), dtype=torch.float32, **options):
    return ssa_attention.attention(*(torch.zeros(s, dtype=dtype) for s in (query, key, value)), **options)


INT_MASK = torch.ones(6, 7, dtype=torch.int32)
CU = torch.tensor([0, 6])
CU_KEY = torch.tensor([0, 7])
PACKED = {"query": (1, 4, 6, 8), "key": (1, 2, 7, 8), "value": (1, 2, 7, 3), "cu_query": CU, "cu_key": CU_KEY}
REFUSED = [
    ({"query": (2, 33, 6, 8)}, ValueError, r"query heads .* 33 and 2: query \[2, 33, 6, 8\], key \[2, 2, 7, 8\]"),
    ({"query": (4, 6, 8)}, ValueError, r"query must have 4 dimensions .* got shape \[4, 6, 8\]"),
    ({"key": (2, 2, 7, 9)}, ValueError, r"head dimensions .* query \[2, 4, 6, 8\], key \[2, 2, 7, 9\]"),
    ({"key": (3, 2, 7, 8)}, ValueError, r"batch sizes differ: query \[2, 4, 6, 8\], key \[3, 2, 7, 8\]"),
    ({"value": (2, 2, 8, 3)}, ValueError, r"key \[2, 2, 7, 8\], value \[2, 2, 8, 3\]"),
    ({"value": (2, 4, 7, 3)}, ValueError, r"heads and lengths of key and value differ"),
    ({"dtype": torch.int64}, TypeError, r"must be float32, bfloat16, float16 or float64, got Long"),
    ({"mask": INT_MASK}, TypeError, r"mask must be bool .* got Int of shape \[6, 7\]"),
    ({"mask": INT_MASK[:, :3].bool()}, ValueError, r"mask of shape \[6, 3\] does not broadcast to \[2, 4, 6, 7\]"),
    ({"mask": torch.ones(7, dtype=torch.bool)}, ValueError, r"mask of shape \[7\] .* from 2 to 4 dimensions"),
    ({"bias": torch.zeros(3, 6, 7)}, ValueError, r"bias of shape \[3, 6, 7\] does not broadcast to \[2, 4, 6, 7\]"),
    ({"bias": torch.zeros(6, 7).double()}, TypeError, r"bias must be Float with a query of Float, got Double"),
    ({"n": 0.0}, ValueError, r'parameter n of score "ssa" must be finite and > 0, got 0'),
    ({"n": -1.5}, ValueError, r"parameter n .* got -1.5"),
    ({"b": math.nan}, ValueError, r"parameter b .* got nan"),
    ({"b": torch.tensor([1.0, 1, 1, math.inf])}, ValueError, r"parameter b .* got inf at index 3 of shape \[4\]"),
    ({"n": torch.ones(3)}, ValueError, r"parameter n must have shape \[1\] or \[query heads\] = \[4\], got \[3\]"),
    ({"n": torch.ones(4).double()}, TypeError, r"parameter n must be Float with a query of Float, got Double"),
    (
        {"score": "softmaxx"},
        ValueError,
        "score 'softmaxx' is unknown; known scores: softmax, temperature, ssa, softcap, ssmax, ",
    ),
    ({"score": "sink", "params": [math.inf]}, ValueError, r'parameter z of score "sink" must be finite, got inf'),
    ({"score": "entmax", "params": [1.0]}, ValueError, r"parameter alpha .* must be finite and > 1, got 1"),
    ({"score": "sparsemax", "kernel": "fused"}, ValueError, r'kernel="fused" cannot run .* "sparsemax" is not of the'),
    ({"score": "cosformer", "bias": torch.zeros(6, 7)}, ValueError, r'"cosformer" is linear attention .* no bias'),
    ({"score": "cosformer", "mask": INT_MASK.bool()}, ValueError, r'"cosformer" is linear attention .* no mask'),
    ({"score": "cosformer", "dropout": 0.1}, ValueError, r'"cosformer" is linear attention .* no dropout'),
    ({"score": "cosformer", "scale": -1.0}, ValueError, r"a positive scale changes nothing, got -1"),
    ({"score": "cosformer", "params": [6.0]}, ValueError, r"parameter M .* at least the length 7"),
    (
        {"score": "cosformer", "params": [torch.tensor([8.0, 8, 9, 8])]},
        ValueError,
        r"parameter M .* must be one number for all heads",
    ),
    ({"params": [1.0]}, ValueError, r"score 'ssa' has the params \['n', 'b'\], got 1 value"),
    ({"score": "softmax", "n": 1.0}, ValueError, r"score 'softmax' has the params \[\], not n"),
    ({"n": 1.0, "params": {"n": 2.0}}, ValueError, "n given twice"),
    ({"params": {"m": 2.0}}, ValueError, r"score 'ssa' has the params \['n', 'b'\], not m"),
    ({"key_lengths": torch.tensor([1, 8])}, ValueError, r"key_lengths\[1\] = 8 is outside \[0, key length = 7\]"),
    ({"key_lengths": torch.tensor([-1, 7])}, ValueError, r"key_lengths\[0\] = -1"),
    ({"key_lengths": torch.tensor([1, 2, 3])}, ValueError, r"key_lengths must have shape \[batch\] = \[2\], got \[3\]"),
    ({"key_lengths": torch.tensor([1.0, 2])}, TypeError, r"key_lengths must be int64, got Float"),
    ({"window": 0}, ValueError, r"window must be >= 1 .* or None, got 0"),
    ({"window": -3}, ValueError, r"window must be >= 1 .* or None, got -3"),
    ({"score": "cosformer", "window": 3}, ValueError, r'"cosformer" is linear attention .* no window'),
    ({"score": "cosformer", "alibi_slopes": torch.ones(4)}, ValueError, r'"cosformer" is linear .* no alibi_slopes'),
    ({"alibi_slopes": torch.ones(3)}, ValueError, r"alibi_slopes must have shape \[1\] or .* = \[4\], got \[3\]"),
    ({"alibi_slopes": torch.ones(4).double()}, TypeError, r"alibi_slopes must be Float .* got Double"),
    ({"alibi_slopes": torch.tensor([math.inf])}, ValueError, r"alibi_slopes must be finite, got inf at index 0"),
    ({"alibi_slopes": torch.ones(4, requires_grad=True)}, ValueError, r"alibi_slopes are fixed .*detach\(\)"),
    ({"cu_query": CU}, ValueError, r"cu_query and cu_key must be given together; only cu_query is"),
    ({"cu_key": CU}, ValueError, r"cu_query and cu_key must be given together; only cu_key is"),
    ({"cu_query": CU, "cu_key": CU_KEY}, ValueError, r"lie in a batch of 1, got query \[2, 4, 6, 8\]"),
    (PACKED | {"mask": INT_MASK.bool()}, ValueError, r"packed sequences .* take no mask"),
    (PACKED | {"bias": torch.zeros(6, 7)}, ValueError, r"packed sequences .* take no bias"),
    (PACKED | {"key_lengths": torch.tensor([7])}, ValueError, r"packed sequences .* take no key_lengths"),
    (PACKED | {"cu_query": CU.float()}, TypeError, r"cu_query must be int64 or int32, got Float"),
    (PACKED | {"cu_key": CU_KEY.view(1, 2)}, ValueError, r"cu_key must have one dimension .* got shape \[1, 2\]"),
    (PACKED | {"cu_key": torch.tensor([0, 3, 7])}, ValueError, r"same number of elements, got \[2\] and \[3\]"),
    (PACKED | {"cu_query": torch.tensor([1, 6])}, ValueError, r"cu_query\[0\] must be 0, got 1"),
    (PACKED | {"cu_query": torch.tensor([0, 5])}, ValueError, r"last element of cu_query must be the length 6, got 5"),
    (
        PACKED | {"cu_query": torch.tensor([0, 4, 3, 6]), "cu_key": torch.tensor([0, 1, 2, 7])},
        ValueError,
        r"cu_query must not decrease, but cu_query\[1\] = 4 and cu_query\[2\] = 3",
    ),
    ({"dropout": 1.0}, ValueError, r"dropout must be in \[0, 1\), got 1"),
    ({"dropout": -0.1}, ValueError, r"dropout must be in \[0, 1\), got -0.1"),
    ({"dropout": math.nan}, ValueError, r"dropout must be in \[0, 1\), got nan"),
    ({"scale": math.inf}, ValueError, r"scale must be finite, got inf"),
    ({"kernel": "fast"}, ValueError, r'kernel must be "auto", "fused" or "composed", got "fast"'),
    ({"kernel": "fused", "dtype": torch.float64}, ValueError, r'kernel="fused" cannot run .* inputs are float64'),
]


@pytest.mark.parametrize("arguments, error, message", REFUSED, ids=[message for *_, message in REFUSED])
def test_refusals(arguments, error, message):
    with pytest.raises(error, match=message):
        attention(**arguments)


def test_mixed_dtypes():
    query, key = torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, 4, dtype=torch.float64)
    with pytest.raises(TypeError, match="key is Double but query is Float"):
        ssa_attention.attention(query, key, query)


def test_the_operator_itself_knows_scores_and_counts_params():
    query = torch.zeros(1, 1, 2, 4)

    def call(score, params):
        return torch.ops.ssa.attention(
            query, query, query, score, params, None, None, None, False, None, 0.0, None, "auto", *[None] * 4
        )

    with pytest.raises(ValueError, match='score "x" is unknown; known scores: softmax, temperature, ssa, softcap'):
        call("x", [])
    with pytest.raises(ValueError, match=r'score "ssa" has 2 params \(n, b\), got 1'):
        call("ssa", [torch.ones(1)])
