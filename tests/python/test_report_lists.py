"""What the report knows of metrics and suites is what the program writes (src/eval)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ssa_attention.report.evaluations import EVALUATIONS
from ssa_attention.report.metrics import METRICS, PLACES
from ssa_attention.report.names import SUITE_TITLES

EVAL = Path(os.environ["SSA_SOURCE"]) / "src/eval"
BETTER = {"lower": "lower", "higher": "higher", "neither": ""}


def test_every_metric_has_its_direction_and_scale():
    source = (EVAL / "metric_kind.cc").read_text()
    table = source[source.index("kKinds[]") : source.index("};")]
    rows = re.findall(r'\{"([^"]+)", Better::(\w+), Scale::(\w+)(?:, "\w*")?(, true)?\}', table)
    assert len(rows) == table.count("Better::") > 15
    for name, better, scale, primary in rows:
        known = METRICS[name]
        said = (BETTER[better], scale.replace("_", "-"), bool(primary))
        assert (known.better, known.scale, known.primary) == said, name
    parts = re.search(r"kParts\[\] = \{(.+?)\};", source, re.DOTALL)[1]
    assert re.findall(r'"(-\w+)"', parts) == list(PLACES)


def test_every_suite_is_read():
    source = (EVAL / "suites.h").read_text()
    table = source[source.index("kSuites[]") : source.index("};", source.index("kSuites[]"))]
    suites = re.findall(r'\{"([\w-]+)"', table)
    assert len(suites) == table.count("SuiteKind::") and set(suites) == set(EVALUATIONS)
    assert set(SUITE_TITLES) == set(suites) - {"icl-shift"}
