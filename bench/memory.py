"""Peak memory of one pass: `peak(case, peer)` runs this file in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import torch
from cases import Case, Problem, peers

MEBIBYTE = 2.0**20


def peak(case: Case, peer: str) -> float:
    """MiB above what the inputs take."""
    wish = json.dumps(asdict(case) | {"dtype": str(case.dtype)[6:]})
    done = subprocess.run([sys.executable, __file__, wish, peer], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"peak memory of {peer}, {case.name}: {done.stderr}")
    return float(done.stdout)


def inputs(case: Case) -> float:
    """MiB of query, key, value and out, which bound what a pass should take."""
    p = Problem(case)
    elements = 2 * p.query.numel() + p.key.numel() + p.value.numel()
    return elements * p.query.element_size() / MEBIBYTE


def kibibytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def main() -> int:
    wish = json.loads(sys.argv[1])
    case = Case(tuple(wish.pop("shape")), wish.pop("kind"), getattr(torch, wish.pop("dtype")), **wish)
    function = peers(case)[sys.argv[2]]
    Problem(replace(case, shape=(1, 4, 8, 8))).run(function)  # loads what the first call loads
    problem = Problem(case)
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    before = kibibytes("VmRSS")
    problem.run(function)
    print((kibibytes("VmHWM") - before) / 1024)
    return 0


if __name__ == "__main__":
    sys.exit(main())
