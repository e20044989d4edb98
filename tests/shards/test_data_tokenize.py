"""`ssa data tokenize`: shards that Megatron's description of the format reads, with the ids of the tokenizers' own
libraries, whatever the files' kinds, the number of workers and the interruptions."""

import fcntl
import gzip
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sentencepiece import SentencePieceProcessor
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from shards import (
    DOCUMENTS,
    END,
    expected,
    files_of,
    read,
    tokenize,
    train_byte_level,
    write_json,
    write_parquet,
    write_text,
    write_zst,
)


def test_format_and_ids(ssa, tmp_path, byte_level):
    write_text(tmp_path / "a.txt", DOCUMENTS)
    done = tokenize(ssa, "a.txt")
    dtype, documents = read(tmp_path / "out")
    assert dtype == np.uint16
    assert documents == expected(byte_level, DOCUMENTS)
    tokens = sum(map(len, documents))
    assert f"out: 63 documents, {tokens} tokens; held out: nothing; 1 of 1 file read, " in done.stdout
    assert set(files_of(tmp_path)) == {".bin", ".idx", ".json"}
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["schema"] == 1 and record["tokenizer"] == "tokenizer.json" and record["held_out"] is None
    size = sum(len(text.encode()) for text in DOCUMENTS)
    assert record["training"] == {"documents": 63, "tokens": tokens, "text_bytes": size}
    assert record["recipe"]["vocabulary"] == byte_level.get_vocab_size()
    assert record["recipe"]["end_token"] == {"token": END, "id": 1}
    (file,) = record["inputs"]
    assert file["file"] == "a.txt" and file["bytes"] == (tmp_path / "a.txt").stat().st_size
    assert file["training"] == record["training"] and file["hash"].startswith("fnv1a64:")

    told = ssa("data", "info", "out").stdout
    for name, value in [("documents", 63), ("tokens", tokens), ("type", "uint16"), ("file", f"a.txt, {file['hash']}"),
                        ("tokenizer", f"tokenizer.json, {record['recipe']['tokenizer']}"), ("end token", f"{END} (1)")]:  # fmt: skip
        assert f"{name:<13} {value}\n" in told


def test_a_large_vocabulary_needs_int32(ssa, tmp_path):
    vocabulary = {token: i for i, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocabulary |= {f"#{i}": i for i in range(len(vocabulary), 66000)} | {END: 66000}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    write_text(tmp_path / "a.txt", ["ab", "c"])
    ssa("data", "tokenize", "a.txt", "--tokenizer", "vocab.json", "--merges", "merges.txt", "--out", "out")
    dtype, documents = read(tmp_path / "out")
    assert dtype == np.int32
    assert documents == [[vocabulary["a"], vocabulary["b"], 66000], [vocabulary["c"], 66000]]


def test_kinds_of_files_and_compressions(ssa, tmp_path, byte_level):
    write_text(tmp_path / "a.txt", DOCUMENTS)
    write_json(tmp_path / "a.jsonl", DOCUMENTS)
    write_parquet(tmp_path / "a.parquet", DOCUMENTS, row_group_size=7)
    write_parquet(tmp_path / "flat.parquet", DOCUMENTS, use_dictionary=False, compression="none")
    write_parquet(tmp_path / "v2.parquet", DOCUMENTS, compression="zstd", data_page_version="2.0")
    kinds = pa.table({"text": pa.array(DOCUMENTS, pa.large_string()).dictionary_encode()})
    pq.write_table(kinds, tmp_path / "categories.parquet", compression="gzip")
    strict = pa.schema([pa.field("text", pa.string(), nullable=False)])
    pq.write_table(pa.table({"text": DOCUMENTS}, schema=strict), tmp_path / "strict.parquet")
    for name in ("a.txt", "a.jsonl", "a.parquet"):
        content = (tmp_path / name).read_bytes()
        half = len(content) // 2
        # Several members, or frames, are one content.
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content[:half]) + gzip.compress(content[half:]))
        write_zst(tmp_path / "first", content[:half])
        write_zst(tmp_path / "second", content[half:])
        joined = (tmp_path / "first").read_bytes() + (tmp_path / "second").read_bytes()
        (tmp_path / f"{name}.zst").write_bytes(joined)
    files = [path for path in tmp_path.iterdir() if {".txt", ".jsonl", ".parquet"} & set(path.suffixes)]
    assert len(files) == 13
    for path in files:
        ssa("data", "tokenize", path, "--tokenizer", "tokenizer.json", "--out", f"of-{path.name}")
        assert read(tmp_path / f"of-{path.name}")[1] == expected(byte_level, DOCUMENTS), path.name


def test_fields_columns_and_document_lines(ssa, tmp_path, byte_level):
    write_json(tmp_path / "a.jsonl", ["one"], "body")
    table = pa.table({"id": [1, 2], "body": [{"raw": "two"}, {"raw": "three"}]})
    pq.write_table(table, tmp_path / "b.parquet")
    tokenize(ssa, "a.jsonl", "--field", "body")
    assert read(tmp_path / "out")[1] == expected(byte_level, ["one"])
    tokenize(ssa, "b.parquet", "--field", "body.raw", "--force")
    assert read(tmp_path / "out")[1] == expected(byte_level, ["two", "three"])
    write_text(tmp_path / "c.txt", ["four", "five"], "-- end --")
    tokenize(ssa, "c.txt", "--document-line", "-- end --", "--end-token", "<pad>", "--force")
    assert read(tmp_path / "out")[1] == [ids[:-1] + [0] for ids in expected(byte_level, ["four", "five"])]


def test_special_tokens_in_a_text_are_text(ssa, tmp_path, byte_level):
    texts = [f"a{END}b", f"{END}", f"a\n{END} \n<pad>b", f"{END}{END}<pad>"]
    write_json(tmp_path / "a.jsonl", texts)
    tokenize(ssa, "a.jsonl")
    documents = read(tmp_path / "out")[1]
    assert documents == expected(byte_level, texts)
    assert all(1 not in ids[:-1] and ids[-1] == 1 and 0 not in ids for ids in documents)


def test_special_tokens_that_take_white_space(ssa, tmp_path, babyberta_tokenizer):
    babyberta_tokenizer(tmp_path / "tokenizer.json", DOCUMENTS)
    reference = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    reference.add_tokens([AddedToken("NAME", lstrip=True, normalized=True)])
    reference.save(str(tmp_path / "tokenizer.json"))
    reference.encode_special_tokens = True
    texts = [
        "a <mask> b<mask>c  <mask>",
        "<s> </s> <pad><unk> <S> <MASK>",
        "<mask> NAME<mask>NAME",
        "  NAME <s>NAME name",
    ]
    write_json(tmp_path / "a.jsonl", texts)
    tokenize(ssa, "a.jsonl")
    assert read(tmp_path / "out")[1] == [[*reference.encode(text, add_special_tokens=False).ids, 4] for text in texts]
    assert reference.token_to_id("NAME") in read(tmp_path / "out")[1][2], "tokens that are not special are found"


@pytest.fixture(params=["sentencepiece-bpe", "sentencepiece-unigram"])
def sentence_piece(request, tmp_path):
    """spm.model, trained on the documents; its library's processor."""
    (tmp_path / "sentences").write_text("\n".join(DOCUMENTS * 3))
    command = [sys.executable, "-m", "ssa_attention.tokenizer_training", "sentences", "--vocabulary", "400"]
    subprocess.run([*command, "--kind", request.param, "-o", "spm.model"], cwd=tmp_path, check=True)
    return SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))


def test_sentence_piece(ssa, tmp_path, sentence_piece):
    texts = [*DOCUMENTS, "a </s> b<s><unk>", "\u2581 x", "tabs\tand\r\nlines", "\u00a0ﬁ Ⅷ ①", "a\0b", "👩‍🚀"]
    write_json(tmp_path / "a.jsonl", texts)
    ssa("data", "tokenize", "a.jsonl", "--tokenizer", "spm.model", "--out", "out")
    ids = [sentence_piece.encode(text) for text in texts]
    assert read(tmp_path / "out")[1] == [document + [sentence_piece.eos_id()] for document in ids]

    encoded = ssa("tokenizer", "encode", "spm.model", "a.jsonl", "--jsonl").stdout
    assert [[int(word) for word in line.split()] for line in encoded.splitlines()] == ids
    (tmp_path / "ids.txt").write_text(encoded + "1 5 2 6\n")
    decoded = ssa("tokenizer", "decode", "spm.model", "ids.txt", "--jsonl").stdout.split("\n")
    assert [json.loads(line) for line in decoded[:-2]] == sentence_piece.decode(ids)
    assert json.loads(decoded[-2]) == sentence_piece.decode([1, 5, 2, 6])
    (tmp_path / "ids.txt").write_text("1 9 2\n")
    kept = ssa("tokenizer", "decode", "spm.model", "ids.txt", "--keep-special").stdout
    assert kept == f"<s>{sentence_piece.decode([9])}</s>\n"
    (tmp_path / "ids.txt").write_text(f"5\n{sentence_piece.vocab_size()}\n")
    assert "ids.txt:2: id " in ssa("tokenizer", "decode", "spm.model", "ids.txt", code=1).stderr
    told = ssa("tokenizer", "info", "spm.model").stdout
    assert "model           SentencePiece\n" in told and "token           2 </s>\n" in told
    assert f"size            {sentence_piece.vocab_size()} " in told


def test_sentence_piece_symbols_are_no_ends(ssa, tmp_path):
    """SentencePiece finds symbols of its user in a text: as the end token they would be false ends."""
    import sentencepiece

    write_json(tmp_path / "a.jsonl", ["one dog", f"two{END}dogs", "three dogs"])
    with (tmp_path / "spm.model").open("wb") as model:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(DOCUMENTS), model_writer=model, vocab_size=400, hard_vocab_limit=False,
            byte_fallback=True, user_defined_symbols=[END], minloglevel=2,
        )  # fmt: skip
    command = ["data", "tokenize", "a.jsonl", "--tokenizer", "spm.model", "--out", "out"]
    error = ssa(*command, code=1).stderr
    assert f"a.jsonl:2: the end token {END} is written in the document" in error
    assert "a.jsonl: left out 1 bad line and 0 empty documents\n" in ssa(*command, "--skip-bad-lines").stdout
    assert len(read(tmp_path / "out")[1]) == 2


def test_the_number_of_workers_decides_nothing(ssa, tmp_path, byte_level, several):
    names, _ = several
    results = []
    for workers in (1, 3, 8):
        tokenize(ssa, *names, "--workers", workers, "--held-out", 0.2)
        results.append(files_of(tmp_path))
        for path in tmp_path.glob("out*"):
            path.unlink()
    assert results[0] == results[1] == results[2]
    assert set(results[0]) == {".bin", ".idx", ".json", "-held-out.bin", "-held-out.idx"}


def test_the_order_of_the_command_line(ssa, tmp_path, byte_level, several):
    names, texts = several
    tokenize(ssa, *names)
    assert read(tmp_path / "out")[1] == expected(byte_level, texts)


def test_a_share_of_one_document_is_warned_of(ssa, tmp_path, byte_level):
    (tmp_path / "one.txt").write_text("the dog sees the cat")
    told = tokenize(ssa, "one.txt", "--held-out", 0.1).stderr
    assert "warning: no document was " in told and "there is 1 document in all. A .txt is one document" in told


def test_the_split_depends_on_each_text_alone(ssa, tmp_path, byte_level, several):
    names, texts = several

    def split(share, *files):
        tokenize(ssa, *files, "--held-out", share, "--force")
        both = [{tuple(ids) for ids in read(tmp_path / name)[1]} for name in ("out", "out-held-out")]
        assert not both[0] & both[1]
        return both

    training, held_out = split(0.2, *names)
    assert training | held_out == {tuple(ids) for ids in expected(byte_level, texts)}
    assert 30 <= len(held_out) <= 90  # 60 ± 4 standard deviations
    assert split(0.2, *reversed(names)) == [training, held_out]
    write_json(tmp_path / "other.jsonl", [*reversed(texts[:150]), "another document"])
    _, other = split(0.2, "other.jsonl")
    assert held_out >= other - set(map(tuple, expected(byte_level, ["another document"])))
    assert split(0.4, *names)[1] > held_out
    told = ssa("data", "info", "out").stdout
    assert "shards        out-held-out\n" in told


@pytest.fixture
def slow(tmp_path, byte_level):
    """The names of 12 files that take two seconds or so together."""
    for i in range(12):
        words = [f"{(i + 1) * k:x}the {k}" for k in range(40000)]
        write_text(tmp_path / f"{i}.txt", [" ".join(words[k : k + 100]) for k in range(0, len(words), 100)])
    return [f"{i}.txt" for i in range(12)]


def start(ssa, names, signal_number):
    """Ends the command by the signal as soon as a part is finished; its exit code and what it said."""
    command = ["data", "tokenize", *names, "--tokenizer", "tokenizer.json", "--out", "out", "--held-out", 0.1]
    running = ssa.start(*command, "--workers", 2)
    while not list((ssa.folder / "out.parts").glob("*.json")):
        assert running.poll() is None
        time.sleep(0.002)
    running.send_signal(signal_number)
    said, _ = running.communicate()
    assert not [path for path in ssa.folder.glob("out*") if path.name != "out.parts"]
    return running.returncode, said


def test_progress_on_a_terminal(ssa, tmp_path, slow):
    terminal, stderr = pty.openpty()
    command = [ssa.binary, "data", "tokenize", *slow, "--tokenizer", "tokenizer.json", "--out", "out"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=stderr) as running:
        os.close(stderr)
        shown = b""
        try:
            while piece := os.read(terminal, 4096):
                shown += piece
        except OSError:  # the other end is closed
            os.close(terminal)
        assert running.wait() == 0
    assert re.search(rb"\r\x1b\[K\d+\.\d MB of text, \d+\.\d\d MB/s, \d+\.\d M tokens, \d+ of 12 files\r", shown), shown
    assert shown.endswith(b"\r\x1b[K")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_restart_after_an_interruption(ssa, tmp_path, slow, number):
    arguments = [*slow, "--held-out", 0.1]
    tokenize(ssa, *arguments)
    undisturbed = files_of(tmp_path)
    for path in tmp_path.glob("out*"):
        path.unlink()
    code, said = start(ssa, slow, number)
    if number == signal.SIGKILL:
        assert code == -signal.SIGKILL
    else:
        assert code == 128 + number
        assert said == "stopped; the same command goes on: finished files are kept in out.parts\n"
    finished = len(list((tmp_path / "out.parts").glob("*.json")))
    assert 1 <= finished < 12
    # A part whose files do not hold what they should is made again.
    record = next(iter((tmp_path / "out.parts").glob("*.json")))
    record.with_suffix(".bin").write_bytes(b"xx")
    done = tokenize(ssa, *arguments)
    assert f"{12 - finished + 1} of 12 files read" in done.stdout
    assert files_of(tmp_path) == undisturbed


def test_parts_of_other_options_or_contents_are_not_used(ssa, tmp_path, slow):
    start(ssa, slow, signal.SIGKILL)
    shutil.copytree(tmp_path / "out.parts", tmp_path / "kept")
    assert "12 of 12 files read" in tokenize(ssa, *slow, "--held-out", 0.2).stdout
    for path in tmp_path.glob("out*"):
        path.unlink()
    (tmp_path / "kept").rename(tmp_path / "out.parts")
    for name in slow:
        (tmp_path / name).write_text(f"another text {name}")
    assert "12 of 12 files read" in tokenize(ssa, *slow, "--held-out", 0.1).stdout
    assert (
        sum(json.loads((tmp_path / "out.json").read_text())[side]["documents"] for side in ("training", "held_out"))
        == 12
    )


def test_what_is_there_is_not_overwritten(ssa, tmp_path, byte_level, several):
    names, _ = several
    tokenize(ssa, *names, "--held-out", 0.2)
    before = files_of(tmp_path)

    def refused(message, *arguments):
        error = tokenize(ssa, *arguments, code=1).stderr
        assert f"out.json: exists, made otherwise: {message}" in error and "--force" in error
        assert files_of(tmp_path) == before

    refused("held_out was 0.2, not 0.3", *names, "--held-out", 0.3)
    refused('end_token was {"token":"<|endoftext|>","id":1}, not', *names, "--held-out", 0.2, "--end-token", "<pad>")
    refused("the list of files is another", *names[:2], "--held-out", 0.2)
    refused("b.jsonl is not what was read before", "b.jsonl", "a.txt", *names[2:], "--held-out", 0.2)
    assert "0 of 5 files read" in tokenize(ssa, *names, "--held-out", 0.2).stdout
    os.utime(tmp_path / "a.txt")
    assert "0 of 5 files read" in tokenize(ssa, *names, "--held-out", 0.2, "--workers", 1).stdout
    assert files_of(tmp_path) == before
    (tmp_path / "a.txt").write_text("other")
    refused("a.txt is not what was read before", *names, "--held-out", 0.2)
    tokenize(ssa, *names, "--force")
    assert set(files_of(tmp_path)) == {".bin", ".idx", ".json"}, "nothing is held out now"


def test_files_of_others_are_not_overwritten(ssa, tmp_path, byte_level, several):
    for name in ("out.bin", "out-held-out.idx"):
        (tmp_path / name).write_text("mine")
        assert f"{name}: exists, with no out.json" in tokenize(ssa, "a.txt", code=1).stderr
        assert (tmp_path / name).read_text() == "mine"
        (tmp_path / name).unlink()
    (tmp_path / "out.json").write_text('{"name": "mine"}')
    assert "out.json: exists, made otherwise: it is not a record" in tokenize(ssa, "a.txt", code=1).stderr
    (tmp_path / "out.json").unlink()
    (tmp_path / "out.parts").mkdir()
    (tmp_path / "out.parts/letter.txt").write_text("dear")
    assert "out.parts: exists and holds no parts" in tokenize(ssa, "a.txt", code=1).stderr
    assert (tmp_path / "out.parts/letter.txt").read_text() == "dear"


def test_an_interruption_between_the_last_names(ssa, tmp_path, byte_level, several):
    """Then new and old files stand side by side, without a record, and the parts are still there."""
    names, _ = several
    tokenize(ssa, *names)
    undisturbed = files_of(tmp_path)
    (tmp_path / "out.json").unlink()
    (tmp_path / "out.bin").write_bytes(b"half")
    (tmp_path / "out.parts").mkdir()
    (tmp_path / "out.parts/lock").touch()
    tokenize(ssa, *names)
    assert files_of(tmp_path) == undisturbed


def test_one_process_at_a_time(ssa, tmp_path, byte_level, several):
    (tmp_path / "out.parts").mkdir()
    with (tmp_path / "out.parts/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "out.parts/lock: cannot be locked: is the same" in tokenize(ssa, "a.txt", code=1).stderr
    tokenize(ssa, "a.txt")


@pytest.mark.parametrize("name", ["large.jsonl.gz", "large.txt.zst", "large.parquet"])
def test_large_files_are_not_held_in_memory(ssa, tmp_path, name):
    text = " Donaudampfschiffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 120
    train_byte_level(tmp_path / "tokenizer.json", [text])  # one token a word: the shards are small
    documents = [text] * 6000
    size = len(text) * len(documents)

    # A small process between: what this one holds would count for its child.
    meter = "import resource as r, subprocess as s, sys; s.run(sys.argv[1:], check=True, stdout=s.DEVNULL); "
    meter += "print(r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss)"

    def peak(file):
        """Of the command's memory, in bytes."""
        command = [ssa.binary, "data", "tokenize", file, "--tokenizer", "tokenizer.json", "--out", f"out-{file}"]
        metered = [sys.executable, "-c", meter, *command]
        return int(subprocess.run(metered, cwd=tmp_path, check=True, capture_output=True).stdout) * 1024

    write_parquet(tmp_path / "small.parquet", documents[:3])
    before = peak("small.parquet")
    if name == "large.parquet":  # one row group
        write_parquet(tmp_path / name, documents, use_dictionary=False, compression="zstd")
    elif name == "large.txt.zst":
        write_zst(tmp_path / name, f"\n{END}\n".join(documents).encode())
    else:
        lines = json.dumps({"text": text}) + "\n"
        (tmp_path / name).write_bytes(gzip.compress(lines.encode() * len(documents), 1))
    assert peak(name) - before < size / 4


def gpt2(data):
    vocabulary, merges = data / "tokenizers/gpt2_vocab.json", data / "tokenizers/gpt2_merges.txt"
    tokenizer = Tokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens([END])
    tokenizer.encode_special_tokens = True
    return ["--tokenizer", vocabulary, "--merges", merges], tokenizer


def real_documents(data):
    """Books, web pages and articles: the files, and what they hold."""
    files = [data / "web_and_books/books_valid.txt", data / "web_and_books/c4_sample_train.jsonl"]
    files.append(data / "wikipedia/wikipedia_articles_train.jsonl")
    texts = files[0].read_bytes().decode().removesuffix("\n").split(f"\n{END}\n")
    texts += [json.loads(line)["text"] for file in files[1:] for line in file.read_bytes().splitlines()]
    assert len(texts) > 1000
    return files, texts


def test_real_text_with_gpt2(ssa, tmp_path, real_data):
    arguments, tokenizer = gpt2(real_data)
    files, texts = real_documents(real_data)
    ssa("data", "tokenize", *files, *arguments, "--out", "out", "--held-out", 0.05)
    documents = read(tmp_path / "out")[1] + read(tmp_path / "out-held-out")[1]
    assert sorted(documents) == sorted(expected(tokenizer, texts))


@pytest.mark.parametrize("kind", ["sentencepiece-bpe", "sentencepiece-unigram"])
def test_real_text_with_sentence_piece(ssa, tmp_path, real_data, kind):
    command = [sys.executable, "-m", "ssa_attention.tokenizer_training", "--kind", kind, "--vocabulary", "2000"]
    text = real_data / "web_and_books/fineweb_edu_sample_valid.txt"
    subprocess.run([*command, text, "-o", tmp_path / "spm.model"], check=True)
    files, texts = real_documents(real_data)
    ssa("data", "tokenize", *files, "--tokenizer", "spm.model", "--out", "out")
    processor = SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
    same = 0
    for text, ids in zip(texts, read(tmp_path / "out")[1], strict=True):
        wanted = processor.encode(text)
        same += ids == [*wanted, processor.eos_id()]
        if kind == "sentencepiece-unigram":
            # Of cuts that are equally likely in float32, versions of the library take different ones.
            assert processor.decode(ids) == processor.decode(wanted)
            score, wanted_score = (sum(map(processor.get_score, cut)) for cut in (ids[:-1], wanted))
            assert abs(score - wanted_score) <= 1e-5 * abs(wanted_score)
    assert same >= len(texts) * (0.97 if kind == "sentencepiece-unigram" else 1)
