"""What importing the package says, and that its facts have one home."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import ssa_attention
import torch
from ssa_attention import _build, _extras

SOURCE = Path(os.environ.get("SSA_SOURCE", Path(__file__).parents[2]))


def import_error(tmp_path, prepare):
    """The last line that importing ssa_attention prints in a fresh interpreter, after `prepare` has run."""
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{Path(ssa_attention.__file__).parents[1]}"}
    command = [sys.executable, "-c", f"{prepare}; import ssa_attention"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode != 0
    return run.stderr.strip().splitlines()[-1]


def test_without_torch(tmp_path):
    message = import_error(tmp_path, "import sys; sys.modules['torch'] = None")
    assert message == (
        f"ImportError: ssa_attention {ssa_attention.__version__} was built against torch {_build.TORCH_VERSION} and "
        f"torch is not installed: run `pip install torch=={_build.TORCH_VERSION}`, or build ssa_attention again "
        "against yours."
    )


@pytest.mark.parametrize("other", ["2.12.1", "2.14.0+cpu", "2.13.0.dev20260101"])
def test_with_another_torch(tmp_path, other):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(f"__version__ = '{other}'\n")
    message = import_error(tmp_path, "pass")
    assert message.startswith(
        f"ImportError: ssa_attention {ssa_attention.__version__} was built against torch {_build.TORCH_VERSION} and "
        f"torch {other} is installed: "
    )


def test_in_the_source_tree():
    command = [sys.executable, "-c", "import ssa_attention"]
    environment = os.environ | {"PYTHONPATH": str(SOURCE / "python")}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.stderr.strip().splitlines()[-1].startswith("ImportError: ssa_attention is not built here: run `pip")


def test_a_second_copy_in_one_process(tmp_path):
    """A second library would register the same operators, which ends the process (SIGABRT)."""
    package = Path(ssa_attention.__file__).parent
    shutil.copytree(package, tmp_path / "ssa_attention", ignore_dangling_symlinks=True)
    message = import_error(
        tmp_path, f"import torch; torch.ops.load_library({str((package / _build.LIBRARY).resolve())!r})"
    )
    assert message == (
        f"ImportError: ssa_attention cannot be loaded from {tmp_path / 'ssa_attention' / _build.LIBRARY}: this process "
        f"has its operators from {(package / _build.LIBRARY).resolve()} already. Keep one of the two on sys.path."
    )


def test_versions_have_one_value():
    assert torch.__version__.split("+")[0] == ssa_attention.TORCH_VERSION
    cmake = (SOURCE / "CMakeLists.txt").read_text()
    assert re.search(r"project\(ssa VERSION ([0-9.]+)", cmake)[1] == ssa_attention.__version__


def test_a_missing_optional_package_names_its_extra():
    with pytest.raises(
        ModuleNotFoundError, match=r"absent is not installed: run `pip install 'ssa_attention\[report\]'`"
    ):
        _extras.require("absent", "report")
    _extras.require("torch", "report")
    extras = (SOURCE / "pyproject.toml").read_text().split("[project.optional-dependencies]")[1].split("\n[")[0]
    used = [
        pair
        for file in (SOURCE / "python").rglob("*.py")
        for pair in re.findall(r'^ *require\("(\w+)", "(\w+)"\)', file.read_text(), re.MULTILINE)
    ]
    assert len(used) >= 4
    for package, extra in used:
        assert re.search(rf'^{extra} = .*"{package}\b', extras, re.MULTILINE), (package, extra)


def test_scores_tell_about_themselves():
    scores = ssa_attention.scores()
    assert list(scores)[:1] == ["softmax"] and "ssa" in scores
    assert [(p.name, p.initial, p.module_lower, p.trained) for p in scores["ssa"].params] == [
        ("n", 1.5, 1.0, True),
        ("b", 0.8, 0.0, True),
    ]
    for score in scores.values():
        assert score.formula and score.help and all(p.help for p in score.params)
    with pytest.raises(TypeError):
        scores["mine"] = scores["ssa"]


def test_none_means_the_initial_values():
    query = torch.randn(1, 2, 5, 4)
    default = ssa_attention.attention(query, query, query)
    for options in (
        {"n": 1.5, "b": 0.8},
        {"params": [1.5, 0.8]},
        {"params": {"b": 0.8}},
        {"n": torch.tensor([1.5, 1.5])},
    ):
        assert torch.equal(ssa_attention.attention(query, query, query, **options), default)


def test_the_import_leaves_threads_and_type_defaults_alone():
    script = (
        "import torch; before = torch.get_num_threads(), torch.get_default_dtype()\n"
        "import ssa_attention; assert (torch.get_num_threads(), torch.get_default_dtype()) == before"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
