"""Makes a report by its command line and reads what stands in its HTML."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import ssa_attention

# Absolute, so that a test may change the folder.
_PACKAGES = str(Path(ssa_attention.__file__).parents[1].absolute())


def run_report(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "ssa_attention.report", *map(str, arguments)]
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": _PACKAGES},
    )


def embedded(text: str, name: str) -> dict:
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.DOTALL)[1])


def words(text: str) -> str:
    """What a reader sees of HTML, without tags."""
    return re.sub(r"[ \n]+", " ", re.sub(r"<[^>]+>", " ", text))


def section(text: str, name: str) -> str:
    return re.search(rf'<section id="{name}">(.*?)</section>', text, re.DOTALL)[1]
