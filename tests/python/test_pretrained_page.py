"""The code of docs/pretrained.md runs, in its order, on a small model; its table of limits names every score."""

import os
import re
from pathlib import Path

import pytest
from small_hugging_face import llama
from ssa_attention import scores
from ssa_attention.softmax_limits import softmax_limits

PAGE = Path(os.environ.get("SSA_SOURCE", Path(__file__).parents[2])) / "docs" / "pretrained.md"


def small_pretrained(folder):
    """A model and a tokenizer of words, as from_pretrained reads them."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: index for index, word in enumerate(["[UNK]", "the", "keeper", "wrote", "in", "his", "book", "sea"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)
    llama().save_pretrained(folder)


def test_the_code_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("peft")
    pytest.importorskip("accelerate", reason="transformers' Trainer needs the package accelerate")
    small_pretrained(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code) == 4
    names: dict = {}
    for block in code:
        exec(compile(block.replace("HuggingFaceTB/SmolLM2-135M", "model"), PAGE.name, "exec"), names)  # noqa: S102  (the page's own code)
    assert "perplexity on 2 texts" in capsys.readouterr().out
    assert (tmp_path / "report.html").exists() and (tmp_path / "adapter" / "scores.safetensors").exists()


def test_the_table_names_every_score():
    table = PAGE.read_text().split("<!-- limits:begin -->")[1].split("<!-- limits:end -->")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row.split("|")[1])}
    assert named == set(scores())
    for name, limit in softmax_limits().items():
        (row,) = [line for line in rows if line.startswith(f"| `{name}` |")]
        assert row.replace("−", "-").split("|")[2].strip() == limit.where.replace("−", "-")
