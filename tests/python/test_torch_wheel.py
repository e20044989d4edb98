"""Which torch CMake and pip's build backend find and ask for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(os.environ.get("SSA_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "cmake"))
import torch_wheel
import wheel_backend


@pytest.mark.parametrize(
    "found, requirement, fetched",
    [
        (None, "torch>=2.9", True),
        ("2.8.0+cpu", "torch>=2.9", True),
        ("2.9.1", "torch==2.9.1", False),
        ("2.13.0+cu130", "torch==2.13.0", False),
        ("3.0.0", "torch==3.0.0", False),
    ],
)
def test_what_the_backend_asks_for(monkeypatch, found, requirement, fetched):
    monkeypatch.setattr(torch_wheel, "find", lambda: found and (found, Path("torch")))
    monkeypatch.chdir(SOURCE)
    assert wheel_backend.dynamic_metadata("dependencies") == [requirement]
    assert (requirement in wheel_backend.get_requires_for_build_wheel()) == fetched


def ask(folder):
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, SOURCE / "cmake/torch_wheel.py"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("version", ["2.8.0", "1.13.1+cu117"])
def test_a_torch_that_is_too_old_is_named(tmp_path, version):
    (tmp_path / "torch/lib").mkdir(parents=True)
    (tmp_path / "torch/__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "torch/version.py").write_text(f"__version__ = '{version}'\n")
    asked = ask(tmp_path)
    assert asked.returncode != 0
    assert f"has torch {version}; 2.9 is the oldest that works" in asked.stderr


def test_torch_is_found_without_importing_it(tmp_path):
    (tmp_path / "torch/lib").mkdir(parents=True)
    (tmp_path / "torch/__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "torch/version.py").write_text("__version__ = '2.99.0+xyz'\n")
    assert ask(tmp_path).stdout.strip() == f"2.99.0+xyz;{tmp_path.as_posix()}/torch"
