"""Times training of a decoder, the paper's of 114 M: `ssa train` against Hugging Face, speed and peak memory.

    PYTHONPATH=build/release/python python bench/decoder.py --data "$SSA_DATA"

All train the model of --config (NemotronForCausalLM there) from the same weights on the same tokens of books, one
sequence of --length at a step, with as many threads, bfloat16 autocast, fused AdamW, clipping at 1. Theirs: SDPA attention (softmax), eager SSA (what an SSA
user has without this project), and SSA by `ssa_attention.hf`. Each is a process of its own; a round runs each once, in a new order; the ratio is
taken within a round, and the median of rounds is shown with least and largest.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import formula
import numpy as np
import torch
from program import SOURCE, parser_of, require_files, require_positive, spread
from ssa_attention.files import write_text

THEIRS = {
    "Hugging Face, SDPA softmax": "sdpa",
    "Hugging Face, eager SSA": "eager-ssa",
    "Hugging Face, ssa_attention.hf": "ssa",
}
OURS = {"ssa train, softmax": "softmax", "ssa train, ssa": "ssa"}
PEER = "Hugging Face, SDPA softmax"
N, B = 1.5, 0.8


def eager_ssa(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **_):
    key, value = (x.repeat_interleave(module.num_key_value_groups, 1) for x in (key, value))
    scores = (query @ key.transpose(2, 3)) * scaling
    return formula.attention(scores, value, N, B, [formula.future(scores)]).transpose(1, 2).contiguous(), None


def hugging_face(options: argparse.Namespace) -> None:
    """What a child process prints: seconds of a step, peak of its memory in MiB."""
    from ssa_attention import hf  # noqa: F401  (registers "ssa")
    from transformers import AttentionInterface, AutoModelForCausalLM

    AttentionInterface.register("eager-ssa", eager_ssa)
    torch.set_num_threads(options.threads)
    model = AutoModelForCausalLM.from_pretrained(
        options.model, attn_implementation=options.one, use_cache=False
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), eps=1e-5, fused=True)
    tokens = np.fromfile(f"{options.tokens}.bin", np.uint16)
    times = []
    for step in range(options.warm_up + options.steps):
        start = time.perf_counter()
        ids = torch.from_numpy(tokens[step * options.length :][: options.length + 1].astype(np.int64))[None]
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=ids[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits[0].float(), ids[0, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": statistics.mean(times[options.warm_up :]), "mebibytes": peak}))


def run(command: list, environment: dict[str, str] | None = None) -> tuple[str, str, float]:
    """Standard output and error, and the peak of the process's memory in MiB."""
    command = [str(word) for word in command]
    with tempfile.TemporaryFile() as errors:  # a pipe that nobody reads would fill
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=os.environ | (environment or {}))
        out = process.stdout.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        said = errors.read().decode()
    if process.returncode != 0:
        raise SystemExit(said)
    return out, said, usage.ru_maxrss / 1024


def theirs(options: argparse.Namespace, folder: Path, attention: str) -> dict:
    command = [sys.executable, __file__, "--data", options.data]
    command += ["--one", attention, "--tokens", folder / "tokens", "--length", options.length]
    command += ["--model", folder / "model/checkpoints/step-1"]
    command += ["--steps", options.steps, "--warm-up", options.warm_up, "--threads", options.threads]
    return json.loads(run(command)[0])


def train(
    options: argparse.Namespace, folder: Path, run_folder: Path, score: str, steps: int, launcher: tuple = ()
) -> float:
    """Peak memory of `ssa train` in MiB."""
    command = [
        *launcher, options.ssa, "train", options.config, "--out", run_folder, "--quiet", "--score", score, "--score-frozen",
        "b" if score == "ssa" else "", "--score-initial", f"{N},{B}" if score == "ssa" else "", "--tokens", folder / "tokens",
        "--documents", "across", "--length", options.length, "--batch", 1, "--accumulation", 1, "--order", "file",
        "--steps", steps, "--warmup-steps", 0, "--log-interval", 1, "--eval-batches", 0, "--checkpoint-interval", 0,
        "--threads", options.threads, *tokenizer_flags(options),
    ]  # fmt: skip
    return run(command)[2]


def ours(options: argparse.Namespace, folder: Path, score: str) -> dict:
    with tempfile.TemporaryDirectory() as own:
        peak = train(options, folder, Path(own) / "run", score, options.warm_up + options.steps)
        lines = [json.loads(line) for line in (Path(own) / "run/metrics.jsonl").read_text().splitlines()]
    first, last = lines[options.warm_up - 1], lines[-1]
    return {"seconds": (last["seconds"] - first["seconds"]) / options.steps, "mebibytes": peak}


def make_tokens(options: argparse.Namespace, folder: Path) -> None:
    text = options.data / options.text
    run([options.ssa, "data", "tokenize", text, *tokenizer_flags(options), "--out", folder / "tokens"])


def tokenizer_flags(options: argparse.Namespace) -> list:
    folder = options.data / "tokenizers"
    return ["--tokenizer", folder / "gpt2_vocab.json", "--merges", folder / "gpt2_merges.txt"]


def measure(options: argparse.Namespace, folder: Path) -> dict[str, list[dict]]:
    """In `folder`: tokens and model, made first."""
    make_tokens(options, folder)
    train(options, folder, folder / "model", "softmax", 1)
    ways = {way: lambda name=name: theirs(options, folder, name) for way, name in THEIRS.items()}
    ways |= {way: lambda score=score: ours(options, folder, score) for way, score in OURS.items()}
    results: dict[str, list[dict]] = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way in random.sample(list(ways), len(ways)):
            results[way].append(ways[way]())
    return results


def rows(results: dict[str, list[dict]], length: int) -> list[str]:
    out = []
    for way, rounds in results.items():
        ratios = [peer["seconds"] / own["seconds"] for peer, own in zip(results[PEER], rounds, strict=True)]
        seconds = statistics.median(own["seconds"] for own in rounds)
        memory, peer_memory = (statistics.median(r["mebibytes"] for r in some) for some in (rounds, results[PEER]))
        out.append(
            f"| {way} | {seconds:.2f} | {length / seconds:.0f} |"
            f" {spread(ratios)} |"
            f" {memory:.0f} | {memory / peer_memory:.2f} |"
        )
    return out


def course_parser(description: str) -> argparse.ArgumentParser:
    """With the options that `train` and `make_tokens` read."""
    parser = parser_of(description, rounds=3)
    parser.add_argument("--text", default="web_and_books/books_valid.txt", help="below --data")
    parser.add_argument("--config", type=Path, default=SOURCE / "configs/nemotron-114m.toml")
    parser.add_argument("--length", type=int, default=1024, help="tokens of a sequence")
    parser.add_argument("--steps", type=int, default=5, help="of a round")
    parser.add_argument("--warm-up", type=int, default=2, help="steps before those, not timed")
    return parser


def main() -> int:
    parser = course_parser(__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--one", help=argparse.SUPPRESS)  # a child process
    parser.add_argument("--tokens", help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    options = parser.parse_args()
    require_positive(parser, options, "length", "steps", "warm_up", "rounds", "threads")
    if options.one:
        hugging_face(options)
        return 0
    require_files(parser, options.ssa, options.config, options.data / options.text)
    random.seed(0)
    print(
        f"{options.config.stem}, 1 x {options.length} tokens, {options.threads} threads, torch {torch.__version__}.\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        results = measure(options, Path(folder))
    print("| | s a step | tokens/s | times Hugging Face SDPA | peak MiB | of SDPA's |\n|---|---|---|---|---|---|")
    print("\n".join(rows(results, options.length)), flush=True)
    if options.out:
        write_text(options.out, json.dumps({"threads": options.threads, "results": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
