"""The C++ language decoders against Hugging Face's GPT2LMHeadModel and NemotronForCausalLM on the same weights;
their checkpoints there."""

import parity
import pytest
import torch
from eager import check_error
from parity import (
    cast,
    check_checkpoint,
    check_parity,
    initial_weights,
    moved_weights,
    next_tokens,
    run_program,
    token_loss,
)
from scored import forward_of
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    NemotronConfig,
    NemotronForCausalLM,
)

VOCABULARY, LONGEST, LAYERS = 256, 64, 2
LENGTHS = [9, 32, 1, 17]  # of packed sequences


def make_config(preset: str, **model) -> dict:
    return parity.make_config(preset, **{"vocabulary": VOCABULARY} | model)


class ExactRotary(torch.nn.Module):
    """The angles in float64; Hugging Face makes them in float32 whatever the model is."""

    def __init__(self, dims: int):
        super().__init__()
        self.frequency = 10000.0 ** -(torch.arange(0, dims, 2, dtype=torch.float64) / dims)

    def forward(self, x, position_ids):
        angle = position_ids[..., None] * self.frequency
        angle = torch.cat([angle, angle], -1)
        return angle.cos().to(x.dtype), angle.sin().to(x.dtype)


def hugging_face_model(config: dict, attention: str = "eager"):
    """The preset as Hugging Face configures it, without dropout."""
    model = config["model"]
    common = {
        "vocab_size": VOCABULARY,
        "tie_word_embeddings": model.get("tied", True),
        "attn_implementation": attention,
    }
    common |= {"bos_token_id": None, "eos_token_id": None}
    if model["preset"] == "gpt2-tiny":
        sizes = {"n_positions": LONGEST, "n_embd": 32, "n_layer": LAYERS, "n_head": 2}
        return GPT2LMHeadModel(GPT2Config(**sizes, embd_pdrop=0, attn_pdrop=0, resid_pdrop=0, **common)).eval()
    return NemotronForCausalLM(
        NemotronConfig(
            hidden_size=32,
            num_hidden_layers=LAYERS,
            num_attention_heads=4,
            num_key_value_heads=model.get("kv_heads", 2),
            intermediate_size=128,
            max_position_embeddings=LONGEST,
            rope_parameters={
                "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": model.get("rotary_share", 0.5),
            },
            **common,
        )
    ).eval()  # fmt: skip


def hugging_face(config: dict):
    """forward(weights, inputs) through the class of the preset."""
    score = config["model"]["score"]
    model = hugging_face_model(config, "scored-decoder")
    prefix = "transformer.h.{}.attn" if config["model"]["preset"] == "gpt2-tiny" else "model.layers.{}.self_attn"
    if config["model"]["preset"] == "nemotron-tiny":
        model.model.rotary_emb = ExactRotary(int(8 * config["model"].get("rotary_share", 0.5)))
    return forward_of(model, score, prefix)


CASES = [
    make_config("gpt2-tiny"),
    make_config("gpt2-tiny", tied=False),
    make_config("gpt2-tiny", score="ssa", score_share="layer", heads=2),
    make_config("nemotron-tiny"),
    make_config("nemotron-tiny", tied=False, kv_heads=4, rotary_share=1.0),
    make_config("nemotron-tiny", score="ssa"),
]


def name_of(config: dict) -> str:
    return "-".join(str(value) for key, value in config["model"].items() if key != "vocabulary")


@pytest.mark.parametrize("config", CASES, ids=name_of)
def test_names_and_shapes_are_hugging_faces(tmp_path, config):
    theirs = {name: tuple(p.shape) for name, p in hugging_face_model(config).named_parameters()}
    weights = initial_weights(tmp_path, config)
    assert {name: tuple(w.shape) for name, w in weights.items() if ".score_" not in name} == theirs
    assert any(".score_" in name for name in weights) == (config["model"]["score"] == "ssa")


@pytest.mark.parametrize("config", CASES, ids=name_of)
def test_it_equals_hugging_face(tmp_path, config):
    check_parity(tmp_path, hugging_face(config), token_loss, next_tokens, config)


@pytest.mark.parametrize("preset", ["gpt2-tiny", "nemotron-tiny"])
def test_packed_sequences_are_read_apart(tmp_path, preset):
    config = make_config(preset)
    generator = torch.Generator().manual_seed(1)
    weights = moved_weights(config, initial_weights(tmp_path, config), generator)
    ids = torch.randint(VOCABULARY, (sum(LENGTHS),), generator=generator)
    truth, eager = (
        torch.cat([hugging_face(config)(cast(weights, dtype), part[None])[0] for part in ids.split(LENGTHS)])
        for dtype in (torch.float64, torch.float32)
    )
    cu = torch.tensor([0, *LENGTHS]).cumsum(0)
    data = {"inputs": ids, "targets": torch.zeros_like(ids), "cu_lengths": cu}
    ours = run_program(tmp_path, config, "float32", cast(weights, torch.float32) | data)
    check_error("logits", ours["output"], eager.detach(), truth.detach(), 2)


@pytest.mark.parametrize("config", CASES, ids=name_of)
def test_a_checkpoint_loads_in_hugging_face(tmp_path, config):
    model = check_checkpoint(
        tmp_path, config, next_tokens, AutoModelForCausalLM, lambda data: {"input_ids": data["inputs"]}
    )
    assert type(model) is type(hugging_face_model(config))


def test_the_preset_of_the_paper_has_its_size(tmp_path):
    train = {"steps": 1, "learning_rate": 1e-4}
    config = {"model": {"preset": "nemotron-114m", "score": "ssa", "score_frozen": ["b"]}, "train": train}
    weights = initial_weights(tmp_path, config)
    count = sum(w.numel() for name, w in weights.items() if ".score_" not in name)
    assert count == 114_132_480
    assert {tuple(w.shape) for name, w in weights.items() if ".score_" in name} == {(1,)}
