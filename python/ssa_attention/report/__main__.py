"""Command line of the report."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from . import ReportError, build


def _write(path: Path, text: str) -> None:
    """Under a temporary name beside it, synced, then renamed: never half a report."""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise ReportError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o644)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        raise ReportError(f"{path}: cannot be written: {error.strerror}") from None


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
    try:
        text = build(options.runs, options.theory)
        _write(options.output, text)
    except ReportError as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    print(f"report: wrote {options.output} ({len(text.encode()) / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
