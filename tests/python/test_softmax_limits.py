"""Which scores contain softmax, and where: the departures are those of the weights themselves."""

import math

import pytest
import torch
from ssa_attention import attention_weights, scores
from ssa_attention.softmax_limits import match, softmax_limit, softmax_limits

CONTAIN = list(softmax_limits())


def rows(size, seed=0):
    """A query whose scores against the keys are these, in float64: the largest |s| is `size`."""
    score = torch.rand(64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 * size - size
    score[0], score[1] = size, -size
    return torch.ones(1, 1, 1, 1, dtype=torch.float64), score.view(1, 1, -1, 1)


def entmax_size(size):
    """Of the least score of the row, as `SoftmaxLimit.size` describes it."""
    s = rows(size)[1][0, 0, :, 0]
    distance, surprise = (s.max() - s.min()).item(), (torch.logsumexp(s, 0) - s.max()).item()
    return math.sqrt(distance * (distance + 2 * surprise))


def weights(score, values, size):
    query, key = rows(size)
    params = {name: torch.tensor([value], dtype=torch.float64) for name, value in values.items()}
    return attention_weights(query, key, score=score, params=params, scale=1.0)[0, 0, 0]


@pytest.mark.parametrize("score", CONTAIN)
def test_strength_0_is_softmax(score):
    size = 1.0 if score == "sink" else 16.0
    if score == "entmax":
        size = entmax_size(16.0)
    found = weights(score, match(score, size), 16.0)
    expected = weights("softmax", {}, 16.0)
    assert (found - expected).abs().sum() < 2e-4
    assert (found / expected - 1).abs().max() < 5e-4  # each weight, the least too


@pytest.mark.parametrize("strength", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("score", CONTAIN)
def test_strength_is_the_change_of_the_largest_scores_weight(score, strength):
    size = 8.0
    s = rows(size)[1][0, 0, :, 0]
    if score == "sink":
        size = -torch.logsumexp(s, 0).item()
    if score == "entmax":
        size = entmax_size(size)
    values = match(score, size, strength)
    found, plain = weights(score, values, 8.0), weights("softmax", {}, 8.0)
    if score == "sink":
        changed = plain.sum().log() - found.sum().log()
    elif score == "entmax":
        changed = (plain / plain[0]).log()[1] - (found / found[0]).log()[1]
    else:  # against a score of 0, which none of them moves: half of what lies between size and -size
        changed = ((plain[0] / plain[1]).log() - (found[0] / found[1]).log()) / 2
    # entmax's threshold moves with alpha, which its size knows to first order.
    assert changed.item() == pytest.approx(strength, rel=1e-4 + (1e-3 * strength if score == "entmax" else 0))


@pytest.mark.parametrize("score", CONTAIN)
def test_the_path_and_its_coordinate_are_inverse(score):
    limit = softmax_limit(score)
    for x in (0.001, 0.25):
        assert limit.coordinate(limit.values(x, 1.0)) == pytest.approx(x)
        assert limit.slope(limit.values(x, 1.0)) == pytest.approx(1)
        assert limit.departure(x, 2.0) > limit.departure(x / 2, 2.0) > 0


def test_ssa_has_slope_1():
    for strength in (0.0, 0.5, 100.0):
        values = match("ssa", 10.0, strength)
        assert values["n"] * values["b"] == pytest.approx(1)
        assert values["n"] > 1


def test_ssmax_is_softmax_at_one_number_of_keys():
    sigma = match("ssmax", math.log(64))
    torch.testing.assert_close(weights("ssmax", sigma, 5.0), weights("softmax", {}, 5.0))
    with pytest.raises(ValueError, match="strength must be 0"):
        match("ssmax", math.log(64), 0.1)


@pytest.mark.parametrize("score", [name for name in scores() if name not in {*CONTAIN, "ssmax"}])
def test_the_others_say_so(score):
    with pytest.raises(ValueError, match=f"score '{score}' does not contain softmax"):
        softmax_limit(score)


@pytest.mark.parametrize(("size", "strength"), [(math.nan, 0), (-1.0, 0), (1.0, -0.1), (1.0, math.inf)])
def test_bad_numbers_are_refused(size, strength):
    with pytest.raises(ValueError, match="must be >= 0 and finite"):
        match("ssa", size, strength)
