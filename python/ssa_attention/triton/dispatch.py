"""The Triton kernels as those of ssa::attention and ssa::attention_backward for a key of torch's dispatcher.

Autograd, autocast, shapes for tracing and the checks of arguments stay in src/op; here a call finds its path.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

_libraries: dict[str, torch.library.Library] = {}


def register(device: str) -> None:
    if device in _libraries:
        return
    library = torch.library.Library("ssa", "IMPL")
    library.impl("attention", attention, device)
    library.impl("attention_backward", attention_backward, device)
    _libraries[device] = library


@cache
def _launch():
    """Imported at the first call: it imports Triton, which takes its time."""
    from . import launch

    return launch


def _path(call) -> bool:
    """Whether the kernels take the call; an error where they are asked for and cannot."""
    if call.kernel == "composed":
        return False
    obstacle = _launch().obstacle(call)
    if obstacle is not None and call.kernel == "fused":
        raise ValueError(f'ssa::attention: kernel="fused" cannot run this call: {obstacle}')
    return obstacle is None


def attention(*arguments) -> tuple[Tensor, Tensor]:
    call = _launch().Call(*arguments)
    # Checks first, as on every path: what is wrong with the arguments is no matter of kernels.
    prepared = torch.ops.ssa._prepare_attention(*arguments)
    seed = prepared[2] if len(prepared) == 3 else None
    if not _path(call):
        return torch.ops.ssa._composed_attention(*_with_seed(arguments, seed))
    out, lse = prepared[:2]
    launch = _launch()
    launch.forward(launch.Call(*_with_seed(arguments, _on_device(seed, call.query.device))), out, lse)
    torch.ops.ssa._note_attention_path("triton")
    return out, lse


def attention_backward(out, lse, grad_out, grad_lse, wanted, *arguments) -> list[Tensor]:
    launch = _launch()
    call = launch.Call(*arguments)
    if not _path(call):
        return torch.ops.ssa._composed_attention_backward(out, lse, grad_out, grad_lse, wanted, *arguments)
    torch.ops.ssa._prepare_attention_backward(out, lse, grad_out, grad_lse, wanted, *arguments)
    call = launch.Call(*_with_seed(arguments, _on_device(call.seed, call.query.device)))
    return launch.backward(call, out, lse, grad_out, grad_lse, wanted)


_SEED = 11  # its place in the schema


def _with_seed(arguments: tuple, seed: Tensor | None) -> tuple:
    return (*arguments[:_SEED], seed, *arguments[_SEED + 1 :])


def _on_device(seed: Tensor | None, device: torch.device) -> Tensor | None:
    """A seed on the CPU is a number to the device: a fill does not wait for it, as a copy would."""
    if seed is None or seed.device == device:
        return seed
    return torch.full((), seed.item(), dtype=torch.int64, device=device)
