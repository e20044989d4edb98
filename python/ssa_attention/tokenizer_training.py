"""Makes a byte-level BPE tokenizer from text, with PyPI `tokenizers`: the file that `ssa tokenizer` reads.
`ssa tokenizer train` becomes `python -m ssa_attention.tokenizer_training` with the same arguments.

    ssa tokenizer train corpus.txt --vocabulary 8192 --lowercase -o tokenizer.json
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from .files import write_text

# As in BabyBERTa's (Huebner, Sulem, Fisher, Roth 2021): a mask stands for a word and the space before it.
MASK = AddedToken("<mask>", lstrip=True, normalized=False)
SPECIAL = [MASK, "<pad>", "<unk>", "<s>", "</s>"]
LEAST = 256 + len(SPECIAL)


def lines(paths: list[Path]):
    """Every line of every file. ValueError naming file and line where it is not UTF-8."""
    for path in paths:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield line.decode().rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise ValueError(f"{path}:{number}: not valid UTF-8 at byte {error.start + 1}") from None


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


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="ssa tokenizer train",
        description="Makes a byte-level BPE tokenizer from text files, for `ssa tokenizer` and Hugging Face.",
        epilog="Example: ssa tokenizer train corpus.txt --lowercase -o tokenizer.json",
    )
    parser.add_argument("texts", nargs="+", type=Path, metavar="TEXT", help="text files, one sentence a line")
    parser.add_argument("--vocabulary", type=int, default=8192, metavar="N", help="tokens at most (default: 8192)")
    parser.add_argument("--least-frequency", type=int, default=2, metavar="N", help="of a merge (default: 2)")
    parser.add_argument("--lowercase", action="store_true", help="the tokenizer turns text into lower case first")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("tokenizer.json"), metavar="FILE", help="default: %(default)s"
    )
    options = parser.parse_args(arguments)
    try:
        for path in options.texts:
            if not path.is_file():
                raise ValueError(f"{path}: no such file")
        if options.vocabulary < LEAST:
            raise ValueError(
                f"--vocabulary {options.vocabulary}: at least {LEAST} (256 bytes and {len(SPECIAL)} special tokens)"
            )
        if options.least_frequency < 1:
            raise ValueError(f"--least-frequency {options.least_frequency}: at least 1")
        tokenizer = train(lines(options.texts), options.vocabulary, options.lowercase, options.least_frequency)
        write_text(options.output, tokenizer.to_str(pretty=True))
    except (ValueError, OSError) as error:
        print(f"ssa tokenizer train: {error}", file=sys.stderr)
        return 1
    print(f"{options.output}: {tokenizer.get_vocab_size()} tokens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
