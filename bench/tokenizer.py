"""Times `ssa tokenizer encode` against PyPI `tokenizers` on the real texts, one thread each.

    python bench/tokenizer.py --data "$SSA_DATA" --ssa build/release/bin/ssa

Both encode the same lines, and the ids are compared first. Ours: the time inside of encode(), as `--speed` tells it.
Theirs: the fastest of encode, encode_batch and encode_batch_fast (which leaves out offsets), in memory, in a process
with TOKENIZERS_PARALLELISM=false. A round times each once, in a new order; shown are medians over rounds, least and
largest in brackets.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # read when tokenizers first encodes

from program import parser_of, require_files, require_positive
from tokenizers import Tokenizer, models, pre_tokenizers

CASES = [  # tokenizer, text
    ("babyberta", "aochildes/train.txt"),
    ("babyberta", "wikipedia/wikisplit_sentences.txt"),
    ("gpt2", "aochildes/train.txt"),
    ("gpt2", "wikipedia/wikisplit_sentences.txt"),
]


def load(name: str, data: Path) -> tuple[list[Path | str], Tokenizer]:
    """What names the tokenizer for `ssa tokenizer encode`, and the same one of `tokenizers`."""
    if name == "babyberta":
        path = data / "babyberta/tokenizer.json"
        theirs = Tokenizer.from_file(str(path))
        theirs.no_truncation()
        theirs.no_padding()
        return [path], theirs
    vocabulary, merges = data / "tokenizers/gpt2_vocab.json", data / "tokenizers/gpt2_merges.txt"
    theirs = Tokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.add_special_tokens(["<|endoftext|>"])
    return [vocabulary, "--merges", merges], theirs


def seconds_of(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(name: str, text: Path, options: argparse.Namespace) -> dict:
    """Megabytes a second of each way, one number a round."""
    files, theirs = load(name, options.data)
    lines = text.read_bytes().decode().removesuffix("\n").split("\n")
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    command = [options.ssa, "tokenizer", "encode", *files, text, "--speed"]

    def ours() -> tuple[float, str]:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(re.search(r" MB in ([\d.]+) s", done.stderr)[1]), done.stdout

    expected = "".join(" ".join(map(str, e.ids)) + "\n" for e in theirs.encode_batch_fast(lines))
    if ours()[1] != expected:
        raise ValueError(f"{name}, {text}: the ids differ")
    ways = {
        "ssa": lambda: ours()[0],
        "encode": lambda: seconds_of(lambda: [theirs.encode(line) for line in lines]),
        "encode_batch": lambda: seconds_of(lambda: theirs.encode_batch(lines)),
        "encode_batch_fast": lambda: seconds_of(lambda: theirs.encode_batch_fast(lines)),
    }
    speeds = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way in random.sample(list(ways), len(ways)):
            speeds[way].append(megabytes / ways[way]())
    return {"tokenizer": name, "text": str(text.relative_to(options.data)), "megabytes": megabytes, "speeds": speeds}


def row(result: dict) -> str:
    def shown(way: str) -> str:
        speeds = result["speeds"][way]
        return f"{statistics.median(speeds):.2f} [{min(speeds):.2f}, {max(speeds):.2f}]"

    median = {way: statistics.median(speeds) for way, speeds in result["speeds"].items()}
    ratio = median["ssa"] / max(speed for way, speed in median.items() if way != "ssa")
    cells = [result["tokenizer"], result["text"], *map(shown, result["speeds"]), f"×{ratio:.1f}"]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = parser_of(__doc__, rounds=5)
    options = parser.parse_args()
    require_positive(parser, options, "rounds")
    require_files(parser, options.ssa, *(options.data / text for _, text in CASES))
    print("Megabytes of text a second, one thread; the ratio is ours to the fastest of `tokenizers`.\n")
    print(
        "| tokenizer | text | ssa | encode | encode_batch | encode_batch_fast | ratio |\n|---|---|---|---|---|---|---|"
    )
    results = []
    for name, text in CASES:
        results.append(measure(name, options.data / text, options))
        print(row(results[-1]), flush=True)
    if options.out:
        options.out.write_text(json.dumps({"results": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
