"""Dropout of attention weights: which weights fall is a function of seed and indices alone."""

import numpy as np
import pytest
import ssa_attention
import torch
from eager import Problem, check_error, eager_attention, operator


def philox(counter, seed):
    """Philox 4x32-10 written from the paper in numpy: counter (4 arrays), 64-bit seed."""
    c = [np.asarray(x, dtype=np.uint64) for x in counter]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        product0, product1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (product1 >> np.uint64(32)) ^ c[1] ^ np.uint64(key[0]),
            product1 & low,
            (product0 >> np.uint64(32)) ^ c[3] ^ np.uint64(key[1]),
            product0 & low,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def kept(seed, p, batch, heads, rows, columns):
    """bool (batch, heads, rows, columns) by the layout that docs/operator.md states."""
    b, h, i, j = np.meshgrid(*(np.arange(n) for n in (batch, heads, rows, columns)), indexing="ij")
    words = np.stack(philox((b, h, i, 16 * (j // 64) + j % 16), seed))
    word = np.take_along_axis(words, (j % 64 // 16)[None], 0)[0]
    return torch.from_numpy(word >= int(p * 2**32))


def test_numpy_philox_knows_the_published_answer():
    words = [int(w) for w in philox((0, 0, 0, 0), 0)]
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("causal", [False, True])
def test_forward_and_backward_use_the_documented_mask(p, causal):
    """In float64 against autograd of the eager formula with the mask from numpy, over several blocks."""
    seed = 0x0123456789ABCDEF
    problem = Problem(1, batch=2, heads=4, kv_heads=2, rows=150, columns=150, dim=3)
    factor = kept(seed, p, 2, 4, 150, 150).double() / (1 - p)
    truth = problem.run(torch.float64, eager_attention, causal=causal, factor=factor)
    ours = problem.run(torch.float64, operator("composed"), causal=causal, dropout=p, seed=seed)
    for name in truth:
        torch.testing.assert_close(ours[name], truth[name], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("score", ["ssa", "sink", "ssmax"])
def test_fused_kernels_drop_as_the_documented_mask(score):
    """Forward and every gradient, by the error rule with eager PyTorch multiplied by numpy's mask."""
    p, seed, shape = 0.3, 2**63 - 9, {"batch": 2, "heads": 4, "kv_heads": 2, "rows": 150, "columns": 170, "dim": 16}
    factor = kept(seed, p, 2, 4, 150, 170) / (1 - p)
    for causal in (False, True):
        problem = Problem(5, score=score, **shape)
        truth = problem.run(torch.float64, eager_attention, causal=causal, factor=factor.double())
        eager = problem.run(torch.float32, eager_attention, causal=causal, factor=factor.float())
        ours = problem.run(torch.float32, operator("fused"), causal=causal, dropout=p, seed=seed)
        for name in ("out", "lse", "dq", "dk", "dv"):
            check_error(name, ours[name], eager[name], truth[name], 2 if name in ("out", "lse") else 3)


def test_both_paths_drop_the_same_weights():
    fused, composed = (dropped_weights(100, 333, 0.4, seed=-5, kernel=kernel) == 0 for kernel in ("fused", "composed"))
    assert torch.equal(fused, composed)


def dropped_weights(rows, columns, p, **options):
    """The weights after dropout, read off by value = identity; uniform before it."""
    query = torch.zeros(2, 3, rows, 1)
    key = torch.zeros(2, 3, columns, 1)
    return ssa_attention.attention(query, key, torch.eye(columns).expand(2, 3, -1, -1), dropout=p, **options)


def test_share_of_dropped_weights():
    p, rows, columns = 0.3, 200, 170
    weights = dropped_weights(rows, columns, p, seed=11)
    dropped = weights == 0
    total = dropped.numel()
    assert abs(dropped.sum().item() - p * total) < 5 * (p * (1 - p) * total) ** 0.5
    kept_weight = 1 / columns / (1 - p)
    torch.testing.assert_close(weights[~dropped], torch.full((int((~dropped).sum()),), kept_weight))
    for dim in range(4):  # neighbours fall independently of each other, along every index
        first, second = dropped.narrow(dim, 0, dropped.shape[dim] - 1), dropped.narrow(dim, 1, dropped.shape[dim] - 1)
        pairs = first.numel()
        share = p * p
        assert abs((first & second).sum().item() - share * pairs) < 5 * (share * (1 - share) * pairs) ** 0.5


def test_mask_does_not_depend_on_the_shape():
    long, short = (dropped_weights(rows, columns, 0.5, seed=3) == 0 for rows, columns in [(140, 130), (7, 65)])
    assert torch.equal(long[:, :, :7, :65], short)


def test_seeds():
    def run(**options):
        return dropped_weights(20, 40, 0.5, **options)

    assert torch.equal(run(seed=1), run(seed=1)) and ssa_attention.last_dropout_seed() == 1
    assert not torch.equal(run(seed=1), run(seed=2))
    torch.manual_seed(7)
    first, seed = run(), ssa_attention.last_dropout_seed()
    second = run()
    assert not torch.equal(first, second) and ssa_attention.last_dropout_seed() != seed
    assert torch.equal(run(seed=seed), first)  # the reported seed repeats it
    torch.manual_seed(7)
    assert torch.equal(run(), first)  # and torch's own seed rules it


def test_backward_of_a_drawn_seed_uses_the_forwards_mask():
    """out = weights·value is linear in value, so Σ out = Σ value·d(Σ out)/d(value) only for one mask."""
    value = torch.randn(1, 2, 30, 4, dtype=torch.double, requires_grad=True)
    query = torch.randn(1, 2, 25, 4, dtype=torch.double)
    out = ssa_attention.attention(query, value.detach(), value, dropout=0.4)
    out.sum().backward()
    torch.testing.assert_close((value * value.grad).sum(), out.sum())


def test_no_dropout_draws_nothing():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    query = torch.randn(1, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    ssa_attention.attention(query, query, query)
    ssa_attention.attention(query, query, query, dropout=0.5, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
