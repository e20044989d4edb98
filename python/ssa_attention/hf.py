"""Scoring functions in the models of Hugging Face: `attn_implementation="ssa"`, or any other name of `scores()`.

    import ssa_attention.hf  # registers them; transformers 5
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("gpt2", attn_implementation="ssa")  # softmax weights, n and b at their start
    model = AutoModelForCausalLM.from_pretrained("runs/books/checkpoints/step-2000")  # of `ssa train`: n and b as trained

Every attention module of such a model owns the score's parameters as `score_NAME` (SSA: score_n, score_b), raw values as
in `ssa_attention.nn.ScoreParameters`, which train, save and load like its weights. How is said by keys of the model's
config, the same as in a config of `ssa train`: `parametrisation` ("softplus"), `score_share` ("head": a value a head;
"layer"), `score_initial` (values in the score's order), `score_frozen` and `score_trained` (names). Set them on the config
before the model is made. `save_pretrained` keeps them and the score's name, so that the checkpoint cannot be read as
one of softmax: without this module `from_pretrained` refuses it.

Masks, padding, caches, grouped heads and sliding windows are theirs and work as with "sdpa"; what only eager attention
can do (`output_attentions`) does not. A model that asks for something else within its attention (a soft cap, position
biases, sinks of its own) gets a ValueError that names it, and so does one whose class computes attention by itself (Bloom).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig, PreTrainedModel
from transformers.masking_utils import sdpa_mask

from .nn import _effective_values, _initial_weights
from .operator import ScoreInfo, attention, scores

__all__ = ["score_values"]

_REFUSED = ("softcap", "position_bias", "s_aux", "head_mask")


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
            f"config.score_initial has {len(given)} values, score {info.name!r} has the parameters {names}"
        )
    values = dict(zip((param.name for param in info.params), given, strict=False))
    return _initial_weights(info, _parametrisation(config), values)


def _trained_of(config: PreTrainedConfig, info: ScoreInfo) -> dict[str, bool]:
    trained = {param.name: param.trained for param in info.params}
    for key, value in (("score_frozen", False), ("score_trained", True)):
        for name in getattr(config, key, None) or []:
            if name not in trained:
                raise ValueError(f"config.{key} names {name!r}, score {info.name!r} has the parameters {list(trained)}")
            trained[name] = value
    return trained


def _attention_modules(model: nn.Module) -> list[tuple[str, nn.Module, PreTrainedConfig]]:
    """Those that call the attention interface: all of transformers' own say whether they are causal."""
    return [
        (name, module, getattr(module, "config", model.config))
        for name, module in model.named_modules()
        if isinstance(getattr(module, "is_causal", None), bool) and not isinstance(module, PreTrainedModel)
    ]


def _query_heads(module: nn.Module, config: PreTrainedConfig) -> int:
    for owner, name in ((module, "num_heads"), (module, "num_attention_heads"), (config, "num_attention_heads")):
        if isinstance(heads := getattr(owner, name, None), int):
            return heads
    raise ValueError(f"{type(module).__name__} does not say how many heads it has")


def _refuse(model: PreTrainedModel, score: str) -> None:
    raise ValueError(
        f'attn_implementation="{score}": {type(model).__name__} computes its attention itself; in transformers only '
        "models whose attention goes through AttentionInterface can change it"
    )


def _set_parameters(model: PreTrainedModel) -> None:
    """Gives every attention module the parameters of its score, and takes those of another score away."""
    if (info := _score_of(model.config)) is not None and not model._can_set_attn_implementation():
        _refuse(model, info.name)
    for _, module, config in _attention_modules(model):
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
        size = 1 if shared == "layer" else _query_heads(module, config)
        for name, value in initial.items():
            raw = torch.full((size,), value, dtype=torch.float32)
            module.register_parameter(f"score_{name}", nn.Parameter(raw, requires_grad=trained[name]))


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

    model_class.post_init = post_init_with_scores
    model_class._initialize_weights = initialize_with_scores
    model_class.set_attn_implementation = switch_with_scores


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
        dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
        params = [value.to(dtype) for value in _effective_values(module, info, module.score_parametrisation)]
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        causal = bool(causal) and attention_mask is None and query.shape[2] > 1
        if causal and key.shape[2] > query.shape[2]:  # a static cache of which nothing after the queries is filled
            key, value = key[:, :, : query.shape[2]], value[:, :, : query.shape[2]]
        masks: dict[str, Tensor] = {}
        if attention_mask is not None:
            if attention_mask.dtype == torch.bool:
                masks["mask"] = attention_mask
            else:  # their additive masks exclude with the least number, which SSA would not take for nothing
                excluded = attention_mask <= torch.finfo(attention_mask.dtype).min / 2
                masks["bias"] = attention_mask.to(dtype).masked_fill(excluded, -torch.inf)
        out = attention(
            query, key, value, score=info.name, params=params, causal=causal, scale=scaling, dropout=dropout, **masks
        )
        return out.transpose(1, 2).contiguous(), None

    return attend


def score_values(model: PreTrainedModel) -> Mapping[str, dict[str, Tensor]]:
    """The effective values of each attention module's score, by module and name, each (heads) or (1): for logs."""
    values = {}
    with torch.no_grad():
        for name, module, config in _attention_modules(model):
            if (info := _score_of(config)) is not None:
                found = _effective_values(module, info, module.score_parametrisation)
                values[name] = {param.name: value.clone() for param, value in zip(info.params, found, strict=True)}
    return values


if not hasattr(PreTrainedModel, "_ssa_attention"):  # once, also where the module is loaded again
    _extend(PreTrainedModel)
    PreTrainedModel._ssa_attention = True
for _info in scores().values():
    AttentionInterface.register(_info.name, _attention_of(_info))
    AttentionMaskInterface.register(_info.name, sdpa_mask)
