"""The HTML report in a browser: every figure is drawn, nothing is loaded, no error."""

from __future__ import annotations

import html.parser
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from report_page import embedded
from ssa_attention import report
from synthetic_runs import write_experiment


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    root = tmp_path_factory.mktemp("made") / "quick"
    write_experiment(root, seeds=3, variants=("attention-only-every", "full-linear"))
    return report.build([root])


class _References(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.found += [v for k, v in attributes if k in ("src", "href", "srcset", "action", "data", "poster")]
        self.ids += [v for k, v in attributes if k == "id"]
        assert tag not in ("link", "iframe", "object", "embed", "base")


def test_loads_nothing_from_outside(text):
    references = _References()
    references.feed(text)
    assert references.found and all(r.startswith("#") for r in references.found)
    assert {r[1:] for r in references.found} <= set(references.ids)
    assert len(references.ids) == len(set(references.ids))
    assert "default-src 'none'" in text  # and the browser is told so
    assert text.count("plotly.js v") == 1


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def chromium(profile: Path, page: Path, *arguments) -> str:
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={profile}",
        "--virtual-time-budget=30000",
        *arguments,
        page.as_uri(),
    ]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=180).stdout


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: the report was not opened in a browser")
@pytest.mark.parametrize("width", [1200, 420])
def test_browser_draws_every_figure(text, tmp_path, width):
    figures = embedded(text, "figures")
    page = tmp_path / "report.html"
    page.write_text(text, encoding="utf-8")
    document = chromium(tmp_path / "profile", page, f"--window-size={width},1200", "--dump-dom")
    assert f'data-drawn="{len(figures)}"' in document
    for name in figures:
        place = document.index(f'id="{name}"')
        assert 'class="main-svg"' in document[place : place + 2500], f"{name} was not drawn"
    # JavaScript errors and blocked requests are written there.
    assert re.search(r'<p id="trouble">(.*?)</p>', document, re.DOTALL)[1] == ""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: the report was not opened in a browser")
def test_browser_trouble_is_seen(text, tmp_path):
    """That the empty trouble line above means something."""
    page = tmp_path / "report.html"
    broken = text.replace('"type":"heatmap"', '"type":"heatmap","x0":{"a":1}')
    page.write_text(broken.replace("</body>", '<img src="https://example.org/x.png"></body>'), encoding="utf-8")
    document = chromium(tmp_path / "profile", page, "--dump-dom")
    assert "blocked: https" in re.search(r'<p id="trouble"[^>]*>(.*?)</p>', document, re.DOTALL)[1]
