"""Times training of BabyBERTa's model: `ssa train` on packed sentences against Hugging Face on padded ones.

    PYTHONPATH=build/release/python python bench/encoder.py --data "$SSA_DATA"

Both train the same model (8 layers, width 256, dropout 0.1) on the same sentences of AO-CHILDES, batches of 16, with
as many threads. Theirs: RobertaForMaskedLM with SDPA attention, DataCollatorForLanguageModeling (which pads to the
longest sentence of a batch), PyTorch's fused AdamW, clipping at 1; sentences are tokenized beforehand. A round times
each once, in a new order; the ratio is taken within a round, and the median of rounds is shown with least and largest.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from program import SOURCE, parser_of, require_files, require_positive, spread
from ssa_attention.files import write_text

BATCH = 16
THEIRS = "Hugging Face"
SCORES = ("softmax", "ssa")


def read_sentences(data: Path, text: str):
    """The tokenizer, and every sentence of at least three words as ids."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(data / "babyberta/tokenizer.json"), mask_token="<mask>", pad_token="<pad>"
    )
    lines = [line for line in (data / text).read_text().splitlines() if len(line.split()) >= 3]
    return tokenizer, [{"input_ids": ids} for ids in tokenizer(lines)["input_ids"]]


class HuggingFace:
    """A training loop as its Trainer's, without what the Trainer does beside it."""

    def __init__(self, options: argparse.Namespace, precision: str):
        from transformers import DataCollatorForLanguageModeling, RobertaConfig, RobertaForMaskedLM

        tokenizer, self.sentences = read_sentences(options.data, options.text)
        self.collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
        settings = {
            "vocab_size": 8192, "hidden_size": 256, "num_hidden_layers": 8, "num_attention_heads": 8,
            "intermediate_size": 1024, "max_position_embeddings": 130, "type_vocab_size": 2, "pad_token_id": 1,
            "layer_norm_eps": 1e-5, "attn_implementation": "sdpa",
        }  # fmt: skip
        self.model = RobertaForMaskedLM(RobertaConfig(**settings)).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, eps=1e-6, fused=True)
        self.precision = precision
        self.order = random.Random(0)
        self.steps(options.warm_up)

    def steps(self, count: int) -> None:
        for _ in range(count):
            batch = self.collator(self.order.sample(self.sentences, BATCH))
            with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bfloat16"):
                loss = self.model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()

    def seconds(self, steps: int) -> float:
        """Of one step."""
        start = time.perf_counter()
        self.steps(steps)
        return (time.perf_counter() - start) / steps


def ours(options: argparse.Namespace, precision: str, score: str) -> float:
    """Seconds of one step of `ssa train`, from its own metrics, the first steps left out."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [
            options.ssa, "train", options.config, "--out", run, "--quiet", "--score", score, "--precision", precision,
            "--text", options.data / options.text, "--tokenizer", options.data / "babyberta/tokenizer.json",
            "--steps", options.warm_up + options.steps, "--warmup-steps", 0, "--log-interval", options.warm_up, "--eval-batches", 0,
            "--checkpoint-interval", 0, "--batch", BATCH, "--threads", options.threads,
        ]  # fmt: skip
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return (lines[-1]["seconds"] - lines[0]["seconds"]) / (lines[-1]["step"] - lines[0]["step"])


def measure(options: argparse.Namespace, precision: str) -> dict:
    theirs = HuggingFace(options, precision)
    ways = {THEIRS: lambda: theirs.seconds(options.steps)}
    for score in SCORES:
        ways[f"ssa train, {score}"] = lambda score=score: ours(options, precision, score)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way in random.sample(list(ways), len(ways)):
            seconds[way].append(ways[way]())
    return {"precision": precision, "seconds": seconds}


def rows(result: dict) -> list[str]:
    out = []
    for way, seconds in result["seconds"].items():
        ratios = [theirs / own for theirs, own in zip(result["seconds"][THEIRS], seconds, strict=True)]
        median = statistics.median(seconds)
        out.append(f"| {result['precision']} | {way} | {1000 * median:.1f} | {BATCH / median:.0f} | {spread(ratios)} |")
    return out


def main() -> int:
    parser = parser_of(__doc__, rounds=3)
    parser.add_argument("--text", default="aochildes/train.txt", help="below --data")
    parser.add_argument("--config", type=Path, default=SOURCE / "configs/babyberta.toml")
    parser.add_argument("--steps", type=int, default=200, help="of a round")
    parser.add_argument("--warm-up", type=int, default=50, help="steps before those, not timed")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--precisions", default="float32,bfloat16")
    options = parser.parse_args()
    require_positive(parser, options, "steps", "warm_up", "rounds", "threads")
    for precision in options.precisions.split(","):
        if precision not in ("float32", "bfloat16"):
            parser.error(f"--precisions {precision}: choose from float32, bfloat16")
    require_files(parser, options.ssa, options.config, options.data / options.text)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    random.seed(0)
    print(f"Batches of {BATCH} sentences, {options.threads} threads, torch {torch.__version__}.\n")
    print("| precision | | ms a step | sentences/s | ratio to Hugging Face |\n|---|---|---|---|---|")
    results = []
    for precision in options.precisions.split(","):
        results.append(measure(options, precision))
        print("\n".join(rows(results[-1])), flush=True)
    if options.out:
        write_text(options.out, json.dumps({"threads": options.threads, "results": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
