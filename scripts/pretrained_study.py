#!/usr/bin/env python3
"""Fine-tunes a pretrained softmax model as softmax and as scores landed from it, and measures perplexity.

    PYTHONPATH=build/release/python SSA_DATA=… .venv/bin/python scripts/pretrained_study.py \\
        configs/pretrained/smollm2-books.toml --out docs/results/pretrained
    … --table  # writes the table into docs/results/pretrained.md from the rows, without training

One cell is an arm and a seed. Each finished cell is a line of results.jsonl in the folder; a run skips the cells that
stand there, so that it can be stopped at any time and loses one cell at most. Arms of a seed see the same text in the
same order. One thread; the seconds and the settings stand in each row.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import math
import os
import sys
import time
from pathlib import Path

import tomllib
import torch
from ssa_attention import hf
from ssa_attention.files import write_text
from transformers import AutoModelForCausalLM, AutoTokenizer

WARM_UP = 10


def stop(message: str) -> None:
    sys.exit(f"pretrained_study: {message}")


def read_pretrained(config: dict):
    """The tokenizer, and the weights as a state dict with their config: read once, for GGUF takes half a minute."""
    found = importlib.util.find_spec(config["package"])
    if found is None:
        stop(f"the Python package {config['package']!r} with the weights is not installed")
    folder = Path(found.origin).parent
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=config["weights"])
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=config["weights"])
    model.config.__dict__.pop("quantization_config", None)
    return tokenizer, model.config.to_dict(), type(model.config), type(model), model.state_dict()


def tokens_of(tokenizer, path: Path, count: int, skip: int = 0) -> torch.Tensor:
    """`count` tokens of a text file from character `skip` on."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        file.read(skip)
        text = file.read(8 * count)
    ids = tokenizer(text.replace("<|endoftext|>", "\n"), return_tensors="pt", verbose=False).input_ids[0]
    if ids.numel() < count:
        stop(f"{path}: {ids.numel()} tokens where {count} are wanted")
    return ids[:count]


def training_batches(tokenizer, path: Path, config: dict, seed: int) -> torch.Tensor:
    """(steps, batch, length) ids: sequences from places of the text that the seed draws."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        text = file.read()
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(config["steps"] * config["batch"]):
        place = int(torch.randint(len(text) - 8 * config["length"], (1,), generator=generator))
        piece = text[place : place + 8 * config["length"]].replace("<|endoftext|>", "\n")
        rows.append(tokenizer(piece, return_tensors="pt", verbose=False).input_ids[0, 1 : config["length"] + 1])
    return torch.stack(rows).view(config["steps"], config["batch"], config["length"])


def autocast(precision: str):
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16")


@torch.no_grad()
def perplexity(model, ids: torch.Tensor, length: int, precision: str) -> float:
    """Of windows of `length` tokens that do not overlap; the first token of each predicts and is not predicted."""
    loss, count = 0.0, 0
    for window in ids.split(length):
        with autocast(precision):
            logits = model(window[None]).logits[0]
        loss += torch.nn.functional.cross_entropy(logits[:-1].float(), window[1:], reduction="sum").item()
        count += window.numel() - 1
    return math.exp(loss / count)


def evaluated(model, texts: dict[str, torch.Tensor], config: dict) -> dict[str, float]:
    model.eval()
    return {
        f"{name}@{length}": perplexity(model, ids, length, config["precision"])
        for name, ids in texts.items()
        for length in config["evaluation"]["lengths"]
    }


def score_summary(model) -> dict[str, float]:
    values = hf.score_values(model).values()
    names = {name for each in values for name in each}
    return {
        f"{name}_{what}": getattr(torch.cat([each[name].float() for each in values]), what)().item()
        for name in sorted(names)
        for what in ("min", "median", "max")
    }


def train(model, batches: torch.Tensor, config: dict, arm: dict) -> list[float]:
    """The losses of all steps."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(config["trained"] in name)
    groups = hf.parameter_groups(
        model, lr=config["learning_rate"], score_lr=config["score_learning_rate"], weight_decay=config["weight_decay"]
    )
    optimizer = torch.optim.AdamW(groups)
    steps = config["steps"]

    def rate(step: int) -> float:
        return min(1.0, (step + 1) / WARM_UP) * (1 + math.cos(math.pi * step / steps)) / 2

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    landing = hf.Landing(model, arm["target"], round(arm["until"] * steps)) if "target" in arm else None
    losses = []
    model.train()
    for step, ids in enumerate(batches):
        if landing is not None:
            landing.step(step)
        with autocast(config["precision"]):
            loss = model(ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(config: dict, arms: list[str], data: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    results = out / "results.jsonl"
    cells = [(seed, arm) for seed in config["seeds"] for arm in arms]
    done = {(row["seed"], row["arm"]) for row in rows_of(results)}
    waiting = [cell for cell in [(0, "pretrained"), *cells] if cell not in done]
    if not waiting:
        return
    tokenizer, values, config_class, model_class, weights = read_pretrained(config)
    evaluation = config["evaluation"]
    texts = {t["name"]: tokens_of(tokenizer, data / t["file"], evaluation["tokens"], 20000) for t in config["texts"]}
    for seed, arm in waiting:
        started, used = time.time(), time.process_time()
        settings = config["arms"].get(arm, {})
        model = model_class(config_class.from_dict(values))
        model.load_state_dict(weights)
        torch.manual_seed(seed)
        if "score" in settings:
            hf.convert(model, settings["score"])
        losses = []
        if seed > 0:
            batches = training_batches(tokenizer, data / config["train"]["file"], config, seed)
            losses = train(model, batches, config, settings)
        trained = time.process_time()
        row = {
            "seed": seed, "arm": arm, "steps": len(losses), "precision": config["precision"], "length": config["length"], "batch": config["batch"],
            "learning_rate": config["learning_rate"], "score_learning_rate": config["score_learning_rate"],
            "tokens_evaluated": evaluation["tokens"], "loss_first_10": sum(losses[:10]) / 10, "loss_last_10": sum(losses[-10:]) / 10,
            "perplexity": evaluated(model, texts, config), "values": score_summary(model),
            "train_cpu_s": round(trained - used, 1), "cpu_s": round(time.process_time() - used, 1), "wall_s": round(time.time() - started, 1),
        }  # fmt: skip
        with results.open("a") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        print(f"seed {seed}, {arm}: {row['perplexity']}, {row['wall_s']:.0f} s", flush=True)


# Two-sided 95 % quantiles of Student's t by degrees of freedom.
T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def table(config: dict, rows: list[dict]) -> str:
    """Perplexity of each arm, and its ratio to softmax's paired by seed: the geometric mean with its 95 % interval."""
    by_cell = {(row["seed"], row["arm"]): row["perplexity"] for row in rows}
    metrics = [f"{t['name']}@{length}" for t in config["texts"] for length in config["evaluation"]["lengths"]]
    lines = [
        "| text@length | arm | seeds | perplexity | ratio to softmax | 95 % interval |",
        "|---|---|---|---|---|---|",
    ]
    for metric in metrics:
        if (0, "pretrained") in by_cell:
            lines.append(f"| {metric} | before fine-tuning | – | {by_cell[0, 'pretrained'][metric]:.2f} | – | – |")
        for arm in config["arms"]:
            seeds = [seed for seed in config["seeds"] if (seed, arm) in by_cell]
            if not seeds:
                lines.append(f"| {metric} | {arm} | – | not run | – | – |")
                continue
            logs = [math.log(by_cell[seed, arm][metric]) for seed in seeds]
            shown = math.exp(sum(logs) / len(logs))
            pairs = [
                math.log(by_cell[seed, arm][metric] / by_cell[seed, "softmax"][metric])
                for seed in seeds
                if (seed, "softmax") in by_cell
            ]
            ratio, interval = "–", "–"
            if arm != "softmax" and pairs:
                mean = sum(pairs) / len(pairs)
                ratio = f"{math.exp(mean):.3f}"
                if len(pairs) > 1:
                    deviation = math.sqrt(sum((pair - mean) ** 2 for pair in pairs) / (len(pairs) - 1))
                    half = T95[len(pairs) - 1] * deviation / math.sqrt(len(pairs))
                    interval = f"{math.exp(mean - half):.3f} to {math.exp(mean + half):.3f}"
            lines.append(f"| {metric} | {arm} | {', '.join(map(str, seeds))} | {shown:.2f} | {ratio} | {interval} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder of results.jsonl")
    parser.add_argument("--table", action="store_true", help="write the table beside the folder and end")
    parser.add_argument("--arms", help="these arms only, with commas between")
    given = parser.parse_args()
    config = tomllib.loads(given.config.read_text())
    arms = given.arms.split(",") if given.arms else list(config["arms"])
    if unknown := [arm for arm in arms if arm not in config["arms"]]:
        stop(f"--arms: {unknown[0]!r} is not of {list(config['arms'])}")
    if not given.table:
        if not os.environ.get("SSA_DATA"):
            stop("SSA_DATA is not set: the folder with the texts")
        torch.set_num_threads(1)
        run(config, arms, Path(os.environ["SSA_DATA"]), given.out)
    page = given.out.with_suffix(".md")
    if page.exists():
        begin, end = "<!-- generated:begin -->\n", "<!-- generated:end -->"
        text = page.read_text()
        if begin not in text or end not in text:
            stop(f"{page}: has no lines {begin.strip()} and {end}")
        head, tail = text.split(begin)[0], text.split(end)[1]
        write_text(page, head + begin + table(config, rows_of(given.out / "results.jsonl")) + "\n" + end + tail)


if __name__ == "__main__":
    main()
