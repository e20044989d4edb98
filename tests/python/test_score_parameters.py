"""Score parameters keep float32 whatever happens to a module, and never reach the edge of their interval."""

import math

import pytest
import torch
from ssa_attention import attention, scores
from ssa_attention.nn import Attention, ScoreParameters, SelfAttention
from ssa_attention.score_parameters import effective_value, initial_weights, lower_bound

PARAMETERS = [(info.name, param) for info in scores().values() for param in info.params]
IDS = [f"{name}-{param.name}" for name, param in PARAMETERS]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("parametrisation", ["softplus", "exp"])
@pytest.mark.parametrize(("score", "param"), PARAMETERS, ids=IDS)
def test_no_raw_value_is_out_of_range(score, param, parametrisation, dtype):
    raw = torch.tensor([-math.inf, -1e30, -1000, -110, -40, -17, -16.7, 0, 17, 80, 89, 710, 1e30], dtype=dtype)
    if param.module_lower == -math.inf:
        assert torch.equal(effective_value(raw, parametrisation, param), raw)  # any number, as it is
        return
    value = effective_value(raw, parametrisation, param)
    assert value.dtype == dtype
    assert (value > lower_bound(param, parametrisation)).all() and value.isfinite().all()
    assert (value.diff() >= 0).all()


def test_below_the_edge_the_gradient_is_the_parametrisations_own():
    alpha = scores()["entmax"].params[0]
    raw = torch.tensor([-17.0, 0.5], requires_grad=True)
    value = effective_value(raw, "softplus", alpha)
    assert value[0] == 1 + 2**-23  # the next number after 1, which 1 + softplus(-17) would be
    value.sum().backward()
    torch.testing.assert_close(raw.grad, raw.detach().sigmoid(), rtol=1e-5, atol=0)


@pytest.mark.parametrize(("score", "raw"), [("entmax", -20.0), ("ssa", -120.0), ("softcap", -120.0), ("ssmax", -120.0)])
def test_training_goes_on_at_the_edge(score, raw):
    module = Attention(2, score, frozen=[])
    with torch.no_grad():
        for weight in module.parameters():
            weight.fill_(raw)
    query = torch.randn(1, 2, 5, 4, generator=torch.Generator().manual_seed(1))
    out = module(query, query, query)
    assert out.isfinite().all()
    out.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in module.parameters())


CASTS = {
    "to bfloat16": lambda module: module.to(torch.bfloat16),
    "half": lambda module: module.half(),
    "bfloat16": lambda module: module.bfloat16(),
    "down and up again": lambda module: module.bfloat16().float(),
    "to double, then half": lambda module: module.double().half(),
}


@pytest.mark.parametrize("cast", CASTS.values(), ids=CASTS)
def test_casts_keep_every_digit(cast):
    slopes = torch.tensor([1 / 3, 1 / 7])
    layer = SelfAttention(16, 2, causal=True, alibi_slopes=slopes, initial={"n": 4096.123, "b": 1 / 4096.123})
    before = layer.attention.score_values()
    layer = cast(layer)
    after = layer.attention.score_values()
    for name in "nb":
        assert after[name].dtype == torch.float32 and torch.equal(after[name], before[name])
    assert layer.attention.alibi_slopes.dtype == torch.float32 and torch.equal(layer.attention.alibi_slopes, slopes)
    if layer.query.weight.dtype != torch.float16:  # which the operator takes on some devices only
        inputs = torch.randn(1, 5, 16).to(layer.query.weight.dtype)
        layer(inputs).float().sum().backward()
        assert layer.attention.parameters_of_score.score_n.grad.isfinite().all()


def test_small_steps_move_a_bfloat16_model():
    """20 steps of 1e-4 change n = 1.5 by 0.1 %, a quarter of what bfloat16 can tell apart."""
    layer = SelfAttention(16, 2).to(torch.bfloat16)
    raw = layer.attention.parameters_of_score.score_n
    start = raw.detach().clone()
    optimizer = torch.optim.Adam([raw], lr=1e-4)
    for _ in range(20):
        raw.grad = torch.ones_like(raw)
        optimizer.step()
    torch.testing.assert_close(start - raw.detach(), torch.full((2,), 20e-4), rtol=1e-2, atol=0)


def test_float64_by_default():
    torch.set_default_dtype(torch.float64)
    try:
        layer = SelfAttention(16, 2, alibi_slopes=torch.tensor([0.5, 0.25], dtype=torch.float32))
        assert layer.attention.parameters_of_score.score_n.dtype == torch.float64
        assert layer(torch.randn(1, 5, 16)).dtype == torch.float64
        assert layer.float()(torch.randn(1, 5, 16, dtype=torch.float32)).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)
    assert ScoreParameters(2).score_n.dtype == torch.float32


@pytest.mark.parametrize("default", [torch.bfloat16, torch.float16])
def test_float32_under_a_low_default(default):
    torch.set_default_dtype(default)
    try:
        assert ScoreParameters(2).score_n.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("parametrisation", ["softplus", "exp", "raw"])
@pytest.mark.parametrize("n", [4096.0, 2.0**22])
def test_large_n_keeps_its_slope(n, parametrisation):
    values = ScoreParameters(1, parametrisation=parametrisation, initial={"n": n, "b": 1 / n}).values()
    assert values["n"].item() == pytest.approx(n, rel=2e-6)
    assert (values["n"] * values["b"]).item() == pytest.approx(1, abs=2e-6)


def test_bad_values_are_refused():
    with pytest.raises(ValueError, match=r"initial n must be > 1 \(softplus\), got 1"):
        initial_weights(scores()["ssa"], "softplus", {"n": 1.0})
    with pytest.raises(ValueError, match='parametrisation must be "softplus", "exp" or "raw", got \'log\''):
        initial_weights(scores()["softmax"], "log", {})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("number", [0.7, -0.3, 0.0])
def test_a_scale_may_have_a_gradient(number, dtype):
    """As of the formula: query multiplied by it, scale 1, in float64."""
    generator = torch.Generator().manual_seed(2)
    query, key, value = (torch.randn(1, 2, 6, 4, generator=generator).to(dtype) for _ in range(3))
    scale = torch.tensor([number], requires_grad=True)
    exact = torch.tensor(number, dtype=torch.float64, requires_grad=True)
    out = attention(query, key, value, scale=scale, causal=True)
    truth = attention(query.double() * exact, key.double(), value.double(), scale=1.0, causal=True)
    if number:
        assert torch.equal(out, attention(query, key, value, scale=scale.item(), causal=True))
    out.float().square().sum().backward()
    truth.square().sum().backward()
    assert scale.grad.shape == (1,)
    tolerance = 0.05 if dtype == torch.bfloat16 else 1e-5
    assert (scale.grad.double() - exact.grad).abs().item() <= tolerance * max(1.0, exact.grad.abs().item())


def test_gradient_of_a_scale_is_that_of_finite_differences():
    query, key, value = (torch.randn(1, 2, 4, 3, dtype=torch.float64) for _ in range(3))
    scale = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda scale: attention(query, key, value, scale=scale), [scale])


def test_a_scale_is_one_number():
    query = torch.randn(1, 2, 4, 3)
    for wrong in (torch.ones(2), torch.tensor(1)):
        with pytest.raises(ValueError, match="scale must be a number or a floating-point tensor of one element"):
            attention(query, query, query, scale=wrong)
