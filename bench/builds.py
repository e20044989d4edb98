"""Times the kernels of several builds against each other: what a change to them is worth.

    python bench/builds.py OLD/python NEW/python --shapes 1x12x1024x64,8x8x128x32

A folder is what a build has on PYTHONPATH (build/release/python). One thread; builds take turns, each in a process of
its own, and the least CPU time of all its runs counts, so that other work on the machine disturbs little. Causal SSA,
heads inside of the length; shown are milliseconds and in brackets the ratio to the first build.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

DTYPES = ("float32", "bfloat16")
RUNS = 10


def least(work) -> float:
    """Milliseconds of CPU time."""
    work()
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def timed_here(shapes: list[str]) -> dict[str, float]:
    """With the build that this process imports."""
    import torch
    from attention import shape_of
    from cases import Case, Problem, ours

    torch.set_num_threads(1)
    found = {}
    for text in shapes:
        for dtype in DTYPES:
            for backward in (False, True):
                case = Case(shape_of(text), "causal", getattr(torch, dtype), backward)
                problem = Problem(case)
                found[case.name] = least(lambda problem=problem: problem.run(ours))
    return found


def timed(folder: Path, shapes: str) -> dict[str, float]:
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--here", "--shapes", shapes, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{folder}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "folders", nargs="+", type=Path, help="of builds; the first is what the others are compared with"
    )
    parser.add_argument("--shapes", default="1x12x1024x64,8x8x128x32", help="BATCHxHEADSxLENGTHxDIM, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(timed_here(options.shapes.split(","))))
        return 0
    for folder in options.folders:
        if not (folder / "ssa_attention").is_dir():
            raise SystemExit(f"{folder}: has no folder ssa_attention; expected a build's python folder")
    rounds = [[timed(folder, options.shapes) for folder in options.folders] for _ in range(max(1, options.rounds))]
    print("| work | " + " | ".join(str(folder) for folder in options.folders) + " |")
    print("|---|" + "---|" * len(options.folders))
    for name in rounds[0][0]:
        best = [min(each[i][name] for each in rounds) for i in range(len(options.folders))]
        print(f"| {name} | " + " | ".join(f"{ms:.3g} ({ms / best[0]:.2f})" for ms in best) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
