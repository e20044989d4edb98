"""The HTML report of run folders and experiment folders: `python -m ssa_attention.report RUNS -o report.html`.

Needs plotly and the standard library, not the compiled operator.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from .._extras import require

require("plotly", "report")

# isort: split
from . import comparison, definitions, forest, growth, language, minimal_pairs, page, sections, theorems, verdicts
from .panel import template
from .reading import Study, read_study
from .records import ReportError
from .statistics import count

__all__ = ["ReportError", "build", "read_study"]


def _lead(study: Study, names: list[str]) -> str:
    return (
        f"From <code>{escape(', '.join(names))}</code>: {count(len(study.cells), 'trained model')}, "
        f"{count(len(study.variants()), 'variant')}, scoring functions {escape(', '.join(study.scores()))}. "
        "Sections below are collapsed; everything stands in this one file."
    )


def build(roots: list[Path], theory: Path | None = None) -> str:
    """The report of every run and experiment below the folders `roots`, as one HTML text.

    theory: a file of `ssa theory --json`; without it theory.json in the folders, where there is one.
    Raises ReportError with one line naming file and line for what is missing or malformed.
    """
    study = read_study(roots, theory)
    names = [root.resolve().name for root in roots]
    judged = verdicts.effects(study)
    found = comparison.by_place(judged)
    title = f"Scoring functions compared: {', '.join(names)}"
    made = page.Page(title, forest.verdict_sentence(study, judged), _lead(study, names), template())
    forest.section(study, judged, made)
    theorems.section(study, made)
    comparison.glance_section(study, judged, made)
    sections.shifts_section(study, found, made)
    sections.huge_section(study, found, made)
    language.perplexity_section(study, found, made)
    language.choice_section(study, made)
    minimal_pairs.section(study, made)
    growth.section(study, made)
    for section in (
        sections.positions_section,
        sections.attention_section,
        sections.parameters_section,
        sections.final_parameters_section,
        sections.training_section,
        comparison.runs_section,
    ):
        section(study, made)
    comparison.table_section(study, judged, made)
    definitions.section(study, made)
    return made.html()
