"""The HTML report in a browser: every figure is drawn, nothing is loaded, no error."""

from __future__ import annotations

import re

import pytest
from report_page import assert_drawn, assert_loads_nothing, chromium, embedded, needs_chromium
from ssa_attention import report
from synthetic_runs import write_experiment, write_mlm_experiment


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    root = tmp_path_factory.mktemp("made") / "quick"
    write_experiment(root, seeds=3, variants=("attention-only-every", "full-linear"))
    write_mlm_experiment(root.parent / "encoder")
    return report.build([root.parent])


def test_loads_nothing_from_outside(text):
    assert_loads_nothing(text)


@needs_chromium
@pytest.mark.parametrize("width", [1200, 420])
def test_browser_draws_every_figure(text, tmp_path, width):
    figures = embedded(text, "figures")
    page = tmp_path / "report.html"
    page.write_text(text, encoding="utf-8")
    assert_drawn(chromium(tmp_path / "profile", page, f"--window-size={width},1200", "--dump-dom"), figures)


@needs_chromium
def test_browser_trouble_is_seen(text, tmp_path):
    """That the empty trouble line above means something."""
    page = tmp_path / "report.html"
    broken = text.replace('"type":"heatmap"', '"type":"heatmap","x0":{"a":1}')
    page.write_text(broken.replace("</body>", '<img src="https://example.org/x.png"></body>'), encoding="utf-8")
    document = chromium(tmp_path / "profile", page, "--dump-dom")
    assert "blocked: https" in re.search(r'<p id="trouble"[^>]*>(.*?)</p>', document, re.DOTALL)[1]
