"""The HTML report in a browser: every figure is drawn, nothing is loaded, no error; what a reader can do with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser import Browser, opened
from report_page import assert_drawn, assert_loads_nothing, embedded, needs_chromium
from ssa_attention import report
from synthetic_runs import write_experiment, write_lm_experiment, write_mlm_experiment

MAX_BYTES = 2_500_000
FIRST_CHART = 1000  # pixels from the top


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    root = tmp_path_factory.mktemp("made") / "quick"
    write_experiment(root, seeds=3, variants=("full-linear",), endpoints=True)
    write_mlm_experiment(root.parent / "encoder", suites=("zorro",))
    write_lm_experiment(root.parent / "language")
    return report.build([root.parent])


@pytest.fixture(scope="module")
def page(text, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


def test_loads_nothing_from_outside(text):
    assert_loads_nothing(text)


def test_is_small(text):
    assert len(text.encode()) < MAX_BYTES


@needs_chromium
def test_browser_draws_every_figure(text, page, tmp_path):
    figures = embedded(text, "figures")
    assert_drawn(opened(tmp_path / "profile", page, len(figures)), figures)


@needs_chromium
def test_browser_trouble_is_seen(text, tmp_path):
    """That the empty trouble line above means something."""
    broken = tmp_path / "report.html"
    broken.write_text(text.replace("</body>", '<img src="https://example.org/x.png"></body>'), encoding="utf-8")
    document = opened(tmp_path / "profile", broken, 0)
    assert "blocked: https" in re.search(r'<p id="trouble"[^>]*>(.*?)</p>', document, re.DOTALL)[1]


DRAWN = "document.documentElement.dataset.drawn > 0"
FIRST = "document.querySelector('.plot')"


@needs_chromium
def test_on_a_telephone(page, tmp_path):
    """The first chart is near the top, nothing is wider than the screen, a finger on a chart scrolls the page."""
    with Browser(tmp_path / "profile") as browser:
        browser.open(page, width=400, height=800, touch=True)
        browser.wait(DRAWN)
        assert browser.run("document.documentElement.scrollWidth") == 400
        assert browser.run(f"{FIRST}.getBoundingClientRect().top + scrollY") < FIRST_CHART
        browser.run(f"document.documentElement.style.scrollBehavior = 'auto'; {FIRST}.scrollIntoView()")
        before = browser.run("scrollY")
        ranges = browser.run(f"JSON.stringify({FIRST}.layout.xaxis.range)")
        browser.swipe(300, 200, 150)
        browser.wait(f"scrollY > {before} + 50")
        assert browser.run(f"JSON.stringify({FIRST}.layout.xaxis.range)") == ranges


@needs_chromium
def test_keys_links_images_and_dark_mode(page, tmp_path):
    with Browser(tmp_path / "profile") as browser:
        browser.open(page, width=1400)
        browser.wait(DRAWN)
        assert browser.run(f"{FIRST}.getBoundingClientRect().top + scrollY") < FIRST_CHART
        assert browser.run("[...document.querySelectorAll('section > details')].filter((d) => d.open).length") == 2
        # A link opens the section that it leads to.
        browser.run("document.querySelector('nav a[href=\"#shifts\"]').click()")
        browser.wait("document.querySelector('#shifts > details').open")
        figure = "document.getElementById('sigma-2')"
        browser.wait(f"{figure}.data")
        # The key hides a score, its band too, and shows it again.
        key = "document.querySelector('#shifts [data-trace=ssa]')"
        shown = f"{figure}.data.filter((t) => t.meta.name === 'ssa').map((t) => t.visible)"
        for pressed, visible in (("false", False), ("true", True)):
            browser.run(f"{key}.click()")
            assert browser.run(f"{key}.getAttribute('aria-pressed')") == pressed
            assert browser.run(shown) == [visible, visible]
        image = browser.run(f"Plotly.toImage({figure}, {{format: 'png', width: 300, height: 200}})")
        assert image.startswith("data:image/png;base64,") and len(image) > 2000
        light = browser.run(f"{figure}.layout.template.layout.font.color")
        assert browser.run(f"{figure}.getAttribute('role')") == "img"
        assert "against σ of the inputs; softmax from" in browser.run(f"{figure}.getAttribute('aria-label')")
        assert browser.run("document.getElementById('trouble').textContent") == ""
        browser.open(page, width=1400, dark=True)
        browser.wait(DRAWN)
        assert browser.run(f"{FIRST}.layout.template.layout.font.color") != light
        assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 27)"
