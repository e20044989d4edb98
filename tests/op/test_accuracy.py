"""Float32 on both paths against float64 truth: no worse than plain PyTorch in float32 (twice, gradients
three times its error)."""

import pytest
import ssa_attention
import torch
from eager import Problem, check_error, check_problems, eager_attention, family_of, in_type, operator, taken_by

SCORES = list(ssa_attention.scores())
ODD_DIMS = [1, 3, 5, 7, 9, 15, 17, 31, 33, 47, 63, 65, 96, 127]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("first", range(1, 131, 10))
def test_every_length(first, causal):
    """One head dimension for ten lengths, so that the pooled gradients of n and b are of one size."""
    dim = ODD_DIMS[(first // 10 + 7 * causal) % len(ODD_DIMS)]
    check_problems([Problem(t, heads=2, rows=t, dim=dim) for t in range(first, first + 10)], causal=causal)


@pytest.mark.parametrize("first, causal", [(511, True), (767, False)])
def test_lengths_around_blocks(first, causal):
    lengths = range(first, first + 3)
    check_problems([Problem(t, heads=2, rows=t, dim=33, v_dim=17) for t in lengths], causal=causal)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("rows, columns", [(1, 77), (40, 129), (129, 40), (130, 130)])
def test_every_score_with_every_feature(score, rows, columns):
    shape = {"batch": 2, "heads": 6, "kv_heads": 2, "rows": rows, "columns": columns, "dim": 13, "v_dim": 21}
    generator = torch.Generator().manual_seed(3)
    check_problems(
        [Problem(seed, **shape, score=score) for seed in range(3)],
        **taken_by(
            score,
            mask=torch.rand(6, rows, columns, generator=generator) < 0.8,
            bias=torch.randn(2, 1, 1, columns, generator=generator).double(),
            key_lengths=torch.tensor([columns // 2, columns]),
            causal=True,
            window=60,
            alibi_slopes=torch.tensor([0.1, 0.05, 0.02, 0.004, 0, -0.01]),
            scale=0.7,
        ),
    )


@pytest.mark.parametrize("size", [1e-3, 30.0])
@pytest.mark.parametrize("score", SCORES)
def test_small_and_large_scores(size, score):
    check_problems([Problem(seed, heads=3, rows=50, dim=19, score=score, size=size) for seed in range(4)])


@pytest.mark.parametrize("n, b", [(0.5, 0.1), (1.0, 1.0), (8.0, 2.0), (40.0, 1.0), (1000.0, 0.001)])
def test_extreme_parameters(n, b):
    problems = [Problem(seed, heads=2, rows=70, dim=32) for seed in range(4)]
    for problem in problems:
        problem.params = [torch.full((2,), x).double() for x in (n, torch.tensor(b).item())]
    check_problems(problems)


def test_one_value_for_all_heads():
    problems = [Problem(seed, heads=4, rows=33) for seed in range(8)]
    for problem in problems:
        problem.params = [p[:1] for p in problem.params]
    check_problems(problems, causal=True)


@pytest.mark.parametrize("shape", [(20, 30), (4, 20, 30), (2, 1, 20, 1), (1, 4, 1, 30), (2, 4, 20, 30), (1, 1)])
def test_gradient_of_a_bias_is_summed_where_it_broadcasts(shape):
    problems = [Problem(seed, batch=2, heads=4, rows=20, columns=30, dim=9) for seed in range(3)]
    check_problems(problems, bias=torch.randn(shape, generator=torch.Generator().manual_seed(1)).double())


@pytest.mark.parametrize("kernel", ["fused", "composed"])
@pytest.mark.parametrize("causal", [False, True])
def test_softmax_agrees_with_torchs_own(kernel, causal):
    query, key, value = (torch.randn(2, 4, 60, 24, generator=torch.Generator().manual_seed(i)) for i in range(3))

    def own(*tensors):
        return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal)

    ours = ssa_attention.attention(query, key, value, score="softmax", causal=causal, kernel=kernel)
    check_error("out", ours, own(query, key, value), own(query.double(), key.double(), value.double()), 2)


def test_ssa_tends_to_softmax():
    """n = m, b = 1/m: (1 + s/m)^m tends to exp(s), with relative difference s²/2m: 1e-5 for |s| < 4.5."""
    generator = torch.Generator().manual_seed(2)
    query, key, value = (torch.randn(1, 2, 20, 8, dtype=torch.double, generator=generator) for _ in range(3))
    ssa = ssa_attention.attention(query, key, value, n=1e6, b=1e-6)
    softmax = ssa_attention.attention(query, key, value, score="softmax")
    assert (ssa - softmax).abs().max() < 1e-5 * value.abs().max()


def bfloat16_problem(seed, **shape):
    """Its tensors are exact in bfloat16."""
    problem = Problem(seed, **shape)
    for name in ("query", "key", "value", "d_out"):
        setattr(problem, name, getattr(problem, name).bfloat16().double())
    return problem


@pytest.mark.parametrize("score", [s for s in SCORES if family_of(s) == "phi"])
@pytest.mark.parametrize("rows, columns", [(1, 77), (40, 129), (130, 130)])
def test_fused_bfloat16_errs_no_more_than_eager_bfloat16(score, rows, columns):
    """Eager rounds scores, weights and their gradients to bfloat16; the kernels only what enters a product."""
    shape = {"batch": 2, "heads": 6, "kv_heads": 2, "rows": rows, "columns": columns, "dim": 13, "v_dim": 21}
    problem = bfloat16_problem(5, **shape, score=score)
    options = {
        "mask": torch.rand(6, rows, columns, generator=torch.Generator().manual_seed(3)) < 0.8,
        "key_lengths": torch.tensor([columns // 2, columns]),
        "causal": True,
    }
    truth = problem.run(torch.float64, eager_attention, **options)
    eager = problem.run(torch.float32, in_type(torch.bfloat16, eager_attention), **options)
    ours = problem.run(torch.float32, in_type(torch.bfloat16, operator("fused")), **options)
    for name in truth:
        result = ours[name].bfloat16() if name in ("out", "dq", "dk", "dv") else ours[name]  # for its ε
        check_error(name, result, eager[name], truth[name], 2 if name in ("out", "lse") else 3)


def test_composed_bfloat16_is_rounded_at_its_ends_only():
    """Inputs and output are bfloat16 (half a unit in the last of 8 bits), all between is float32."""
    problem = Problem(4, heads=3, rows=90, dim=24)
    query, key, value = (t.bfloat16() for t in (problem.query, problem.key, problem.value))
    params = [p.float() for p in problem.params]
    out, lse = ssa_attention.attention(query, key, value, params=params, return_lse=True, kernel="composed")
    half = ssa_attention.attention(query.float(), key.float(), value.float(), params=params, kernel="composed")
    assert ssa_attention.last_attention_path() == "composed"
    assert out.dtype == torch.bfloat16 and lse.dtype == torch.float32
    assert torch.equal(out, half.bfloat16())


@pytest.mark.parametrize("kernel", ["fused", "composed"])
def test_bfloat16_gradients_of_parameters_do_not_suffer_from_the_rounding_of_out(kernel):
    """dn and db cancel a thousandfold: taken from a bfloat16 out they would be wrong in the first digits."""
    problem = bfloat16_problem(9, heads=3, rows=300, dim=32)
    ours = problem.run(torch.float32, in_type(torch.bfloat16, operator(kernel)), causal=True)
    in_float32 = problem.run(torch.float32, operator("fused"), causal=True)
    for name in ("dn", "db"):
        assert (ours[name] - in_float32[name]).abs().max() <= 1e-4 * in_float32[name].abs().max()
