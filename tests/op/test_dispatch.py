"""The operator as torch sees it: schema, Meta, tracing, autocast, functorch."""

import pytest
import ssa_attention
import torch

SCHEMA = (
    "ssa::attention(Tensor query, Tensor key, Tensor value, str score, Tensor[] params, Tensor? mask, Tensor? bias, "
    "Tensor? key_lengths, bool causal, float? scale, float dropout, Tensor? seed, str kernel, int? window, "
    "Tensor? alibi_slopes, Tensor? cu_query, Tensor? cu_key) -> (Tensor out, Tensor lse)"
)


def arguments(dtype=torch.float32, kernel="auto", requires_grad=True, heads_inside=False, dropout=0.0, device="cpu"):
    inner = torch.float64 if dtype == torch.float64 else torch.float32

    def tensor(heads, length, dim):
        if heads_inside:
            data = torch.randn(2, length, heads, dim).to(device, dtype).transpose(1, 2)
        else:
            data = torch.randn(2, heads, length, dim).to(device, dtype)
        return data.requires_grad_(requires_grad)

    params = [
        torch.tensor([1.5, 2, 1, 3], dtype=inner, device=device, requires_grad=requires_grad),
        torch.tensor([0.8], dtype=inner, device=device, requires_grad=requires_grad),
    ]
    bias = torch.randn(4, 1, 7).to(device, inner).requires_grad_(requires_grad)
    lengths = torch.tensor([3, 7], device=device)
    seed = torch.tensor(5) if dropout else None
    return (
        tensor(4, 6, 5), tensor(2, 7, 5), tensor(2, 7, 3), "ssa", params, None, bias, lengths, True, None, dropout,
        seed, kernel, None, None, None, None,
    )  # fmt: skip


def test_schema():
    assert str(torch.ops.ssa.attention.default._schema) == SCHEMA


@pytest.mark.parametrize("heads_inside", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"dtype": torch.float32, "kernel": "fused"},
        {"dtype": torch.float32, "kernel": "composed"},
        {"dtype": torch.float64},
        {"dtype": torch.bfloat16},
        {"dtype": torch.float16},
        {"dtype": torch.float32, "dropout": 0.2},
        {"dtype": torch.float32, "requires_grad": False},
    ],
    ids=str,
)
def test_opcheck(options, heads_inside):
    """torch's own checks: schema, autograd registration, fake tensors against real, tracing with dynamic shapes."""
    torch.library.opcheck(torch.ops.ssa.attention.default, arguments(**options, heads_inside=heads_inside))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_meta_tells_shapes_without_computing(dtype):
    out, lse = torch.ops.ssa.attention(*arguments(dtype, device="meta", requires_grad=False))
    assert out.is_meta and out.shape == (2, 4, 6, 3) and out.dtype == dtype
    assert lse.shape == (2, 4, 6) and lse.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    with pytest.raises(ValueError, match=r"mask of shape \[3, 3\] does not broadcast"):
        query = torch.empty(1, 1, 4, 4, device="meta")
        ssa_attention.attention(query, query, query, mask=torch.ones(3, 3, dtype=torch.bool, device="meta"))


def test_meta_and_tracing_of_window_alibi_and_packed_sequences():
    (
        query,
        key,
        value,
        *_,
    ) = arguments(requires_grad=True)
    query, key, value = (t.detach()[:1].requires_grad_() for t in (query, key, value))
    params = [torch.ones(1), torch.ones(1)]
    late = [3, torch.rand(4), torch.tensor([0, 2, 6]), torch.tensor([0, 5, 7])]
    call = (query, key, value, "ssa", params, None, None, None, True, None, 0.1, torch.tensor(4), "auto", *late)
    torch.library.opcheck(torch.ops.ssa.attention.default, call)

    def attention(query, key, value):
        return torch.ops.ssa.attention(query, key, value, *call[3:])[0]

    compiled = torch.compile(attention, backend="aot_eager", fullgraph=True)
    inputs = (query, key, value)
    for ours, eager in zip(
        torch.autograd.grad(compiled(*inputs).sum(), inputs),
        torch.autograd.grad(attention(*inputs).sum(), inputs),
        strict=True,
    ):
        assert torch.equal(ours, eager)


def test_out_has_the_layout_of_query():
    """A model that splits heads by a view gets back a view that joins them without a copy."""
    query, key, value = (torch.randn(2, 6, 4, 5).transpose(1, 2) for _ in range(3))
    for kernel in ("fused", "composed"):
        out = ssa_attention.attention(query, key, value, kernel=kernel)
        assert out.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("kernel", ["fused", "composed"])
def test_compile_and_export(kernel):
    torch.manual_seed(0)
    model = ssa_attention.nn.SelfAttention(32, 4, kv_heads=2, causal=True, kernel=kernel)
    inputs = torch.randn(2, 9, 32)
    expected = model(inputs)
    expected.sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    traced = compiled(inputs)
    traced.sum().backward()
    torch.testing.assert_close(traced, expected)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name])
    dims = {"inputs": {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}}
    exported = torch.export.export(model, (inputs,), dynamic_shapes=dims).module()
    longer = torch.randn(3, 17, 32)
    torch.testing.assert_close(exported(longer), model(longer))


def test_seeds_under_compile():
    """A seed that changes compiles nothing again, and none given is drawn anew at every run of the graph."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    query = torch.randn(1, 2, 30, 8, requires_grad=True)

    @torch.compile(backend=counter, fullgraph=True)
    def seeded(q, seed):
        return ssa_attention.attention(q, q, q, dropout=0.5, seed=seed)

    for seed in (3, 4, 5):
        ours = seeded(query, torch.tensor(seed))
        eager = ssa_attention.attention(query, query, query, dropout=0.5, seed=seed)
        assert torch.equal(ours, eager)
        pair = (torch.autograd.grad(out.sum(), query)[0] for out in (ours, eager))
        torch.testing.assert_close(*pair)
    assert counter.frame_count == 1

    module = ssa_attention.nn.Attention(2, dropout=0.5)
    drawn = torch.compile(module, backend="aot_eager", fullgraph=True)
    torch.manual_seed(1)
    first, second = drawn(query, query, query), drawn(query, query, query)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(drawn(query, query, query), first)
    # The backward pass of a drawn seed has the forward's weights: out is linear in value.
    value = torch.randn(1, 2, 30, 8, requires_grad=True)
    out = drawn(query, query, value)
    (d_value,) = torch.autograd.grad(out.sum(), value)
    torch.testing.assert_close((value * d_value).sum(), out.sum())
    assert torch.equal(
        module(query, query, query, seed=torch.tensor(9)), drawn(query, query, query, seed=torch.tensor(9))
    )


def test_attention_weights_are_traced_and_have_no_gradient():
    call = arguments()
    of_weights = (call[0], call[1], *call[3:10], None, None)
    torch.library.opcheck(torch.ops.ssa.attention_weights.default, of_weights)
    meta = torch.empty(2, 4, 6, 5, device="meta", dtype=torch.float16)
    weights = ssa_attention.attention_weights(meta, meta)
    assert weights.is_meta and weights.shape == (2, 4, 6, 6) and weights.dtype == torch.float32

    class Weights(torch.nn.Module):
        def forward(self, query):
            return ssa_attention.attention_weights(query, query, causal=True)

    query = torch.randn(1, 2, 6, 5, requires_grad=True)
    expected = Weights()(query)
    assert not expected.requires_grad
    torch.testing.assert_close(torch.compile(Weights(), backend="aot_eager", fullgraph=True)(query), expected)
    exported = torch.export.export(Weights(), (query,), dynamic_shapes={"query": {2: torch.export.Dim("length")}})
    longer = torch.randn(1, 2, 9, 5)
    torch.testing.assert_close(exported.module()(longer), Weights()(longer))


def test_merge_is_traced():
    query = torch.randn(1, 2, 6, 8, requires_grad=True)

    def halves(query):
        parts = [ssa_attention.attention(query, k, k, return_lse=True) for k in query.chunk(2, 2)]
        out, lse = zip(*parts, strict=True)
        return ssa_attention.merge(out, lse)[0]

    torch.testing.assert_close(torch.compile(halves, backend="aot_eager", fullgraph=True)(query), halves(query))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("score", ssa_attention.scores())
def test_what_is_read_on_a_device_is_read_nowhere(score, packed):
    """On the meta device no value can be read: the composed path of other devices asks for none. Cumulative lengths lie
    on the CPU, where they can be read."""
    query = torch.empty(1, 2, 9, 8, device="meta")
    dropout = 0.0 if score == "cosformer" else 0.1
    params = [torch.full((1,), p.initial, device="meta") for p in ssa_attention.scores()[score].params]
    lengths = torch.tensor([0, 3, 9]) if packed else None
    call = (
        query, query, query, score, params, None, None, None, True, None, dropout,
        torch.empty((), dtype=torch.int64, device="meta") if dropout else None, "auto", None, None, lengths, lengths,
    )  # fmt: skip
    out, lse = torch.ops.ssa._composed_attention(*call)
    assert out.shape == query.shape
    wanted = [True] * 3 + [score != "cosformer"] * len(params)
    gradients = torch.ops.ssa._composed_attention_backward(out, lse, out, None, wanted, *call)
    assert [each.shape for each in gradients] == [each.shape for each in (query, query, query, *params)][: sum(wanted)]


def test_autocast_keeps_parameters_and_bias_in_float32():
    query, key, value = (torch.randn(2, 4, 10, 8, requires_grad=True) for _ in range(3))
    n = torch.full((4,), 1.5, requires_grad=True)
    bias = torch.randn(10, 10, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, lse = ssa_attention.attention(query, key, value, n=n, bias=bias, return_lse=True)
    assert out.dtype == torch.bfloat16 and lse.dtype == torch.float32
    inside = [t.bfloat16() for t in (query, key, value)]
    assert torch.equal(out, ssa_attention.attention(*inside, n=n, bias=bias))
    out.float().sum().backward()
    for leaf in (query, key, value, n, bias):
        assert leaf.grad.dtype == torch.float32 and leaf.grad.abs().max() > 0


def test_functorch_is_refused_not_wrong():
    query = torch.randn(1, 1, 3, 4)
    with pytest.raises(RuntimeError, match="functorch"):
        torch.func.grad(lambda q: ssa_attention.attention(q, q, q).sum())(query)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="jvp is not implemented"):
        dual = torch.autograd.forward_ad.make_dual(query, query)
        ssa_attention.attention(dual, dual, dual)


@pytest.mark.parametrize("score", ssa_attention.scores())
def test_compiled_gradients_of_every_score(score):
    """The strides that Meta promises are those of the gradients: query, key and value as a projection gives them."""
    params = [torch.full((4,), p.initial) for p in ssa_attention.scores()[score].params]

    def attention(*inputs):
        query, key, value = (x.view(2, 6, 4, 4).transpose(1, 2) for x in inputs)
        return ssa_attention.attention(query, key, value, score=score, params=params)

    inputs = [torch.randn(2, 6, 16, requires_grad=True) for _ in range(3)]
    expected = torch.autograd.grad(attention(*inputs).sum(), inputs)
    torch._dynamo.reset()  # a closure for each score: eight would reach its limit
    compiled = torch.compile(attention, backend="aot_eager", fullgraph=True)
    for ours, eager in zip(torch.autograd.grad(compiled(*inputs).sum(), inputs), expected, strict=True):
        assert torch.equal(ours, eager)
