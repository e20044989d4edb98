"""The documentation site: `make docs` builds it into build/docs (Sphinx, MyST, Furo; offline, with search)."""

import re
from pathlib import Path

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parents[1]

project = "SSA attention"
author = "the SSA attention contributors"
release = re.search(r"project\(ssa VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "attrs_inline"]
myst_heading_anchors = 3
exclude_patterns = ["requirements.txt"]
suppress_warnings = ["myst.xref_missing"]  # links to files outside docs/ lead to the repository

autodoc_typehints = "description"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"SSA attention {release}"
html_static_path = ["_static"]
html_css_files = ["weights.css"]
html_js_files = ["weights.js"]
html_math_renderer = "mathml"


def _inline(writer, node):
    writer.body.append(convert(node.astext()))
    raise SkipNode


def _display(writer, node):
    writer.body.append(convert(node.astext(), display="block"))
    raise SkipNode


def setup(app):
    # Formulas become MathML while the site is built: browsers draw it, and no script has to be fetched.
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
