"""Every command and every Python example of the README runs; its table of scores is the program's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(os.environ["SSA_SOURCE"])
BINARY = Path(os.environ["SSA_BINARY"])
README = (SOURCE / "README.md").read_text()


def blocks(language):
    found = re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    assert found, f"the README has no {language} block"
    return found


@pytest.fixture
def checkout(tmp_path):
    """A folder that looks like the checkout, so that runs/ is written elsewhere."""
    (tmp_path / "configs").symlink_to(SOURCE / "configs")
    (tmp_path / "corpus.txt").write_text("The dog sees the cat.\nThe cat sees the dog.\n")
    return tmp_path


def test_shell_commands(checkout):
    path = f"{BINARY.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path}
    for block in blocks("sh"):
        subprocess.run(["bash", "-euc", block], cwd=checkout, env=environment, check=True)
    assert (checkout / "runs/readme/evals/icl-shift.json").exists()


def test_python_examples(tmp_path):
    for block in blocks("python"):
        subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True)


def test_table_of_scores():
    table = subprocess.run([BINARY, "scores", "--markdown"], capture_output=True, text=True, check=True)
    shown = re.search(r"<!-- scores:begin -->\n(.*?)<!-- scores:end -->", README, flags=re.DOTALL)
    assert shown and shown[1].strip() == table.stdout.strip()
