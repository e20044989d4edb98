"""Results over disjoint keys, merged, are the result over all keys, and so are the gradients."""

import itertools
import math

import pytest
import ssa_attention
import torch
from eager import Problem, check_error, eager_attention, operator

PHI = [name for name, info in ssa_attention.scores().items() if info.family == "phi"]


def in_pieces(attention, cuts):
    """The function on each piece of the keys, merged; called as it is."""

    def call(query, key, value, *, score, params, bias=None):
        ends = [0, *cuts, key.shape[2]]
        outs, lses = [], []
        for first, last in itertools.pairwise(ends):
            own = params
            if score == "ssmax":  # it counts the keys it is given
                own = [params[0] * (math.log(key.shape[2]) / math.log(last - first))]
            piece = None if bias is None else bias[..., first:last]
            out, lse = attention(
                query, key[:, :, first:last], value[:, :, first:last], score=score, params=own, bias=piece
            )
            outs.append(out)
            lses.append(lse)
        return ssa_attention.merge(outs, lses, score=score, params=params)

    return call


@pytest.mark.parametrize("cuts", [(2,), (30,), (11, 13, 40)])
@pytest.mark.parametrize("score", PHI)
@pytest.mark.parametrize("dtype, kernel", [(torch.float32, "fused"), (torch.float64, "composed")])
def test_pieces_give_the_whole(score, cuts, dtype, kernel):
    problems = [Problem(seed, batch=2, heads=4, kv_heads=2, rows=5, columns=48, score=score) for seed in range(4)]
    ours = [p.run(dtype, in_pieces(operator(kernel), cuts)) for p in problems]
    whole = [p.run(dtype, eager_attention) for p in problems]
    truth = [p.run(torch.float64, eager_attention) for p in problems]
    for name in truth[0]:
        if dtype == torch.float64:
            for mine, exact in zip(ours, truth, strict=True):
                torch.testing.assert_close(mine[name], exact[name])
        else:
            columns = [torch.cat([results[name].flatten() for results in side]) for side in (ours, whole, truth)]
            check_error(name, *columns, 2 if name in ("out", "lse") else 3)


@pytest.mark.parametrize("score", PHI)
def test_gradcheck(score):
    generator = torch.Generator().manual_seed(0)
    outs = [torch.randn(1, 2, 3, 2, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(3)]
    lses = [torch.randn(1, 2, 3, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(3)]
    sink = [torch.tensor([0.3, -0.8], dtype=torch.float64).requires_grad_()] if score == "sink" else None

    def merged(*tensors):
        return ssa_attention.merge(tensors[:3], tensors[3:6], score=score, params=tensors[6:] or None)

    assert torch.autograd.gradcheck(merged, [*outs, *lses, *(sink or [])])
    assert torch.autograd.gradgradcheck(merged, [*outs, *lses, *(sink or [])])


@pytest.mark.parametrize("score", PHI)
def test_parts_that_saw_nothing(score):
    """Their out is not read, and where no part saw anything all is 0; gradients are finite."""
    outs = [torch.randn(1, 1, 4, 3) for _ in range(2)]
    lses = [torch.randn(1, 1, 4) for _ in range(2)]
    lses[0][0, 0, 1] = lses[1][0, 0, 2] = -math.inf
    lses[0][0, 0, 3] = lses[1][0, 0, 3] = -math.inf
    for out, lse in zip(outs, lses, strict=True):
        out[lse == -math.inf] = math.nan
    leaves = [t.requires_grad_() for t in (*outs, *lses)]
    out, lse = ssa_attention.merge(outs, lses, score=score)
    torch.testing.assert_close(out[0, 0, 1], outs[1][0, 0, 1])
    torch.testing.assert_close(out[0, 0, 2], outs[0][0, 0, 2])
    assert torch.equal(out[0, 0, 3], torch.zeros(3)) and lse[0, 0, 3] == -math.inf
    assert torch.equal(lse[0, 0, 1:3], torch.stack([lses[1][0, 0, 1], lses[0][0, 0, 2]]))
    (out.sum() + lse[lse > -math.inf].sum()).backward()
    for leaf in leaves:
        assert leaf.grad.isfinite().all()
        assert torch.equal(leaf.grad[0, 0, 3], torch.zeros_like(leaf.grad[0, 0, 3]))


def test_rows_without_keys_through_the_operator():
    """Causal: the first queries see no key of the second piece."""
    query, key, value = (torch.randn(1, 2, 6, 4, requires_grad=True) for _ in range(3))
    whole = ssa_attention.attention(query, key, value, causal=True)
    lower = torch.ones(6, 6, dtype=torch.bool).tril()
    pieces = [
        ssa_attention.attention(query, key[:, :, keys], value[:, :, keys], mask=lower[:, keys], return_lse=True)
        for keys in (slice(0, 4), slice(4, 6))
    ]
    out, _ = ssa_attention.merge(*zip(*pieces, strict=True))
    torch.testing.assert_close(out, whole)
    for ours, expected in zip(
        torch.autograd.grad(out.square().sum(), (query, key, value)),
        torch.autograd.grad(whole.square().sum(), (query, key, value)),
        strict=True,
    ):
        torch.testing.assert_close(ours, expected)


def test_bfloat16():
    outs = [torch.randn(1, 2, 3, 4).bfloat16() for _ in range(3)]
    lses = [torch.randn(1, 2, 3) for _ in range(3)]
    out, lse = ssa_attention.merge(outs, lses)
    exact, _ = ssa_attention.merge([o.double() for o in outs], [x.double() for x in lses])
    assert out.dtype == torch.bfloat16 and lse.dtype == torch.float32
    torch.testing.assert_close(out, exact.bfloat16(), rtol=2**-7, atol=0)  # one rounding


OUT, LSE = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3)


@pytest.mark.parametrize(
    "out, lse, options, error, message",
    [
        ([], [], {}, ValueError, "out must have at least one tensor"),
        ([OUT, OUT], [LSE], {}, ValueError, "out and lse must be equally many, got 2 and 1"),
        ([OUT[0]], [LSE], {}, ValueError, r"out\[0\] must have 4 dimensions .* got shape \[2, 3, 4\]"),
        ([OUT, OUT[:, :1]], [LSE, LSE], {}, ValueError, r"out\[1\] has shape \[1, 1, 3, 4\] but out\[0\] \[1, 2, 3, 4\]"),
        ([OUT, OUT.double()], [LSE, LSE], {}, TypeError, r"out\[1\] is Double but out\[0\] is Float"),
        ([OUT], [LSE[:, :1]], {}, ValueError, r"lse\[0\] must have shape \[1, 2, 3\], got \[1, 1, 3\]"),
        ([OUT], [LSE.double()], {}, TypeError, r"lse\[0\] must be Float with an out of Float, got Double"),
        ([OUT], [LSE], {"score": "sparsemax"}, ValueError, 'score "sparsemax" has no lse'),
        ([OUT], [LSE], {"score": "sink", "params": [torch.zeros(3)]}, ValueError, r"parameter z must have shape"),
        ([OUT], [LSE], {"score": "none"}, ValueError, "score 'none' is unknown"),
    ],
)  # fmt: skip
def test_refusals(out, lse, options, error, message):
    with pytest.raises(error, match=message):
        ssa_attention.merge(out, lse, **options)


def test_compiles():
    outs, lses = [OUT + 1, OUT + 2], [LSE, LSE + 1]
    compiled = torch.compile(lambda a, b: ssa_attention.merge(a, b), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(outs, lses), ssa_attention.merge(outs, lses))
