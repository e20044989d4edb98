"""Gradients in float64 against finite differences, and what a second derivative does."""

import pytest
import ssa_attention
import torch
from eager import Problem, family_of, param_names, taken_by

SCORES = list(ssa_attention.scores())


def problem_inputs(score, signs="mixed", **shape):
    """(query, key, value, params…) as float64 leaves. signs "negative": every score is below zero."""
    shape = {"batch": 2, "heads": 4, "kv_heads": 2, "rows": 3, "columns": 5, "dim": 3, "v_dim": 2} | shape
    problem = Problem(1, score=score, **shape)
    query, key = problem.query, problem.key
    if signs == "negative":
        query, key = query.abs() + 0.1, -key.abs() - 0.1
    params = [p.clone().requires_grad_(family_of(score) != "linear") for p in problem.params]
    return [*(t.clone().requires_grad_() for t in (query, key, problem.value)), *params]


def as_function(score, **options):
    def function(query, key, value, *params):
        bias = None
        if len(params) > len(param_names(score)):
            *params, bias = params
        out, lse = ssa_attention.attention(
            query, key, value, score=score, params=list(params), bias=bias, return_lse=True, **options
        )
        return (out, lse) if family_of(score) == "phi" else out

    return function


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("signs", ["mixed", "negative"])
def test_gradcheck(score, signs):
    inputs = problem_inputs(score, signs)
    assert torch.autograd.gradcheck(as_function(score), inputs)


@pytest.mark.parametrize("score", SCORES)
def test_gradcheck_with_every_feature(score):
    inputs = problem_inputs(score, rows=4)
    bias = torch.randn(4, 1, 5, dtype=torch.double, generator=torch.Generator().manual_seed(0)).requires_grad_()
    mask = torch.rand(2, 1, 4, 5, generator=torch.Generator().manual_seed(1)) < 0.8
    mask[..., :2] = True  # no empty row: its lse is -inf, and finite differences of that are NaN
    options = {
        "mask": mask,
        "key_lengths": torch.tensor([3, 5]),
        "causal": True,
        "window": 4,
        "dropout": 0.3,
        "seed": 5,
    }
    function = as_function(score, **taken_by(score, **options))
    assert torch.autograd.gradcheck(function, inputs if family_of(score) == "linear" else [*inputs, bias])


@pytest.mark.parametrize("score", SCORES)
def test_gradcheck_of_packed_sequences(score):
    inputs = problem_inputs(score, batch=1, rows=6, columns=9)
    options = {"cu_query": torch.tensor([0, 2, 2, 6]), "cu_key": torch.tensor([0, 3, 4, 9]), "causal": True}
    options |= {"window": 4, "alibi_slopes": torch.rand(4).double(), "dropout": 0.3, "seed": 5}
    assert torch.autograd.gradcheck(as_function(score, **taken_by(score, **options)), inputs)


@pytest.mark.parametrize("score", SCORES)
def test_gradcheck_of_a_single_input(score):
    inputs = problem_inputs(score)
    for wanted in range(3 if family_of(score) == "linear" else len(inputs)):
        leaves = [t.detach().requires_grad_(i == wanted) for i, t in enumerate(inputs)]
        assert torch.autograd.gradcheck(as_function(score), leaves)


def test_gradcheck_across_blocks():
    """More query rows than one block of the composed path holds."""
    inputs = problem_inputs("ssa", batch=1, heads=1, kv_heads=1, rows=131, columns=3, dim=2, v_dim=1)
    assert torch.autograd.gradcheck(as_function("ssa"), inputs, fast_mode=True)


def test_gradient_of_one_output_alone():
    """The sum of both gradients is the gradient of the sum."""
    inputs = problem_inputs("ssa")
    out, lse = as_function("ssa")(*inputs)
    both, *alone = (
        torch.autograd.grad(x, inputs, retain_graph=True) for x in (out.sum() + lse.sum(), out.sum(), lse.sum())
    )
    for total, from_out, from_lse in zip(both, *alone, strict=True):
        torch.testing.assert_close(from_out + from_lse, total, rtol=1e-12, atol=1e-12)
    assert alone[1][2].abs().max() == 0  # lse does not depend on value


@pytest.mark.parametrize(
    "kernel, dtype", [("composed", torch.double), ("composed", torch.float), ("fused", torch.float)]
)
def test_derivative_at_score_zero_is_that_of_the_formula(kernel, dtype):
    """φ'(0) = n·b: autograd of sgn(s)·log1p(b|s|) would give 0. Query 0 makes every score 0, p = 1/3."""
    query = torch.zeros(1, 1, 1, 2, dtype=dtype, requires_grad=True)
    key = torch.tensor([[1.0, 0], [0, 2], [-1, 1]], dtype=dtype).view(1, 1, 3, 2)
    value = torch.tensor([1.0, 5, 9], dtype=dtype).view(1, 1, 3, 1)
    ssa_attention.attention(query, key, value, n=2.0, b=0.75, scale=1.0, kernel=kernel).backward()
    # dφ = p (v - mean v) = (-4, 0, 4)/3; dq = n·b·Σ dφ·key
    expected = torch.tensor([-8 / 3, 4 / 3], dtype=dtype) * 2 * 0.75
    torch.testing.assert_close(query.grad.flatten(), expected)


@pytest.mark.parametrize("kernel", ["fused", "composed"])
def test_each_gradient_alone_is_the_same(kernel):
    problem = Problem(3, batch=2, heads=4, kv_heads=2, rows=20, columns=33)
    bias = torch.randn(4, 20, 33)
    inputs = [t.float().requires_grad_() for t in (problem.query, problem.key, problem.value, *problem.params, bias)]
    function = as_function("ssa", kernel=kernel)
    d_out = problem.d_out.float()
    together = torch.autograd.grad(function(*inputs)[0], inputs, d_out)
    for i, expected in enumerate(together):
        leaves = [t.detach().requires_grad_(j == i) for j, t in enumerate(inputs)]
        (alone,) = torch.autograd.grad(function(*leaves)[0], leaves[i], d_out)
        assert torch.equal(alone, expected)


def test_second_derivative_is_refused():
    inputs = problem_inputs("ssa")
    out, _ = as_function("ssa")(*inputs)
    gradients = torch.autograd.grad(out.sum(), inputs, create_graph=True)  # fine as long as it is not used
    with pytest.raises(NotImplementedError, match="ssa::attention has no second derivative"):
        gradients[0].sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_types_of_gradients(dtype):
    inner = torch.float64 if dtype == torch.float64 else torch.float32
    query, key, value = (torch.randn(1, 2, 5, 4).to(dtype).requires_grad_() for _ in range(3))
    n, b = (torch.ones(2, dtype=inner, requires_grad=True) for _ in range(2))
    bias = torch.zeros(5, 5, dtype=inner, requires_grad=True)
    out, lse = ssa_attention.attention(query, key, value, n=n, b=b, bias=bias, return_lse=True)
    assert (out.dtype, lse.dtype) == (dtype, inner)
    out.float().sum().backward()
    for tensor in (query, key, value, n, b, bias):
        assert tensor.grad.dtype == tensor.dtype and tensor.grad.shape == tensor.shape
