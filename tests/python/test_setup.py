"""Which torch wheel scripts/setup takes, with a Python in .venv that only says what pip would find and notes what is installed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(os.environ.get("SSA_SOURCE", Path(__file__).resolve().parents[2]))
TORCH = next(
    line.split("==")[1].strip()
    for line in (SOURCE / "requirements.txt").read_text().splitlines()
    if line.startswith("torch==")
)
PYTHON = """#!/bin/bash
case "$*" in
  "-m pip index versions torch"*) echo "torch (9)"; echo "Available versions: $CONFIGURED" ;;
  "-m pip install"*) echo "$*" >>installed ;;
  "-c import torch"*) echo "$TORCH" ;;
  *) echo "unexpected: $*" >&2; exit 1 ;;
esac
"""
# What setup asks a machine about besides: whether the compiler knows C++20, and whether Debian packages are there.
STUBS = {"g++": "cat >/dev/null", "dpkg-query": "echo install ok installed", "apt-get": "exit 1"}
DEVICE = any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()


@pytest.fixture
def setup(tmp_path):
    """Runs scripts/setup in a copy: what it printed, and its calls of pip install."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SOURCE / "scripts/setup", tmp_path / "scripts/setup")
    shutil.copy(SOURCE / "requirements.txt", tmp_path)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)

    (tmp_path / "bin").mkdir()
    for name, text in STUBS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    def run(configured="", **environment):
        facts = {"CONFIGURED": configured, "TORCH": TORCH}
        facts["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["scripts/setup", "build"],
            cwd=tmp_path,
            env=os.environ | facts | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        installed = tmp_path / "installed"
        return done.stdout, installed.read_text().splitlines() if installed.exists() else []

    return run


@pytest.mark.skipif(DEVICE, reason="there is an NVIDIA device")
@pytest.mark.parametrize(
    "found, wheel, words",
    [
        (
            {"configured": f"9, {TORCH}+cpu, {TORCH}"},
            f"torch=={TORCH}+cpu",
            "which pip finds: there is no NVIDIA device",
        ),
        ({"configured": f"9, {TORCH}"}, f"torch=={TORCH}", "there is no NVIDIA device, but pip finds no CPU build"),
        ({"configured": f"{TORCH}+cpu"} | {"SSA_TORCH_WHEEL": TORCH}, f"torch=={TORCH}", "as SSA_TORCH_WHEEL says"),
    ],
)
def test_the_wheel_and_why(setup, found, wheel, words):
    printed, installed = setup(**found)
    assert words in printed
    assert installed[0].split()[-1] == wheel
    assert installed[1].split()[-2:] == ["-r", "requirements.txt"]


def test_a_second_run_installs_nothing(setup):
    setup(configured=f"{TORCH}+cpu")
    _, before = setup()
    _, after = setup()
    assert before == after and len(after) == 2
