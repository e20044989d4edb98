"""`pip install .` builds the operator alone and gives a package that runs from anywhere."""

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(os.environ.get("SSA_SOURCE", Path(__file__).parents[2]))


def test_pip_install(tmp_path):
    """Without build isolation, so that nothing is downloaded; the build folder build/wheel is kept."""
    target, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    pip = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index"]
    run = subprocess.run([*pip, "--target", str(target), str(SOURCE)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert (target / "ssa_attention/triton/scores.py").is_file()  # written by the build
    script = (
        "import torch, ssa_attention\n"
        "q = torch.randn(1, 2, 5, 4)\n"
        "assert ssa_attention.attention(q, q, q, causal=True).shape == q.shape\n"
        "print(ssa_attention.__file__, ssa_attention.last_attention_path())"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=elsewhere,
        env=os.environ | {"PYTHONPATH": str(target)},
    )
    assert run.stdout.split() == [str(target / "ssa_attention" / "__init__.py"), "fused"]
