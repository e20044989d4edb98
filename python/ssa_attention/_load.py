"""Loads the op library into torch, or says in one sentence why it cannot."""

from pathlib import Path

try:
    from ._build import LIBRARY, TORCH_VERSION
    from ._build import VERSION as __version__
except ModuleNotFoundError:
    raise ImportError(
        "ssa_attention is not built here: run `pip install .`, or `make build` and put build/release/python on PYTHONPATH."
    ) from None

_HOW = f"run `pip install torch=={TORCH_VERSION}`, or build ssa_attention again against yours"

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError(
        f"ssa_attention {__version__} was built against torch {TORCH_VERSION} and torch is not installed: {_HOW}."
    ) from None

# The library calls into torch's C++ interface, which changes with every version.
if torch.__version__.split("+")[0] != TORCH_VERSION:
    raise ImportError(
        f"ssa_attention {__version__} was built against torch {TORCH_VERSION} "
        f"and torch {torch.__version__} is installed: {_HOW}."
    )

_PATH = str((Path(__file__).parent / LIBRARY).resolve())

# A second library would register the same operators and end the process (SIGABRT).
_loaded = {str(Path(path).resolve()) for path in torch.ops.loaded_libraries}
if _PATH not in _loaded and torch._C._jit_get_schemas_for_operator("ssa::attention"):
    _where = next((path for path in sorted(_loaded) if Path(path).name == LIBRARY), "another place")
    raise ImportError(
        f"ssa_attention cannot be loaded from {_PATH}: this process has its operators from {_where} already. "
        "Keep one of the two on sys.path."
    )

torch.ops.load_library(_PATH)
