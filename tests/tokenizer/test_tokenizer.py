"""`ssa tokenizer` gives the ids of PyPI `tokenizers`, on hand-made hard text and on whole corpora."""

import json
import random
import subprocess
import sys
import time

import pytest
from sentencepiece import SentencePieceProcessor
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HARD = [
    "",
    " ",
    "     ",
    "\t",
    "\n",
    "\r\n",
    " \t\r\n \u00a0\u3000",
    "a\tb\r\nc\n\n\nd ",
    "  leading and  double   spaces  ",
    "\0",
    "a\0b",
    "\x1c\x1d\x1e\x1f\x85\u180e\u200b\u2028",
    "don't they'll We'Re it's'd ''s 'tis I'M",
    "e\u0301 a\u0308\u0323 \u0301 \u0301x n\u0303\u0303",
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷 ❤️ ☺️x 1️⃣",
    "中文字符 日本語テキスト 한국어 ไทย العربية עברית हिन्दी",
    "ÀÉÎ ẞß ΟΔΟΣ Σ İI ı Ǆ ﬁ Ⅷ½² ①②",
    "\U00010d50\ua7cb\U00016ea0\U0001e5f1 \U000e0001 \U0010ffff \ue000 \ufffe",
    "1234567890 3.14 1e-5 ½ ٣",
    "x_y __init__ foo(bar)[0] != <=>",
    "<mask>",
    "a <mask> b<mask>c  <mask>",
    "<s> </s> <pad><unk> <S> <MASK> < mask> <mask",
    "<s></s><s>  </s>x",
    "NAME name Name xNAMEx",
    "Ġ Ċ ġ Ã©",
    "a" * 500,
    "ab " * 300,
    " " * 500 + "x",
    "don't" * 100,
]

CORPORA = {
    "aochildes": ["train.txt", "dev.txt", "extra_no_age.txt"],
    "wikipedia": ["wikitext2_valid.txt", "wikitext2_test.txt", "wikisplit_sentences.txt"],
}


def small(normalizer=None, add_prefix_space=False, fuse=None, whole_alphabet=True, post_processor=False):
    """A tokenizer that `tokenizers` trains on the hard text. With `fuse`, bytes may be unknown."""
    tokenizer = Tokenizer(models.BPE(unk_token=None if fuse is None else "<unk>", fuse_unk=bool(fuse)))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    special = [
        AddedToken("<mask>", lstrip=True, normalized=False),
        "<pad>",
        "<unk>",
        "<s>",
        AddedToken("</s>", rstrip=True),
    ]
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=special,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if whole_alphabet else [],
    )
    text = [text for text in HARD if "NAME" not in text and (whole_alphabet or text.isascii())]
    tokenizer.train_from_iterator(text * 3 + ["the more the merrier"] * 5, trainer)
    tokenizer.add_tokens([AddedToken("NAME", normalized=True)])
    if post_processor:
        ids = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ids)
    return tokenizer


KINDS = {
    "plain": {},
    "prefix space": {"add_prefix_space": True, "post_processor": True},
    "lower case": {"normalizer": normalizers.Lowercase(), "add_prefix_space": True},
    "sequence": {"normalizer": normalizers.Sequence([normalizers.Lowercase()])},
    "unknown": {"fuse": False, "whole_alphabet": False},
    "unknown, fused": {"fuse": True, "whole_alphabet": False},
    "left out": {"whole_alphabet": False},
}


@pytest.fixture
def files(tmp_path):
    """Writes a tokenizer; gives what names it on the command line."""

    def write(tokenizer):
        path = tmp_path / "tokenizer.json"
        tokenizer.save(str(path))
        return [path]

    return write


def ours(ssa, tokenizer, texts, *flags):
    """Ids of each text, and each text that they are decoded into."""
    (ssa.folder / "texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    encoded = ssa("tokenizer", "encode", *tokenizer, "texts.jsonl", "--jsonl", *flags).stdout
    (ssa.folder / "ids.txt").write_text(encoded)
    decoded = ssa("tokenizer", "decode", *tokenizer, "ids.txt", "--jsonl").stdout
    return [[int(word) for word in line.split()] for line in encoded.splitlines()], [
        json.loads(line)
        for line in decoded.split("\n")[:-1]  # JSON leaves U+2028 as it is
    ]


def compare(ssa, tokenizer, reference, texts):
    """Same ids and same decoded text as `tokenizers`, text by text."""
    ids, decoded = ours(ssa, tokenizer, texts)
    expected = [encoding.ids for encoding in reference.encode_batch(texts)]
    assert len(ids) == len(texts)
    for text, got, want in zip(texts, ids, expected, strict=True):
        assert got == want, repr(text)
    for text, got, want in zip(texts, decoded, reference.decode_batch(expected), strict=True):
        assert got == want, repr(text)
    return decoded


def gpt2(folder):
    vocabulary, merges = folder / "tokenizers/gpt2_vocab.json", folder / "tokenizers/gpt2_merges.txt"
    reference = Tokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    reference.decoder = decoders.ByteLevel()
    reference.add_special_tokens(["<|endoftext|>"])
    return [vocabulary, "--merges", merges], reference


def babyberta(folder):
    path = folder / "babyberta/tokenizer.json"
    reference = Tokenizer.from_file(str(path))
    reference.no_truncation()  # the caller's affair in `ssa`
    reference.no_padding()
    return [path], reference


@pytest.mark.parametrize("kind", KINDS)
def test_hard_text(ssa, files, kind):
    reference = small(**KINDS[kind])
    decoded = compare(ssa, files(reference), reference, HARD)
    if kind == "plain":
        special = ("<mask>", "<s>", "</s>", "<pad>", "<unk>")
        kept = [pair for pair in zip(HARD, decoded, strict=True) if not any(token in pair[0] for token in special)]
        assert len(kept) > 20 and all(text == back for text, back in kept)


@pytest.mark.parametrize("lower", [False, True])
def test_every_code_point(ssa, files, lower):
    """Between letters, digits and signs, so that its class decides where words end; and its lower case. Of the
    planes without characters one in 64."""
    reference = small(normalizers.Lowercase() if lower else None)
    in_use = [*range(0xD800), *range(0xE000, 0x34000), *range(0x34000, 0xE0000, 64), *range(0xE0000, 0xE0200)]
    points = [chr(c) for c in [*in_use, *range(0xE0200, 0x110000, 64)]]
    texts = [" ".join(f"a{c}a1{c}1!{c}!" for c in points[start : start + 256]) for start in range(0, len(points), 256)]
    ids, _ = ours(ssa, files(reference), texts)
    for start, (got, want) in enumerate(zip(ids, reference.encode_batch_fast(texts), strict=True)):
        assert got == want.ids, f"among the 256 from U+{ord(points[256 * start]):04X} on"


def test_without_special_tokens_and_with_them(ssa, files):
    reference = small(post_processor=True)
    tokenizer = files(reference)
    ids, _ = ours(ssa, tokenizer, ["the <mask>", ""], "--no-special")
    assert ids == [reference.encode(text, add_special_tokens=False).ids for text in ("the <mask>", "")]
    (ssa.folder / "ids.txt").write_text(" ".join(map(str, reference.encode("the <mask>").ids)))
    text = ssa("tokenizer", "decode", *tokenizer, "ids.txt", "--keep-special").stdout
    assert text == "<s>the<mask></s>\n"


def test_a_million_letters(ssa, files):
    tokenizer = files(small())
    word = "".join("abcdefghijklmnopqrstuvwxyz"[i * i * 7919 % 26] for i in range(10**6))
    (ssa.folder / "word.txt").write_text(word)
    start = time.perf_counter()
    encoded = ssa("tokenizer", "encode", *tokenizer, "word.txt").stdout
    assert time.perf_counter() - start < 2
    (ssa.folder / "ids.txt").write_text(encoded)
    assert ssa("tokenizer", "decode", *tokenizer, "ids.txt").stdout == word + "\n"


def test_lines_of_standard_input(ssa, files):
    reference = small()
    text = "the more\n\nwith\r\nno end"
    done = subprocess.run(
        [ssa.binary, "tokenizer", "encode", *files(reference)], input=text.encode(), capture_output=True, check=True
    )
    expected = [" ".join(map(str, reference.encode(line.removesuffix("\r")).ids)) for line in text.split("\n")]
    assert done.stdout.decode().splitlines() == expected


@pytest.mark.parametrize(
    "command, content, message",
    [
        (["encode"], b"fine\nbad \xff\n", "input:2: byte 5 (0xff) is not valid UTF-8"),
        (["encode"], b"\xed\xa0\x80", "input:1: byte 1 (0xed) is not valid UTF-8"),
        (["encode", "--jsonl"], b'"x"\n{"txt": 1}\n', 'input:2: expected a JSON string, or an object with the string "text"'),
        (["encode", "--jsonl"], b'"\\ud800"\n', "input:1: not valid JSON (byte 8)"),
        (["decode"], b"1 2\n3 x\n", 'input:2: "x" is not a token id'),
        (["decode"], b"1.5\n", 'input:1: "1.5" is not a token id'),
        (["decode"], b"999999\n", "input:1: id 999999 is not in the vocabulary, whose ids end at 500"),
    ],
)  # fmt: skip
def test_bad_lines(ssa, files, command, content, message):
    (ssa.folder / "input").write_bytes(content)
    tokenizer = files(small())
    assert message in ssa("tokenizer", command[0], *tokenizer, "input", *command[1:], code=1).stderr


def test_info(ssa, files):
    text = ssa("tokenizer", "info", *files(small(normalizers.Lowercase(), post_processor=True, fuse=False))).stdout
    rows = [line.split(maxsplit=1) for line in text.splitlines()]
    for row in (
        ["model", "BPE, of bytes"], ["size", "501 (largest id + 1)"], ["normalizer", "Lowercase"],
        ["pre-tokenizer", "ByteLevel"], ["decoder", "ByteLevel"], ["unknown", "<unk> (2)"],
    ):  # fmt: skip
        assert row in rows
    assert "around a text   <s> (3) … </s> (4)" in text
    assert "0 <mask>, special, with white space before it" in text
    assert "500 NAME, in the normalised text" in text


def test_training(ssa, tmp_path, monkeypatch):
    """Makes what `ssa` reads, the same from the same text; lower case and special tokens as asked."""
    monkeypatch.setenv("SSA_PYTHON", sys.executable)
    (tmp_path / "corpus.txt").write_text("The cat and the dog.\nThe DOG and the cat!\n" * 20)
    for name in ("one.json", "two.json"):
        ssa("tokenizer", "train", "--vocabulary", "300", "corpus.txt", "--lowercase", "-o", name)
    assert (tmp_path / "one.json").read_text() == (tmp_path / "two.json").read_text()
    reference = Tokenizer.from_file(str(tmp_path / "one.json"))
    assert 261 < reference.get_vocab_size() <= 300
    compare(ssa, ["one.json"], reference, [*HARD, "the dog", "THE DOG"])
    assert reference.encode("the dog.").tokens == ["<s>", "Ġthe", "Ġdog", ".", "</s>"]
    assert reference.encode("THE DOG").ids == reference.encode("the dog").ids


@pytest.mark.parametrize("kind", ["sentencepiece-bpe", "sentencepiece-unigram"])
def test_sentencepiece_training(ssa, tmp_path, monkeypatch, kind):
    """A model that its library reads, the same from the same text, and that loses nothing."""
    monkeypatch.setenv("SSA_PYTHON", sys.executable)
    (tmp_path / "corpus.txt").write_text("The cat and the dog.\nThe DOG and the cat!\n" * 20)
    for name in ("one.model", "two.model"):
        done = ssa("tokenizer", "train", "corpus.txt", "--kind", kind, "--vocabulary", 300, "--lowercase", "-o", name)
    assert (tmp_path / "one.model").read_bytes() == (tmp_path / "two.model").read_bytes()
    model = SentencePieceProcessor(model_file=str(tmp_path / "one.model"))
    assert f"two.model: {model.vocab_size()} tokens" in done.stdout
    assert 260 < model.vocab_size() <= 300
    assert [model.id_to_piece(id) for id in range(4)] == ["<unk>", "<s>", "</s>", "<pad>"]
    assert model.encode("THE DOG") == model.encode("the dog")
    for text in ("the cat and the dog.", "a naïve 中文 text 👍"):
        assert 0 not in model.encode(text)
        assert model.decode(model.encode(text)) == text


@pytest.mark.parametrize("kind", ["sentencepiece-bpe", "sentencepiece-unigram"])
def test_sentencepiece_training_reads_all_of_the_text(ssa, tmp_path, monkeypatch, kind):
    """Lines longer than the library's usual limit, and lines with characters that it keeps for itself."""
    monkeypatch.setenv("SSA_PYTHON", sys.executable)
    lines = ["the cat and the dog"] * 50 + ["zebra " * 2000] * 3 + ["quokka \u2585 and \0quokka"] * 20
    (tmp_path / "corpus.txt").write_text("\ufeff" + "\n".join(lines))
    done = ssa("tokenizer", "train", "corpus.txt", "--kind", kind, "--vocabulary", 300, "-o", "out.model")
    assert "left out: 40 characters U+2585 or U+0000, which SentencePiece keeps for itself" in done.stderr
    model = SentencePieceProcessor(model_file=str(tmp_path / "out.model"))
    for word in ("zebra", "quokka"):
        assert len(model.encode(word)) < len(word), word
    pieces = [model.id_to_piece(id) for id in range(model.vocab_size())]
    assert not any("\ufeff" in piece for piece in pieces)


@pytest.mark.parametrize("kind", ["byte-level-bpe", "sentencepiece-bpe", "sentencepiece-unigram"])
def test_training_on_one_long_word(ssa, tmp_path, monkeypatch, kind):
    monkeypatch.setenv("SSA_PYTHON", sys.executable)
    word = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=100_000))
    (tmp_path / "corpus.txt").write_text(word)
    start = time.perf_counter()
    done = ssa("tokenizer", "train", "corpus.txt", "--kind", kind, "--vocabulary", 1000, "-o", "out")
    assert "read in pieces: 1 word longer than 1000 characters" in done.stderr
    assert time.perf_counter() - start < 60


@pytest.mark.parametrize("line", ["abc" * 100_000, "the cat saw the dog " * 15_000])
def test_sentencepiece_training_on_a_line_that_repeats_itself(ssa, tmp_path, monkeypatch, line):
    """The library copies every part that occurs again, which is quadratic in a line that it gets as a whole."""
    monkeypatch.setenv("SSA_PYTHON", sys.executable)
    (tmp_path / "corpus.txt").write_text(line)
    start = time.perf_counter()
    ssa("tokenizer", "train", "corpus.txt", "--kind", "sentencepiece-unigram", "--vocabulary", 300, "-o", "out.model")
    assert time.perf_counter() - start < 20
    model = SentencePieceProcessor(model_file=str(tmp_path / "out.model"))
    assert len(model.encode(line[:1000])) < 1000 and model.decode(model.encode(line[:18])) == line[:18].strip()


def test_training_imports_nothing_from_the_working_directory(ssa, tmp_path, monkeypatch):
    monkeypatch.setenv("SSA_PYTHON", sys.executable)
    for name in ("tokenizers", "ssa_attention", "argparse"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file beside the corpus was run')\n")
    (tmp_path / "corpus.txt").write_text("The cat and the dog.\n" * 20)
    ssa("tokenizer", "train", "corpus.txt", "--vocabulary", "300", "-o", "out.json")
    assert (tmp_path / "out.json").exists()


def test_training_without_the_package_is_one_line(ssa, tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("SSA_PYTHON", str(python))
    error = ssa("tokenizer", "train", "corpus.txt", code=1).stderr
    assert "No module named 'ssa_attention': it needs ssa_attention with tokenizers" in error
    assert "Traceback" not in error and len(error.splitlines()) == 1


@pytest.fixture(scope="module")
def sentencepiece_model(tmp_path_factory):
    from ssa_attention.tokenizer_training import train_sentencepiece

    return train_sentencepiece(["The cat and the dog."] * 20, "sentencepiece-unigram", 300, lowercase=True)


def test_damaged_sentencepiece_models_are_refused(ssa, tmp_path, sentencepiece_model):
    """Each with a reason, before the library reads it: a table of characters that leads out of itself, scores that are
    no numbers, pieces that are empty or there twice, a file that ends too early."""
    from sentencepiece import sentencepiece_model_pb2

    def damaged(change):
        content = sentencepiece_model_pb2.ModelProto()
        content.ParseFromString(sentencepiece_model)
        change(content)
        return content.SerializeToString()

    def table(content):
        characters = bytearray(content.normalizer_spec.precompiled_charsmap)
        for place in range(4, 4000, 4):
            characters[place + 3] = 0x7F
        content.normalizer_spec.precompiled_charsmap = bytes(characters)

    def short_table(content):
        content.normalizer_spec.precompiled_charsmap = content.normalizer_spec.precompiled_charsmap[:1000]

    def score(content):
        content.pieces[262].score = float("nan")

    def twice(content):
        content.pieces[262].piece = content.pieces[263].piece

    def empty(content):
        content.pieces[262].piece = ""

    cases = {
        "points outside of itself": damaged(table),
        "is no map of characters": damaged(short_table),
        "piece 262 has a score that is not finite": damaged(score),
        "piece 263 is there twice": damaged(twice),
        "piece 262 is empty": damaged(empty),
        "ends too early": sentencepiece_model[:-3],
        "has no pieces": damaged(lambda content: content.ClearField("pieces")),
    }
    for message, content in cases.items():
        (tmp_path / "bad.model").write_bytes(content)
        error = ssa("tokenizer", "info", "bad.model", code=1).stderr
        assert "bad.model: is not a model of SentencePiece, or a damaged one" in error and message in error, error


def test_changed_bytes_of_a_sentencepiece_model_never_crash(ssa, tmp_path, sentencepiece_model):
    draw = random.Random(1)
    (tmp_path / "text.txt").write_text("The cat ﬁ ½ Ⅷ \u0301 中文 \u00a0 dog\n")
    for _ in range(40):
        content = bytearray(sentencepiece_model)
        for _ in range(draw.choice([1, 5, 50])):
            content[draw.randrange(len(content))] = draw.randrange(256)
        (tmp_path / "changed.model").write_bytes(content)
        command = [ssa.binary, "tokenizer", "encode", "changed.model", "text.txt"]
        assert subprocess.run(command, cwd=tmp_path, check=False, capture_output=True).returncode in (0, 1)


def test_training_by_the_python_of_the_build(ssa, monkeypatch):
    """Without any variable, and with nothing called python3 on the path."""
    for name in ("SSA_PYTHON", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/absent")
    assert "--least-frequency" in ssa("tokenizer", "train", "--help").stdout


def test_training_is_the_python_modules(ssa, monkeypatch):
    monkeypatch.setenv("SSA_PYTHON", sys.executable)
    assert "--least-frequency" in ssa("tokenizer", "train", "--help").stdout
    monkeypatch.setenv("SSA_PYTHON", "/absent/python")
    assert "/absent/python: cannot be started" in ssa("tokenizer", "train", "corpus.txt", code=1).stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["absent.txt"], "absent.txt: no such file"),
        (["."], ".: is a pipe, device or folder, not a file"),
        (["corpus.txt", "--vocabulary", "260"], "--vocabulary 260: 261 (256 bytes and 5 special tokens) to 16777216"),
        (["corpus.txt", "--vocabulary", "99999999999999"], "--vocabulary 99999999999999: 261 "),
        (
            ["corpus.txt", "--least-frequency", "9" * 30],
            "--least-frequency 999999999999999999999999999999: 1 to 16777216",
        ),
        (["empty.txt"], "empty.txt: there is no text in it"),
        (["bad.txt"], "bad.txt:2: not valid UTF-8"),
        (["bad.txt", "--kind", "sentencepiece-bpe"], "bad.txt:2: not valid UTF-8"),
        (
            ["corpus.txt", "--kind", "sentencepiece-bpe", "--least-frequency", "3"],
            "--least-frequency: sentencepiece-bpe",
        ),
        (["empty.txt", "--kind", "sentencepiece-unigram"], "empty.txt: there is no text in it"),
    ],
)
def test_training_refusals(tmp_path, arguments, message):
    (tmp_path / "corpus.txt").write_text("the cat\n")
    (tmp_path / "bad.txt").write_bytes(b"fine\n\xff\n")
    (tmp_path / "empty.txt").write_text("")
    command = [sys.executable, "-m", "ssa_attention.tokenizer_training", *arguments, "-o", "out.json"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 1 and message in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out.json").exists()


def test_training_replaces_files_only(tmp_path):
    (tmp_path / "corpus.txt").write_text("the cat\n")
    command = [sys.executable, "-m", "ssa_attention.tokenizer_training", "corpus.txt", "-o", "."]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 1 and ".: is not a file that could be replaced" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.txt"]


@pytest.mark.parametrize("which", [babyberta, gpt2])
def test_hard_text_with_real_tokenizers(ssa, real_data, which):
    tokenizer, reference = which(real_data)
    compare(ssa, tokenizer, reference, [*HARD, "a<|endoftext|>b", "<|endoftext|>", "<|ENDOFTEXT|>"])


@pytest.mark.parametrize("which", [babyberta, gpt2])
@pytest.mark.parametrize("corpus", ["aochildes", "zorro", "wikipedia", "articles"])
def test_corpora(ssa, real_data, which, corpus):
    """Line by line; articles of several thousand characters in one piece."""
    tokenizer, reference = which(real_data)
    if corpus == "articles":
        paths = sorted((real_data / "wikipedia").glob("*.jsonl"))
        texts = [json.loads(line)["text"] for path in paths for line in path.read_text().splitlines()]
    else:
        paths = sorted((real_data / "zorro/sentences").glob("*.txt"))
        if corpus != "zorro":
            paths = [real_data / corpus / name for name in CORPORA[corpus]]
        texts = [line for path in paths for line in path.read_bytes().decode().split("\n")]
    assert len(texts) > (500 if corpus == "articles" else 20000)
    ids, decoded = ours(ssa, tokenizer, texts)
    for text, got, want in zip(texts, ids, reference.encode_batch_fast(texts), strict=True):
        assert got == want.ids, repr(text)
    if which is gpt2:
        assert decoded == texts
