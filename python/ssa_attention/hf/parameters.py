"""The score parameters of a Hugging Face model: values, what trains them, files of them alone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from ..files import FileError
from ..operator import ScoreInfo, scores
from ..score_parameters import effective_values


def score_modules(model: nn.Module) -> list[tuple[str, nn.Module, ScoreInfo]]:
    """Every module that owns the parameters of a score. Also within wrappers (PEFT, DataParallel)."""
    found = []
    for name, module in model.named_modules():
        info = scores().get(module.__dict__.get("score_name"))
        if info is not None:
            found.append((name, module, info))
    return found


def raw_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The raw weights of all scores by name."""
    return {
        f"{name}.score_{param.name}": getattr(module, f"score_{param.name}")
        for name, module, info in score_modules(model)
        for param in info.params
    }


@torch.no_grad()
def score_values(model: nn.Module) -> Mapping[str, dict[str, Tensor]]:
    """The effective values of each attention module's score, by module and name, each (heads) or (1): for logs."""
    values = {}
    for name, module, info in score_modules(model):
        found = effective_values(module, info, module.score_parametrisation)
        values[name] = {param.name: value.clone() for param, value in zip(info.params, found, strict=True)}
    return values


def train_scores(model: nn.Module, trained: bool = True) -> list[str]:
    """Trains (or freezes) the parameters that the score's list trains, and says their names: after
    `peft.get_peft_model`, which freezes all that are not its own."""
    names = []
    for name, module, info in score_modules(model):
        for param in info.params:
            if param.trained:
                getattr(module, f"score_{param.name}").requires_grad_(trained)
                names.append(f"{name}.score_{param.name}")
    return names


def parameter_groups(
    model: nn.Module, *, lr: float | None = None, score_lr: float | None = None, weight_decay: float = 0.0
) -> list[dict]:
    """Groups for an optimizer of torch: matrices with `weight_decay`, vectors (norms, biases) without, and the score's
    parameters without and with a learning rate of their own. Decay pulls raw values to 0, which under softplus is no
    neutral place: a matched n of 4096 would shrink with every step.

    Args:
        lr: learning rate of the model's weights; None: the optimizer's own.
        score_lr: that of the score's parameters; None: as `lr`.
        weight_decay: of matrices.

    Returns:
        Groups that are not empty, of parameters that are trained. For a Trainer:
        `optimizers=(torch.optim.AdamW(parameter_groups(model, …)), None)`.
    """
    own = {id(raw) for raw in raw_parameters(model).values()}
    groups = ({"weight_decay": weight_decay}, {"weight_decay": 0.0}, {"weight_decay": 0.0})
    members: tuple[list[nn.Parameter], ...] = ([], [], [])
    for parameter in model.parameters():
        if parameter.requires_grad:
            members[2 if id(parameter) in own else int(parameter.ndim < 2)].append(parameter)
    rates = (lr, lr, lr if score_lr is None else score_lr)
    return [
        {"params": params, **group} | ({} if rate is None else {"lr": rate})
        for params, group, rate in zip(members, groups, rates, strict=True)
        if params
    ]


def _plain(name: str) -> str:
    """The name without what wrappers put before it."""
    for prefix in ("base_model.model.", "module.", "_orig_mod."):
        name = name.removeprefix(prefix)
    return name.replace("._orig_mod", "")


def save_scores(model: nn.Module, path: str | os.PathLike) -> None:
    """The raw weights of the scores alone, as a safetensors file: beside the adapters of PEFT, whose own files leave
    them out. Raises ValueError for a model without any, FileError (a ValueError) for a path that cannot be written."""
    from safetensors.torch import save_file

    raw = {_plain(name): weight.detach().cpu().contiguous() for name, weight in raw_parameters(model).items()}
    if not raw:
        raise ValueError("the model has no score with parameters")
    path = Path(path)
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(descriptor)
        save_file(raw, temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        raise FileError(f"{path}: cannot be written: {error.strerror}") from None


@torch.no_grad()
def load_scores(model: nn.Module, path: str | os.PathLike) -> None:
    """What `save_scores` wrote, into a model of the same scores. Raises ValueError naming the file and the weight that
    is missing, not of the model, or of another shape."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        found = load_file(path)
    except (OSError, SafetensorError) as error:
        raise FileError(f"{path}: {error}") from None
    own = {_plain(name): weight for name, weight in raw_parameters(model).items()}
    if wrong := sorted(found.keys() ^ own.keys()):
        what = "has no" if wrong[0] in own else "has, and the model has not,"
        raise ValueError(f"{path}: {what} {wrong[0]} ({len(wrong)} such names)")
    for name, weight in own.items():
        if found[name].shape != weight.shape:
            raise ValueError(
                f"{path}: {name} has shape {list(found[name].shape)}, that of the model is {list(weight.shape)}"
            )
        weight.copy_(found[name])
