"""The commands and Python blocks of README.md and docs/*.md run, page by page, from top to bottom.

```sh and ```python blocks are run; other blocks (output, other languages) are not. A block that takes hours or needs what a
test has not stands below a line `<!-- not run: reason -->`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(os.environ["SSA_SOURCE"])
BINARY = Path(os.environ["SSA_BINARY"])
# A block may be indented (in a list); it ends with the same indentation.
BLOCK = re.compile(
    r"(<!-- not run: (?P<reason>[^\n]+) -->\n+)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
# Lines of shell in blocks without a language would be commands that nobody runs.
COMMAND = re.compile(r"^(\.venv/bin/\w+|ssa|pip|make|cmake|python|torchrun) ", re.MULTILINE)


def pages():
    return [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]


def blocks(page):
    return list(BLOCK.finditer(page.read_text(encoding="utf-8")))


def runnable(page):
    return [b for b in blocks(page) if b["language"] in ("sh", "python") and b["reason"] is None]


@pytest.fixture
def checkout(tmp_path):
    """A folder that looks like the checkout, so that what the commands write lies elsewhere."""
    for name in ("configs", "python", "scripts", "examples", "Makefile"):
        if (SOURCE / name).exists():
            (tmp_path / name).symlink_to(SOURCE / name)
    (tmp_path / "build").mkdir()
    (tmp_path / "build/release").symlink_to(BINARY.parents[1])
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    (tmp_path / "corpus.txt").write_text("The dog sees the cat.\nThe cat sees the dog.\n")
    return tmp_path


@pytest.mark.parametrize("page", [page for page in pages() if runnable(page)], ids=lambda page: page.stem)
def test_commands_and_python_blocks_run(page, checkout):
    script = ["set -euo pipefail"]
    for number, block in enumerate(runnable(page)):
        if block["language"] == "sh":
            script.append(block["text"])
        else:
            file = checkout / f".block-{number}.py"
            file.write_text(block["text"])
            script.append(f"python {file}")
    path = f"{BINARY.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "SSA_PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_commands_stand_in_blocks_that_are_run(page):
    for block in blocks(page):
        if block["language"] == "" and block["reason"] is None:
            assert not COMMAND.search(block["text"]), f"{page.name}: commands that no test runs: {block['text']}"


def test_table_of_scores():
    table = subprocess.run([BINARY, "scores", "--markdown"], capture_output=True, text=True, check=True)
    page = (SOURCE / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- scores:begin -->\n(.*?)<!-- scores:end -->", page, flags=re.DOTALL)
    assert shown and shown[1].strip() == table.stdout.strip()


def test_only_continuous_integration_knows_where_its_data_lie():
    """Everything else takes SSA_DATA (docs/data.md)."""
    found = subprocess.run(
        ["git", "grep", "-l", "shared/" + "data"], cwd=SOURCE, capture_output=True, text=True, check=False
    )
    if found.returncode > 1:
        pytest.skip("not a checkout of git")
    assert found.stdout.split() == [".ci/run"]


def test_command_line_page_is_that_of_the_program():
    done = subprocess.run(
        [sys.executable, SOURCE / "scripts/write_cli_page", BINARY, "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"
