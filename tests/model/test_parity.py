"""The C++ model against Hugging Face's GPT2Model and against plain PyTorch on the same weights: outputs,
every gradient, then ten losses of training. Errors are measured against float64 and may be at most twice
(gradients and losses three times) those of PyTorch in float32."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import ssa_attention
import torch
from eager import check_error
from plain_decoder import plain_decoder, task_loss
from safetensors.torch import load, save_file

PROGRAM = Path(os.environ.get("SSA_BINARY", "build/release/bin/ssa")).with_name("model_parity")
STEPS = 10
torch.set_num_threads(1)  # the problems are small
POINTS = 11
BASE = {
    "preset": "gpt2-icl-tiny", "layers": 3, "heads": 4, "kv_heads": 0, "width": 64, "max_positions": 40,
    "mlp": True, "norm": "layer", "residual": True, "positions": "learned", "score": "ssa",
    "parametrisation": "softplus",
}  # fmt: skip


def run_program(folder: Path, config: dict, dtype: str, tensors: dict) -> dict:
    source, result = folder / "in.safetensors", folder / "out.safetensors"
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    save_file(tensors, source, {"config": json.dumps(config), "dtype": dtype})
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([PROGRAM, source, result], check=False, capture_output=True, text=True, env=one_thread)
    assert done.returncode == 0, done.stderr
    return load(result.read_bytes())  # load_file would map the file, which the next run overwrites


def make_config(task: str = "icl-every", **options) -> dict:
    train = {"steps": STEPS, "learning_rate": 1e-4, "seed": 3}
    return {"model": BASE | options, "task": {"name": task, "points_end": POINTS}, "train": train}


def initial_weights(folder: Path, config: dict) -> dict:
    return run_program(folder, config, "float32", {"unused": torch.zeros(1)})


def is_fixed(config: dict, name: str) -> bool:
    """Whether nothing may train that tensor: cosFormer's length."""
    return ".score_" in name and ssa_attention.scores()[config["model"]["score"]].family == "linear"


def make_problem(config: dict, initial: dict, seed: int):
    """Weights and data: the model's own parameters, moved so far from their start that every part of it
    matters, in numbers that float32 holds exactly."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, tensor in sorted(initial.items()):
        if is_fixed(config, name):
            weights[name] = tensor
            continue
        is_score = ".score_" in name
        deviation = 0.3 if is_score else 0.1 if tensor.dim() == 1 else tensor.shape[0] ** -0.5
        tensor = tensor + deviation * torch.randn(tensor.shape, generator=generator)
        weights[name] = tensor.abs() + 0.1 if is_score and config["model"]["parametrisation"] == "raw" else tensor
    x = torch.randn(8, POINTS, generator=generator)
    y = 2 * x - 1 if config["task"]["name"] == "icl-linear" else torch.randn(8, POINTS, generator=generator).sign()
    inputs = torch.stack([x, y], 2).view(8, 2 * POINTS, 1)
    return {name: w.double() for name, w in weights.items()}, {"inputs": inputs.double(), "targets": y.double()}


def reference(forward, config: dict, weights: dict, data: dict, dtype: torch.dtype) -> dict:
    """What model_parity writes, by PyTorch's autograd and torch.optim.Adam."""
    fixed = {name: w.to(dtype) for name, w in weights.items() if is_fixed(config, name)}
    leaves = {name: w.to(dtype).clone().requires_grad_() for name, w in weights.items() if name not in fixed}
    inputs, targets = (data[name].to(dtype) for name in ("inputs", "targets"))

    def loss():
        output = forward(leaves | fixed, inputs)
        return output, task_loss(config["task"]["name"], output, targets)

    output, first_loss = loss()
    first_loss.backward()
    results = {"output": output.detach()}
    results |= {f"gradient.{name}": leaf.grad.clone() for name, leaf in leaves.items()}
    optimizer = torch.optim.Adam(leaves.values(), lr=config["train"]["learning_rate"])
    losses = []
    for _ in range(config["train"]["steps"]):
        optimizer.zero_grad()
        _, value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return results | {"losses": torch.tensor(losses, dtype=torch.float64)}


def check_parity(folder: Path, forward, config: dict):
    """Two problems, and their gradients, each divided by its largest value, in one comparison: the error of a
    gradient of four numbers (n of a layer) is a matter of luck, in PyTorch as here."""
    initial = initial_weights(folder, config)
    found = {kind: {"ours": [], "eager": [], "truth": []} for kind in ("output", "gradients", "losses")}
    for seed in (5, 6):
        weights, data = make_problem(config, initial, seed)
        truth = reference(forward, config, weights, data, torch.float64)
        eager = reference(forward, config, weights, data, torch.float32)
        ours, exact = (
            run_program(folder, config, name, {k: v.to(getattr(torch, name)) for k, v in (weights | data).items()})
            for name in ("float32", "float64")
        )
        assert ours.keys() == truth.keys()
        for name, wanted in truth.items():
            scale = wanted.abs().max()
            # In float64 both are truths: they may differ by rounding, which a wrong formula exceeds by far.
            assert (exact[name] - wanted).abs().max() <= 1e-10 * scale.clamp(min=1), name
            kind = "gradients" if name.startswith("gradient.") else name
            divisor = scale if kind == "gradients" else 1
            for who, results in (("ours", ours), ("eager", eager), ("truth", truth)):
                found[kind][who].append(results[name].double().flatten() / divisor)
    for kind, by in found.items():
        ours, eager, truth = (torch.cat(by[who]) for who in ("ours", "eager", "truth"))
        check_error(kind, ours.float(), eager, truth, 2 if kind == "output" else 3)
        assert kind != "losses" or (truth[0] - truth[STEPS - 1]).abs() > 1e-3  # there was something to follow


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
    check_parity(tmp_path, forward, config)


ATTENTION_ONLY = {"mlp": False, "norm": "none"}


@pytest.mark.parametrize(
    "options",
    [
        *[{"score": name} for name in ssa_attention.scores()],
        *[ATTENTION_ONLY | {"score": name} for name in ("softmax", "ssa")],
        ATTENTION_ONLY | {"residual": False},
        {"residual": False},
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
    check_parity(tmp_path, lambda weights, inputs: plain_decoder(config["model"], weights, inputs), config)
