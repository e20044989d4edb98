"""Which keys a query sees, what the shapes may be, and what repeats bit for bit."""

import math
import os
import subprocess
import sys

import pytest
import ssa_attention
import torch
from eager import Problem, distances, eager_attention, family_of, hidden_pairs, operator, paths_of, taken_by

KERNELS = pytest.mark.parametrize("kernel", ["fused", "composed"])
DTYPE = {"fused": torch.float32, "composed": torch.float64}
NAMES = ["out", "lse", "dq", "dk", "dv", "dn", "db"]


def normal(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def gradients(kernel, inputs, **options):
    """out, lse and the gradients of out.sum() + lse.sum() over rows that see a key."""
    leaves = [t.clone().requires_grad_() for t in inputs]
    query, key, value, n, b = leaves
    out, lse = operator(kernel)(query, key, value, n=n, b=b, **options)
    (out.sum() + lse[lse > -math.inf].sum()).backward()
    return [out.detach(), lse.detach(), *(t.grad for t in leaves)]


def inputs_of(kernel, batch=2, heads=4, kv_heads=2, rows=6, columns=9, dim=5):
    dtype = DTYPE[kernel]
    shapes = [(batch, heads, rows, dim), (batch, kv_heads, columns, dim), (batch, kv_heads, columns, 3)]
    tensors = [normal(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]
    return [*tensors, torch.tensor([1.5], dtype=dtype), torch.linspace(0.5, 2, heads, dtype=dtype)]


@KERNELS
@pytest.mark.parametrize("rows, columns", [(5, 5), (3, 8), (1, 8), (8, 3), (130, 135)])
def test_causal_is_aligned_at_the_bottom_right(kernel, rows, columns):
    query, key, value, n, b = inputs_of(kernel, rows=rows, columns=columns)
    mask = torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows)
    for causal, masked in zip(
        gradients(kernel, [query, key, value, n, b], causal=True),
        gradients(kernel, [query, key, value, n, b], mask=mask),
        strict=True,
    ):
        torch.testing.assert_close(causal, masked)


@KERNELS
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 3, 70, 2**62])
@pytest.mark.parametrize("rows, columns", [(9, 9), (3, 200), (150, 40), (260, 265)])
def test_a_window_is_a_mask_by_distance(kernel, causal, window, rows, columns):
    inputs = inputs_of(kernel, rows=rows, columns=columns)
    hidden = hidden_pairs(*inputs[:2], causal=causal, window=window)[0, 0]
    windowed = gradients(kernel, inputs, causal=causal, window=window)
    for name, ours, masked in zip(NAMES, windowed, gradients(kernel, inputs, mask=~hidden), strict=True):
        torch.testing.assert_close(ours, masked, msg=lambda text, name=name: f"{name}: {text}")
    weights = ssa_attention.attention_weights(*inputs[:2], causal=causal, window=window)
    assert torch.equal(weights != 0, ~hidden.expand_as(weights))


@KERNELS
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows, columns", [(9, 9), (3, 200), (150, 40)])
def test_alibi_is_a_bias_by_distance(kernel, causal, rows, columns):
    inputs = inputs_of(kernel, rows=rows, columns=columns)
    slopes = torch.tensor([0.5, 0.03, 0, -0.01], dtype=inputs[0].dtype)
    bias = -slopes.view(4, 1, 1) * distances(*inputs[:2]).abs()
    ours = gradients(kernel, inputs, causal=causal, alibi_slopes=slopes)
    for name, one, other in zip(NAMES, ours, gradients(kernel, inputs, causal=causal, bias=bias), strict=True):
        torch.testing.assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")
    of_one = gradients(kernel, inputs, causal=causal, alibi_slopes=slopes[:1])
    for one, other in zip(of_one, gradients(kernel, inputs, causal=causal, bias=bias[:1]), strict=True):
        torch.testing.assert_close(one, other)
    weights = [
        ssa_attention.attention_weights(*inputs[:2], causal=causal, **o)
        for o in ({"alibi_slopes": slopes}, {"bias": bias})
    ]
    torch.testing.assert_close(*weights)


@KERNELS
@pytest.mark.parametrize("score", ["ssa", "sink", "ssmax", "sparsemax", "cosformer"])
def test_packed_sequences_are_calls_of_their_own(kernel, score):
    """Bit for bit on the fused path, empty sequences, NaN in keys that no query has, and cu of either type."""
    if kernel not in paths_of(score):
        pytest.skip(f"{score} has no {kernel} path")
    rows, columns = [12, 0, 130, 1, 7], [12, 5, 130, 30, 0]
    problem = Problem(3, heads=4, kv_heads=2, rows=sum(rows), columns=sum(columns), dim=5, v_dim=3, score=score)
    dtype = torch.float32 if kernel == "fused" else torch.float64
    inputs = [t.to(dtype) for t in (problem.query, problem.key, problem.value, *problem.params)]
    inputs[1][:, :, 12:17], inputs[2][:, :, 12:17] = math.nan, math.nan
    cu = [torch.tensor([0, *lengths]).cumsum(0) for lengths in (rows, columns)]
    options = {"causal": True, "window": 100, "alibi_slopes": torch.tensor([0.1], dtype=dtype)}
    options = taken_by(score, **options)

    def run(query, key, value, *params, **more):
        leaves = [t.detach().clone().requires_grad_() for t in (query, key, value)]
        trained = family_of(score) != "linear"
        params = [p.clone().requires_grad_(trained) for p in params]
        out, lse = operator(kernel)(*leaves, score=score, params=params, **options, **more)
        out.sum().backward()
        return out.detach(), lse.detach(), [t.grad for t in leaves], [p.grad for p in params if trained]

    out, lse, (dq, dk, dv), dparams = run(*inputs, cu_query=cu[0], cu_key=cu[1].int())
    assert out.isfinite().all() and not dk.isnan().any()
    sums = [torch.zeros_like(d) for d in dparams]
    for s in range(5):
        q, k = slice(cu[0][s], cu[0][s + 1]), slice(cu[1][s], cu[1][s + 1])
        one = run(inputs[0][:, :, q], inputs[1][:, :, k], inputs[2][:, :, k], *inputs[3:])
        same = torch.equal if kernel == "fused" else torch.allclose
        assert same(out[:, :, q], one[0]) and (lse.numel() == 0 or same(lse[:, :, q], one[1]))
        assert same(dq[:, :, q], one[2][0]) and same(dk[:, :, k], one[2][1]) and same(dv[:, :, k], one[2][2])
        for total, part in zip(sums, one[3], strict=True):
            total += part
    for total, ours in zip(sums, dparams, strict=True):
        torch.testing.assert_close(ours, total)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed_dropout_is_that_of_the_composed_path(dtype):
    """Uniform weights, values that tell the keys apart: the same weights fall, sequence by sequence."""
    cu = torch.tensor([0, 40, 41, 150])
    query, value = torch.zeros(1, 2, 150, 4, dtype=dtype), torch.eye(150, dtype=dtype).expand(1, 2, 150, 150)
    fused, composed = (
        ssa_attention.attention(query, query, value, cu_query=cu, cu_key=cu, dropout=0.4, seed=3, kernel=kernel) == 0
        for kernel in ("fused", "composed")
    )
    assert torch.equal(fused, composed)
    hidden = torch.block_diag(*(torch.ones(n, n) for n in (40, 1, 109))) == 0
    assert fused[..., hidden].all() and 0.3 < fused[..., ~hidden].float().mean() < 0.5


@KERNELS
def test_last_rows_of_a_long_sequence_see_their_past(kernel):
    """Decoding: the outputs for the last 3 queries are those of the whole sequence."""
    query, key, value, n, b = inputs_of(kernel, rows=9)
    whole = ssa_attention.attention(query, key, value, n=n, b=b, causal=True, kernel=kernel)
    last = ssa_attention.attention(query[:, :, 6:], key, value, n=n, b=b, causal=True, kernel=kernel)
    torch.testing.assert_close(last, whole[:, :, 6:])


@KERNELS
def test_grouped_heads_equal_repeated_heads(kernel):
    query, key, value, n, b = inputs_of(kernel, heads=6, kv_heads=2)
    grouped = ssa_attention.attention(query, key, value, n=n, b=b, kernel=kernel)
    repeated = ssa_attention.attention(
        query, key.repeat_interleave(3, 1), value.repeat_interleave(3, 1), n=n, b=b, kernel=kernel
    )
    torch.testing.assert_close(grouped, repeated)


@KERNELS
def test_mask_key_lengths_and_minus_infinity_say_the_same(kernel):
    inputs = inputs_of(kernel)
    lengths = torch.tensor([4, 9])
    mask = torch.arange(9) < lengths.view(2, 1, 1, 1)
    bias = torch.zeros(2, 1, 1, 9, dtype=inputs[0].dtype).masked_fill(~mask, -math.inf)
    by_lengths = gradients(kernel, inputs, key_lengths=lengths)
    for options in ({"mask": mask}, {"bias": bias}):
        for ours, expected in zip(gradients(kernel, inputs, **options), by_lengths, strict=True):
            torch.testing.assert_close(ours, expected)


@KERNELS
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("hide", ["key_lengths", "mask", "bias", "causal mask", "window"])
def test_keys_that_no_row_sees_may_hold_anything(kernel, poison, hide):
    query, key, value, n, b = inputs_of(kernel)
    mask = torch.arange(9).expand(6, 9) < 7
    options = {
        "key_lengths": {"key_lengths": torch.tensor([7, 7])},
        "mask": {"mask": mask},
        "bias": {"bias": torch.zeros(6, 9, dtype=key.dtype).masked_fill(~mask, -math.inf)},
        # Key 8 is open in the mask for the rows that causality keeps from it, and hidden for the last one.
        "causal mask": {"mask": mask | (torch.arange(6).view(6, 1) < 4), "causal": True},
        # The first query stands at key 3.
        "window": {"window": 2},
    }[hide]
    expected = gradients(kernel, [query, key, value, n, b], **options)
    hidden = {"causal mask": [8], "window": [0, 1]}.get(hide, [7, 8])
    key, value = key.clone(), value.clone()
    key[:, :, hidden] = poison
    value[:, :, hidden] = poison
    poisoned = gradients(kernel, [query, key, value, n, b], **options)
    for name, ours, clean in zip(NAMES, poisoned, expected, strict=True):
        assert torch.equal(ours, clean), name
    assert poisoned[3][:, :, hidden].abs().max() == 0 and poisoned[4][:, :, hidden].abs().max() == 0


@KERNELS
def test_a_nan_in_a_visible_key_is_not_hidden(kernel):
    query, key, value, n, b = inputs_of(kernel)
    key[0, 0, 2] = math.nan
    out = ssa_attention.attention(query, key, value, n=n, b=b, kernel=kernel)
    assert out[0, :2].isnan().all() and out[0, 2:].isfinite().all() and out[1].isfinite().all()


@KERNELS
def test_rows_without_a_key_are_zero(kernel):
    query, key, value, n, b = inputs_of(kernel)
    query[:, :, 2] = math.nan  # even so
    mask = torch.ones(6, 9, dtype=torch.bool)
    mask[2] = False
    bias = torch.zeros(4, 6, 9, dtype=key.dtype, requires_grad=True)
    leaves = [t.clone().requires_grad_() for t in (query, key, value, n, b)]
    out, lse = operator(kernel)(*leaves[:3], n=leaves[3], b=leaves[4], mask=mask, bias=bias)
    torch.autograd.backward([out, lse], [torch.ones_like(out), torch.ones_like(lse)])
    assert out[:, :, 2].abs().max() == 0 and (lse[:, :, 2] == -math.inf).all()
    assert leaves[0].grad[:, :, 2].abs().max() == 0 and bias.grad[:, 2].abs().max() == 0
    for leaf in leaves:
        assert leaf.grad.isfinite().all()


@KERNELS
def test_no_key_at_all(kernel):
    inputs = inputs_of(kernel)
    out, lse, *grads = gradients(kernel, inputs, key_lengths=torch.tensor([0, 0]))
    assert out.abs().max() == 0 and (lse == -math.inf).all()
    for gradient in grads:
        assert gradient.abs().max() == 0


@pytest.fixture
def memory_of_nan():
    """New tensors hold NaN until they are written."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@KERNELS
@pytest.mark.parametrize("empty", ["batch", "heads", "rows", "columns", "dim", "v_dim"])
def test_dimensions_of_size_zero(kernel, empty, memory_of_nan):
    size = {"batch": 2, "heads": 2, "rows": 3, "columns": 4, "dim": 5, "v_dim": 6} | {empty: 0}
    dtype = DTYPE[kernel]
    query = normal(size["batch"], size["heads"], size["rows"], size["dim"], dtype=dtype).requires_grad_()
    key = normal(size["batch"], size["heads"], size["columns"], size["dim"], dtype=dtype).requires_grad_()
    value = normal(size["batch"], size["heads"], size["columns"], size["v_dim"], dtype=dtype).requires_grad_()
    n, b = (torch.full((1,), x, dtype=dtype, requires_grad=True) for x in (1.5, 0.8))
    bias = torch.zeros(1, size["columns"], dtype=dtype, requires_grad=True)
    out, lse = operator(kernel)(query, key, value, n=n, b=b, bias=bias)
    assert out.shape == (size["batch"], size["heads"], size["rows"], size["v_dim"]) and lse.shape == out.shape[:3]
    if empty == "columns":
        assert (out == 0).all() and (lse == -math.inf).all()
    if empty == "dim":  # every score is 0
        torch.testing.assert_close(out, value.mean(2, keepdim=True).expand_as(out))
    torch.autograd.backward([out, lse], [torch.ones_like(out), torch.zeros_like(lse)])
    for leaf in (query, key, value, n, b, bias):
        assert leaf.grad.shape == leaf.shape and leaf.grad.isfinite().all()


@KERNELS
def test_any_strides(kernel):
    query, key, value, n, b = inputs_of(kernel, dim=6)
    contiguous = gradients(kernel, [query, key, value, n, b])

    def heads_inside(t):  # (batch, length, heads, dimension) underneath
        return t.transpose(1, 2).contiguous().transpose(1, 2)

    def every_other(t):
        return torch.stack([t, t.new_full(t.shape, math.nan)], -1).flatten(-2)[..., ::2]

    def transposed(t):
        return t.transpose(2, 3).contiguous().transpose(2, 3)

    for layout in (heads_inside, every_other, transposed):
        leaves = [layout(t).detach().requires_grad_() for t in (query, key, value)]
        parameters = [every_other(t).requires_grad_() for t in (n, b)]
        assert any(not t.is_contiguous() for t in leaves)
        out, lse = operator(kernel)(*leaves, n=parameters[0], b=parameters[1])
        (out.sum() + lse.sum()).backward()
        found = [out, lse, *(t.grad for t in (*leaves, *parameters))]
        for ours, expected in zip(found, contiguous, strict=True):
            torch.testing.assert_close(ours.detach(), expected)


@KERNELS
def test_expanded_inputs(kernel):
    query, key, value, n, b = inputs_of(kernel, kv_heads=1)
    expanded = [key.expand(2, 4, 9, 5), value.expand(2, 4, 9, 3), torch.ones(1, 1, dtype=torch.bool).expand(6, 9)]
    assert 0 in expanded[0].stride()
    torch.testing.assert_close(
        ssa_attention.attention(query, *expanded[:2], mask=expanded[2], n=n, b=b, kernel=kernel),
        ssa_attention.attention(query, key, value, n=n, b=b, kernel=kernel),
    )


@KERNELS
@pytest.mark.parametrize("shape", [(6, 9), (4, 6, 9), (2, 1, 1, 9), (1, 4, 6, 1), (2, 4, 6, 9), (1, 1)])
def test_masks_broadcast(kernel, shape):
    inputs = inputs_of(kernel)
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(4)) < 0.7
    for ours, expected in zip(
        gradients(kernel, inputs, mask=mask),
        gradients(kernel, inputs, mask=mask.expand(2, 4, 6, 9).contiguous()),
        strict=True,
    ):
        torch.testing.assert_close(ours, expected)


@KERNELS
def test_lse_merges_split_keys(kernel):
    query, key, value, n, b = inputs_of(kernel, kv_heads=4)
    whole, whole_lse = operator(kernel)(query, key, value, n=n, b=b)
    halves = [
        operator(kernel)(query, key[:, :, part], value[:, :, part], n=n, b=b) for part in (slice(0, 4), slice(4, 9))
    ]
    lse = torch.logaddexp(halves[0][1], halves[1][1])
    merged = sum(out * (part_lse - lse).exp().unsqueeze(-1) for out, part_lse in halves)
    torch.testing.assert_close(lse, whole_lse)
    torch.testing.assert_close(merged, whole)


@KERNELS
def test_weights_are_those_of_the_output(kernel):
    query, key, value, n, b = inputs_of(kernel, kv_heads=4)
    options = {
        "n": n,
        "b": b,
        "causal": True,
        "mask": torch.rand(6, 9, generator=torch.Generator().manual_seed(0)) < 0.5,
    }
    weights = ssa_attention.attention_weights(query, key, **options)
    out = ssa_attention.attention(query, key, value, kernel=kernel, **options)
    torch.testing.assert_close(weights @ value, out)
    hidden = hidden_pairs(query, key, mask=options["mask"], causal=True)
    assert (weights[hidden] == 0).all() and not weights.requires_grad
    sums = torch.where(hidden.all(-1), 0.0, 1.0).to(weights.dtype)
    torch.testing.assert_close(weights.sum(-1), sums)


@KERNELS
@pytest.mark.parametrize("threads", [1, 3])
def test_same_input_and_threads_give_the_same_bits(kernel, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        inputs = [t.float() for t in inputs_of(kernel, rows=140, columns=200, dim=17)]
        first, second = (gradients(kernel, inputs, causal=True) for _ in range(2))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(first, second, strict=True):
        assert torch.equal(one, two)


@KERNELS
def test_several_threads_agree_with_one(kernel):
    inputs = [t.float() for t in inputs_of(kernel, rows=140, columns=200, dim=17)]
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(gradients(kernel, inputs, causal=True))
    finally:
        torch.set_num_threads(before)
    for one, three in zip(*results, strict=True):
        torch.testing.assert_close(one, three)


def test_auto_takes_the_fused_path_where_it_can():
    inputs = normal(1, 1, 3, 4)
    for query, options, path in [
        (inputs, {}, "fused"),
        (inputs.double(), {}, "composed"),
        (inputs.bfloat16(), {}, "fused"),
        (inputs, {"dropout": 0.1}, "fused"),
    ]:
        ssa_attention.attention(query, query, query, **options)
        assert ssa_attention.last_attention_path() == path


def test_each_path_is_logged_once():
    script = (
        "import torch, ssa_attention\n"
        "assert ssa_attention.last_attention_path() == ''\n"
        "q = torch.randn(1, 1, 3, 4)\n"
        "for kernel in ('fused', 'composed') * 2: ssa_attention.attention(q, q, q, kernel=kernel)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"TORCH_CPP_LOG_LEVEL": "INFO"},
    )
    assert run.stderr.count("ssa::attention: fused kernels, ") == 1
    assert run.stderr.count("ssa::attention: composed path") == 1


def test_golden_rows():
    """The rows of numbers computed with 30 digits: (n, b) = (1.5, 0.8) and the paper's one huge value."""
    scores = torch.tensor([1.0, -1, -2, 3, 0], dtype=torch.double)
    key = scores.view(1, 1, 5, 1)
    one = torch.ones(1, 1, 1, 1, dtype=torch.double)
    weights = ssa_attention.attention_weights(one, key, scale=1.0).flatten()
    expected = [0.2336254658, 0.04005923625, 0.02307551491, 0.6064985937, 0.0967411894]
    torch.testing.assert_close(weights, torch.tensor(expected, dtype=torch.double), rtol=1e-9, atol=0)
    _, lse = ssa_attention.attention(one, key, key, scale=1.0, return_lse=True)
    assert abs(lse.item() - 2.3357160168201) < 1e-12
    key = torch.tensor([1.0, -1, -2, 1000], dtype=torch.double).view(1, 1, 4, 1)
    huge = ssa_attention.attention_weights(one, key, scale=1.0).flatten()
    expected = [1.065126576e-4, 1.826348725e-5, 1.052040457e-5, 0.9998647035]
    torch.testing.assert_close(huge, torch.tensor(expected, dtype=torch.double), rtol=1e-9, atol=0)


def test_eager_yardstick_is_the_operator_in_double():
    """What the error rule takes for truth is itself checked: two independent programs, 1e-12 apart."""
    problem = Problem(2, batch=2, heads=4, kv_heads=2, rows=140, columns=150)
    options = {"causal": True, "key_lengths": torch.tensor([100, 150])}
    truth = problem.run(torch.float64, eager_attention, **options)
    ours = problem.run(torch.float64, operator("composed"), **options)
    for name in truth:
        torch.testing.assert_close(ours[name], truth[name], rtol=1e-11, atol=1e-11)
