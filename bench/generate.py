"""Times writing of text by the paper's 114 M decoder: `ssa generate` against Hugging Face's `generate`.

    PYTHONPATH=build/release/python python bench/generate.py --data "$SSA_DATA"

Both go on greedily from the same prompt with a key/value cache, with the same weights (softmax; SSA: the same model
with its score), as many threads and the same --precision. Each is a process of its own that times the tokens alone,
not its start. `ssa generate` also goes on from --batch prompts together. A round runs each once, in a new order; the
ratio of tokens a second is taken within a round, and the median of rounds is shown with least and largest. "passes to
reads" is how many passes through the model there are in the time in which torch.sum reads as many bytes as the weights have.
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
    dtype = getattr(torch, options.precision)
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=dtype).eval()
    ids = torch.tensor([json.loads(options.ids)])
    settings = {"attention_mask": torch.ones_like(ids), "do_sample": False, "pad_token_id": 0, "use_cache": True}
    model.generate(ids, **settings, max_new_tokens=4)
    start = time.perf_counter()
    found = model.generate(ids, **settings, min_new_tokens=options.count, max_new_tokens=options.count)
    print(json.dumps((found.shape[1] - ids.shape[1]) / (time.perf_counter() - start)))


def reads(options: argparse.Namespace) -> None:
    """What a child process prints: how often a second memory hands over as many bytes as the weights have."""
    torch.set_num_threads(options.threads)
    weights = torch.ones(options.bytes // 4)
    seconds = []
    for _ in range(10):
        start = time.perf_counter()
        weights.sum()
        seconds.append(time.perf_counter() - start)
    print(json.dumps(1 / min(seconds)))


def ours(options: argparse.Namespace, folder: Path, prompts: list) -> float:
    command = [options.ssa, "generate", folder, *prompts, "--temperature", 0, "--no-end"]
    command += ["--tokens", options.count, "--precision", options.precision]
    _, errors, _ = run(command, {"OMP_NUM_THREADS": str(options.threads)})
    return float(re.search(r"([0-9.]+) tokens/s", errors).group(1))


def theirs(options: argparse.Namespace, folder: Path, ids: list[int]) -> float:
    command = [sys.executable, __file__, "--data", options.data]
    command += ["--one", "--model", folder / "checkpoints/step-1", "--ids", json.dumps(ids)]
    command += ["--count", options.count, "--threads", options.threads, "--precision", options.precision]
    return json.loads(run(command)[0])


def bounds(options: argparse.Namespace, weights: int) -> float:
    command = [sys.executable, __file__, "--data", options.data, "--one", "--bytes", weights]
    command += ["--threads", options.threads]
    return json.loads(run(command)[0])


def measure(options: argparse.Namespace, folder: Path) -> tuple[dict[str, list[float]], int, list[float]]:
    """In `folder`: tokens and models, made first. Tokens a second; bytes of the weights, and reads of them a second."""
    make_tokens(options, folder)
    for score in SCORES:
        train(options, folder, folder / score, score, 1)
    (folder / "prompt.txt").write_text(options.prompt + "\n")
    flags = tokenizer_flags(options)
    encode = [options.ssa, "tokenizer", "encode", flags[1], folder / "prompt.txt", *flags[2:], "--no-special"]
    ids = [int(word) for word in run(encode)[0].split()]
    ways = {PEER: lambda: theirs(options, folder / "softmax", ids)}
    many = folder / "prompts.txt"
    many.write_text("".join(f"{options.prompt} {number}\n" for number in range(options.batch)))
    for score in SCORES:
        one = ["--prompt", options.prompt]
        ways[f"ssa generate, {score}"] = lambda score=score, one=one: ours(options, folder / score, one)
        together = ["--prompts", many, "--batch", options.batch]
        name = f"ssa generate, {score}, {options.batch} prompts"
        ways[name] = lambda score=score, together=together: ours(options, folder / score, together)
    weights = (folder / "softmax/checkpoints/step-1/model.safetensors").stat().st_size
    weights //= 2 if options.precision == "bfloat16" else 1
    speeds: dict[str, list[float]] = {way: [] for way in ways}
    most = []
    for _ in range(options.rounds):
        most.append(bounds(options, weights))
        for way in random.sample(list(ways), len(ways)):
            speeds[way].append(ways[way]())
    return speeds, weights, most


def main() -> int:
    parser = parser_of(__doc__, rounds=3)
    parser.add_argument("--text", default="web_and_books/books_valid.txt", help="below --data")
    parser.add_argument("--config", type=Path, default=SOURCE / "configs/nemotron-114m.toml")
    parser.add_argument("--prompt", default="It was a dark night, and the rain fell in torrents.")
    parser.add_argument("--count", type=int, default=200, help="tokens of a text")
    parser.add_argument("--batch", type=int, default=8, help="prompts that are gone on from together")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # a child process
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--ids", help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.length = 16  # of the one training step that makes a model
    require_positive(parser, options, "batch", "count", "rounds", "threads")
    if options.one:
        reads(options) if options.bytes else hugging_face(options)
        return 0
    require_files(parser, options.ssa, options.config, options.data / options.text)
    random.seed(0)
    print(
        f"{options.config.stem}, {options.precision}, {options.count} tokens, {options.threads} threads, "
        f"torch {torch.__version__}.\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        speeds, weights, most = measure(options, Path(folder))
    print(
        f"Reading: the {weights / 1e6:.0f} MB of weights {statistics.median(most):.1f} times a second, by torch.sum.\n"
    )
    print("| | tokens/s | times Hugging Face | times one prompt | passes to reads |\n|---|---|---|---|---|")

    def times(own: list[float], other: str) -> str:
        return spread([mine / peer for mine, peer in zip(own, speeds[other], strict=True)])

    for way, own in speeds.items():
        one = way.rsplit(", ", 1)[0]
        batch = times(own, one) if one in speeds else ""
        together = options.batch if batch else 1
        share = spread([speed / together / read for speed, read in zip(own, most, strict=True)])
        print(f"| {way} | {statistics.median(own):.1f} | {times(own, PEER)} | {batch} | {share} |")
    facts = {"threads": options.threads, "precision": options.precision, "bytes": weights, "reads_per_second": most}
    if options.out:
        write_text(
            options.out,
            json.dumps(facts | {"results": speeds}, indent=1) + "\n",
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
