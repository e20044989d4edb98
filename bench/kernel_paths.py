"""Compares the same training run on several kernel paths: python bench/kernel_paths.py FOLDER [FOLDER ...]

Each FOLDER is one that `ssa reproduce configs/experiments/kernel-paths.toml --out FOLDER` made, for example one without
and one with SSA_TARGET set. The first folder's variant "fused" is what the others are compared with. Prints, for every
score, the relative difference of the training loss at a few steps and the largest difference of the attention's
p-max: a path that computes something else differs from the first step on; rounding starts near 1e-7 and grows.
"""

import json
import sys
from pathlib import Path

STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 300)


def losses(run: Path) -> dict[int, float]:
    """Training loss by step, of the steps that metrics.jsonl holds."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


def paths(folders: list[Path]) -> dict[str, dict[str, tuple[dict, dict]]]:
    """score -> name of the path -> (losses, metrics), the reference first."""
    found: dict[str, dict[str, tuple[dict, dict]]] = {}
    for folder in folders:
        for line in map(json.loads, (folder / "results.jsonl").read_text().splitlines()):
            name = f"{line['variant']}, {line['program']['target']}"
            found.setdefault(line["score"], {})[name] = (losses(folder / line["run"]), line["metrics"])
    return found


def main(folders: list[Path]) -> None:
    for score, runs in paths(folders).items():
        reference = next(iter(runs))
        print(f"\n{score}, against {reference}: relative difference of the loss after so many steps, largest of p-max")
        print(f"{'path':24}" + "".join(f"{step:>10}" for step in STEPS) + f"{'p-max':>10}")
        own_losses, own_metrics = runs[reference]
        for name, (other_losses, other_metrics) in runs.items():
            if name == reference:
                continue
            differences = [abs(other_losses[step] / own_losses[step] - 1) for step in STEPS]
            p_max = max(abs(other_metrics[key] - own_metrics[key]) for key in own_metrics if key.endswith("/p-max"))
            print(f"{name:24}" + "".join(f"{value:10.1e}" for value in differences) + f"{p_max:10.3f}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main([Path(name) for name in sys.argv[1:]])
