"""Makes pages by their command line, reads what stands in their HTML, opens them in a browser."""

from __future__ import annotations

import base64
import gzip
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import ssa_attention

# Absolute, so that a test may change the folder.
_PACKAGES = str(Path(ssa_attention.__file__).parents[1].absolute())


def run_report(*arguments, module: str = "ssa_attention.report") -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": _PACKAGES},
    )


def unpacked(packed: str) -> str:
    return gzip.decompress(base64.b85decode(packed.replace(",", "<"))).decode()


def embedded(text: str, name: str) -> dict:
    return json.loads(unpacked(re.search(rf'<script type="application/gzip" id="{name}">(.*?)</script>', text)[1]))


def whole(text: str) -> str:
    """The page with its packed sections as they are when opened."""
    packed = r'<script type="application/gzip" class="packed">(.*?)</script>'
    return re.sub(packed, lambda found: unpacked(found[1]), text)


def words(text: str) -> str:
    """What a reader sees of HTML, without tags."""
    return re.sub(r"[ \n]+", " ", re.sub(r"<[^>]+>", " ", text))


def section(text: str, name: str) -> str:
    return whole(re.search(rf'<section id="{name}">(.*?)</section>', text, re.DOTALL)[1])


class _References(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.found += [v for k, v in attributes if k in ("src", "href", "srcset", "action", "data", "poster")]
        self.ids += [v for k, v in attributes if k == "id"]
        assert tag not in ("link", "iframe", "object", "embed", "base")


def assert_loads_nothing(text: str) -> None:
    """That the page links to itself alone, and tells the browser to load nothing."""
    references = _References()
    references.feed(whole(text))
    assert references.found and all(r.startswith("#") for r in references.found)
    assert {r[1:] for r in references.found} <= set(references.ids)
    assert len(references.ids) == len(set(references.ids))
    assert "default-src 'none'" in text
    assert "plotly.js v" in unpacked(re.search(r'id="plotly">(.*?)</script>', text)[1])
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1]
    assert re.fullmatch(r"( 'sha256-[A-Za-z0-9+/]{43}='){2}", re.search(r"script-src(.*?);", policy)[1])


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: no page was opened in it")


def assert_drawn(document: str, figures: dict) -> None:
    """That the browser drew every figure and had nothing to complain about."""
    assert f'data-drawn="{len(figures)}"' in document
    for name in figures:
        place = document.index(f'id="{name}"')
        assert 'class="main-svg"' in document[place : place + 6000], f"{name} was not drawn"
    # JavaScript errors and blocked requests are written there.
    assert re.search(r'<p id="trouble"[^>]*>(.*?)</p>', document, re.DOTALL)[1] == ""
