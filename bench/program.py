"""What the programs of this folder share on their command line and in their tables."""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent


def parser_of(description: str, rounds: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    data = os.environ.get("SSA_DATA")
    parser.add_argument(
        "--data",
        type=Path,
        default=data and Path(data),
        required=not data,
        help="folder of the real texts (default: the one that SSA_DATA names)",
    )
    parser.add_argument("--ssa", type=Path, default=SOURCE / "build/release/bin/ssa", help="the program")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--out", type=Path, help="also write every number to this JSON file")
    return parser


def require_positive(parser: argparse.ArgumentParser, options: argparse.Namespace, *names: str) -> None:
    for name in names:
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(options, name)}: at least 1")


def require_files(parser: argparse.ArgumentParser, *paths: Path) -> None:
    for path in paths:
        if not path.is_file():
            parser.error(f"{path}: no such file (see --data and --ssa)")


def spread(values: list[float]) -> str:
    """The median, with the least and the largest."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"
