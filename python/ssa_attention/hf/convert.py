"""Turns a softmax model into one of another score that computes what it did."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..operator import ScoreInfo, attention_weights, find_score
from ..score_parameters import Parametrisation, raw_weight
from ..softmax_limits import match, softmax_limit
from .measure import TextBatch, as_batches, measured
from .parameters import score_values
from .recognised import attention_modules, query_heads
from .register import ObservedCall, observing
from .report import ConversionReport

# The size S of scores where no text tells it: on 256 tokens of Wikipedia half the heads of
# SmolLM2-135M stay below 14, nine in ten below 21.
RULE_SIZE = 16.0
_SOFTMAX = ("softmax", "sdpa", "eager", "flash_attention_2", "flash_attention_3", "flex_attention")


def convert(
    model: PreTrainedModel,
    score: str = "ssa",
    *,
    strength: float = 0.0,
    texts: Iterable[str] | Iterable[Tensor] | Iterable[Mapping[str, Tensor]] | None = None,
    tokenizer=None,
    parametrisation: Parametrisation = "softplus",
    share: str = "head",
    frozen: Collection[str] = (),
    size: float = RULE_SIZE,
    keys: int | None = None,
    length: int = 512,
) -> ConversionReport:
    """Changes a softmax model in place into one of another score, with the score's parameters where it is softmax.

    φ(s) = sgn(s)·n·log(1 + b·|s|) with n·b = 1 tends to s as n → ∞ and differs from it by about s²/2n. Each head gets
    the n at which a score of size S differs by `strength`; S is the largest |s| that the head meets in `texts`, or
    `size` for all heads where there are none. The same for softcap, entmax, sink and temperature
    (`ssa_attention.softmax_limits`), and for ssmax at one number of keys.

    Args:
        model: one whose attention is softmax ("sdpa", "eager", flash or flex attention, or our "softmax").
        score: one that contains softmax; a ValueError names those.
        strength: how far from softmax, >= 0, in the unit of scores: the weight of the head's largest score changes by
            the factor e^strength. 0: as near as float32 keeps digits for.
        texts: what the report and the sizes are measured on: strings (with `tokenizer`), ids (length) or
            (1, length), or mappings of the model's inputs. A few are enough. None: by rule, nothing is measured.
        tokenizer: called on each string; its input_ids and attention_mask are used.
        parametrisation: "softplus", "exp" or "raw", as in `ssa_attention.nn.ScoreParameters`.
        share: "head": a value for each head; "layer": one for all heads of a module.
        frozen: names of parameters that are not to be trained.
        size: S where there are no texts.
        keys: for ssmax: the number of keys N of a row at which it is to be softmax; None: from the texts.
        length: texts are cut to so many tokens.

    Returns:
        The report: values, sizes and, with texts, perplexity (models that predict the next token) or embedding
        similarity before and after, and which share of attention moved. `print` it, or `report.save("report.html")`.

    Raises:
        ValueError: for a model with another score already, one whose class computes attention by itself, and for
            arguments out of range. The model is then as it was.
    """
    info = find_score(score)
    before = model.config._attn_implementation
    _check(model, info, strength, share, frozen)
    batches = as_batches(texts, tokenizer, length, model)
    if score == "ssmax" and keys is None and not batches:
        raise ValueError("ssmax is softmax at one number of keys: give keys, or texts that tell it")
    if not batches:
        match(score, math.log(keys) if keys else size, strength, parametrisation)  # refuses before anything changes
    try:
        with _evaluating(model):
            values, sizes, moved = {}, {}, {}
            first = measured(model, batches)
            model.set_attn_implementation("softmax")
            if batches:
                sizes = _sizes(model, batches, score)
            values = {}
            for name, module, config in attention_modules(model):
                heads = query_heads(module, config)
                fixed = torch.full((heads,), math.log(keys) if keys else size, dtype=torch.float64)
                found = fixed if keys or name not in sizes else sizes[name]
                sizes[name] = found if share == "head" else found.max().reshape(1)
                values[name] = _values_of(info, sizes[name], strength, parametrisation)
            if batches:
                moved = _attention_moved(model, batches, score, values)
            _set_scores(model, info, values, parametrisation, share, frozen)
            second = measured(model, batches)
    except BaseException:
        model.set_attn_implementation(before)
        raise
    found = {name: {key: value.cpu() for key, value in values.items()} for name, values in score_values(model).items()}
    return ConversionReport(
        score=score, strength=strength, parametrisation=parametrisation, share=share, texts=len(batches),
        tokens=sum(batch.tokens for batch in batches), values=found,
        sizes={name: value.float() for name, value in sizes.items()}, attention_moved=moved,
        measure=first.measure, before=first.value, after=second.compared_with(first), logit_change=second.change(first),
    )  # fmt: skip


def _check(model: PreTrainedModel, info: ScoreInfo, strength: float, share: str, frozen: Collection[str]) -> None:
    implementation = model.config._attn_implementation
    if implementation not in _SOFTMAX:
        raise ValueError(
            f"the model's attention is {implementation!r}, and only softmax can be converted; "
            'model.set_attn_implementation("sdpa") makes it one of softmax, without the score\'s parameters'
        )
    if info.name != "ssmax":
        softmax_limit(info.name)
    if not 0 <= strength < math.inf:
        raise ValueError(f"strength must be >= 0 and finite, got {strength}")
    if share not in ("head", "layer"):
        raise ValueError(f'share must be "head" or "layer", got {share!r}')
    names = [param.name for param in info.params]
    if unknown := [name for name in frozen if name not in names]:
        raise ValueError(f"frozen: score {info.name!r} has the parameters {names}, not {unknown}")
    if not model._can_set_attn_implementation() or not attention_modules(model):
        raise ValueError(f"{type(model).__name__} has no attention that goes through transformers' AttentionInterface")


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Without gradients and dropout; each module returns to the mode that it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def _scores_of(call: ObservedCall) -> Tensor:
    """s of the call, (B, H_q, T_q, T_k), -inf where hidden."""
    query = call.query.float()
    key = call.key.float().repeat_interleave(query.shape[1] // call.key.shape[1], 1)
    found = query @ key.transpose(2, 3) * (query.shape[-1] ** -0.5 if call.scale is None else call.scale)
    if call.bias is not None:
        found = found + call.bias
    if call.mask is not None:
        found = found.masked_fill(~call.mask, -torch.inf)
    if call.causal:
        hidden = torch.ones(found.shape[-2:], dtype=torch.bool, device=found.device).triu(1)
        found = found.masked_fill(hidden, -torch.inf)
    return found


def _size_in_call(score: str, scores: Tensor) -> Tensor:
    """(H_q): the S that `SoftmaxLimit.size` describes; for ssmax the mean of log N."""
    visible = scores.isfinite()
    rows = visible.any(-1, keepdim=True)
    if score == "ssmax":
        several = visible.sum(-1).double()
        counted = several > 1  # a row of one key is the same whatever sigma
        total = (several.clamp_min(1).log() * counted).sum((0, 2))
        return total / counted.sum((0, 2)).clamp_min(1)
    if score == "sink":
        lse = scores.logsumexp(-1).masked_fill(~rows[..., 0], torch.inf)
        return -lse.amin((0, 2)).double()
    if score == "entmax":
        largest = scores.amax(-1, keepdim=True)
        surprise = scores.logsumexp(-1, keepdim=True) - largest  # of the largest: -log of its softmax weight
        distance = (largest - scores).masked_fill(~visible, 0)
        found = (distance * (distance + 2 * surprise)).masked_fill(~visible, 0)
        return found.sqrt().amax((0, 2, 3)).double()
    return scores.abs().masked_fill(~visible, 0).amax((0, 2, 3)).double()


def _sizes(model: PreTrainedModel, batches: list[TextBatch], score: str) -> dict[str, Tensor]:
    """S of each head over all batches (ssmax: the mean over them), by module."""
    names = {id(module): name for name, module, _ in attention_modules(model)}
    found: dict[str, list[Tensor]] = {}

    def observe(module: nn.Module, call: ObservedCall) -> None:
        found.setdefault(names[id(module)], []).append(_size_in_call(score, _scores_of(call)).cpu())

    with observing(observe):
        for batch in batches:
            model(**batch.inputs)
    return {
        name: torch.stack(sizes).mean(0) if score == "ssmax" else torch.stack(sizes).amax(0)
        for name, sizes in found.items()
    }


def _values_of(info: ScoreInfo, sizes: Tensor, strength: float, parametrisation: Parametrisation) -> dict[str, Tensor]:
    """Effective values in float64, each (heads) or (1)."""
    each = [match(info.name, size, strength, parametrisation) for size in sizes.tolist()]
    return {
        param.name: torch.tensor([values[param.name] for values in each], dtype=torch.float64) for param in info.params
    }


def _attention_moved(
    model: PreTrainedModel, batches: list[TextBatch], score: str, values: Mapping[str, Mapping[str, Tensor]]
) -> dict[str, Tensor]:
    """(H_q) by module: half the sum of |w - w'| over a row, w softmax's weights and w' the score's of the same queries
    and keys (the total variation, in [0, 1]), as the mean over the rows that see more than one key."""
    names = {id(module): name for name, module, _ in attention_modules(model)}
    totals: dict[str, list[Tensor]] = {}

    def observe(module: nn.Module, call: ObservedCall) -> None:
        name = names[id(module)]
        dtype = torch.float64 if call.query.dtype == torch.float64 else torch.float32
        options = {"mask": call.mask, "bias": call.bias, "causal": call.causal, "scale": call.scale}
        params = {key: value.to(call.query.device, dtype) for key, value in values[name].items()}
        plain = attention_weights(call.query, call.key, score="softmax", **options)
        other = attention_weights(call.query, call.key, score=score, params=params, **options)
        several = _scores_of(call).isfinite().sum(-1) > 1
        moved = (plain - other).abs().sum(-1).double() / 2 * several
        both = torch.stack([moved.sum((0, 2)), several.double().expand_as(moved).sum((0, 2))]).cpu()
        totals.setdefault(name, []).append(both)

    with observing(observe):
        for batch in batches:
            model(**batch.inputs)
    sums = {name: torch.stack(both).sum(0) for name, both in totals.items()}
    return {name: (moved / count.clamp_min(1)).float() for name, (moved, count) in sums.items()}


def _set_scores(
    model: PreTrainedModel,
    info: ScoreInfo,
    values: Mapping[str, Mapping[str, Tensor]],
    parametrisation: Parametrisation,
    share: str,
    frozen: Collection[str],
) -> None:
    """Gives the model the score and its values, and its configs what a reader of the checkpoint must know."""
    for _, _, config in [("", model, model.config), *attention_modules(model)]:
        config.parametrisation, config.score_share = parametrisation, share
        # The values stand in the weights; those of a config are for weights that a checkpoint lacks.
        for key in ("score_initial", "score_trained", "score_frozen"):
            config.__dict__.pop(key, None)
        if frozen:
            config.score_frozen = list(frozen)
    model.set_attn_implementation(info.name)
    for name, module, _ in attention_modules(model):
        for param in info.params:
            raw = getattr(module, f"score_{param.name}")
            each = [raw_weight(value, parametrisation, param) for value in values[name][param.name].tolist()]
            raw.data = torch.tensor(each, dtype=raw.dtype, device=model.device)
