"""The scores of the φ family fused on GPUs: Triton kernels behind ssa::attention on CUDA tensors.

Importing ssa_attention registers them where Triton is installed (it comes with torch's own CUDA packages). Nothing is
compiled before the first call; docs/gpu.md says how they work and what has been proven of them.
"""

from __future__ import annotations

from importlib.util import find_spec


def is_available() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def register(device: str = "CUDA") -> None:
    """Makes the kernels those of ssa::attention and its gradients for a dispatch key. Tests register them for "CPU",
    where Triton's interpreter (TRITON_INTERPRET=1) runs them."""
    from . import dispatch

    dispatch.register(device)
