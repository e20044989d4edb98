"""Command line of the report."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import build
from .page import write_built


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ssa_attention.report",
        description="Writes one HTML file with tables and figures of runs and experiments.",
        epilog="Example: python -m ssa_attention.report runs/quick -o report.html",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUNS", help="run folders or experiment folders, found at any depth"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="where the report goes (default: report.html)",
    )
    parser.add_argument(
        "--theory",
        type=Path,
        metavar="FILE",
        help="a file of `ssa theory --json` (default: theory.json in the folders)",
    )
    options = parser.parse_args(arguments)
    return write_built("report", lambda: build(options.runs, options.theory), options.output)


if __name__ == "__main__":
    sys.exit(main())
