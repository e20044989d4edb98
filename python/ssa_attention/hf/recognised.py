"""Which modules of a model are attention, and which of them go through transformers' attention interface."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

# What a class's own source says: that it looks its attention function up, or that it computes weights by itself.
_INTERFACE = "ALL_ATTENTION_FUNCTIONS"
_OWN = re.compile(r"softmax\(|scaled_dot_product_attention|multi_head_attention_forward")
_ATTENTION_NAME = re.compile(r"Attention|Attn|MHA|Pooling")
_HEADS = (
    "num_heads",
    "num_attention_heads",
    "n_heads",
    "n_head",
    "nhead",
    "num_q_heads",
    "attention_heads",
    "total_num_heads",
)


@functools.cache
def _own_source(module_class: type[nn.Module]) -> str:
    """The source of the class that defines the module's forward; "" where there is none to be read."""
    for owner in module_class.__mro__:
        if "forward" in vars(owner):
            try:
                return inspect.getsource(owner) if owner.__module__.split(".")[0] != "torch" else ""
            except (OSError, TypeError):
                return ""
    return ""


def calls_interface(module: nn.Module) -> bool:
    """Whether the module calls the function that `attn_implementation` names. Source that cannot be read (a notebook's)
    is believed where the module says whether it is causal, as all of transformers' own do."""
    if isinstance(module, PreTrainedModel):
        return False
    source = _own_source(type(module))
    return _INTERFACE in source if source else isinstance(getattr(module, "is_causal", None), bool)


def computes_itself(module: nn.Module) -> bool:
    """Whether the module computes attention that no `attn_implementation` changes."""
    if isinstance(module, nn.MultiheadAttention):
        return True
    if isinstance(module, PreTrainedModel) or not _ATTENTION_NAME.search(type(module).__name__):
        return False
    source = _own_source(type(module))
    return _INTERFACE not in source and _OWN.search(source) is not None


def _with_configs(model: PreTrainedModel) -> Iterator[tuple[str, nn.Module, PreTrainedConfig]]:
    """Every module with the config that holds for it: its own, else that of the module around it."""
    configs: dict[str, PreTrainedConfig] = {}
    for name, module in model.named_modules():
        around = configs.get(name.rpartition(".")[0], model.config)
        own = getattr(module, "config", None)
        configs[name] = own if isinstance(own, PreTrainedConfig) else around
        yield name, module, configs[name]


def attention_modules(model: PreTrainedModel) -> list[tuple[str, nn.Module, PreTrainedConfig]]:
    """Those that go through the interface, by name, with the config whose attn_implementation they read."""
    return [entry for entry in _with_configs(model) if calls_interface(entry[1])]


def left_behind(model: PreTrainedModel, score_names: frozenset[str]) -> list[tuple[str, str]]:
    """Name and class of each module that would go on with its own attention though its config, or that of a model
    around it, names a score: backbones may read "eager" in a config of their own whatever was asked for."""
    asked: dict[str, bool] = {}
    found = []
    for name, module, config in _with_configs(model):
        around = asked.get(name.rpartition(".")[0], False)
        asked[name] = around or config._attn_implementation in score_names
        if asked[name] and computes_itself(module):
            found.append((name, type(module).__name__))
    return found


def query_heads(module: nn.Module, config: PreTrainedConfig) -> int:
    """How many heads the module's queries have. Raises ValueError where it does not say."""
    for owner in (module, config):
        for name in _HEADS:
            heads = getattr(owner, name, None)
            if isinstance(heads, int) and not isinstance(heads, bool) and heads > 0:
                return heads
    raise ValueError(f"{type(module).__name__} does not say how many heads it has: none of {', '.join(_HEADS)}")
