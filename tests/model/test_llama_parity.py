"""The C++ model with Llama's blocks against Hugging Face's LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and
Qwen3ForCausalLM, made from the config.json that its checkpoints have, on the same weights."""

import json
import math

import parity
import pytest
import torch
from parity import check_checkpoint, check_parity, initial_weights, next_tokens, saved_checkpoint, token_loss
from scored import forward_of
from transformers import AutoConfig, AutoModelForCausalLM

VOCABULARY = 256


def make_config(**model) -> dict:
    return parity.make_config("llama-tiny", **{"vocabulary": VOCABULARY} | model)


def exact_frequencies(rope: dict, dims: int) -> tuple[torch.Tensor, float]:
    """Of rope_parameters, in float64; Hugging Face makes them in float32 whatever the model is."""
    exact = rope["rope_theta"] ** -(torch.arange(0, dims, 2, dtype=torch.float64) / dims)
    kind, factor = rope["rope_type"], rope.get("factor", 1.0)
    if kind == "default":
        return exact, 1.0
    if kind == "linear":
        return exact / factor, 1.0
    turns = rope["original_max_position_embeddings"] * exact / (2 * math.pi)
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = (turns - low) / (high - low)
        between = (1 - smooth) * exact / factor + smooth * exact
        return torch.where(turns < low, exact / factor, torch.where(turns > high, exact, between)), 1.0

    def dimension(beta):
        scale = rope["original_max_position_embeddings"] / (beta * 2 * math.pi)
        return dims * math.log(scale) / (2 * math.log(rope["rope_theta"]))

    first = max(math.floor(dimension(rope["beta_fast"])), 0)
    last = min(math.ceil(dimension(rope["beta_slow"])), dims - 1)
    ramp = ((torch.arange(dims // 2, dtype=torch.float64) - first) / (last - first)).clamp(0, 1)
    return exact / factor * ramp + exact * (1 - ramp), rope.get("attention_factor", 0.1 * math.log(factor) + 1)


class ExactRotary(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.frequency, self.magnitude = exact_frequencies(config.rope_parameters, config.head_dim)

    def forward(self, x, position_ids):
        angle = position_ids[..., None] * self.frequency
        angle = torch.cat([angle, angle], -1)
        return (angle.cos() * self.magnitude).to(x.dtype), (angle.sin() * self.magnitude).to(x.dtype)


def exact_norm(self, x):
    """Hugging Face's is of float32 whatever the model is."""
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def hugging_face_model(folder, config: dict):
    """Made from the config.json of a checkpoint."""
    checkpoint = saved_checkpoint(folder, config, initial_weights(folder, config))
    raw = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(
        json.dumps({key: value for key, value in raw.items() if key != "attn_implementation"})
    )
    implementation = "sdpa" if config["model"]["score"] == "softmax" else "scored-decoder"
    theirs = AutoConfig.from_pretrained(checkpoint)
    return AutoModelForCausalLM.from_config(theirs, attn_implementation=implementation).eval()


def hugging_face(folder, config: dict):
    """forward(weights, inputs) through the class, with exact angles and norms."""
    model = hugging_face_model(folder, config)
    model.model.rotary_emb = ExactRotary(model.config)
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = exact_norm.__get__(module)
    return forward_of(model, config["model"]["score"], "model.layers.{}.self_attn")


SCALED = {"rotary_factor": 4.0, "rotary_original": 16, "max_positions": 64}
CASES = {
    "llama": make_config(),
    "untied, wide heads, biases": make_config(tied=False, head_width=16, biases="all", rotary_base=500.0),
    "biases of attention": make_config(biases="attention", kv_heads=4),
    "linear": make_config(rotary_scaling="linear", rotary_factor=2.5),
    "llama3": make_config(rotary_scaling="llama3", rotary_low=0.5, rotary_high=2.0, **SCALED),
    "yarn": make_config(rotary_scaling="yarn", rotary_low=0.2, rotary_high=3.0, head_width=16, **SCALED),
    "mistral": make_config(window=7),
    "qwen2": make_config(biases="query-key-value", window=5, window_first=1),
    "qwen3": make_config(query_key_norm=True, head_width=16, biases="attention", activation="gelu-tanh"),
    "ssa": make_config(score="ssa", score_share="layer"),
}
CLASSES = {
    "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_names_and_shapes_are_hugging_faces(tmp_path, name):
    model = hugging_face_model(tmp_path, CASES[name])
    assert type(model).__name__ == CLASSES.get(name, "LlamaForCausalLM")
    theirs = {name: tuple(p.shape) for name, p in model.named_parameters()}
    weights = initial_weights(tmp_path, CASES[name])
    assert {name: tuple(w.shape) for name, w in weights.items() if ".score_" not in name} == theirs


@pytest.mark.parametrize("name", CASES)
def test_it_equals_hugging_face(tmp_path, name):
    check_parity(tmp_path, hugging_face(tmp_path, CASES[name]), token_loss, next_tokens, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_loads_in_hugging_face(tmp_path, name):
    check_checkpoint(
        tmp_path, CASES[name], next_tokens, AutoModelForCausalLM, lambda data: {"input_ids": data["inputs"]}
    )


@pytest.mark.parametrize("kind", ["linear", "llama3", "yarn"])
def test_angles_are_hugging_faces(tmp_path, kind):
    """The formulas above, which the model equals, against theirs in float32."""
    config = hugging_face_model(tmp_path, CASES[kind])
    theirs = config.model.rotary_emb
    exact, magnitude = exact_frequencies(config.config.rope_parameters, config.config.head_dim)
    torch.testing.assert_close(theirs.inv_freq.double(), exact, rtol=1e-6, atol=0)
    assert theirs.attention_scaling == pytest.approx(magnitude)
