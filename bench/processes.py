"""Times training of a decoder in several processes against one, each with as much work and one thread.

    python bench/processes.py --data "$SSA_DATA"

Each trains the model of --config on tokens of books, one sequence of --length at a step in every process: what one
process does in a step, `torchrun` makes each of --processes do, and then gradients are averaged over Gloo. Shown is
tokens/s beside one process's times the number of processes, taken within a round (each once, in a new order), as the
median of rounds with least and largest.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from pathlib import Path

from decoder import course_parser, make_tokens, train
from program import require_files, require_positive, spread
from ssa_attention.files import write_text


def tokens_per_second(options: argparse.Namespace, folder: Path, processes: int) -> float:
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes)
    with tempfile.TemporaryDirectory() as own:
        start = (*launcher, "--no-python") if processes > 1 else ()
        train(options, folder, Path(own) / "run", "ssa", options.warm_up + options.steps, start)
        lines = [json.loads(line) for line in (Path(own) / "run/metrics.jsonl").read_text().splitlines()]
    seconds = lines[-1]["seconds"] - lines[options.warm_up - 1]["seconds"]
    return processes * options.steps * options.length / seconds


def main() -> int:
    parser = course_parser(__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.set_defaults(threads=1)
    options = parser.parse_args()
    require_positive(parser, options, "length", "steps", "warm_up", "rounds")
    if options.processes < 2:
        parser.error(f"--processes {options.processes}: at least 2, to stand beside one")
    require_files(parser, options.ssa, options.config, options.data / options.text)
    random.seed(0)
    counts = [1, options.processes]
    rates: dict[int, list[float]] = {count: [] for count in counts}
    with tempfile.TemporaryDirectory() as folder:
        make_tokens(options, Path(folder))
        for _ in range(options.rounds):
            for count in random.sample(counts, len(counts)):
                rates[count].append(tokens_per_second(options, Path(folder), count))
    print(f"{options.config.stem}, 1 x {options.length} tokens a process, 1 thread each.\n")
    print("| processes | tokens/s | of as many times one |\n|---|---|---|")
    for count in counts:
        shares = [rate / (count * one) for rate, one in zip(rates[count], rates[1], strict=True)]
        print(f"| {count} | {statistics.median(rates[count]):.0f} | {spread(shares)} |", flush=True)
    if options.out:
        write_text(options.out, json.dumps({"tokens_per_second": rates}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
