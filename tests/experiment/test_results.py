"""The pages under docs/results/ show what the finished cells beside them give."""

import os
import re
from pathlib import Path

import pytest

SOURCE = Path(os.environ["SSA_SOURCE"])
PAGES = sorted(p for p in (SOURCE / "docs/results").glob("*.md") if "Command: `ssa reproduce" in p.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_command_of_a_page_prints_the_page(ssa, page):
    command = re.search(r"Command: `ssa reproduce (\S+) --out (\S+) --markdown (\S+)`", page.read_text())
    assert SOURCE / command[3] == page
    # In a folder of its own, for the command writes table.json too.
    for name in ("configs", "docs"):
        (ssa.folder / name).mkdir()
    (ssa.folder / command[1]).parent.mkdir(parents=True)
    (ssa.folder / command[1]).write_text((SOURCE / command[1]).read_text())
    finished = ssa.folder / command[2]
    finished.mkdir(parents=True)
    for name in ("experiment.toml", "results.jsonl"):
        (finished / name).write_text((SOURCE / command[2] / name).read_text())
    (ssa.folder / command[3]).write_text(page.read_text())
    ssa("reproduce", command[1], "--out", command[2], "--markdown", command[3], "--table")
    assert (ssa.folder / command[3]).read_text() == page.read_text()


def test_figures_of_the_overview_stand_on_a_page():
    overview = (SOURCE / "docs/results/README.md").read_text().split("in seven rows")[1].split("\n## ")[0]
    pages = "".join(page.read_text() for page in PAGES)
    rows = [
        row.strip("| ").split(" | ")
        for row in overview.splitlines()
        if row.startswith("|") and "[" in row or "±" in row
    ]
    assert len(rows) == 7
    for *_, softmax, ssa_value, difference, verdict in rows:
        line = rf"\| {re.escape(softmax)} \| ssa \| {re.escape(ssa_value)} \| {re.escape(difference)} \| .* \| {verdict} \|"
        assert re.search(line, pages), (softmax, ssa_value, difference)
