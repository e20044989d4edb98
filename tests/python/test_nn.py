"""Modules: parametrisations, freezing, and the self-attention layer against torch's own."""

import copy
import math

import pytest
import torch
from ssa_attention import attention, scores
from ssa_attention.nn import Attention, ScoreParameters, SelfAttention

SCORES = list(scores())


def qkv(heads=4, length=7, dim=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, heads, length, dim, generator=generator) for _ in range(3)]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("parametrisation", ["softplus", "exp", "raw"])
@pytest.mark.parametrize("per_head", [True, False])
def test_starts_from_the_scores_own_values(score, parametrisation, per_head):
    module = ScoreParameters(4, score, per_head=per_head, parametrisation=parametrisation)
    values = module.values()
    assert list(values) == [p.name for p in scores()[score].params]
    for param in scores()[score].params:
        expected = torch.full((4 if per_head else 1,), param.initial)
        torch.testing.assert_close(values[param.name], expected, rtol=1e-6, atol=0)


def test_softplus_keeps_n_above_one_and_b_above_zero():
    module = ScoreParameters(3)
    with torch.no_grad():
        module.score_n.fill_(-8.0)
        module.score_b.fill_(-8.0)
    n, b = module()
    assert (n > 1).all() and (b > 0).all()
    torch.testing.assert_close(n - 1, b, rtol=1e-3, atol=0)  # both log(1 + exp(-8)), n rounded at 1


def test_exp_and_raw_are_what_they_say():
    exp = ScoreParameters(2, parametrisation="exp", initial={"n": math.exp(0.4), "b": math.e})
    torch.testing.assert_close(exp.score_n, torch.full((2,), 0.4))
    torch.testing.assert_close(exp.score_b, torch.full((2,), 1.0))
    raw = ScoreParameters(2, parametrisation="raw", frozen=["b"])
    assert torch.equal(raw()[0], raw.score_n) and not raw.score_b.requires_grad and raw.score_n.requires_grad


def test_extreme_initial_values_survive_the_round_trip():
    for value in (1e-6, 1e-3, 30.0, 1e4):
        found = ScoreParameters(1, initial={"n": 1 + value, "b": value}).values()
        assert found["b"].item() == pytest.approx(value, rel=1e-5)
        assert found["n"].item() == pytest.approx(1 + value, rel=1e-6)


def test_what_is_trained():
    assert ScoreParameters(2).score_n.requires_grad
    assert not ScoreParameters(2, "temperature").score_tau.requires_grad  # the list says so
    assert ScoreParameters(2, "temperature", frozen=[]).score_tau.requires_grad
    frozen = ScoreParameters(2, frozen="n")
    assert not frozen.score_n.requires_grad and frozen.score_b.requires_grad
    assert list(ScoreParameters(2, "softmax").parameters()) == []


@pytest.mark.parametrize(
    "options, message",
    [
        ({"score": "nothing"}, "score 'nothing' is unknown; known scores: "),
        ({"parametrisation": "log"}, 'parametrisation must be "softplus", "exp" or "raw", got \'log\''),
        ({"initial": {"m": 1.0}}, r"initial: score 'ssa' has the parameters \['n', 'b'\], not \['m'\]"),
        ({"frozen": ["c"]}, r"frozen: score 'ssa' has the parameters \['n', 'b'\], not \['c'\]"),
        ({"initial": {"n": 1.0}}, r"initial n must be > 1 \(softplus\), got 1"),
        ({"initial": {"b": -1.0}, "parametrisation": "exp"}, r"initial b must be > 0 \(exp\), got -1"),
        ({"initial": {"b": math.nan}}, r"initial b must be > 0 \(softplus\), got nan"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        ScoreParameters(2, **options)


@pytest.mark.parametrize("parametrisation", ["softplus", "exp", "raw"])
def test_module_is_the_operator_with_its_values(parametrisation):
    query, key, value = qkv()
    module = Attention(4, parametrisation=parametrisation, initial={"n": 2.5, "b": 0.3})
    out = module(query, key, value, causal=True)
    torch.testing.assert_close(out, attention(query, key, value, n=2.5, b=0.3, causal=True))
    out.square().sum().backward()
    for name in ("score_n", "score_b"):
        assert getattr(module.parameters_of_score, name).grad.abs().min() > 0


def test_gradient_of_raw_parameters_is_that_of_finite_differences():
    query, key, value = (t.double() for t in qkv(heads=2, length=4, dim=3))
    module = Attention(2).double()

    def loss(raw_n, raw_b):
        values = {"parameters_of_score.score_n": raw_n, "parameters_of_score.score_b": raw_b}
        return torch.func.functional_call(module, values, (query, key, value)).square().sum()

    raw = [p.detach().clone().requires_grad_() for p in module.parameters()]
    assert torch.autograd.gradcheck(loss, raw)


def test_parameters_stay_float32_in_a_bfloat16_model():
    module = SelfAttention(16, 2).bfloat16()
    assert module.query.weight.dtype == torch.bfloat16
    assert all(p.dtype == torch.float32 for p in module.attention.parameters_of_score.parameters())
    inputs = torch.randn(1, 5, 16).bfloat16()
    out = module(inputs)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert module.double()(torch.randn(1, 5, 16).double()).dtype == torch.float64


def test_window_reaches_the_operator():
    query, key, value = qkv()
    module = Attention(4, window=3)
    expected = attention(query, key, value, params=module.parameters_of_score(), window=3, causal=True)
    assert torch.equal(module(query, key, value, causal=True), expected)
    layer, inputs = SelfAttention(32, 4, causal=True, window=2), torch.randn(1, 6, 32)
    changed = inputs.clone()
    changed[:, 0] = 0
    assert torch.equal(layer(changed)[:, 2:], layer(inputs)[:, 2:])
    assert not torch.equal(layer(changed)[:, 1], layer(inputs)[:, 1])


def test_alibi_and_packed_sequences_reach_the_operator():
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    layer, inputs = SelfAttention(32, 4, causal=True, alibi_slopes=slopes), torch.randn(1, 9, 32)
    assert "attention.alibi_slopes" in layer.state_dict()
    packed = layer(inputs, cu_lengths=torch.tensor([0, 4, 9]))
    alone = torch.cat([layer(inputs[:, :4]), layer(inputs[:, 4:])], 1)
    torch.testing.assert_close(packed, alone)
    layer.attention.alibi_slopes = None
    assert not torch.allclose(layer(inputs[:, :4]), alone[:, :4])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_alibi_under_autocast(dtype):
    """The slopes keep float32, as the parameters do."""
    slopes = torch.tensor([1 / 3, 0.25, 0.125, 0.0625])
    layer, inputs = SelfAttention(32, 4, causal=True, alibi_slopes=slopes), torch.randn(1, 9, 32)
    with torch.autocast("cpu", dtype=dtype):
        out = layer(inputs)
        out.float().sum().backward()
    assert out.dtype == dtype and layer.query.weight.grad.abs().max() > 0
    assert torch.equal(out, copy.deepcopy(layer).to(dtype)(inputs.to(dtype)))
    query, key, value = qkv()
    with torch.autocast("cpu", dtype=dtype):  # slopes that an operation under autocast made
        rounded = attention(query, key, value, alibi_slopes=slopes.to(dtype))
    inside = [tensor.to(dtype) for tensor in (query, key, value)]
    assert torch.equal(rounded, attention(*inside, alibi_slopes=slopes.to(dtype).float()))


def test_dropout_only_in_training():
    query, key, value = qkv()
    module = Attention(4, dropout=0.5)
    assert not torch.equal(module(query, key, value), module(query, key, value))
    module.eval()
    assert torch.equal(module(query, key, value), attention(query, key, value))


def torch_layer(ours, width, heads, causal):
    """torch's own layer with the weights of ours."""
    theirs = torch.nn.MultiheadAttention(width, heads, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    hidden = torch.nn.Transformer.generate_square_subsequent_mask(9) if causal else None
    return lambda x, padding: theirs(x, x, x, attn_mask=hidden, key_padding_mask=padding, need_weights=False)[0]


@pytest.mark.parametrize("causal", [False, True])
def test_softmax_layer_is_torchs_layer(causal):
    torch.manual_seed(0)
    ours = SelfAttention(32, 4, causal=causal, score="softmax")
    theirs = torch_layer(ours, 32, 4, causal)
    inputs = torch.randn(3, 9, 32)
    lengths = torch.tensor([9, 4, 6])
    padding = torch.zeros(3, 9).masked_fill(torch.arange(9) >= lengths.view(3, 1), -math.inf)
    results = []
    for layer in (lambda x: ours(x, key_lengths=lengths), lambda x: theirs(x, padding)):
        leaf = inputs.clone().requires_grad_()
        out = layer(leaf)
        real = torch.arange(9) < lengths.view(3, 1)
        out[real].square().sum().backward()
        results.append((out[real].detach(), leaf.grad))
    for mine, expected in zip(*results, strict=True):
        torch.testing.assert_close(mine, expected)


def test_grouped_heads_and_masks_reach_the_operator():
    torch.manual_seed(1)
    layer = SelfAttention(24, 6, kv_heads=2, score="ssa")
    inputs = torch.randn(2, 5, 24)
    assert layer.key.weight.shape == (8, 24)
    tril = torch.ones(5, 5, dtype=torch.bool).tril()
    causal = copy.deepcopy(layer)
    causal.causal = True
    torch.testing.assert_close(layer(inputs, mask=tril), causal(inputs))
    hide = torch.zeros(5, 5).masked_fill(~tril, -math.inf)
    torch.testing.assert_close(layer(inputs, bias=hide), causal(inputs))


def test_layer_refuses_sizes_that_do_not_divide():
    with pytest.raises(ValueError, match="width must be a multiple of heads, got width 30 and 4 heads"):
        SelfAttention(30, 4)
    with pytest.raises(ValueError, match="heads must be a multiple of kv_heads, got 4 and 3"):
        SelfAttention(32, 4, kv_heads=3)


def test_state_dict_round_trip():
    first, second = SelfAttention(16, 2), SelfAttention(16, 2)
    assert {"attention.parameters_of_score.score_n", "attention.parameters_of_score.score_b"} < set(first.state_dict())
    second.load_state_dict(first.state_dict())
    inputs = torch.randn(1, 4, 16)
    assert torch.equal(first(inputs), second(inputs))


@pytest.mark.parametrize("score", SCORES)
def test_a_layer_learns(score):
    """Regression of the mean over the past: 60 steps of Adam cut the loss to less than half."""
    torch.manual_seed(0)
    layer = SelfAttention(16, 2, causal=True, score=score, frozen=None if score == "cosformer" else [])
    inputs = torch.randn(16, 12, 16)
    targets = inputs.cumsum(1) / torch.arange(1, 13).view(12, 1)
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
    before = [p.clone() for p in layer.attention.parameters()]
    losses = []
    for _ in range(60):
        loss = (layer(inputs) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    moved = [not torch.equal(x, y) for x, y in zip(before, layer.attention.parameters(), strict=True)]
    assert moved == [p.requires_grad for p in layer.attention.parameters()]
