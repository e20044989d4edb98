"""The Triton kernels, run by Triton's interpreter on the CPU: registered there in the place of the CPU kernels, so that
everything above them is what a GPU's user meets. What a device alone can show is tests/gpu."""

import json
import math
import os
import subprocess
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import pytest
import ssa_attention
import torch
from eager import (
    Problem,
    check_error,
    check_problems,
    eager_attention,
    family_of,
    in_type,
    operator,
    param_names,
)

triton = pytest.importorskip("triton", reason="triton is not installed: the GPU kernels are not tested")
from triton import language as tl

ssa_attention.triton.register("CPU")
from ssa_attention.triton import launch
from ssa_attention.triton.blocks import Blocks, Config

SHIPPED = launch.blocks_for


@pytest.fixture(autouse=True)
def few_blocks(monkeypatch):
    """The interpreter takes as long for a small block as for a large one. The sizes that ship are tested once."""
    monkeypatch.setattr(launch, "blocks_for", lambda dim, dtype: Blocks(*[Config(64, 64, 4, 1)] * 5))


SCORES = [name for name in ssa_attention.scores() if family_of(name) == "phi"]
TRITON = [("fused", "triton")]
on_triton = operator("fused", "triton")
NAN, INF = math.nan, math.inf


@triton.jit
def evaluate(s, p, out, S: tl.constexpr, PARAMS: tl.constexpr, CAREFUL: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(s + at)
    p0 = tl.load(p + at)
    p1 = tl.load(p + BLOCK + at)
    tl.store(out + at, S.phi2(x, p0, p1, CAREFUL) + 0.0 * x)
    tl.store(out + BLOCK + at, S.dphi_ds(x, p0, p1, CAREFUL) + 0.0 * x)
    if PARAMS > 0:
        tl.store(out + 2 * BLOCK + at, S.dphi_dparams[0](x, p0, p1, CAREFUL) + 0.0 * x)
    if PARAMS > 1:
        tl.store(out + 3 * BLOCK + at, S.dphi_dparams[1](x, p0, p1, CAREFUL) + 0.0 * x)


@pytest.mark.parametrize("careful", [True, False])
def test_generated_functions_have_the_golden_values(careful):
    from ssa_attention.triton.scores import SCORES as generated

    program = Path(os.environ["SSA_BINARY"]).parent / "write_triton_scores"
    golden = json.loads(subprocess.run([program, "--golden"], check=True, capture_output=True, text=True).stdout)
    assert list(generated) == list(golden) == SCORES
    for name, points in golden.items():
        params = len(param_names(name))
        count = triton.next_power_of_2(len(points))
        points = points + points[:1] * (count - len(points))
        s = torch.tensor([point["s"] for point in points], dtype=torch.float32)
        p = torch.tensor([point["params"] for point in points]).T.float().contiguous()
        out = torch.zeros(4, count)
        evaluate[(1,)](s, p, out, generated[name], params, careful, count)
        wanted = torch.tensor(
            [[point["phi"] / math.log(2), point["dphi_ds"], *point["dphi_dparam"]] for point in points]
        ).T[: 2 + params]
        # Not careful: an absolute error of one rounding of 1 + x, times the parameter.
        torch.testing.assert_close(out[: 2 + params], wanted.float(), rtol=2e-6, atol=1e-9 if careful else 5e-7)


@pytest.mark.parametrize("causal", [False, True])
def test_lengths_around_block_edges(causal):
    lengths = [1, 15, 16, 17, 63, 64, 65, 130]
    check_problems([Problem(t, heads=2, rows=t, dim=24, v_dim=20) for t in lengths], TRITON, causal=causal)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_block_sizes_that_ship(dtype, monkeypatch):
    monkeypatch.setattr(launch, "blocks_for", lambda dim, _: SHIPPED(dim, dtype))
    check_problems([Problem(3, heads=1, rows=70, dim=24)], TRITON, causal=True)


def features(rows, columns, heads):
    generator = torch.Generator().manual_seed(3)
    return {
        "mask": torch.rand(heads, rows, columns, generator=generator) < 0.8,
        "bias": torch.randn(2, 1, 1, columns, generator=generator).double(),
        "key_lengths": torch.tensor([columns // 2, columns]),
        "causal": True,
        "window": 60,
        "alibi_slopes": torch.tensor([0.1, -0.01, 0.05, 0.02])[:heads],
        "scale": 0.7,
    }


@pytest.mark.parametrize(
    "score, rows, columns, heads",
    [*((score, 30, 100, 2) for score in SCORES), ("ssa", 90, 40, 4), ("ssmax", 90, 40, 4)],
)
def test_every_score_with_every_feature(score, rows, columns, heads):
    """More columns than rows, and rows that see no key."""
    shape = {
        "batch": 2,
        "heads": heads,
        "kv_heads": heads // 2,
        "rows": rows,
        "columns": columns,
        "dim": 13,
        "v_dim": 21,
    }
    check_problems([Problem(5, **shape, score=score)], TRITON, **features(rows, columns, heads))


@pytest.mark.parametrize("dim, v_dim", [(1, 1), (65, 16), (16, 256), (256, 3)])
def test_head_dimensions(dim, v_dim):
    check_problems([Problem(s, heads=2, rows=20, dim=dim, v_dim=v_dim) for s in range(2)], TRITON, causal=True)


@pytest.mark.parametrize("n, b", [(0.5, 0.1), (40.0, 1.0), (1000.0, 0.001)])
def test_extreme_parameters(n, b):
    problems = [Problem(seed, heads=2, rows=70, dim=32) for seed in range(2)]
    for problem in problems:
        problem.params = [torch.full((1,), x).double() for x in (n, torch.tensor(b).item())]  # one for all heads
    check_problems(problems, TRITON)


@pytest.mark.parametrize("size", [1e-3, 30.0])
@pytest.mark.parametrize("score", ["ssa", "sink"])
def test_small_and_large_scores(size, score):
    check_problems([Problem(s, heads=2, rows=50, dim=19, score=score, size=size) for s in range(2)], TRITON)


@pytest.mark.parametrize("options", [{"window": 1}, {"window": 1, "causal": True}, {"window": 40}], ids=str)
def test_windows(options):
    check_problems([Problem(s, heads=2, rows=100, dim=16) for s in range(2)], TRITON, **options)


@pytest.mark.parametrize("shape", [(70, 30), (2, 1, 70, 1), (1, 2, 1, 30), (2, 2, 70, 30), (1, 1)], ids=str)
def test_gradient_of_a_bias_is_summed_where_it_broadcasts(shape):
    problems = [Problem(3, batch=2, heads=2, rows=70, columns=30, dim=9)]
    check_problems(problems, TRITON, bias=torch.randn(shape, generator=torch.Generator().manual_seed(1)).double())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("score", ["ssa", "ssmax"])
def test_narrow_types_err_no_more_than_eager_ones(score, dtype):
    problem = Problem(5, batch=2, heads=4, kv_heads=2, rows=33, columns=80, dim=32, v_dim=16, score=score)
    for name in ("query", "key", "value", "d_out"):
        setattr(problem, name, getattr(problem, name).to(dtype).double())
    options = {"key_lengths": torch.tensor([50, 80]), "causal": True}
    truth = problem.run(torch.float64, eager_attention, **options)
    eager = problem.run(torch.float32, in_type(dtype, eager_attention), **options)
    ours = problem.run(torch.float32, in_type(dtype, on_triton), **options)
    for name in truth:
        result = ours[name].to(dtype) if name in ("out", "dq", "dk", "dv") else ours[name]  # for its ε
        check_error(name, result, eager[name], truth[name], 2 if name in ("out", "lse") else 3)


def test_bfloat16_gradients_of_parameters_do_not_suffer_from_the_rounding_of_out():
    """dn and db cancel a thousandfold: taken from a bfloat16 out they would be wrong in the first digits."""
    problem = Problem(9, heads=2, rows=200, dim=32)
    for name in ("query", "key", "value", "d_out"):
        setattr(problem, name, getattr(problem, name).bfloat16().double())
    problem.params = [torch.tensor([3.0, 1.5]).double(), torch.tensor([1.0, 0.5]).double()]
    truth = problem.run(torch.float64, eager_attention, causal=True)
    ours = problem.run(torch.float32, in_type(torch.bfloat16, on_triton), causal=True)
    for name in ("dn", "db"):
        torch.testing.assert_close(ours[name].double(), truth[name], rtol=2e-3, atol=2e-3)


def random_inputs(*shape, v_dim=None, seed=0):
    generator = torch.Generator().manual_seed(seed)
    dims = (shape[-1], shape[-1], v_dim or shape[-1])
    return [torch.randn(*shape[:-1], dim, generator=generator).requires_grad_() for dim in dims]


def results(query, key, value, **options):
    """out, lse and the gradients of Σ out·cos(index)."""
    out, lse = on_triton(query, key, value, **options)
    weights = torch.arange(out.numel(), dtype=torch.float32).cos().view(out.shape)
    inputs = [t for t in (query, key, value, *options.get("params", ())) if t.requires_grad]
    return [out, lse, *torch.autograd.grad(out, inputs, weights)]


def test_packed_sequences_are_problems_of_their_own():
    lengths, key_lengths = [5, 0, 70, 1, 64], [9, 3, 70, 1, 30]
    cu_query = torch.tensor([0, *lengths]).cumsum(0)
    cu_key = torch.tensor([0, *key_lengths]).cumsum(0).int()
    query, _, _ = random_inputs(1, 2, sum(lengths), 16)
    _, key, value = random_inputs(1, 1, sum(key_lengths), 16, v_dim=8, seed=1)
    params = [torch.tensor([2.0, 1.5], requires_grad=True), torch.tensor([0.7], requires_grad=True)]
    options = {"params": params, "score": "ssa", "causal": True, "dropout": 0.2, "seed": 3, "window": 20}
    packed = results(query, key, value, cu_query=cu_query, cu_key=cu_key, **options)

    weights = torch.arange(packed[0].numel(), dtype=torch.float32).cos().view(packed[0].shape)
    leaves = [t.detach().double().requires_grad_() for t in (query, key, value, *params)]
    # The composed path in float64, which cuts the tensors into sequences.
    out, lse = ssa_attention.attention(
        *leaves[:3], **options | {"params": leaves[3:]}, cu_query=cu_query, cu_key=cu_key, kernel="composed",
        return_lse=True,
    )  # fmt: skip
    truth = [out, lse, *torch.autograd.grad(out, leaves, weights.double())]
    for ours, true in zip(packed, truth, strict=True):
        torch.testing.assert_close(ours, true.float(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_takes_the_weights_that_the_cpu_takes(dtype):
    rows, columns = 70, 150
    query, key = torch.zeros(2, 3, rows, 1, dtype=dtype), torch.zeros(2, 3, columns, 1, dtype=dtype)
    value = torch.eye(columns, dtype=dtype).expand(2, 3, -1, -1)
    for seed in (-5, 2**62 + 12345):
        ours, composed = (
            ssa_attention.attention(query, key, value, dropout=0.4, seed=seed, kernel=kernel) == 0
            for kernel in ("fused", "composed")
        )
        assert torch.equal(ours, composed) and 0.3 < ours.float().mean() < 0.5


def test_dropout_has_the_gradients_of_its_weights():
    problem = Problem(3, batch=2, heads=2, rows=40, columns=70, dim=16, score="sink")
    weights = torch.eye(70).expand(2, 2, -1, -1)
    kept = ssa_attention.attention(torch.zeros(2, 2, 40, 1), torch.zeros(2, 2, 70, 1), weights, dropout=0.3, seed=9) > 0
    factor = kept / (1 - 0.3)
    truth = problem.run(torch.float64, eager_attention, factor=factor.double(), causal=True)
    eager = problem.run(torch.float32, eager_attention, factor=factor.float(), causal=True)
    ours = problem.run(torch.float32, on_triton, dropout=0.3, seed=9, causal=True)
    for name in truth:
        check_error(name, ours[name], eager[name], truth[name], 2 if name in ("out", "lse") else 3)


def test_seed_as_a_tensor():
    query, key, value = (t.detach() for t in random_inputs(1, 1, 20, 16))
    number, tensor = (
        ssa_attention.attention(query, key, value, dropout=0.5, seed=seed) for seed in (7, torch.tensor([7]))
    )
    assert torch.equal(number, tensor) and ssa_attention.last_dropout_seed() == 7


@pytest.mark.parametrize("score", ["ssa", "sink", "ssmax"])
def test_rows_without_keys_and_hidden_keys_that_are_not_numbers(score):
    query, key, value = random_inputs(1, 2, 70, 16)
    mask = torch.ones(70, 70, dtype=torch.bool)
    mask[3] = False  # sees nothing
    mask[:, 66] = False  # is seen by none
    params = [torch.full((1,), p.initial, requires_grad=True) for p in ssa_attention.scores()[score].params]
    clean = results(query, key, value, score=score, params=params, mask=mask)
    with torch.no_grad():
        query[:, :, 3], key[:, :, 66], value[:, :, 66] = NAN, INF, NAN
    poisoned = results(query, key, value, score=score, params=params, mask=mask)
    for before, after in zip(clean, poisoned, strict=True):
        assert torch.equal(before, after)
    out, lse, d_query, d_key, d_value = poisoned[:5]
    assert torch.all(out[:, :, 3] == 0) and torch.all(lse[:, :, 3] == -INF) and torch.all(d_query[:, :, 3] == 0)
    assert torch.all(d_key[:, :, 66] == 0) and torch.all(d_value[:, :, 66] == 0)


def test_keys_beyond_their_number_are_not_read():
    query, key, value = random_inputs(2, 1, 70, 16)
    lengths = torch.tensor([0, 65])
    params = [torch.tensor([1.5]), torch.tensor([0.8])]
    clean = results(query, key, value, score="ssa", params=params, key_lengths=lengths)
    with torch.no_grad():
        key[0], value[0], key[1, :, 65:], value[1, :, 65:] = NAN, NAN, NAN, INF
    poisoned = results(query, key, value, score="ssa", params=params, key_lengths=lengths)
    for before, after in zip(clean, poisoned, strict=True):
        assert torch.equal(before, after)
    assert torch.all(poisoned[0][0] == 0) and torch.all(poisoned[3][0] == 0)


def test_scores_of_minus_infinity_are_hidden_and_a_visible_nan_shows():
    query, key, value = (t.detach() for t in random_inputs(1, 1, 20, 16))
    query[..., 0] = 1.0
    with_infinity = key.clone()
    with_infinity[0, 0, 7, 0] = -INF
    mask = torch.ones(20, 20, dtype=torch.bool)
    mask[:, 7] = False
    inputs = [t.requires_grad_() for t in (query, key.clone(), value)]
    masked = results(*inputs, score="ssa", params=[torch.tensor([1.5]), torch.tensor([0.8])], mask=mask)
    inputs[1] = with_infinity.requires_grad_()
    infinite = results(*inputs, score="ssa", params=[torch.tensor([1.5]), torch.tensor([0.8])])
    for index in (0, 1):
        torch.testing.assert_close(infinite[index], masked[index])
    key[0, 0, 5, 2] = NAN
    out = ssa_attention.attention(query, key, value, causal=True, kernel="fused")
    assert out[0, 0, 5:].isnan().all() and out[0, 0, :5].isfinite().all()


def test_the_same_input_gives_the_same_bits():
    query, key, value = random_inputs(2, 2, 70, 16)
    key, value = (t.detach()[:, :1].requires_grad_() for t in (key, value))
    params = [torch.tensor([2.0, 1.5], requires_grad=True), torch.tensor([0.7], requires_grad=True)]
    first, second = (results(query, key, value, score="ssa", params=params, causal=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_offsets_beyond_32_bits():
    """Rows so far apart that their distance in a block has no room in 32 bits; memory that is never touched costs
    nothing."""
    distance = 2**26
    room = torch.empty(40 * distance, dtype=torch.float16)
    plain = torch.randn(3, 40, 16, generator=torch.Generator().manual_seed(0)).half()
    spread = [
        torch.as_strided(room, (1, 1, 40, 16), (0, 0, distance, 1), 16 * index).copy_(plain[index])
        for index in range(3)
    ]
    assert torch.equal(
        ssa_attention.attention(*spread, causal=True),
        ssa_attention.attention(*plain.view(3, 1, 1, 40, 16), causal=True),
    )


def test_what_the_kernels_cannot_take():
    query = torch.randn(1, 1, 4, 8, dtype=torch.float64)
    with pytest.raises(ValueError, match='kernel="fused" cannot run this call: inputs are float64'):
        ssa_attention.attention(query, query, query, kernel="fused")
    wide = torch.randn(1, 1, 4, 257)
    with pytest.raises(ValueError, match="a head dimension is above 256"):
        ssa_attention.attention(wide, wide, wide, kernel="fused")
    for tensor, score in ((query, "ssa"), (wide, "ssa"), (query.float(), "sparsemax")):
        ssa_attention.attention(tensor, tensor, tensor, score=score)
        assert ssa_attention.last_attention_path() == "composed"
    with pytest.raises(ValueError, match="parameter n of score"):
        ssa_attention.attention(wide[..., :8], wide[..., :8], wide[..., :8], n=-1.0)


def test_empty_tensors():
    for shape in ((0, 2, 4, 8), (1, 2, 0, 8)):
        inputs = [torch.randn(shape, requires_grad=True) for _ in range(3)]
        out = on_triton(*inputs, score="ssa", params=[torch.ones(1), torch.ones(1)])[0]
        out.sum().backward()
        assert out.shape == shape and all(t.grad.shape == shape for t in inputs)


def test_registered_for_cuda():
    for name in ("ssa::attention", "ssa::attention_backward"):
        assert torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA")
