"""Times writing of text by the paper's 114 M decoder: `ssa generate` against Hugging Face's `generate`.

    PYTHONPATH=build/release/python python bench/generate.py --data "$SSA_DATA"

Both go on greedily from the same prompt with a key/value cache, with the same weights (softmax; SSA: the same model
with its score) and as many threads, float32. Each is a process of its own that times the tokens alone, not its
start. A round runs each once, in a new order; the ratio of tokens a second is taken within a round, and the median of
rounds is shown with least and largest.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from decoder import make_tokens, run, tokenizer_flags, train
from program import SOURCE, parser_of, require_files, require_positive, spread
from ssa_attention.files import write_text

PEER = "Hugging Face generate, softmax"
SCORES = ("softmax", "ssa")


def hugging_face(options: argparse.Namespace) -> None:
    """What a child process prints: tokens a second."""
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(options.threads)
    model = AutoModelForCausalLM.from_pretrained(options.model).eval()
    ids = torch.tensor([json.loads(options.ids)])
    settings = {"attention_mask": torch.ones_like(ids), "do_sample": False, "pad_token_id": 0, "use_cache": True}
    model.generate(ids, **settings, max_new_tokens=4)
    start = time.perf_counter()
    found = model.generate(ids, **settings, min_new_tokens=options.count, max_new_tokens=options.count)
    print(json.dumps((found.shape[1] - ids.shape[1]) / (time.perf_counter() - start)))


def ours(options: argparse.Namespace, folder: Path) -> float:
    command = [options.ssa, "generate", folder, "--prompt", options.prompt, "--temperature", 0, "--no-end"]
    _, errors, _ = run([*command, "--tokens", options.count], {"OMP_NUM_THREADS": str(options.threads)})
    return float(re.search(r"([0-9.]+) tokens/s", errors).group(1))


def theirs(options: argparse.Namespace, folder: Path, ids: list[int]) -> float:
    command = [sys.executable, __file__, "--one", "--model", folder / "checkpoints/step-1", "--ids", json.dumps(ids)]
    return json.loads(run([*command, "--count", options.count, "--threads", options.threads])[0])


def measure(options: argparse.Namespace, folder: Path) -> dict[str, list[float]]:
    """In `folder`: tokens and models, made first."""
    make_tokens(options, folder)
    for score in SCORES:
        train(options, folder, folder / score, score, 1)
    (folder / "prompt.txt").write_text(options.prompt + "\n")
    flags = tokenizer_flags(options)
    encode = [options.ssa, "tokenizer", "encode", flags[1], folder / "prompt.txt", *flags[2:], "--no-special"]
    ids = [int(word) for word in run(encode)[0].split()]
    ways = {PEER: lambda: theirs(options, folder / "softmax", ids)}
    for score in SCORES:
        ways[f"ssa generate, {score}"] = lambda score=score: ours(options, folder / score)
    speeds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way in random.sample(list(ways), len(ways)):
            speeds[way].append(ways[way]())
    return speeds


def main() -> int:
    parser = parser_of(__doc__, rounds=3)
    parser.add_argument("--text", default="web_and_books/books_valid.txt", help="below --data")
    parser.add_argument("--config", type=Path, default=SOURCE / "configs/nemotron-114m.toml")
    parser.add_argument("--prompt", default="It was a dark night, and the rain fell in torrents.")
    parser.add_argument("--count", type=int, default=200, help="tokens of a text")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # a child process
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--ids", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.length = 16  # of the one training step that makes a model
    require_positive(parser, options, "count", "rounds", "threads")
    if options.one:
        hugging_face(options)
        return 0
    require_files(parser, options.ssa, options.config, options.data / options.text)
    random.seed(0)
    print(f"{options.config.stem}, {options.count} tokens, {options.threads} threads, torch {torch.__version__}.\n")
    with tempfile.TemporaryDirectory() as folder:
        speeds = measure(options, Path(folder))
    print("| | tokens/s | times Hugging Face |\n|---|---|---|")
    for way, own in speeds.items():
        ratios = [mine / peer for mine, peer in zip(own, speeds[PEER], strict=True)]
        print(f"| {way} | {statistics.median(own):.1f} | {spread(ratios)} |")
    if options.out:
        write_text(options.out, json.dumps({"threads": options.threads, "results": speeds}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
