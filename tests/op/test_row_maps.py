"""row_maps.cc and cosformer.cc against the entmax package, row_maps.py, finite differences and edge cases."""

import os
from pathlib import Path

import entmax
import pytest
import row_maps
import torch

torch.set_num_threads(1)
torch.ops.load_library(str(Path(os.environ["SSA_BINARY"]).parents[1] / "lib/librow_map_functions.so"))
ours = torch.ops.ssa_row_maps

MAPS = list(row_maps.ROW_MAPS)
SIMPLEX = ["sparsemax", "entmax15", "entmax"]
SHAPES = [(5, 7, 1.0), (4, 150, 1.0), (4, 150, 5.0), (3, 33, 100.0)]
NAN = float("nan")


def column(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype).view(1, -1, 1, 1)


def params_of(name, heads=2, alphas=(1.3, 2.2)):
    """Exact in float32, one per head."""
    if name == "entmax":
        return [column(alphas).expand(1, heads, 1, 1).float().double()]
    return [column([0.5, -1.25])] if name == "sigmoid" else []


def problem(name, seed=0, rows=5, keys=7, size=1.0, alphas=(1.3, 2.2)):
    """scores, hidden, params, d_weights; row 0 sees nothing and row 1 a single key."""
    generator = torch.Generator().manual_seed(seed)

    def normal():
        return torch.randn(2, 2, rows, keys, generator=generator).double()

    scores = normal() * size
    hidden = torch.rand(2, 1, rows, keys, generator=generator) < 0.3
    hidden[:, :, 0] = True
    hidden[:, :, 1] = torch.arange(keys) != keys // 2
    hidden[:, :, 2:, 0] = False
    return scores.float().double().masked_fill(hidden, 0), hidden, params_of(name, alphas=alphas), normal()


def run_ours(name, scores, hidden, params, d_weights):
    """weights, gradient of the scores, gradients of the parameters."""
    weights = ours.weights(name, scores, hidden, params)
    d_scores, *d_params = ours.gradients(name, scores, hidden, params, weights, d_weights)
    for d_param in d_params:
        assert d_param.shape in (scores.shape, (*scores.shape[:3], 1))
    return [weights, d_scores, *(d.sum_to_size(p.shape) for d, p in zip(d_params, params, strict=True))]


def run_reference(name, scores, hidden, params, d_weights):
    leaves = [each.clone().requires_grad_() for each in (scores, *params)]
    weights = row_maps.weights(name, leaves[0], hidden, leaves[1:])
    return [weights.detach(), *torch.autograd.grad(weights, leaves, d_weights)]


def cast(arguments, dtype):
    scores, hidden, params, d_weights = arguments
    return scores.to(dtype), hidden, [p.to(dtype) for p in params], d_weights.to(dtype)


def check_close(got, expected, tolerance=1e-12):
    """Relative to the largest; gradients that cancel to nothing leave the rounding of their terms, near 1."""
    assert got.shape == expected.shape
    scale = max(0.01, expected.abs().max().item())
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance * scale)


def by_row_kind(columns):
    """Outputs of several problems of one kind, (ours, eager, truth), by label; apart the rows that see one key, whose
    weight of 1 would hide the errors of small weights."""
    names = ["weights", "d_scores", "d_param"]
    for i, triple in enumerate(zip(*columns, strict=True)):
        if i == 2:
            yield names[i], triple
        else:
            yield names[i] + " of one key", [each[..., 1, :] for each in triple]
            yield names[i], [each[..., 2:, :] for each in triple]


def check_rule(label, got, eager, truth, times):
    """Our error is at most `times` that of the same formula in float32, plus 4 units of ε max|truth|."""
    unit = torch.finfo(torch.float32).eps * truth.abs().max().item()
    error = (got.double() - truth).abs().max().item()
    yardstick = (eager.double() - truth).abs().max().item()
    print(f"{label}: {error / (unit or 1):.2f} against {yardstick / (unit or 1):.2f} units of eps max|truth|")
    assert error <= times * yardstick + 4 * unit, (label, error, yardstick, unit)


# Row maps: values and gradients


@pytest.mark.parametrize("rows, keys, size", SHAPES)
@pytest.mark.parametrize("name", MAPS)
def test_float64_is_the_reference(name, rows, keys, size):
    for seed in range(4):
        arguments = problem(name, seed, rows, keys, size)
        for got, expected in zip(run_ours(name, *arguments), run_reference(name, *arguments), strict=True):
            check_close(got, expected)


@pytest.mark.parametrize("alphas", [(1.001, 1.001), (1.5, 1.5), (2.0, 2.0), (4.0, 4.0)])
def test_entmax_of_several_alphas_in_float64(alphas):
    tolerance = 1e-7 if alphas[0] in (1.001, 4.0) else 1e-10  # there the reference itself loses digits
    for seed in range(4):
        for rows, keys, size in SHAPES:
            arguments = problem("entmax", seed, rows, keys, size, alphas)
            for got, expected in zip(run_ours("entmax", *arguments), run_reference("entmax", *arguments), strict=True):
                check_close(got, expected, tolerance)


@pytest.mark.parametrize("rows, keys, size", SHAPES)
@pytest.mark.parametrize("name", [*MAPS, "entmax 1.001", "entmax 1.5", "entmax 2", "entmax 4"])
def test_float32_keeps_the_error_rule(name, rows, keys, size):
    name, _, alpha = name.partition(" ")
    options = {"alphas": (float(alpha),) * 2} if alpha else {}
    outputs = []
    for seed in range(8):
        arguments = problem(name, seed, rows, keys, size, **options)
        single = cast(arguments, torch.float32)
        outputs.append((run_ours(name, *single), run_reference(name, *single), run_reference(name, *arguments)))
    sides = zip(*outputs, strict=True)
    columns = [[torch.stack(each) for each in zip(*side, strict=True)] for side in sides]
    for label, triple in by_row_kind(columns):
        times = 2 if label.startswith("weights") else 3
        check_rule(f"{name} {alpha} {keys} keys x{size} {label}", *triple, times)


@pytest.mark.parametrize("alpha", [1.0001, 1.5, 4.0])
def test_entmax_of_many_scores_close_to_each_other(alpha):
    """As at the start of a training. Here α - 1 times a score less τ would keep few digits, and dα cancels."""
    outputs = []
    for seed in range(3):
        arguments = problem("entmax", seed, 4, 1000, 0.001, (alpha, alpha))
        single = cast(arguments, torch.float32)
        runs = (run_ours("entmax", *single), run_reference("entmax", *single), run_reference("entmax", *arguments))
        outputs.append(runs)
    columns = [[torch.stack(each) for each in zip(*side, strict=True)] for side in zip(*outputs, strict=True)]
    for label, triple in by_row_kind(columns):
        check_rule(f"entmax {alpha} 1000 keys x0.001 {label}", *triple, 2 if label.startswith("weights") else 3)


@pytest.mark.parametrize(
    "name, alpha", [("sparsemax", 2), ("entmax15", 1.5), *(("entmax", a) for a in (1.05, 1.5, 2, 3))]
)
def test_entmax_package(name, alpha):
    """Row by row on the visible keys alone."""
    scores, hidden, params, d_weights = problem(name, 3, 6, 40, 2.0, (alpha, alpha))
    got = run_ours(name, scores, hidden, params, d_weights)
    total = torch.zeros(2, dtype=torch.float64)
    for b, h, r in torch.cartesian_prod(torch.arange(2), torch.arange(2), torch.arange(1, 6)).tolist():
        visible = ~hidden[b, 0, r]
        x = scores[b, h, r][visible].requires_grad_()
        a = torch.tensor([alpha], dtype=torch.float64).float().double().requires_grad_()
        if name == "entmax":
            expected = entmax.entmax_bisect(x.unsqueeze(0), a, n_iter=100)[0]
            d_x, d_a = torch.autograd.grad(expected, (x, a), d_weights[b, h, r][visible])
            total[h] += d_a.item()
        else:
            expected = {"sparsemax": entmax.sparsemax, "entmax15": entmax.entmax15}[name](x, dim=-1)
            (d_x,) = torch.autograd.grad(expected, x, d_weights[b, h, r][visible])
        check_close(got[0][b, h, r][visible], expected.detach(), 1e-9)
        torch.testing.assert_close(got[1][b, h, r][visible], d_x, rtol=1e-7, atol=1e-9)
    if name == "entmax":
        check_close(got[2].view(2), total, 1e-7)


@pytest.mark.parametrize("name", [*MAPS, "entmax 1.001", "entmax 1.5", "entmax 2"])
def test_finite_differences(name):
    """Of Σ weights·d_weights in float64, for the scores that are visible and every parameter."""
    name, _, alpha = name.partition(" ")
    options = {"alphas": (float(alpha),) * 2} if alpha else {}
    scores, hidden, params, d_weights = problem(name, 11, **options)
    _, *gradients = run_ours(name, scores, hidden, params, d_weights)
    step = 1e-6
    for which, gradient in enumerate(gradients):
        values = [scores, *params]
        for index in range(values[which].numel()):

            def loss(sign, which=which, index=index):
                moved = [v.clone() for v in (scores, *params)]
                moved[which].view(-1)[index] += sign * step
                moved[0] = moved[0].masked_fill(hidden, 0)
                return (ours.weights(name, moved[0], hidden, moved[1:]) * d_weights).sum().item()

            difference = (loss(1) - loss(-1)) / (2 * step)
            assert abs(difference - gradient.reshape(-1)[index].item()) < 1e-6 * max(1, gradient.abs().max().item())


# Row maps: edge cases


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MAPS)
def test_hidden_keys_and_blind_rows_are_zero_whatever_they_hold(name, dtype):
    clean = cast(problem(name), dtype)
    scores, hidden, params, d_weights = clean
    for junk in (NAN, float("inf"), 1e30):
        dirty = (scores.masked_fill(hidden, junk), hidden, params, d_weights.masked_fill(hidden, junk))
        for got, expected in zip(run_ours(name, *dirty), run_ours(name, *clean), strict=True):
            assert torch.equal(got, expected)
    weights, d_scores, *_ = run_ours(name, *clean)
    everywhere = hidden.expand_as(scores)
    assert (weights[everywhere] == 0).all() and (d_scores[everywhere] == 0).all()


@pytest.mark.parametrize("name", MAPS)
def test_inputs_are_left_alone(name):
    arguments = problem(name)
    copies = [arguments[0].clone(), arguments[1].clone(), *(p.clone() for p in arguments[2]), arguments[3].clone()]
    weights = ours.weights(name, *arguments[:3])
    kept = weights.clone()
    ours.gradients(name, *arguments[:3], weights, arguments[3])
    for before, after in zip([*copies, kept], [*arguments[:2], *arguments[2], arguments[3], weights], strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0), (0, 0, 0, 0)])
@pytest.mark.parametrize("name", MAPS)
def test_empty_tensors(name, shape):
    scores = torch.zeros(shape, dtype=torch.float64)
    hidden = torch.zeros(1, 1, 1, 1, dtype=torch.bool)
    params = [p[:, :1] for p in params_of(name)]
    weights, d_scores, *_ = run_ours(name, scores, hidden, params, scores)
    assert weights.shape == shape and d_scores.shape == shape


@pytest.mark.parametrize("name", MAPS)
def test_a_hidden_of_one_column_stands_for_all(name):
    scores, _, params, d_weights = problem(name)
    for value in (False, True):
        small = torch.full((1, 1, 1, 1), value)
        whole = torch.full(scores.shape, value)
        for got, expected in zip(
            run_ours(name, scores, small, params, d_weights),
            run_ours(name, scores, whole, params, d_weights),
            strict=True,
        ):
            assert torch.equal(got, expected) and got.isfinite().all()


@pytest.mark.parametrize("bad", [NAN, float("inf")])
@pytest.mark.parametrize("name", MAPS)
def test_a_visible_nan_makes_its_row_nan_alone(name, bad):
    if name != "sigmoid" or bad is NAN:
        scores, hidden, params, d_weights = problem(name)
        clean = run_ours(name, scores, hidden, params, d_weights)
        scores[1, 0, 3, 0] = bad
        weights, d_scores, *_ = run_ours(name, scores, hidden, params, d_weights)
        visible = ~hidden[1, 0, 3]
        if name == "sigmoid":
            visible = torch.arange(len(visible)) == 0  # no sum: its key alone
        assert weights[1, 0, 3][visible].isnan().all() and d_scores[1, 0, 3][visible].isnan().all()
        for got, expected in zip((weights, d_scores), clean[:2], strict=True):
            others = torch.ones(got.shape[:3], dtype=torch.bool)
            others[1, 0, 3] = False
            assert torch.equal(got[others], expected[others])
            assert (got[1, 0, 3][hidden[1, 0, 3]] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [1.001, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("name", SIMPLEX)
def test_simplex(name, alpha, dtype):
    """A single key: 1 and no gradient. Equal scores: equal weights. ±1000: right. Sums are 1."""
    params = params_of(name, alphas=(alpha, alpha))
    eps = torch.finfo(dtype).eps
    _, hidden, _, d_weights = problem(name)
    for size in (0.0, 1.0, 1000.0, -1000.0):
        scores = torch.full(d_weights.shape, size, dtype=torch.float64)
        arguments = cast((scores, hidden, params, d_weights), dtype)
        weights, d_scores, *d_params = run_ours(name, *arguments)
        assert torch.equal(weights[:, :, 1], (~hidden[:, :, 1]).to(dtype).expand_as(weights[:, :, 1]))
        assert (d_scores[:, :, :2] == 0).all()
        visible = (~hidden).to(dtype)
        expected = visible / visible.sum(-1, keepdim=True).clamp(min=1)
        torch.testing.assert_close(weights, expected.expand_as(weights), rtol=4 * eps, atol=0)
        lone = [each[:, :, :2] for each in (arguments[0], arguments[1], arguments[3])]
        _, _, *d_params = run_ours(name, lone[0], lone[1], arguments[2], lone[2])
        assert all((d == 0).all() for d in d_params)
    generator = torch.Generator().manual_seed(5)
    for magnitude in (1.0, 1000.0):
        scores = (torch.rand(d_weights.shape, generator=generator).double() * 2 - 1) * magnitude
        arguments = cast((scores, hidden, params, d_weights), dtype)
        weights, *gradients = run_ours(name, *arguments)
        sums = weights.sum(-1)
        torch.testing.assert_close(sums[:, :, 1:], torch.ones_like(sums[:, :, 1:]), rtol=8 * eps, atol=0)
        assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("name", MAPS)
def test_scores_of_a_thousand(name):
    """Far apart, and near each other far from 0, in float32."""
    scores, hidden, params, d_weights = problem(name, 7)
    signs = torch.where(scores > 0, 1000.0, -1000.0)
    for case in (signs, signs + scores, 1000 + scores, -1000 + scores):
        case = case.float().double().masked_fill(hidden, 0)
        arguments = (case, hidden, params, d_weights)
        single = cast(arguments, torch.float32)
        triples = zip(
            run_ours(name, *single), run_reference(name, *single), run_reference(name, *arguments), strict=True
        )
        for i, (got, eager, truth) in enumerate(triples):
            assert got.isfinite().all()
            if truth.abs().max() > 1e-30:
                check_rule(f"{name} thousand {i}", got, eager, truth, 2 if i == 0 else 3)


def test_ties_at_the_edges_of_the_normalised_sa_softmax():
    rows = [[-2, -2, 1, 3, 3, 3], [-1, -1, -1, -1, -1, -1], [0, 0, 2, 2, 1, 0], [0, 0, -2, -2, -1, 0], [2.0] * 6]
    scores = torch.tensor(rows, dtype=torch.float64).expand(1, 1, 5, 6).clone()
    hidden = torch.zeros(1, 1, 5, 6, dtype=torch.bool)
    d_weights = problem("sparsemax")[3][:1, :1, :5, :6]
    for got, expected in zip(
        run_ours("sa-softmax-normalised", scores, hidden, [], d_weights),
        run_reference("sa-softmax-normalised", scores, hidden, [], d_weights),
        strict=True,
    ):
        check_close(got, expected)
    zeros = run_ours("sa-softmax-normalised", scores * 0, hidden, [], d_weights)
    assert all((each == 0).all() for each in zeros)


def test_unknown_name():
    with pytest.raises(RuntimeError, match="no row map named 'entmax2'"):
        ours.weights("entmax2", torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.bool), [])


# cosFormer

LENGTHS = [(1, 1), (6, 6), (3, 9), (9, 3), (1, 140), (150, 150), (300, 130), (130, 300), (257, 257)]
CHOICES = pytest.mark.parametrize("causal", [False, True])


def inputs(rows, keys, lengths, seed=0, batch=3, heads=4, kv_heads=2, dim=5, v_dim=3):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator).double()

    tensors = [
        normal(batch, heads, rows, dim),
        normal(batch, kv_heads, keys, dim),
        normal(batch, kv_heads, keys, v_dim),
    ]
    key_lengths = torch.tensor([keys, 0, (keys + 1) // 2]) if lengths else None
    return tensors, normal(batch, heads, rows, v_dim), key_lengths, float(max(rows, keys) + 2)


def cosformer_ours(tensors, d_out, *rest):
    return [ours.cosformer_forward(*tensors, *rest), *ours.cosformer_backward(d_out, *tensors, *rest)]


def cosformer_reference(tensors, d_out, *rest):
    leaves = [t.clone().requires_grad_() for t in tensors]
    out = row_maps.cosformer(*leaves, *rest)
    return [out.detach(), *torch.autograd.grad(out, leaves, d_out)]


@pytest.mark.parametrize("lengths", [False, True])
@CHOICES
@pytest.mark.parametrize("rows, keys", LENGTHS)
def test_cosformer(rows, keys, causal, lengths):
    tensors, d_out, key_lengths, m = inputs(rows, keys, lengths)
    truth = cosformer_reference(tensors, d_out, key_lengths, causal, m)
    for got, expected in zip(cosformer_ours(tensors, d_out, key_lengths, causal, m), truth, strict=True):
        check_close(got, expected)
    weights = ours.cosformer_weights(*tensors[:2], key_lengths, causal, m)
    check_close(weights, row_maps.cosformer_weights(*tensors[:2], key_lengths, causal, m))
    single = [t.float() for t in tensors]
    # The truth of what float32 is given.
    exact = cosformer_reference([t.double() for t in single], d_out.float().double(), key_lengths, causal, m)
    sides = [run(single, d_out.float(), key_lengths, causal, m) for run in (cosformer_ours, cosformer_reference)]
    for i, triple in enumerate(zip(*sides, exact, strict=True)):
        if triple[2].abs().max() > 1e-12:
            name = ["out", "dq", "dk", "dv"][i]
            check_rule(f"cosformer {rows}x{keys} causal={causal} {name}", *triple, 2 if i == 0 else 3)


@CHOICES
def test_cosformer_of_few_keys(causal):
    """Where a row sees one key, or one that outweighs the others, the gradients of its scores cancel."""
    sides = [[], [], []]
    for seed in range(20):
        tensors, d_out, _, m = inputs(9, 3, False, seed)
        single = [t.float() for t in tensors]
        sides[0].append(cosformer_ours(single, d_out.float(), None, causal, m))
        sides[1].append(cosformer_reference(single, d_out.float(), None, causal, m))
        exact = cosformer_reference([t.double() for t in single], d_out.float().double(), None, causal, m)
        sides[2].append(exact)
    columns = [[torch.stack(each) for each in zip(*side, strict=True)] for side in sides]
    for i, triple in enumerate(zip(*columns, strict=True)):
        check_rule(f"cosformer few keys causal={causal} {['out', 'dq', 'dk', 'dv'][i]}", *triple, 3 if i else 2)


@CHOICES
def test_cosformer_with_usual_heads(causal):
    """Longer, and m as small as is allowed."""
    tensors, d_out, _, _ = inputs(600, 600, False, batch=1, dim=64, v_dim=64)
    single = [t.float() for t in tensors]
    exact = cosformer_reference([t.double() for t in single], d_out.float().double(), None, causal, 600.0)
    sides = [run(single, d_out.float(), None, causal, 600.0) for run in (cosformer_ours, cosformer_reference)]
    for i, triple in enumerate(zip(*sides, exact, strict=True)):
        check_rule(f"cosformer 600 causal={causal} {['out', 'dq', 'dk', 'dv'][i]}", *triple, 2 if i == 0 else 3)


@pytest.mark.parametrize("lengths", [False, True])
@CHOICES
@pytest.mark.parametrize("rows, keys", [(4, 4), (2, 6), (6, 2)])
def test_cosformer_finite_differences(rows, keys, causal, lengths):
    tensors, d_out, key_lengths, m = inputs(rows, keys, lengths, seed=2)
    gradients = ours.cosformer_backward(d_out, *tensors, key_lengths, causal, m)
    step = 1e-6
    for which, gradient in enumerate(gradients):
        for index in range(tensors[which].numel()):

            def loss(sign, which=which, index=index):
                moved = [t.clone() for t in tensors]
                moved[which].view(-1)[index] += sign * step
                return (ours.cosformer_forward(*moved, key_lengths, causal, m) * d_out).sum().item()

            difference = (loss(1) - loss(-1)) / (2 * step)
            assert abs(difference - gradient.reshape(-1)[index].item()) < 1e-6 * max(1, gradient.abs().max().item())


def test_cosformer_decoding_equals_prefill():
    (query, key, value), _, _, m = inputs(300, 300, False)
    whole = ours.cosformer_forward(query, key, value, None, True, m)
    for first, last in ((0, 1), (1, 3), (200, 201), (40, 290), (299, 300)):
        part = ours.cosformer_forward(query[:, :, first:last], key[:, :, :last], value[:, :, :last], None, True, m)
        check_close(part, whole[:, :, first:last], 1e-13)


@CHOICES
@pytest.mark.parametrize("rows, keys", [(6, 6), (150, 140), (3, 200)])
def test_cosformer_hidden_keys_may_hold_anything(rows, keys, causal):
    tensors, d_out, key_lengths, m = inputs(rows, keys, True)
    clean = cosformer_ours(tensors, d_out, key_lengths, causal, m)
    query, key, value = (t.clone() for t in tensors)
    query[1], d_out[1] = NAN, NAN  # a sequence without keys: its queries see nothing
    for b, length in enumerate(key_lengths.tolist()):
        key[b, :, length:] = NAN
        value[b, :, length:] = NAN
    if causal and rows > keys:
        query[:, :, : rows - keys] = NAN
        d_out[:, :, : rows - keys] = NAN
    for got, expected in zip(cosformer_ours([query, key, value], d_out, key_lengths, causal, m), clean, strict=True):
        assert torch.equal(got, expected)
    out, dq, dk, dv = clean
    assert (out[1] == 0).all() and (dq[1] == 0).all() and (dk[1] == 0).all() and (dv[1] == 0).all()
    weights = ours.cosformer_weights(query, key, key_lengths, causal, m)
    assert torch.equal(weights, ours.cosformer_weights(*tensors[:2], key_lengths, causal, m))
    broken = d_out.clone()
    broken[2] = NAN
    _, dk, dv = ours.cosformer_backward(broken, query, key, value, key_lengths, causal, m)
    past = key_lengths[2].item()
    assert dv[2, :, 0].isnan().all() and (dk[2, :, past:] == 0).all() and (dv[2, :, past:] == 0).all()
    value[0, 0, keys - 1 if causal else 0] = NAN
    out = ours.cosformer_forward(query, key, value, key_lengths, causal, m)
    assert out[0, :2, rows - 1].isnan().all() and out[0, 2:].isfinite().all()


@CHOICES
def test_cosformer_rows_whose_scores_are_zero(causal):
    (query, key, value), d_out, _, m = inputs(5, 5, False)
    query[:, :, 2] = -query[:, :, 2].abs()
    results = cosformer_ours([query, key, value], d_out, None, causal, m)
    assert (results[0][:, :, 2] == 0).all() and all(r.isfinite().all() for r in results)
    tiny = [query * 1e-5, key * 1e-4, value]  # sums on both sides of ε
    for got, expected in zip(
        cosformer_ours(tiny, d_out, None, causal, m), cosformer_reference(tiny, d_out, None, causal, m), strict=True
    ):
        check_close(got, expected)
    sums = (torch.relu(tiny[0]) @ torch.relu(tiny[1]).repeat_interleave(2, 1).transpose(2, 3)).sum(-1)
    assert (sums < 1e-6).any()


@CHOICES
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (0, 0)])
def test_cosformer_without_rows_or_keys(sizes, causal):
    tensors, d_out, _, m = inputs(*sizes, False)
    out, *gradients = cosformer_ours(tensors, d_out, None, causal, m)
    assert out.shape == d_out.shape and (out == 0).all()
    for gradient, tensor in zip(gradients, tensors, strict=True):
        assert gradient.shape == tensor.shape and (gradient == 0).all()
    assert ours.cosformer_weights(*tensors[:2], None, causal, m).shape == (3, 4, *sizes)


@CHOICES
def test_cosformer_takes_transposed_views_and_many_groupings(causal):
    for heads, kv_heads in ((1, 1), (3, 3), (4, 1), (6, 2)):
        tensors, d_out, _, m = inputs(140, 140, False, heads=heads, kv_heads=kv_heads)
        views = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in tensors]
        for got, expected in zip(
            cosformer_ours(views, d_out, None, causal, m),
            cosformer_reference(tensors, d_out, None, causal, m),
            strict=True,
        ):
            check_close(got, expected)
