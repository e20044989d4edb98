"""Registers every scoring function as an attention implementation, and gives models its parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig, PreTrainedModel
from transformers.masking_utils import sdpa_mask

from ..counted import counted
from ..operator import ScoreInfo, attention, scores
from ..score_parameters import compute_type, effective_values, initial_weights, keeping_precision, new_weight_type
from .recognised import attention_modules, left_behind, query_heads

# Configs of models whose attention modules do not say whether they are causal: transformers does not let "sdpa" run
# them. They need every mask, also that of plain causality, which is otherwise left out for a flag.
_WHOLE_MASKS: set[type[PreTrainedConfig]] = set()

_REFUSED = ("softcap", "s_aux", "sinks", "head_mask")


def _score_of(config: PreTrainedConfig) -> ScoreInfo | None:
    return scores().get(config._attn_implementation)


def _parametrisation(config: PreTrainedConfig) -> str:
    return getattr(config, "parametrisation", "softplus")


def _initial_of(config: PreTrainedConfig, info: ScoreInfo) -> dict[str, float]:
    """The raw values that a new model's parameters begin with, by name."""
    given = getattr(config, "score_initial", None) or []
    if len(given) not in (0, len(info.params)):
        names = [param.name for param in info.params]
        raise ValueError(
            f"config.score_initial has {counted(len(given), 'value')}, score {info.name!r} has the parameters {names}"
        )
    values = dict(zip((param.name for param in info.params), given, strict=False))
    return initial_weights(info, _parametrisation(config), values)


def _trained_of(config: PreTrainedConfig, info: ScoreInfo) -> dict[str, bool]:
    trained = {param.name: param.trained for param in info.params}
    for key, value in (("score_frozen", False), ("score_trained", True)):
        for name in getattr(config, key, None) or []:
            if name not in trained:
                raise ValueError(f"config.{key} names {name!r}, score {info.name!r} has the parameters {list(trained)}")
            trained[name] = value
    return trained


def _refuse(model: PreTrainedModel, score: str) -> None:
    raise ValueError(
        f'attn_implementation="{score}": {type(model).__name__} computes its attention itself; in transformers only '
        "models whose attention goes through AttentionInterface can change it"
    )


def _refuse_part(model: PreTrainedModel, others: list[tuple[str, str]]) -> None:
    name, module_class = others[0]
    more = f" and {len(others) - 1} more modules" if len(others) > 1 else ""
    raise ValueError(
        f'attn_implementation="{model.config._attn_implementation}": {name} ({module_class}){more} of '
        f"{type(model).__name__} computes its attention itself and would go on with its own; where a model has parts "
        'with configs of their own, name one: set_attn_implementation({"text_config": "ssa"})'
    )


def _set_parameters(model: PreTrainedModel) -> None:
    """Gives every attention module the parameters of its score, and takes those of another score away."""
    if (info := _score_of(model.config)) is not None and not model._can_set_attn_implementation():
        _refuse(model, info.name)
    if others := left_behind(model, frozenset(scores())):
        _refuse_part(model, others)
    if not model._supports_sdpa:
        _WHOLE_MASKS.add(type(model.config))
    for _, module, config in attention_modules(model):
        info = _score_of(config)
        before, now = getattr(module, "score_name", None), None if info is None else info.name
        if before == now:
            continue
        for name in [name for name in module._parameters if name.startswith("score_")]:
            delattr(module, name)
        module.score_name = now
        # What save_pretrained writes and from_pretrained reads; of their own ways nothing is written.
        config.__dict__.pop("attn_implementation", None)
        if info is None:
            continue
        config.attn_implementation = now
        module.score_parametrisation = _parametrisation(config)
        initial, trained = _initial_of(config, info), _trained_of(config, info)
        shared = getattr(config, "score_share", "head")
        if shared not in ("head", "layer"):
            raise ValueError(f'config.score_share must be "head" or "layer", got {shared!r}')
        size = 1 if shared == "layer" else query_heads(module, config)
        _keep_in_casts(type(module))
        for name, value in initial.items():
            raw = torch.full((size,), value, dtype=new_weight_type())
            module.register_parameter(f"score_{name}", nn.Parameter(raw, requires_grad=trained[name]))


def _keep_in_casts(module_class: type[nn.Module]) -> None:
    """.to(torch.bfloat16), .half() and their like leave the raw weights in float32. Once a class, where copies and
    pickled modules find it too."""
    if "_ssa_keeps_precision" in vars(module_class):
        return
    before = module_class._apply

    @functools.wraps(before)
    def _apply(self, fn, recurse=True):
        own = {name: self._parameters.pop(name) for name in list(self._parameters) if name.startswith("score_")}
        try:
            before(self, fn, recurse)
            holder = nn.Module()
            holder._parameters.update(own)
            holder._apply(keeping_precision(fn))
            own = dict(holder._parameters)
        finally:
            self._parameters.update(own)
        return self

    module_class._apply = _apply
    module_class._ssa_keeps_precision = True


def _keep_precision(model: PreTrainedModel) -> None:
    """from_pretrained(dtype=bfloat16) leaves them in float32, which the operator wants."""
    if info := _score_of(model.config):
        model._keep_in_fp32_modules_strict.update(f"score_{param.name}" for param in info.params)


def _initialise(module: nn.Module, model: PreTrainedModel) -> None:
    """from_pretrained makes other parameters than the model was made with: without values where the checkpoint has
    none of them, and all of them trained."""
    config = getattr(module, "config", model.config)
    info = scores().get(getattr(module, "score_name", None))
    if info is None:
        return
    initial, trained = _initial_of(config, info), _trained_of(config, info)
    for name, value in initial.items():
        raw = getattr(module, f"score_{name}")
        raw.requires_grad_(trained[name])
        if not getattr(module, "_is_hf_initialized", False) and not getattr(raw, "_is_hf_initialized", False):
            nn.init.constant_(raw, value)


def _extend(model_class: type[PreTrainedModel]) -> None:
    """Models are made, loaded and switched in three methods of their base class; there is no hook for modules'
    own parameters (transformers 5.24)."""
    post_init, initialize, switch = (
        model_class.post_init,
        model_class._initialize_weights,
        model_class.set_attn_implementation,
    )

    @functools.wraps(post_init)
    def post_init_with_scores(self):
        _set_parameters(self)
        post_init(self)
        _keep_precision(self)

    @functools.wraps(initialize)
    def initialize_with_scores(self, module, *args, **kwargs):
        _initialise(module, self)
        initialize(self, module, *args, **kwargs)

    @functools.wraps(switch)
    def switch_with_scores(self, attn_implementation, *args, **kwargs):
        switch(self, attn_implementation, *args, **kwargs)
        found = self.config._attn_implementation
        if isinstance(attn_implementation, str) and attn_implementation in scores() and found != attn_implementation:
            _refuse(self, attn_implementation)  # theirs only warns
        _set_parameters(self)

    def refusing_tables(make):
        """Some classes look their attention up in a table of their own and end with KeyError: 'ssa'."""

        @functools.wraps(make)
        def make_or_refuse(cls, *args, **kwargs):
            try:
                return make(cls, *args, **kwargs)
            except KeyError as error:
                if error.args and error.args[0] in scores():
                    raise ValueError(
                        f'attn_implementation="{error.args[0]}": {cls.__name__} chooses its attention from a table of its '
                        "own, which no other package can add to"
                    ) from error
                raise

        return classmethod(make_or_refuse)

    model_class._from_config = refusing_tables(model_class._from_config.__func__)
    model_class.from_pretrained = refusing_tables(model_class.from_pretrained.__func__)
    model_class.post_init = post_init_with_scores
    model_class._initialize_weights = initialize_with_scores
    model_class.set_attn_implementation = switch_with_scores


def _mask_of(*args, config: PreTrainedConfig | None = None, **options) -> Tensor | None:
    """Theirs of sdpa: bool, None where is_causal says enough."""
    if type(config) in _WHOLE_MASKS:
        options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return sdpa_mask(*args, config=config, **options)


@dataclass(frozen=True)
class ObservedCall:
    """One call of attention in a model: what `observing` hands on. Shapes as in `ssa_attention.attention`."""

    query: Tensor
    key: Tensor
    mask: Tensor | None
    bias: Tensor | None
    causal: bool
    scale: float | None


_observers: list[Callable[[nn.Module, ObservedCall], None]] = []


@contextmanager
def observing(observer: Callable[[nn.Module, ObservedCall], None]) -> Iterator[None]:
    """Calls the function before every attention of a model with one of our scores."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def _mask_and_bias(
    attention_mask: Tensor | None, position_bias: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """Theirs as the operator wants them."""
    bias = None if position_bias is None else position_bias.to(dtype)
    if attention_mask is None or attention_mask.dtype == torch.bool:
        return attention_mask, bias
    # Additive masks exclude with the least number, which SSA would not take for nothing.
    excluded = attention_mask <= torch.finfo(attention_mask.dtype).min / 2
    added = attention_mask.to(dtype).masked_fill(excluded, -torch.inf)
    return None, added if bias is None else added + bias


def _attention_of(info: ScoreInfo) -> Callable[..., tuple[Tensor, None]]:
    def attend(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        position_bias: Tensor | None = None,
        **options,
    ) -> tuple[Tensor, None]:
        """query (B, H_q, T_q, D), key and value (B, H_kv, T_k, D) to (B, T_q, H_q, D) and no weights."""
        asked = f'attn_implementation="{info.name}": {type(module).__name__}'
        if refused := [name for name in _REFUSED if options.get(name) is not None]:
            raise ValueError(f"{asked} asks for {', '.join(refused)}, which only other implementations know")
        if getattr(module, "score_name", None) != info.name:
            raise ValueError(
                f"{asked} has no parameters of {info.name}: import ssa_attention.hf before the model is made, and "
                "change its attention with model.set_attn_implementation"
            )
        dtype = compute_type(query)
        params = effective_values(module, info, module.score_parametrisation, dtype)
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        causal = bool(causal) and attention_mask is None and query.shape[2] > 1
        if causal and key.shape[2] > query.shape[2]:  # a static cache of which nothing after the queries is filled
            key, value = key[:, :, : query.shape[2]], value[:, :, : query.shape[2]]
        mask, bias = _mask_and_bias(attention_mask, position_bias, dtype)
        if bias is not None and bias.shape[-1] > key.shape[2]:
            bias = bias[..., : key.shape[2]]
        for observer in _observers:
            observer(module, ObservedCall(query, key, mask, bias, causal, scaling))
        out = attention(
            query, key, value, score=info.name, params=params, causal=causal, scale=scaling, dropout=dropout,
            mask=mask, bias=bias,
        )  # fmt: skip
        return out.transpose(1, 2).contiguous(), None

    return attend


def register() -> None:
    """Makes every scoring function an attention implementation of transformers; once, also where the module is loaded
    again."""
    if not hasattr(PreTrainedModel, "_ssa_attention"):
        _extend(PreTrainedModel)
        PreTrainedModel._ssa_attention = True
    for info in scores().values():
        AttentionInterface.register(info.name, _attention_of(info))
        AttentionMaskInterface.register(info.name, _mask_of)
