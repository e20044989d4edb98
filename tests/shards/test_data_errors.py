"""What `ssa data` refuses, and what it says."""

import gzip
import json
import os
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import pre_tokenizers

from shards import (
    DOCUMENTS,
    END,
    expected,
    read,
    tokenize,
    write_json,
    write_text,
)

TOO_SHORT = gzip.compress(b"the dog\n" * 1000)[:-20]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", b"x", "a.csv: unknown kind of file; known: .txt, .jsonl, .parquet, each also with .gz or .zst"),
        ("a.gz", b"x", "a.gz: unknown kind of file"),
        ("a.txt.bz2", b"x", "a.txt.bz2: unknown kind of file"),
        ("a.txt", b"fine\n\xff\xfe\n", "a.txt:2: byte 1 (0xff) is not valid UTF-8 (--skip-bad-lines leaves it out)"),
        ("a.txt", b"", "out: no document in the files"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "b"\n', "a.jsonl:2: not valid JSON (byte 13)"),
        ("a.jsonl", b'{"text": "\xff"}\n', "a.jsonl:1: byte 11 (0xff) is not valid UTF-8"),
        ("a.jsonl", b'{"text": "a", "n": 1e400}\n', "a.jsonl:1: JSON with a number that is too large (--skip-bad-lines leaves"),
        ("a.jsonl", b"[" * 80000, "a.jsonl:1: JSON nested more than 64 deep"),
        ("a.jsonl", b'["a"]\n', "a.jsonl:1: expected an object, found array"),
        ("a.jsonl", b'{"id": 1, "body": "a"}\n', 'a.jsonl:1: there is no field "text" (fields: body, id)'),
        ("a.jsonl", b'{"text": null}\n', 'a.jsonl:1: field "text": expected a string, found null'),
        ("a.txt.gz", TOO_SHORT, "a.txt.gz: the gzip data end too early"),
        ("a.txt.gz", b"", "a.txt.gz: the gzip data end too early"),
        ("a.txt.gz", b"plain text", "a.txt.gz: the gzip data are damaged (incorrect header check)"),
        ("a.txt.zst", pa.compress(b"the dog\n" * 1000, "zstd", asbytes=True)[:-5], "a.txt.zst: the Zstandard data end too early"),
        ("a.txt.zst", b"", "a.txt.zst: the Zstandard data end too early"),
        ("a.jsonl.zst", b"plain text", "a.jsonl.zst: the Zstandard data are damaged (Unknown frame descriptor)"),
        ("a.parquet", b"plain text and more of it", "a.parquet: "),
        ("a.parquet", b"", "a.parquet: "),
        ("a.parquet.gz", TOO_SHORT, "a.parquet.gz: the gzip data end too early"),
    ],
)  # fmt: skip
def test_bad_files(ssa, tmp_path, byte_level, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert message in tokenize(ssa, name, code=1).stderr
    assert not [path for path in tmp_path.glob("out*") if path.name != "out.parts"]


def test_bad_parquet(ssa, tmp_path, byte_level):
    rows = {"id": [1, 2, 3], "text": ["a", None, "c"], "many": [["x"], [], ["y"]], "raw": [b"a", b"b", b"\xffc"]}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    for arguments, message in [
        ([], 'a.parquet:row 2: column "text": expected a string, found null (--skip-bad-lines leaves it out)'),
        (["--field", "body"], 'a.parquet: there is no column "body" (columns: id, text, many.list.element, raw)'),
        (["--field", "id"], 'a.parquet: column "id": expected strings, found INT64 None'),
        (["--field", "many.list.element"], 'column "many.list.element": expected strings, found BYTE_ARRAY String in lists'),
        (["--field", "raw"], 'a.parquet:row 3: column "raw": byte 1 (0xff) is not valid UTF-8'),
    ]:  # fmt: skip
        assert message in tokenize(ssa, "a.parquet", *arguments, code=1).stderr
    done = tokenize(ssa, "a.parquet", "--skip-bad-lines")
    assert "a.parquet: left out 1 bad line and 0 empty documents\n" in done.stdout
    assert read(tmp_path / "out")[1] == expected(byte_level, ["a", "c"])
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[4:60] = bytes(56)  # its first pages
    (tmp_path / "b.parquet").write_bytes(content)
    assert "b.parquet: " in tokenize(ssa, "b.parquet", "--force", "--field", "id", code=1).stderr


def test_bad_lines_are_left_out_and_counted(ssa, tmp_path, byte_level):
    (tmp_path / "a.txt").write_bytes(f"one\n\xff\ntwo\n{END}\n\n{END}\nthree\n".encode("latin-1"))
    write_json(tmp_path / "b.jsonl", ["four", 5, "six", ""])
    done = tokenize(ssa, "a.txt", "b.jsonl", "--skip-bad-lines")
    assert "a.txt: left out 1 bad line and 1 empty document\n" in done.stdout
    assert "b.jsonl: left out 1 bad line and 1 empty document\n" in done.stdout
    assert read(tmp_path / "out")[1] == expected(byte_level, ["one\ntwo", "three", "four", "six"])
    record = json.loads((tmp_path / "out.json").read_text())
    assert [(file["bad"], file["empty"]) for file in record["inputs"]] == [(1, 1), (1, 1)]


def test_an_error_in_one_file_keeps_the_parts_of_others(ssa, tmp_path, byte_level, several):
    names, texts = several
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    assert "bad.txt:1: " in tokenize(ssa, *names, "bad.txt", "--workers", 1, code=1).stderr
    assert "0 of 5 files read" in tokenize(ssa, *names).stdout
    assert read(tmp_path / "out")[1] == expected(byte_level, texts)


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["absent.txt"], 1, "absent.txt: no such file"),
        (["folder.txt"], 1, "folder.txt: is a folder, not a file"),
        (["a.txt", "./a.txt"], 1, "./a.txt: is given twice"),
        (["a.txt", "--tokenizer", "absent.json"], 1, "absent.json: no such file"),
        (["a.txt", "--tokenizer", "broken.model"], 1, "broken.model: is not a model of SentencePiece, or a damaged one"),
        (["a.txt", "--tokenizer", "broken.model", "--merges", "m.txt"], 1, "broken.model: a model of SentencePiece has no merges (m.txt)"),
        (["a.txt", "--end-token", "<end>"], 1, "tokenizer.json: --end-token <end>: the tokenizer's vocabulary has no such token"),
        (["a.txt", "--out", "a.txt/out"], 1, "a.txt/out"),
        (["a.txt", "--out", "folder.txt/"], 1, "folder.txt/: is a folder, not how the files' names begin"),
        (["a.txt", "--out", "."], 1, ".: is a folder, not how the files' names begin"),
        (["a.txt", "--held-out", "1"], 2, "--held-out: 1: expected a share from 0 to less than 1"),
        (["a.txt", "--held-out", "nan"], 2, "--held-out: nan: expected a share from 0 to less than 1"),
        (["a.txt", "--workers", "0"], 2, "--workers: 0: expected a whole number from 1 to 1024"),
        (["a.txt", "--helt-out", "0"], 2, "unknown flag --helt-out; did you mean --held-out?"),
        ([], 2, "files is required (see ssa data tokenize --help)"),
    ],
)  # fmt: skip
def test_bad_arguments(ssa, tmp_path, byte_level, arguments, code, message):
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "broken.model").write_text("no model")
    before = sorted(tmp_path.rglob("*"))
    defaults = {"--tokenizer": "tokenizer.json", "--out": "out"}
    more = [word for name, value in defaults.items() if name not in arguments for word in (name, value)]
    assert message in ssa("data", "tokenize", *arguments, *more, code=code).stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_vocabulary_without_an_end(ssa, tmp_path):
    vocabulary = {token: i for i, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text("")
    (tmp_path / "a.txt").write_text("text")
    command = ["data", "tokenize", "a.txt", "--tokenizer", "vocab.json", "--merges", "merges.txt", "--out", "out"]
    error = ssa(*command, code=1).stderr
    assert (
        f"vocab.json: the tokenizer's vocabulary has neither {END} nor </s>: --end-token says which token ends a document"
        in error
    )
    ssa(*command, "--end-token", "Ċ")
    assert read(tmp_path / "out")[1] == [[vocabulary[letter] for letter in "textĊ"]]


def test_names_and_records(ssa, tmp_path, byte_level):
    write_text(tmp_path / "a.txt", DOCUMENTS)
    name = os.fsencode(tmp_path) + b"/b\xff.txt"
    with open(name, "w") as file:
        file.write("text")
    done = subprocess.run(
        [os.fsencode(ssa.binary), b"data", b"tokenize", name, b"--tokenizer", b"tokenizer.json", b"--out", b"out"],
        cwd=tmp_path, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and b"b\\xff.txt: its name: byte " in done.stderr
    tokenize(ssa, "a.txt")
    file = tmp_path / "out.json"
    record = json.loads(file.read_text())
    without = {key: value for key, value in record.items() if key != "held_out"}
    for broken in (without, record | {"tokenizer": 5}, record | {"inputs": 3}, record | {"recipe": {"tokenizer": "y"}}):
        file.write_text(json.dumps(broken))
        message = "out.json: is not a record of token shards, but stands where theirs would"
        assert message in ssa("data", "info", "out", code=1).stderr


def test_damaged_shards(ssa, tmp_path, byte_level):
    write_text(tmp_path / "a.txt", DOCUMENTS)
    tokenize(ssa, "a.txt")
    ids = (tmp_path / "out.bin").read_bytes()
    (tmp_path / "out.bin").write_bytes(ids[:-2])
    message = f"out.bin: has {len(ids) - 2} bytes, but its .idx tells of at least {len(ids)}"
    assert message in ssa("data", "info", "out", code=1).stderr
    assert message in tokenize(ssa, "a.txt", code=1).stderr
    (tmp_path / "out.idx").unlink()
    assert "out.idx: no such file" in ssa("data", "info", "out", code=1).stderr


def test_a_parquet_file_that_asks_for_far_more_memory_than_it_is_large(ssa, babyberta_tokenizer):
    babyberta_tokenizer(ssa.folder / "t.json", ["a bird"])
    table = pa.table({"text": ["a" * 150_000_000]})
    pq.write_table(table, ssa.folder / "bomb.parquet", compression="zstd")
    assert (ssa.folder / "bomb.parquet").stat().st_size < 50_000
    error = ssa("data", "tokenize", "bomb.parquet", "--tokenizer", "t.json", "--out", "x", code=1).stderr
    assert error.startswith("ssa: bomb.parquet: ") and "cap exceeded" in error
