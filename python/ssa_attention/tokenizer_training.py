"""Makes a tokenizer from text: byte-level BPE with PyPI `tokenizers` (the file that `ssa tokenizer` reads), or a model of
SentencePiece (Kudo, Richardson 2018) with its own library. `ssa tokenizer train` becomes
`python -m ssa_attention.tokenizer_training` with the same arguments.

    ssa tokenizer train corpus.txt --vocabulary 8192 --lowercase -o tokenizer.json
    ssa tokenizer train corpus.txt --vocabulary 8192 --kind sentencepiece-unigram -o tokenizer.model
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from pathlib import Path

from ._extras import require

require("tokenizers", "tokenizer")

# isort: split
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from .counted import counted
from .files import write_bytes

# As in BabyBERTa's (Huebner, Sulem, Fisher, Roth 2021): a mask stands for a word and the space before it.
MASK = AddedToken("<mask>", lstrip=True, normalized=False)
SPECIAL = [MASK, "<pad>", "<unk>", "<s>", "</s>"]
LEAST = 256 + len(SPECIAL)
MOST = 1 << 24  # as of model.vocabulary
MOST_BYTES = 1 << 30  # of a line that SentencePiece reads
LONGEST_WORD = 1000  # characters
LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD}}}(?=\S)")
LONGEST_LINE = 10 * LONGEST_WORD  # that SentencePiece gets
PART = re.compile(rf".{{1,{LONGEST_LINE}}}(?:\s+|$)", re.DOTALL)
RESERVED = "\u2585\0"  # SentencePiece's mark of an unknown character, and its end of a string
KINDS = {
    "byte-level-bpe": "tokenizer.json",
    "sentencepiece-bpe": "tokenizer.model",
    "sentencepiece-unigram": "tokenizer.model",
}


def lines(paths: list[Path]):
    """Every line of every file. ValueError naming file and line where it is not UTF-8, or no line holds text."""
    empty = True
    for path in paths:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    text = line.decode().rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise ValueError(f"{path}:{number}: not valid UTF-8 at byte {error.start + 1}") from None
                if number == 1:
                    text = text.removeprefix("\ufeff")  # a byte order mark is no text
                empty = empty and not text.strip()
                yield text
    if empty:
        raise ValueError(f"{', '.join(map(str, paths))}: there is no text in it")


class TrainingText:
    """The texts for a trainer, line by line, and what could not be read as it stands.

    A run of characters without white space longer than LONGEST_WORD is given in pieces: trainers go over all of a word
    for every pair that they merge in it. SentencePiece uses two characters as its own marks and leaves out lines that
    hold them: it gets the text before and after. It also copies every substring of a line that occurs again, which is
    quadratic in what repeats itself: it gets each piece of a long word, and parts of a long line, as lines."""

    def __init__(self, paths: list[Path], reserved: str = ""):
        self.paths, self.reserved = paths, reserved
        self.cut_words = self.left_out = 0

    def __iter__(self):
        for line in lines(self.paths):
            if self.reserved and 4 * len(line) > MOST_BYTES:
                raise ValueError(f"a line of {len(line)} characters: SentencePiece reads at most {MOST_BYTES // 4}")
            if self.reserved and any(c in line for c in self.reserved):
                self.left_out += sum(line.count(c) for c in self.reserved)
                for c in self.reserved:
                    line = line.replace(c, "\n")
            line = self._without_long_words(line)
            if self.reserved:
                for part in line.split("\n"):
                    yield from PART.findall(part) if len(part) > LONGEST_LINE else [part]
            else:
                yield line

    def _without_long_words(self, line: str) -> str:
        if len(line) <= LONGEST_WORD:
            return line
        self.cut_words += sum(len(word) > LONGEST_WORD for word in line.split())
        end = "\n" if self.reserved else " "
        return LONG_WORD.sub(lambda word: word[0] + end, line)

    def notes(self) -> list[str]:
        """What the user should know about it."""
        notes = []
        if self.cut_words:
            notes.append(f"read in pieces: {counted(self.cut_words, 'word')} longer than {LONGEST_WORD} characters")
        if self.left_out:
            notes.append(
                f"left out: {counted(self.left_out, 'character')} U+2585 or U+0000, which SentencePiece keeps for itself; the "
                "text around was read"
            )
        return notes


def train(texts, vocabulary: int, lowercase: bool, least_frequency: int) -> Tokenizer:
    """A tokenizer of at most `vocabulary` tokens: the special ones, all 256 bytes (so that every text can be
    encoded), and merges of what occurs at least `least_frequency` times. It puts <s> … </s> around a text."""
    tokenizer = Tokenizer(models.BPE())
    if lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=least_frequency,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    around = [(token, tokenizer.token_to_id(token)) for token in ("</s>", "<s>")]
    tokenizer.post_processor = processors.RobertaProcessing(*around)
    return tokenizer


def train_sentencepiece(texts, kind: str, vocabulary: int, lowercase: bool) -> bytes:
    """A SentencePiece model of at most `vocabulary` pieces: <unk>, <s>, </s>, <pad> (ids 0 to 3), the 256 bytes for
    characters that have no piece, and pieces of the text (of its NFKC form). ValueError with the library's words."""
    # Here, because byte-level BPE does without the library.
    require("sentencepiece", "tokenizer")
    import sentencepiece

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type=kind.removeprefix("sentencepiece-"),
            vocab_size=vocabulary,
            hard_vocab_limit=False,  # a small text makes fewer pieces, as with byte-level BPE
            normalization_rule_name="nmt_nfkc_cf" if lowercase else "nmt_nfkc",
            byte_fallback=True,
            character_coverage=1.0,
            max_sentence_length=MOST_BYTES,  # longer lines are left out without a word
            unk_id=0, bos_id=1, eos_id=2, pad_id=3,
            num_threads=1,  # the same model from the same text
            minloglevel=2,
        )  # fmt: skip
    except RuntimeError as error:
        raise ValueError(f"sentencepiece: {error}") from None
    return model.getvalue()


def make(options: argparse.Namespace) -> tuple[bytes, int, list[str]]:
    """The file's content, the number of tokens, and what the user should know about the text."""
    if options.kind == "byte-level-bpe":
        text = TrainingText(options.texts)
        tokenizer = train(text, options.vocabulary, options.lowercase, options.least_frequency or 2)
        return tokenizer.to_str(pretty=True).encode(), tokenizer.get_vocab_size(), text.notes()
    require("sentencepiece", "tokenizer")
    import sentencepiece

    text = TrainingText(options.texts, RESERVED)
    model = train_sentencepiece(text, options.kind, options.vocabulary, options.lowercase)
    return model, sentencepiece.SentencePieceProcessor(model_proto=model).vocab_size(), text.notes()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="ssa tokenizer train",
        description="Makes a tokenizer from text files: byte-level BPE for `ssa tokenizer` and Hugging Face, or a "
        "SentencePiece model.",
        epilog="Example: ssa tokenizer train corpus.txt --lowercase -o tokenizer.json",
    )
    parser.add_argument("texts", nargs="+", type=Path, metavar="TEXT", help="text files, one sentence a line")
    parser.add_argument("--kind", choices=KINDS, default="byte-level-bpe", help="default: %(default)s")
    parser.add_argument("--vocabulary", type=int, default=8192, metavar="N", help="tokens at most (default: 8192)")
    parser.add_argument("--least-frequency", type=int, metavar="N", help="of a merge; byte-level-bpe only (default: 2)")
    parser.add_argument("--lowercase", action="store_true", help="the tokenizer turns text into lower case first")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: tokenizer.json, of SentencePiece tokenizer.model"
    )
    options = parser.parse_args(arguments)
    output = options.output or Path(KINDS[options.kind])
    try:
        for path in options.texts:
            if not path.is_file():
                raise ValueError(
                    f"{path}: {'is a pipe, device or folder, not a file' if path.exists() else 'no such file'}"
                )
        if not LEAST <= options.vocabulary <= MOST:
            raise ValueError(
                f"--vocabulary {options.vocabulary}: {LEAST} (256 bytes and {len(SPECIAL)} special tokens) to {MOST}"
            )
        if options.least_frequency is not None and not 1 <= options.least_frequency <= MOST:
            raise ValueError(f"--least-frequency {options.least_frequency}: 1 to {MOST}")
        if options.least_frequency is not None and options.kind != "byte-level-bpe":
            raise ValueError(f"--least-frequency: {options.kind} has none")
        content, tokens, notes = make(options)
        write_bytes(output, content)
    except ModuleNotFoundError as error:
        print(f"ssa tokenizer train: {options.kind} needs the Python package {error.name}", file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        print(f"ssa tokenizer train: {error}", file=sys.stderr)
        return 1
    for note in notes:
        print(f"ssa tokenizer train: {note}", file=sys.stderr)
    print(f"{output}: {counted(tokens, 'token')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
