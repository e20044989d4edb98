"""The fixtures that tests of `ssa data` share."""

import gzip
import json

import pytest

from shards import DOCUMENTS, END, train_byte_level, write_json, write_parquet, write_text, write_zst


@pytest.fixture
def byte_level(tmp_path):
    """tokenizer.json, trained on the documents."""
    return train_byte_level(tmp_path / "tokenizer.json", DOCUMENTS)


@pytest.fixture
def several(tmp_path, byte_level):
    """The names of five files of different kinds and sizes, with 300 documents in all."""
    texts = [f"Text {i}: the dog number {i * i} sees {'the cat and ' * (i % 40)}itself." for i in range(300)]
    parts = [texts[:10], texts[10:150], texts[150:160], texts[160:290], texts[290:]]
    names = ["a.txt", "b.jsonl", "c.parquet", "d.txt.gz", "e.jsonl.zst"]
    write_text(tmp_path / "a.txt", parts[0])
    write_json(tmp_path / "b.jsonl", parts[1])
    write_parquet(tmp_path / "c.parquet", parts[2])
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(f"\n{END}\n".join(parts[3]).encode()))
    write_zst(tmp_path / "e.jsonl.zst", "".join(json.dumps({"text": text}) + "\n" for text in parts[4]).encode())
    return names, texts
