"""Every model class of transformers that can be made small, and what becomes of its attention under our scores.

    PYTHONPATH=build/release/python .venv/bin/python tests/python/hugging_face_classes.py [--only NAME] [--from NAME]

A class is *right* where our softmax gives what eager attention gives and nothing in the model computes softmax beside
it; *refused* where a ValueError says why; *not made* where no small model of it or no input for it could be made. Anything
else is a fault, and the program ends with 1. test_hf_classes.py runs a sample of it.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import sys
import warnings
from collections import Counter
from dataclasses import dataclass

import torch
import transformers
from ssa_attention import hf  # noqa: F401  (registers the scores)
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

# Sizes by the names that configs use for them; others stay as they are.
SMALL = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "encoder_hidden_size", "embed_dim", "n_embed"), 32),
    **dict.fromkeys(("embedding_size", "projection_dim", "decoder_hidden_size", "adapter_hidden_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_encoder_layers", "num_decoder_layers", "decoder_num_hidden_layers", "depth"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("decoder_attention_heads", "decoder_num_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "n_inner"), 48),
    **dict.fromkeys(("decoder_intermediate_size", "moe_intermediate_size", "shared_intermediate_size"), 48),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_dim", "kv_channels"), 8),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "rotary_dim", "index_head_dim"), 8),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "index_n_heads"), 16),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "top_k", "index_topk"), 2),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace", "num_dense_layers"), 1),
    "num_key_value_heads": 2, "vocab_size": 99, "max_position_embeddings": 512, "n_positions": 512, "image_size": 32,
    "patch_size": 8, "type_vocab_size": 2,
}  # fmt: skip
PLACES = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "image_token_id")
# Modules whose softmax is no attention over tokens.
NOT_ATTENTION = ("Router", "Gate", "Gating", "Experts", "MoE", "Moe", "Quantizer", "Head", "Embedding")
LARGEST = 20e6  # parameters
SKIPPED = ("timm", "Timm")  # want a package that is not installed


@dataclass(frozen=True)
class Outcome:
    kind: str  # right, refused, not made, fault
    why: str = ""


def shrink(config: PreTrainedConfig) -> PreTrainedConfig:
    def given(name: str, kind: type):
        try:
            value = getattr(config, name, None)
        except Exception:  # noqa: BLE001  (attributes that differ by layer raise)
            return None
        return value if isinstance(value, kind) and not isinstance(value, bool) else None

    def put(name: str, value) -> None:
        with contextlib.suppress(AttributeError):  # properties
            setattr(config, name, value)

    for name, value in SMALL.items():
        if (size := given(name, int)) is not None and size > 0:
            put(name, min(value, size))
    for name in PLACES:
        if (place := given(name, int)) is not None:
            put(name, min(place, 1))
    for name in ("layer_types", "mlp_layer_types"):
        if kinds := given(name, list):
            put(name, (list(dict.fromkeys(kinds)) * 2)[:2])
    for name in getattr(config, "sub_configs", {}):
        if isinstance(sub := getattr(config, name, None), PreTrainedConfig):
            shrink(sub)
    return config


def classes() -> list[tuple[type[PreTrainedConfig], type[PreTrainedModel]]]:
    """The base model of every config, and of those that have a causal or masked language model, that one too."""
    found = []
    for mapping in ("MODEL_MAPPING", "MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_MASKED_LM_MAPPING"):
        for config_class in getattr(modeling_auto, mapping):
            try:
                models = getattr(modeling_auto, mapping)[config_class]
            except (ImportError, AttributeError, KeyError, ValueError):
                continue
            for model in models if isinstance(models, tuple) else (models,):
                if (config_class, model) not in found and not model.__name__.startswith(SKIPPED):
                    found.append((config_class, model))
    return sorted(found, key=lambda pair: pair[1].__name__)


def inputs_of(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Of the kind that the model's forward asks for first; texts and images where it is of two such models."""
    generator = torch.Generator().manual_seed(1)
    names = inspect.signature(model.forward).parameters
    found = {}
    if "pixel_values" in names and "return_loss" in names:
        found["pixel_values"] = torch.randn(2, 3, 32, 32, generator=generator)
    if "pixel_values" in names and model.main_input_name == "pixel_values":
        found["pixel_values"] = torch.randn(2, getattr(model.config, "num_channels", 3), 32, 32, generator=generator)
    elif model.main_input_name == "input_values":
        found["input_values"] = torch.randn(2, 4000, generator=generator)
    else:
        found["input_ids"] = torch.randint(2, 90, (2, 12), generator=generator)
        mask = torch.ones(2, 12, dtype=torch.long)
        mask[1, 8:] = 0
        if "attention_mask" in names:
            found["attention_mask"] = mask
        if "decoder_input_ids" in names:
            found["decoder_input_ids"] = found["input_ids"][:, :7]
    return found


class SoftmaxWatch(TorchDispatchMode):
    """Notes the module classes within which a softmax of torch runs."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.found: Counter[str] = Counter()
        self.hooks = []
        for module in model.modules():
            name = type(module).__name__
            self.hooks.append(module.register_forward_pre_hook(lambda *_, name=name: self.stack.append(name)))
            self.hooks.append(module.register_forward_hook(lambda *_: self.stack.pop() and None, always_call=True))

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        if "softmax" in name or "scaled_dot_product" in name:
            within = self.stack[-1] if self.stack else "the model"
            if not any(part in within for part in NOT_ATTENTION):
                self.found[within] += 1
        return function(*args, **(kwargs or {}))

    def __exit__(self, *error):
        for hook in self.hooks:
            hook.remove()
        return super().__exit__(*error)


def first_tensor(output) -> torch.Tensor:
    values = output.values() if hasattr(output, "values") else output if isinstance(output, tuple) else (output,)
    return next(value for value in values if isinstance(value, torch.Tensor) and value.is_floating_point())


def compared(theirs: PreTrainedModel, model: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> str:
    """What is wrong with the model; "" where it gives what theirs gives."""
    with torch.no_grad():
        torch.manual_seed(0)  # some draw in forward: ViTMAE the patches that it hides
        expected = first_tensor(theirs(**inputs))
        torch.manual_seed(0)
        with SoftmaxWatch(model) as watch:
            found = first_tensor(model(**inputs))
    if watch.found:
        return f"goes on with softmax in {', '.join(watch.found)}"
    rows = inputs.get("attention_mask")
    if rows is not None and found.shape[:2] == rows.shape:
        found, expected = found[rows.bool()], expected[rows.bool()]
    error, largest = (found - expected).abs().max().item(), expected.abs().max().item()
    if error <= 1e-4 * max(1.0, largest) or not expected.isfinite().all():
        return ""
    return f"differs from eager attention by {error:.2g} of {largest:.2g}"


def examine(config_class: type[PreTrainedConfig], model_class: type[PreTrainedModel]) -> Outcome:
    def made(implementation: str) -> PreTrainedModel:
        torch.manual_seed(0)
        config = shrink(config_class())
        config._attn_implementation = implementation
        return model_class._from_config(config, attn_implementation=implementation).eval()

    try:
        with torch.device("meta"):  # without memory
            size = sum(p.numel() for p in made("eager").parameters())
        if size > LARGEST:
            raise RuntimeError(f"{size // 1000000} million parameters")
        theirs = made("eager")
        inputs = inputs_of(theirs)
        with torch.no_grad():
            if not first_tensor(theirs(**inputs)).isfinite().all():
                raise RuntimeError("eager attention gives no finite numbers")
    except Exception as error:  # noqa: BLE001  (anything: a small model of this class is not ours to repair)
        theirs, reason = None, f"{type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}"
    try:
        if theirs is None:  # what can be refused is, without weights
            with torch.device("meta"):
                made("ssa")
            return Outcome("not made", reason)
        made("ssa")
        model = made("softmax")
        model.load_state_dict(theirs.state_dict(), strict=False)
        for given in (inputs, {name: value for name, value in inputs.items() if name != "attention_mask"}):
            if fault := compared(theirs, model, given):
                return Outcome("fault", fault)
    except ValueError as error:
        if "attn_implementation=" in str(error):
            return Outcome("refused", str(error))
        return Outcome("fault" if theirs is not None else "not made", f"ValueError: {error}")
    except Exception as error:  # noqa: BLE001
        kind = "fault" if theirs is not None else "not made"
        return Outcome(kind, f"{type(error).__name__}: {str(error).splitlines()[:1]}")
    has = any(hasattr(module, "score_name") for module in model.modules())
    return Outcome("right", "" if has else "has no softmax attention")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="classes whose name contains this")
    parser.add_argument("--from", dest="first", default="", help="classes from this name on, in the order of letters")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    for config_class, model_class in classes():
        if model_class.__name__ < given.first or (given.only and given.only not in model_class.__name__):
            continue
        outcome = examine(config_class, model_class)
        counts[outcome.kind] += 1
        print(f"{outcome.kind:9} {model_class.__name__}: {outcome.why}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    sys.exit(1 if counts["fault"] else 0)


if __name__ == "__main__":
    main()
