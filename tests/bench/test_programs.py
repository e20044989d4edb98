"""The programs of bench/ but for that of attention run on a few sentences of the real data, and refuse what they cannot do."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

BENCH = Path(os.environ["SSA_SOURCE"]) / "bench"
TEXTS = ("aochildes/train.txt", "wikipedia/wikisplit_sentences.txt")


def run(program, *arguments):
    command = [sys.executable, BENCH / program, "--ssa", os.environ["SSA_BINARY"], *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def tiny_decoder(folder):
    config = folder / "tiny.toml"
    text = (BENCH.parent / "configs/nemotron-114m.toml").read_text()
    config.write_text(text.replace('"nemotron-114m"', '"nemotron-tiny"'))
    return config


def test_encoder(small_data):
    out = small_data / "results.json"
    done = run(
        "encoder.py", "--data", small_data, "--steps", 2, "--warm-up", 1, "--rounds", 2, "--threads", 1, "--out", out
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())["results"]
    assert [result["precision"] for result in results] == ["float32", "bfloat16"]
    for result in results:
        assert list(result["seconds"]) == ["Hugging Face", "ssa train, softmax", "ssa train, ssa"]
        for way, seconds in result["seconds"].items():
            assert len(seconds) == 2 and min(seconds) > 0
            assert f"| {result['precision']} | {way} | " in done.stdout
    assert "1.00 (1.00–1.00)" in done.stdout
    assert "--precisions float16: choose from" in run("encoder.py", "--precisions", "float16").stderr
    assert "no such file" in run("encoder.py", "--data", small_data / "none").stderr


def test_decoder(small_data, monkeypatch):
    out, config = small_data / "results.json", tiny_decoder(small_data)
    flags = ["--length", 8, "--steps", 2, "--warm-up", 1, "--rounds", 2, "--threads", 1]
    with monkeypatch.context() as without:
        without.delenv("SSA_DATA")  # --data reaches the child processes
        done = run("decoder.py", "--data", small_data, "--config", config, *flags, "--out", out)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())["results"]
    ways = [
        "Hugging Face, SDPA softmax",
        "Hugging Face, eager SSA",
        "Hugging Face, ssa_attention.hf",
        "ssa train, softmax",
        "ssa train, ssa",
    ]
    assert list(results) == ways
    for way, rounds in results.items():
        assert len(rounds) == 2 and all(one["seconds"] > 0 and one["mebibytes"] > 50 for one in rounds)
        assert f"| {way} | " in done.stdout
    assert "1.00 (1.00–1.00)" in done.stdout
    assert "no such file" in run("decoder.py", "--data", small_data / "none").stderr


def test_generate(small_data, monkeypatch):
    out, config = small_data / "results.json", tiny_decoder(small_data)
    flags = ["--count", 8, "--prompt", "The dog", "--rounds", 2, "--batch", 3, "--threads", 1, "--out", out]
    with monkeypatch.context() as without:
        without.delenv("SSA_DATA")  # --data reaches the child processes
        done = run("generate.py", "--data", small_data, "--config", config, *flags)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())["results"]
    ours = [f"ssa generate, {score}{many}" for score in ("softmax", "ssa") for many in ("", ", 3 prompts")]
    assert list(results) == ["Hugging Face generate, softmax", *ours]
    for way, speeds in results.items():
        assert len(speeds) == 2 and min(speeds) > 0
        assert f"| {way} | " in done.stdout
    assert "--count 0: at least 1" in run("generate.py", "--count", 0).stderr


def test_processes(small_data):
    out, config = small_data / "results.json", tiny_decoder(small_data)
    flags = ["--length", 8, "--steps", 2, "--warm-up", 1, "--rounds", 1, "--out", out]
    done = run("processes.py", "--data", small_data, "--config", config, *flags)
    assert done.returncode == 0, done.stderr
    rates = json.loads(out.read_text())["tokens_per_second"]
    assert list(rates) == ["1", "2"] and all(len(some) == 1 and some[0] > 0 for some in rates.values())
    assert re.search(r"^\| 1 \| .* \| 1\.00 \(1\.00–1\.00\) \|\n\| 2 \| ", done.stdout, re.MULTILINE)
    assert "--processes 1: at least 2" in run("processes.py", "--processes", 1).stderr


def test_tokenizer(small_data):
    out = small_data / "results.json"
    done = run("tokenizer.py", "--data", small_data, "--rounds", 1, "--out", out)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())["results"]
    assert {(result["tokenizer"], result["text"]) for result in results} == {
        (tokenizer, text) for tokenizer in ("babyberta", "gpt2") for text in TEXTS
    }
    for result in results:
        assert min(speed for speeds in result["speeds"].values() for speed in speeds) > 0
    assert "--rounds 0: at least 1" in run("tokenizer.py", "--data", small_data, "--rounds", 0).stderr


def test_data_tokenize(real_data, tmp_path):
    (tmp_path / "a.txt").write_text("The dog.\n<|endoftext|>\nThe cat.\n")
    (tmp_path / "b.jsonl").write_text('{"text": "One<|endoftext|>"}\n{"text": "Two\\n"}\n')
    out = tmp_path / "results.json"
    files = [tmp_path / "a.txt", tmp_path / "b.jsonl"]
    done = run("data_tokenize.py", *files, "--data", real_data, "--rounds", 2, "--out", out)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())["results"]
    assert [result["threads"] for result in results] == [1, 2]
    for result in results:
        assert all(len(speeds) == 2 and min(speeds) > 0 for speeds in result["speeds"].values())
    assert "absent.txt: no such file" in run("data_tokenize.py", "absent.txt", "--data", real_data).stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is there: it would be measured")
def test_gpu_report_says_that_nothing_was_measured(tmp_path):
    build = Path(os.environ["SSA_BINARY"]).parents[1]
    report = tmp_path / "report.md"
    command = [BENCH.parent / "scripts/gpu_report", "--build", build, "--out", report, "--minutes", "3"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    text = report.read_text()
    assert "Measured on: torch sees no CUDA device" in text and "nothing was measured" in text
    assert " skipped in " in text and "passed" not in text
