"""The C++ decoder against Hugging Face's GPT2Model and against plain PyTorch on the same weights."""

import pytest
import ssa_attention
import torch
from parity import STEPS, check_parity, initial_weights
from plain_decoder import plain_decoder, task_loss

POINTS = 11
BASE = {
    "preset": "gpt2-icl-tiny", "layers": 3, "heads": 4, "kv_heads": 0, "width": 64, "max_positions": 40,
    "mlp": True, "activation": "gelu-tanh", "norm": "layer", "norm_place": "before", "residual": True,
    "causal": True, "positions": "learned", "score": "ssa", "parametrisation": "softplus",
}  # fmt: skip


def make_config(task: str = "icl-every", **options) -> dict:
    train = {"steps": STEPS, "learning_rate": 1e-4, "seed": 3}
    return {"model": BASE | options, "task": {"name": task, "points_end": POINTS}, "train": train}


def check(folder, forward, config: dict):
    def make_data(generator):
        x = torch.randn(8, POINTS, generator=generator)
        linear = config["task"]["name"] == "icl-linear"
        y = 2 * x - 1 if linear else torch.randn(8, POINTS, generator=generator).sign()
        inputs = torch.stack([x, y], 2).view(8, 2 * POINTS, 1)
        return {"inputs": inputs.double(), "targets": y.double()}

    def loss_of(output, targets):
        return task_loss(config["task"]["name"], output, targets)

    check_parity(folder, forward, loss_of, make_data, config)


def hugging_face(model: dict):
    """forward(weights, inputs) through transformers' GPT2Model, eager attention."""
    from transformers import GPT2Config, GPT2Model

    gpt2 = GPT2Model(
        GPT2Config(
            vocab_size=1,
            n_positions=model["max_positions"],
            n_embd=model["width"],
            n_layer=model["layers"],
            n_head=model["heads"],
            resid_pdrop=0,
            embd_pdrop=0,
            attn_pdrop=0,
            attn_implementation="eager",
        )
    )

    def forward(weights, inputs):
        inner = {name: w for name, w in weights.items() if not name.startswith("read_")}
        embedded = inputs @ weights["read_in.weight"] + weights["read_in.bias"]
        gpt2.to(inputs.dtype)
        hidden = torch.func.functional_call(gpt2, inner, kwargs={"inputs_embeds": embedded}).last_hidden_state
        return hidden @ weights["read_out.weight"] + weights["read_out.bias"]

    return gpt2, forward


def test_names_and_shapes_are_hugging_faces(tmp_path):
    config = make_config(score="softmax")
    weights = initial_weights(tmp_path, config)
    gpt2, _ = hugging_face(config["model"])
    theirs = {name: tuple(p.shape) for name, p in gpt2.named_parameters() if name != "wte.weight"}
    ours = {name: tuple(w.shape) for name, w in weights.items() if not name.startswith("read_")}
    assert ours == theirs


def test_softmax_equals_hugging_face(tmp_path):
    config = make_config(score="softmax")
    _, forward = hugging_face(config["model"])
    check(tmp_path, forward, config)


ATTENTION_ONLY = {"mlp": False, "norm": "none"}


@pytest.mark.parametrize(
    "options",
    [
        *[{"score": name} for name in ssa_attention.scores()],
        *[ATTENTION_ONLY | {"score": name} for name in ("softmax", "ssa")],
        ATTENTION_ONLY | {"residual": False},
        {"residual": False},
        {"activation": "gelu"},
        {"norm_place": "after"},
        {"causal": False},
        {"positions": "rope"},
        {"positions": "none"},
        {"kv_heads": 2},
        {"parametrisation": "exp"},
        {"parametrisation": "raw", "score_share": "layer"},
        {"task": "icl-linear"},
    ],
    ids=lambda options: "-".join(f"{key}={value}" for key, value in options.items()),
)
def test_every_option_equals_plain_pytorch(tmp_path, options):
    score = ssa_attention.scores()[options.get("score", "ssa")]
    trained = [param.name for param in score.params if score.family != "linear"]
    config = make_config(**options, score_trained=trained)
    check(tmp_path, lambda weights, inputs: plain_decoder(config["model"], weights, inputs), config)
