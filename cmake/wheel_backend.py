"""Build backend of `pip install .`: scikit-build-core's, which is told about torch.

torch's C++ interface changes with every version, so a library fits the version that it was built against. The wheel is
built against the torch of the environment that pip installs into, and requires that version: pip never replaces it.
Only where there is none (or one that is too old) does pip fetch torch to build with.
"""

import torch_wheel
from scikit_build_core import build as backend
from scikit_build_core.build import *


def _with_torch(requirements):
    torch = torch_wheel.find()
    if torch is None or not torch_wheel.new_enough(torch[0]):
        requirements.append(requirement())
    return requirements


def requirement():
    """What the package requires: the release of torch that it is built against, whatever its build (CPU, CUDA)."""
    torch = torch_wheel.find()
    if torch is None or not torch_wheel.new_enough(torch[0]):
        return "torch>=" + ".".join(map(str, torch_wheel.OLDEST))
    return "torch==" + torch[0].split("+")[0]


def get_requires_for_build_wheel(config_settings=None):
    return _with_torch(backend.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings=None):
    return _with_torch(backend.get_requires_for_build_editable(config_settings))


def dynamic_metadata(field, settings=None):
    """scikit-build-core asks for project.dependencies here."""
    assert field == "dependencies", field
    return [requirement()]
