"""The HTML report of run folders and experiment folders: `python -m ssa_attention.report RUNS -o report.html`.

Needs plotly and the standard library, not the compiled operator.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from . import comparison, definitions, minimal_pairs, sections
from .page import Page
from .panel import template
from .reading import Study, read_study
from .records import ReportError
from .statistics import count

__all__ = ["ReportError", "build", "read_study"]


def _lead(study: Study, names: list[str]) -> str:
    return (
        f"From <code>{escape(', '.join(names))}</code>: {count(len(study.cells), 'trained model')}, "
        f"{count(len(study.variants()), 'variant')}, scoring functions {escape(', '.join(study.scores()))}. "
        "Everything stands in this one file."
    )


def build(roots: list[Path], theory: Path | None = None) -> str:
    """The report of every run and experiment below the folders `roots`, as one HTML text.

    theory: a file of `ssa theory --json`; without it theory.json in the folders, where there is one.
    Raises ReportError with one line naming file and line for what is missing or malformed.
    """
    study = read_study(roots, theory)
    names = [root.resolve().name for root in roots]
    page = Page(f"Scoring functions compared: {', '.join(names)}", _lead(study, names), template())
    for section in (
        comparison.glance_section,
        comparison.runs_section,
        sections.shifts_section,
        sections.huge_section,
        sections.positions_section,
        sections.attention_section,
        minimal_pairs.section,
        sections.parameters_section,
        sections.final_parameters_section,
        sections.training_section,
        sections.theorems_section,
        comparison.table_section,
        definitions.section,
    ):
        section(study, page)
    return page.html()
