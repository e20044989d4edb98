"""metrics.jsonl of run folders as TensorBoard event files: `python -m ssa_attention.tensorboard RUNS -o LOGDIR`.

Each run becomes a folder below LOGDIR, named as it stands below RUNS. Tags: `training/…`, `validation/…`,
`progress/…` (the curriculum) and `score/NAME/layer-K/{min,mean,max}` over the heads of a layer. Figures that
are not finite stay NaN. The wall time of an event is the run's start plus its seconds.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from .report.reading import Run, find_runs, read_run
from .report.records import ReportError

_TRAINING = ("loss", "learning_rate", "gradient_norm", "tokens_per_second")
_STATISTICS = ("min", "mean", "max")


def scalars(line: dict) -> Iterator[tuple[str, float | None]]:
    """(tag, value) of one line of metrics.jsonl; None where the value was not finite."""
    for name in _TRAINING:
        if name in line:
            yield f"training/{name}", line[name]
    for group in ("validation", "progress"):
        for name, value in line.get(group, {}).items():
            yield f"{group}/{name}", value
    for layer, parameters in enumerate(line.get("score_parameters", [])):
        for name, values in parameters.items():
            for statistic, value in zip(_STATISTICS, values, strict=True):
                yield f"score/{name}/layer-{layer + 1}/{statistic}", value


def _start(run: Run) -> float:
    where = f"{run.path / 'run.json'}:1"
    try:
        return datetime.fromisoformat(run.information["created"]).timestamp()
    except (KeyError, TypeError, ValueError):
        raise ReportError(f'{where}: "created" must be a time such as 2026-01-02T03:04:05Z') from None


def export(run: Run, folder: Path) -> int:
    """Writes the run's figures as event files into `folder`, which must hold none yet; returns their number."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ReportError("needs torch and tensorboard: run `pip install tensorboard`") from None
    if any(folder.glob("events.out.tfevents.*")):
        raise ReportError(f"{folder}: already holds event files; remove them or choose another folder")
    start, elapsed, count = _start(run), 0.0, 0
    lines = sorted(run.training + run.validation, key=lambda line: (line["step"], "validation" in line))
    with SummaryWriter(str(folder)) as writer:
        for line in lines:
            elapsed = line.get("seconds") or elapsed  # validation lines carry no time of their own
            for tag, value in scalars(line):
                shown = math.nan if value is None else value
                writer.add_scalar(tag, shown, line["step"], walltime=start + elapsed)
                count += 1
    return count


def _names(roots: list[Path]) -> dict[str, Path]:
    """Folder below LOGDIR -> run folder."""
    names: dict[str, Path] = {}
    for root in roots:
        found = find_runs(root)
        if not found:
            raise ReportError(f"{root}: holds no run (run.json)")
        for path in found:
            name = path.resolve().name if path == root else str(path.relative_to(root))
            if name in names and names[name].resolve() != path.resolve():
                raise ReportError(f"{path}: would be called {name}, as {names[name]} is: export them one by one")
            names[name] = path
    return names


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ssa_attention.tensorboard",
        description="Writes the metrics of runs as TensorBoard event files.",
        epilog="Example: python -m ssa_attention.tensorboard runs/quick -o logs && tensorboard --logdir logs",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUNS", help="run folders, or folders with runs at any depth"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="LOGDIR", help="where the event files go")
    options = parser.parse_args(arguments)
    try:
        for name, path in _names(options.runs).items():
            folder = options.output / name
            print(f"tensorboard: {folder}: {export(read_run(path), folder)} figures")
    except (ReportError, OSError) as error:
        print(f"tensorboard: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
