"""Times peers in rounds."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import asdict

import torch
from cases import OURS, PEER, Case, Problem, peers
from torch.utils.benchmark import Timer

SLOW_ROUNDS = 3  # of peers that take more than a second a round: eager SSA takes 7 s at length 4096
FEWEST_ROUNDS = 3
SECONDS = 6.0  # of a case: no further round begins after them


def timer(function, problem: Problem, threads: int) -> Timer:
    names = {"problem": problem, "function": function}
    return Timer("problem.run(function)", globals=names, num_threads=threads)


def gemm_rate(dtype: torch.dtype) -> float:
    """Operations a second of a large matrix product."""
    a, b = (torch.randn(2048, 2048).to(dtype) for _ in range(2))
    return 2 * 2048**3 / Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads()).timeit(3).median


class Copy:
    """Reads and writes together as many bytes as the keys and values have that decoding reads."""

    def __init__(self, problem: Problem):
        self.bytes = problem.key_bytes()
        self.source = torch.ones(self.bytes // 2, dtype=torch.uint8)
        self.target = torch.empty_like(self.source)

    def rate(self, calls: int) -> float:
        """Bytes a second."""
        names = {"target": self.target, "source": self.source}
        copy = Timer("target.copy_(source)", globals=names, num_threads=torch.get_num_threads())
        return self.bytes / copy.timeit(calls).median


def measure(case: Case, rounds: int) -> dict:
    """Medians over rounds, each of which times every peer once, in a new order."""
    problem = Problem(case)
    timers = {}
    for name, function in peers(case).items():
        problem.run(function)  # compiles, and fills caches
        timers[name] = timer(function, problem, torch.get_num_threads())
    calls = max(1, round(0.1 / timers[PEER].timeit(1).median))  # a tenth of a second of SDPA's
    copy = Copy(problem) if case.decodes else None
    times: dict[str, list[float]] = {name: [] for name in timers}
    rates = []
    start = time.monotonic()
    while len(rates) < rounds and (len(rates) < FEWEST_ROUNDS or time.monotonic() < start + SECONDS):
        for name in random.sample(list(timers), len(timers)):
            if len(rates) >= SLOW_ROUNDS and times[name][0] * calls > 1:
                continue
            times[name].append(timers[name].timeit(calls).median)
        rates.append(copy.rate(calls) if copy else gemm_rate(case.dtype))
    ceiling = statistics.median(rates)
    work = problem.key_bytes() if copy else problem.operations()
    rows = {}
    for name, each in times.items():
        ratios = [mine / theirs for mine, theirs in zip(each, times[PEER], strict=False)]
        rows[name] = {
            "milliseconds": 1e3 * statistics.median(each),
            "ratio": statistics.median(ratios),
            "ratio_least": min(ratios),
            "ratio_largest": max(ratios),
            "share": work / statistics.median(each) / ceiling,
        }
    facts = asdict(case) | {"dtype": str(case.dtype)[6:], "name": case.name, "rounds": len(rates), "calls": calls}
    return facts | {"ceiling": "copy" if copy else "GEMM", "ceiling_giga": ceiling / 1e9, "peers": rows}


def thread_ratios(case: Case, rounds: int) -> dict:
    """How much longer one thread takes than all."""
    problem = Problem(case)
    threads = torch.get_num_threads()
    result = {"name": case.name, "threads": threads, "peers": {}}
    chosen = {name: function for name, function in peers(case).items() if name in (PEER, OURS)}
    for name, function in chosen.items():
        problem.run(function)
        one, all_threads = (timer(function, problem, count) for count in (1, threads))
        calls = max(1, round(0.1 / one.timeit(1).median))
        ratios = [one.timeit(calls).median / all_threads.timeit(calls).median for _ in range(min(rounds, 3))]
        result["peers"][name] = statistics.median(ratios)
    return result
