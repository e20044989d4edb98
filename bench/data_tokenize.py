"""Times `ssa data tokenize` against PyPI `tokenizers` with GPT-2's tokenizer, one worker against one thread and two
against two.

    python bench/data_tokenize.py --data "$SSA_DATA" --ssa build/release/bin/ssa

Ours: the wall clock of the whole command, from reading the tokenizer and the files to synced shards. Theirs: the faster
of encode_batch and encode_batch_fast (which leaves out offsets) alone, on texts in memory, in a process of its own with
RAYON_NUM_THREADS. The ids are compared first. A round times each once, in a new order; shown are medians over rounds,
least and largest in brackets, the ratio being taken within each round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from program import parser_of, require_files, require_positive
from tokenizers import Tokenizer, models, pre_tokenizers

END = "<|endoftext|>"
FILES = [  # two of like size each, one for each worker
    ["web_and_books/books_valid.txt", "web_and_books/books_test.txt"],
    ["web_and_books/c4_sample_train.jsonl", "web_and_books/c4_excerpts.jsonl"],
]


def load(data: Path) -> Tokenizer:
    files = (data / "tokenizers/gpt2_vocab.json", data / "tokenizers/gpt2_merges.txt")
    tokenizer = Tokenizer(models.BPE.from_file(*map(str, files)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens([END])
    tokenizer.encode_special_tokens = True
    return tokenizer


def documents(path: Path) -> list[str]:
    text = path.read_bytes().decode().removesuffix("\n")
    return (
        [json.loads(line)["text"] for line in text.split("\n")] if path.suffix == ".jsonl" else text.split(f"\n{END}\n")
    )


def time_theirs(data: Path, files: list[Path]) -> None:
    """What the other process does: prints the seconds of the faster way."""
    tokenizer = load(data)
    texts = [text for file in files for text in documents(file)]
    seconds = []
    for encode in (tokenizer.encode_batch, tokenizer.encode_batch_fast):
        start = time.perf_counter()
        encode(texts)
        seconds.append(time.perf_counter() - start)
    print(min(seconds))


def measure(files: list[Path], threads: int, options: argparse.Namespace) -> dict:
    """Megabytes of text a second of both, one number a round."""
    texts = [text for file in files for text in documents(file)]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    gpt2 = [options.data / "tokenizers/gpt2_vocab.json", "--merges", options.data / "tokenizers/gpt2_merges.txt"]
    script = [sys.executable, __file__, "--data", options.data, "--theirs"]
    environment = os.environ | {"RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true"}

    def ours() -> float:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            out = Path(folder) / "out"
            command = [options.ssa, "data", "tokenize", *files, "--tokenizer", *gpt2, "--out", out]
            start = time.perf_counter()
            subprocess.run([*command, "--workers", str(threads)], check=True, capture_output=True)
            seconds = time.perf_counter() - start
            if not speeds["ssa"]:
                encodings = load(options.data).encode_batch_fast(texts)
                expected = [id for encoding in encodings for id in [*encoding.ids, 50256]]
                if not np.array_equal(np.fromfile(f"{out}.bin", np.uint16), expected):
                    raise ValueError(f"{files[0]}: the ids differ")
        return seconds

    def theirs() -> float:
        done = subprocess.run([*script, *files], check=True, capture_output=True, env=environment)
        return float(done.stdout)

    speeds = {"ssa": [], "tokenizers": []}
    ways = {"ssa": ours, "tokenizers": theirs}
    for _ in range(options.rounds):
        for way in random.sample(list(ways), len(ways)):
            speeds[way].append(megabytes / ways[way]())
    return {"files": [file.name for file in files], "megabytes": megabytes, "threads": threads, "speeds": speeds}


def row(result: dict) -> str:
    def shown(numbers: list[float]) -> str:
        return f"{statistics.median(numbers):.2f} [{min(numbers):.2f}, {max(numbers):.2f}]"

    ours, theirs = result["speeds"].values()
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    cells = [", ".join(result["files"]), f"{result['megabytes']:.1f}", str(result["threads"])]
    return f"| {' | '.join([*cells, *map(shown, (ours, theirs, ratios))])} |"


def main() -> int:
    parser = parser_of(__doc__, rounds=5)
    parser.add_argument("files", nargs="*", type=Path, help="time these instead of the real texts")
    parser.add_argument("--folder", type=Path, help="where shards are written for a moment (default: the system's)")
    parser.add_argument("--theirs", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.theirs:
        time_theirs(options.data, options.files)
        return 0
    require_positive(parser, options, "rounds")
    cases = [options.files] if options.files else [[options.data / name for name in names] for names in FILES]
    require_files(parser, options.ssa, *(path for files in cases for path in files))
    print("Megabytes of text a second; the ratio is ours to theirs.\n")
    print("| files | MB | threads | ssa data tokenize | tokenizers | ratio |\n|---|---|---|---|---|---|")
    results = []
    for files in cases:
        for threads in (1, 2):
            results.append(measure(files, threads, options))
            print(row(results[-1]), flush=True)
    if options.out:
        options.out.write_text(json.dumps({"results": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
