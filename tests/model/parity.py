"""The C++ model beside a model of PyTorch on the same weights: outputs, every gradient, then ten losses of
training. Errors are measured against float64 and may be at most twice (gradients and losses three times)
those of PyTorch in float32."""

import json
import os
import re
import subprocess
from pathlib import Path

import ssa_attention
import torch
from eager import check_error
from safetensors.torch import load, save_file
from ssa_attention import hf  # noqa: F401  (other scores in Hugging Face's models)
from torch.nn.functional import cross_entropy

PROGRAM = Path(os.environ.get("SSA_BINARY", "build/release/bin/ssa")).with_name("model_parity")
STEPS = 10
torch.set_num_threads(1)  # the problems are small


def make_config(preset: str, **model) -> dict:
    train = {"steps": STEPS, "learning_rate": 1e-4, "optimizer": "adamw", "weight_decay": 0.1, "seed": 3}
    return {"model": {"preset": preset, "score": "softmax"} | model, "train": train}


def next_tokens(generator: torch.Generator, vocabulary: int = 256) -> dict:
    """Data of a decoder."""
    ids = torch.randint(vocabulary, (3, 24), generator=generator)
    return {"inputs": ids[:, :-1].contiguous(), "targets": ids[:, 1:].contiguous()}


def token_loss(logits, targets):
    return cross_entropy(logits.flatten(0, -2), targets.flatten())


def run_program(folder: Path, config: dict, dtype: str, tensors: dict, **metadata: str) -> dict:
    """What model_parity writes for these weights and data, which must be of that dtype or of whole numbers."""
    source, result = folder / "in.safetensors", folder / "out.safetensors"
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    save_file(tensors, source, {"config": json.dumps(config), "dtype": dtype} | metadata)
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([PROGRAM, source, result], check=False, capture_output=True, text=True, env=one_thread)
    assert done.returncode == 0, done.stderr
    return load(result.read_bytes())  # load_file would map the file, which the next run overwrites


def initial_weights(folder: Path, config: dict) -> dict:
    return run_program(folder, config, "float32", {"unused": torch.zeros(1)})


def is_fixed(config: dict, name: str) -> bool:
    """Whether nothing may train that tensor: cosFormer's length."""
    return ".score_" in name and ssa_attention.scores()[config["model"]["score"]].family == "linear"


def moved_weights(config: dict, initial: dict, generator: torch.Generator) -> dict:
    """The model's own weights, moved so far from their start that every part of it matters, in numbers that
    float32 holds exactly."""
    weights = {}
    for name, tensor in sorted(initial.items()):
        if is_fixed(config, name):
            weights[name] = tensor.double()
            continue
        is_score = ".score_" in name
        deviation = 0.3 if is_score else 0.1 if tensor.dim() == 1 else tensor.shape[0] ** -0.5
        tensor = tensor + deviation * torch.randn(tensor.shape, generator=generator)
        raw = is_score and config["model"].get("parametrisation") == "raw"
        weights[name] = (tensor.abs() + 0.1 if raw else tensor).double()
    return weights


def cast(tensors: dict, dtype: torch.dtype) -> dict:
    return {name: t.to(dtype) if t.is_floating_point() else t for name, t in tensors.items()}


def reference(forward, loss_of, config: dict, weights: dict, data: dict, dtype: torch.dtype) -> dict:
    """What model_parity writes, by PyTorch's autograd and optimizer."""
    data = cast(data, dtype)
    fixed = {name: w.to(dtype) for name, w in weights.items() if is_fixed(config, name)}
    leaves = {name: w.to(dtype).clone().requires_grad_() for name, w in weights.items() if name not in fixed}

    def loss():
        output = forward(leaves | fixed, data["inputs"])
        return output, loss_of(output, data["targets"])

    output, first_loss = loss()
    first_loss.backward()
    results = {"output": output.detach()}
    results |= {f"gradient.{name}": leaf.grad.clone() for name, leaf in leaves.items()}
    train = config["train"]
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[train.get("optimizer", "adam")]
    groups = [  # matrices decay; norms, biases and the score's parameters do not
        {"params": [w for w in leaves.values() if w.dim() >= 2], "weight_decay": train.get("weight_decay", 0.0)},
        {"params": [w for w in leaves.values() if w.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = kind(groups, lr=train["learning_rate"])
    losses = []
    for _ in range(train["steps"]):
        optimizer.zero_grad()
        _, value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return results | {"losses": torch.tensor(losses, dtype=torch.float64)}


def scale_of(name: str, results: dict) -> torch.Tensor:
    """The largest value. Query, key and value share one, as in GPT-2, whose files have them in one tensor: the
    gradient of a key's bias is rounding alone (the same number added to all of a row's scores changes no softmax),
    and a query's is a sum that cancels, whose own error is luck (0.3 to 4.7 times PyTorch's by seed, both ways)."""
    parts = [re.sub(r"\.self\.(query|key|value)\.", f".self.{part}.", name) for part in ("query", "key", "value")]
    return torch.stack([results[part].abs().max() for part in parts]).max()


def check_parity(folder: Path, forward, loss_of, make_data, config: dict):
    """Two problems, and their gradients, each divided by its largest value, in one comparison: the error of a
    gradient of four numbers (n of a layer) is a matter of luck, in PyTorch as here.

    forward(weights, inputs) -> output, loss_of(output, targets), make_data(generator) -> {inputs, targets}."""
    initial = initial_weights(folder, config)
    found = {kind: {"ours": [], "eager": [], "truth": []} for kind in ("output", "gradients", "losses")}
    for seed in (5, 6):
        generator = torch.Generator().manual_seed(seed)
        weights = moved_weights(config, initial, generator)
        data = make_data(generator)
        truth = reference(forward, loss_of, config, weights, data, torch.float64)
        eager = reference(forward, loss_of, config, weights, data, torch.float32)
        ours, exact = (
            run_program(folder, config, name, cast(weights | data, getattr(torch, name)))
            for name in ("float32", "float64")
        )
        assert ours.keys() == truth.keys()
        for name, wanted in truth.items():
            scale = scale_of(name, truth)
            # In float64 both are truths : they may differ by rounding, which a wrong formula exceeds by far.
            assert (exact[name] - wanted).abs().max() <= 1e-10 * scale.clamp(min=1), name
            kind = "gradients" if name.startswith("gradient.") else name
            divisor = scale if kind == "gradients" else 1
            for who, results in (("ours", ours), ("eager", eager), ("truth", truth)):
                found[kind][who].append(results[name].double().flatten() / divisor)
    for kind, by in found.items():
        ours, eager, truth = (torch.cat(by[who]) for who in ("ours", "eager", "truth"))
        check_error(kind, ours.float(), eager, truth, 2 if kind == "output" else 3)
        assert kind != "losses" or (truth[0] - truth[STEPS - 1]).abs() > 1e-3  # there was something to follow


def saved_checkpoint(folder: Path, config: dict, weights: dict) -> Path:
    """The folder that `ssa train` would leave of these weights."""
    run = folder / "run"
    (run / "checkpoints").mkdir(parents=True)
    run_program(folder, config, "float32", weights, checkpoint=str(run))
    return run / "checkpoints/step-0"


def check_checkpoint(folder: Path, config: dict, make_data, kind, inputs_of):
    """The checkpoint of moved weights gives in Hugging Face's class what the program gives; returns that model.

    inputs_of(data): what its forward takes."""
    generator = torch.Generator().manual_seed(2)
    weights = cast(moved_weights(config, initial_weights(folder, config), generator), torch.float32)
    data = make_data(generator)
    ours = run_program(folder, config, "float32", weights | data)["output"]
    checkpoint = saved_checkpoint(folder, config, weights)
    # Of another score config.json names it, for ssa_attention.hf; without that they refuse it (tests/python/test_hf.py).
    attention = {"attn_implementation": "eager"} if config["model"]["score"] == "softmax" else {}
    model, info = kind.from_pretrained(checkpoint, output_loading_info=True, **attention)
    assert model.config._attn_implementation == attention.get("attn_implementation", config["model"]["score"])
    assert not any(info.values()), info
    with torch.no_grad():
        eager = model(**inputs_of(data)).logits
        truth = model.double()(**inputs_of(data)).logits
    check_error("logits", ours, eager, truth, 2)
    return model
