"""The projects of examples/ build against an installed ssa, run, and print what Python computes."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import ssa_attention
import torch

SOURCE = Path(os.environ.get("SSA_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ["SSA_BINARY"]).parents[1]


def run(*command):
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--component", "cpp", "--prefix", folder)
    return folder


def configure(example, folder, prefix, *options):
    return ("cmake", "-G", "Ninja", "-S", SOURCE / "examples" / example, "-B", folder,
            f"-DCMAKE_PREFIX_PATH={prefix}", f"-DSSA_PYTHON={sys.executable}", *options)  # fmt: skip


def built(example, folder, prefix):
    run(*configure(example, folder, prefix))
    run("cmake", "--build", folder)
    (program,) = (path for path in folder.iterdir() if path.is_file() and os.access(path, os.X_OK))
    return run(program)


def test_kernels(tmp_path, prefix):
    printed = built("kernels", tmp_path, prefix)
    at = torch.arange(32, dtype=torch.float32)
    query, key = (torch.sin(0.7 * at).view(1, 1, 4, 8), torch.cos(0.3 * at).view(1, 1, 4, 8))
    value = torch.arange(4.0).view(1, 1, 4, 1).expand(1, 1, 4, 8)
    out = ssa_attention.attention(query, key, value, score="ssa", params=[1.5, 0.8], causal=True)
    rows = [[float(number) for number in line.split()] for line in printed.splitlines()]
    assert [row[0] for row in rows] == pytest.approx(out[0, 0, :, 0].tolist(), abs=2e-4)
    assert rows[0][0] == 0 and all(math.isfinite(row[1]) for row in rows)


def test_torch(tmp_path, prefix):
    printed = dict(line.split() for line in built("torch", tmp_path, prefix).splitlines())
    torch.manual_seed(0)
    query = torch.randn(2, 4, 16, 32, requires_grad=True)
    key, value = torch.randn(2, 2, 16, 32), torch.randn(2, 2, 16, 32)
    n = torch.full((4,), 1.5, requires_grad=True)
    out = ssa_attention.attention(query, key, value, score="ssa", params=[n, torch.full((4,), 0.8)], causal=True)
    out.square().sum().backward()
    assert printed.pop("path") == "fused"
    expected = {"out": out, "d_query": query.grad, "d_n": n.grad}
    assert {name: float(text) for name, text in printed.items()} == pytest.approx(
        {name: tensor.norm().item() for name, tensor in expected.items()}, abs=1e-3
    )


def test_what_is_not_there_is_named(tmp_path, prefix):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(p CXX)\nfind_package(ssa REQUIRED COMPONENTS kernel)\n"
    )
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"]
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "ssa has no component kernel: it has kernels and torch" in " ".join(ended.stderr.split())


def test_another_torch_is_refused(tmp_path, prefix):
    """A torch of another version, by a folder that only says so."""
    torch_folder = tmp_path / "torch"
    (torch_folder / "lib").mkdir(parents=True)
    (torch_folder / "__init__.py").write_text("")
    (torch_folder / "version.py").write_text("__version__ = '2.99.0'\n")
    for name in ("libtorch_cpu.so", "libc10.so"):
        (torch_folder / "lib" / name).write_text("")
    command = [str(word) for word in configure("torch", tmp_path / "build", prefix)]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode != 0
    words = f"ssa was built against torch {ssa_attention.TORCH_VERSION}, and torch 2.99.0 is installed"
    assert words in " ".join(ended.stderr.split())
