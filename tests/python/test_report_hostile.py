"""Reports of hostile and damaged files: names that look like markup run nowhere, wrong types end in one line."""

from __future__ import annotations

import copy
import html.parser
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import synthetic_runs
from browser import opened
from report_page import assert_drawn, embedded, needs_chromium, whole
from ssa_attention import report
from ssa_attention.files import FileError
from ssa_attention.json_files import MAX_DEPTH, MAX_NUMBER, parse_json, read_json, read_json_lines
from ssa_attention.report import attention
from test_attention_page import write_maps

# Each runs in a page that holds it as it stands: in an attribute or text, and inside a script element.
IMAGE = "\"'><img src=x onerror=document.documentElement.dataset.ran=1>"
SCRIPT = "</script><script>document.documentElement.dataset.ran=1</script>"


def write_everything(root: Path) -> None:
    """Small folders with every file that the report reads, and few values of each shift."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic_runs, "POINTS", 4)
        patch.setattr(synthetic_runs, "HUGE_AT", 2)
        few = {"sigma": [2, 5], "length": [5], "huge": [-100, 100]}
        patch.setattr(synthetic_runs, "SHIFTS", few)
        patch.setattr(synthetic_runs, "LINEAR_SHIFTS", few | {"coefficients": [2], "both": [2], "grid": [[1, 2]]})
        synthetic_runs.write_experiment(
            root / "quick", seeds=1, variants=("full-every", "full-linear"), steps=200, endpoints=True
        )
        synthetic_runs.write_mlm_experiment(root / "encoder", seeds=1, suites=("zorro",), steps=200)


def load(path: Path):
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return json.loads(path.read_text())


def store(path: Path, value) -> None:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(line) + "\n" for line in value))
    else:
        path.write_text(json.dumps(value))


def input_files(root: Path) -> dict[Path, object]:
    return {path: load(path) for path in sorted(root.rglob("*.json*"))}


def strings(value) -> Iterator[str]:
    """Keys and values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from strings(item)


def renamed(value, old: str, new: str):
    if isinstance(value, str):
        return new if value == old else value
    if isinstance(value, list):
        return [renamed(item, old, new) for item in value]
    if isinstance(value, dict):
        return {renamed(name, old, new): renamed(item, old, new) for name, item in value.items()}
    return value


def poison(root: Path, read) -> int:
    """Puts markup into every string of every file that can take it; the number of those."""
    files = input_files(root)
    poisoned = 0
    for old in dict.fromkeys(s for value in files.values() for s in strings(value)):
        for new in (old + IMAGE + SCRIPT, old + IMAGE, IMAGE + old):
            changed = {path: renamed(value, old, new) for path, value in files.items()}
            for path, value in changed.items():
                if value != files[path]:
                    store(path, value)
            try:
                read()
            except report.ReportError:
                for path, value in files.items():
                    if value != changed[path]:
                        store(path, value)
                continue
            files = changed
            poisoned += 1
            break
    return poisoned


class Markup(html.parser.HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            assert not name.startswith("on"), f"<{tag} {name}={value}>"
            assert name != "href" or value.startswith("#")


def assert_only_text(text: str) -> None:
    """That the names have become text: in the markup, and in the labels of figures, where plotly knows tags too."""
    markup = Markup(whole(text))
    assert "img" not in markup.tags
    assert markup.tags.count("script") == Markup(_plain_page()).tags.count("script")
    for shown in strings(embedded(text, "figures")):
        assert "<img" not in shown and "<script" not in shown


def _plain_page() -> str:
    return report.page.Page("title", "verdict", "lead", report.template()).html()


def assert_runs_nothing(text: str, folder: Path) -> None:
    page = folder / "page.html"
    page.write_text(text, encoding="utf-8")
    figures = embedded(text, "figures")
    document = opened(folder / "profile", page, len(figures))
    assert "data-ran" not in document
    assert_drawn(document, figures)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> str:
    root = tmp_path_factory.mktemp("hostile")
    write_everything(root)
    poisoned = poison(root, lambda: report.read_study([root]))
    assert poisoned > 120
    return report.build([root])


@pytest.fixture(scope="module")
def hostile_maps(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("maps")
    write_maps(folder)
    assert poison(folder, lambda: attention.read_maps(folder)) >= 7
    return attention.build(folder)


def test_names_become_text(hostile, hostile_maps):
    for text in (hostile, hostile_maps):
        assert IMAGE not in whole(text) and SCRIPT not in whole(text)
        assert_only_text(text)


@needs_chromium
def test_nothing_runs_in_a_browser(hostile, hostile_maps, tmp_path):
    for text in (hostile, hostile_maps):
        assert_runs_nothing(text, tmp_path)


@needs_chromium
@pytest.mark.parametrize("markup", [IMAGE, SCRIPT])
def test_the_markup_would_run(hostile_maps, tmp_path, markup):
    """That the test above could fail; and that, where the escaping failed, the policy of the page would still hold."""
    place = '<main><p title="' if markup == IMAGE else "<main><script>"
    for policy, runs in ((True, False), (False, True)):
        text = hostile_maps.replace("<main>", place + markup)
        if not policy:
            text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
        page = tmp_path / f"page-{policy}.html"
        page.write_text(text, encoding="utf-8")
        assert ("data-ran" in opened(tmp_path / f"profile-{policy}", page, 0)) == runs


WRONG = [None, True, -1, 5e-324, -MAX_NUMBER, 1e308, 2**62, "x", [], [None], {"x": None}]


def places(value, place: tuple = ()) -> Iterator[tuple]:
    """The path of every field; of lists and tables of metrics, whose items are alike, the last item's."""
    yield place
    if isinstance(value, dict):
        alike = [name for name in value if "/" in name]
        for name in [n for n in value if n not in alike[:-1]]:
            yield from places(value[name], (*place, name))
    elif isinstance(value, list) and value:
        yield from places(value[-1], (*place, len(value) - 1))


def at(value, place: tuple):
    return at(value[place[0]], place[1:]) if place else value


def replaced(value, place: tuple, new):
    if not place:
        return new
    value = copy.copy(value)
    value[place[0]] = replaced(value[place[0]], place[1:], new)
    return value


def accepted(read) -> bool:
    """Whether files are read; if not, with one line that names a file or a cell."""
    try:
        read()
    except report.ReportError as error:
        assert "\n" not in str(error) and ":" in str(error)
        return False
    return True


def check_every_field(path: Path, read, build) -> None:
    """Puts every wrong value into every field of a file, which is read or refused in one line. What was read is drawn:
    for each value one page with it in all fields of one number, text or choice that take it."""
    original = load(path)
    refused = 0
    for wrong in WRONG:
        kept = original
        for place in places(original):
            changed = replaced(original, place, wrong) if place or path.suffix == ".json" else [wrong]
            store(path, changed)
            try:
                if not accepted(read):
                    refused += 1
                    continue
            except Exception as error:
                raise AssertionError(f"{path.name}: {place} = {str(wrong)[:30]}") from error
            if isinstance(at(original, place), (dict, list)):
                continue
            together = replaced(kept, place, wrong)
            store(path, together)
            kept = together if accepted(read) else kept
        store(path, kept)
        try:
            build()
        except Exception as error:
            raise AssertionError(f"{path.name} with {str(wrong)[:30]}: {kept}"[:2000]) from error
    store(path, original)
    assert refused > len(WRONG)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("damaged")
    write_everything(root)
    return root


LINEAR, ENCODER = "quick/runs/full-linear/ssa/seed-1", "encoder/runs/babyberta/ssa/seed-1"
FILES = {  # and what stands beside them
    "run": (f"{LINEAR}/run.json", f"{LINEAR}/metrics.jsonl"),
    "metrics": (f"{LINEAR}/metrics.jsonl", f"{LINEAR}/run.json"),
    "shifts": (f"{LINEAR}/evals/icl-shift.json", f"{LINEAR}/run.json", f"{LINEAR}/metrics.jsonl"),
    "results": ("quick/results.jsonl",),
    "table": ("quick/table.json", "quick/results.jsonl"),
    "verdicts": ("quick/verdicts.json", "quick/table.json", "quick/results.jsonl"),
    "theory": ("quick/theory.json", "quick/results.jsonl"),
    "pairs": (f"{ENCODER}/evals/zorro.json", f"{ENCODER}/run.json", f"{ENCODER}/metrics.jsonl"),
}


@pytest.mark.parametrize("file", FILES)
def test_wrong_values_in_every_field(damaged, tmp_path, file):
    for name in FILES[file]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(damaged / name, tmp_path / name)
    roots = [tmp_path / FILES[file][0].split("/")[0]]
    check_every_field(tmp_path / FILES[file][0], lambda: report.read_study(roots), lambda: report.build(roots))


def test_wrong_values_in_attention_maps(tmp_path):
    write_maps(tmp_path)
    file = tmp_path / "attention.json"
    check_every_field(file, lambda: attention.read_maps(tmp_path), lambda: attention.build(tmp_path))


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (nested(80_000), "lists and objects are nested deeper than 64"),
        ('{"a":' * 80_000, "lists and objects are nested deeper than 64"),
        (nested(MAX_DEPTH + 1), "lists and objects are nested deeper than 64"),
        ('"' + r"\"[" * 100_000, "not valid JSON: Unterminated string"),
        ("1e400", "the number 1e400 is out of range: at most 1e+100 in size"),
        ("-1e101", "the number -1e101 is out of range"),
        ("9" * 100_000, "the number 99999999999999999999… is out of range"),
        (r'{"a": ["\ud800"]}', r"the string \ud800 is not Unicode"),
        ("[1,\n 2,\n }", "file:5: not valid JSON"),
        ("NaN", "NaN is not JSON"),
    ],
)
def test_json_that_is_refused(text, told):
    with pytest.raises(FileError) as error:
        parse_json(text, Path("file"), 3)
    assert told in str(error.value) and "\n" not in str(error.value)


def test_json_that_is_read(tmp_path):
    assert parse_json(nested(MAX_DEPTH), Path("file")) == json.loads(nested(MAX_DEPTH))
    assert parse_json('"' + "[" * 1000 + r'\"\\"', Path("file")) == "[" * 1000 + '"\\'
    assert parse_json(r'"\ud83d\ude00"', Path("file")) == "😀"
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n[2]')
    assert list(read_json_lines(tmp_path / "a.jsonl")) == [(1, {"a": 1}), (3, [2])]
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf[1,\n\xff]")
    with pytest.raises(FileError, match="not UTF-8 at byte 7"):
        read_json(tmp_path / "a.json")


def test_messages_hold_no_terminal_escapes():
    assert str(report.ReportError("file\x1b[2J: no\nline")) == r"file\x1b[2J: no\nline"


def test_files_that_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    for name, told in (("pipe.json", "is not a regular file"), ("absent.json", "the file is missing"), (".", "is not")):
        with pytest.raises(FileError, match=told):
            read_json(tmp_path / name)
