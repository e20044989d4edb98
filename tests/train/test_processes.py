"""Several processes train one model: the same numbers as one, and an end that names whoever is gone."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

DROPOUT = ["--dropout", 0.1, "--clip", 0.5, "--optimizer", "adamw", "--schedule", "cosine", "--warmup-steps", 2]


def torchrun(ssa, *arguments, count=2, code=0):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", count, "--master-port", free_port()]
    command += ["--no-python", ssa.binary, *arguments]
    done = subprocess.run(
        [str(word) for word in command], cwd=ssa.folder, check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_ranks(ssa, *arguments, count=2):
    """The processes that torchrun would start, without its watch over them. An argument may depend on the rank."""
    port = str(free_port())
    return [
        subprocess.Popen(
            [ssa.binary, *(str(word(rank) if callable(word) else word) for word in arguments)],
            cwd=ssa.folder,
            env=os.environ
            | {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


def lines_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def figures_of(run, name):
    return [line[name] for line in lines_of(run) if name in line]


def weights_of(run, step):
    return load_file(run / f"checkpoints/step-{step}/model.safetensors")


def last_checkpoint(run):
    return max((int(path.name.removeprefix("step-")) for path in run.glob("checkpoints/step-*")), default=0)


def wait_for(condition, processes):
    deadline = time.monotonic() + 120
    while not condition():
        assert all(process.poll() is None for process in processes), [p.communicate() for p in processes]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def check_same(ssa, one, several, step):
    """Runs differ by rounding alone: sums in another order. The norm tells of a wrong scale, which Adam would hide."""
    for name in ("loss", "gradient_norm"):
        values = [figures_of(ssa.folder / run, name) for run in (several, one)]
        np.testing.assert_allclose(*values, rtol=1e-3, err_msg=name)
    wanted = weights_of(ssa.folder / one, step)
    for name, weight in weights_of(ssa.folder / several, step).items():
        np.testing.assert_allclose(weight, wanted[name], atol=2e-3 * np.abs(wanted[name]).max(), err_msg=name)


def test_two_processes_are_one_of_twice_the_batch(ssa, tiny):
    one = ssa("train", tiny, "--out", "one", "--batch", 8)
    done = torchrun(ssa, "train", tiny, "--out", "two", "--batch", 4)
    check_same(ssa, "one", "two", 6)
    assert "in each of 2 processes" in done.stdout and "processes" not in one.stdout
    assert done.stdout.count("finished step 6") == 1  # the first process alone speaks
    assert json.loads((ssa.folder / "two/run.json").read_text())["processes"] == 2


def test_two_processes_on_texts(language):
    ssa = language([f"Birds see fish number {i}. They eat {i * i} of them." for i in range(300)])
    flags = ["train", "config.toml", "--steps", 10]
    ssa(*flags, "--out", "one", "--batch", 8)
    torchrun(ssa, *flags, "--out", "two", "--batch", 4)
    check_same(ssa, "one", "two", 10)


def test_gradients_larger_than_a_bucket(language):
    """Two embeddings of 220 000 x 32 floats, 28 MB each, beside small ones."""
    ssa = language([f"Birds see fish number {i}." for i in range(300)])
    flags = ["train", "config.toml", "--vocabulary", 220_000, "--steps", 3, "--eval-batches", 0]
    ssa(*flags, "--out", "one", "--batch", 8)
    torchrun(ssa, *flags, "--out", "two", "--batch", 4)
    check_same(ssa, "one", "two", 3)
    assert max(weight.nbytes for weight in weights_of(ssa.folder / "one", 3).values()) > 25 << 20


def test_three_processes_are_three_slices_dropout_included(ssa, tiny):
    ssa("train", tiny, "--out", "one", "--accumulation", 6, *DROPOUT)
    torchrun(ssa, "train", tiny, "--out", "three", "--accumulation", 2, *DROPOUT, count=3)
    check_same(ssa, "one", "three", 6)


def test_a_resumed_run_has_the_same_bits(ssa, tiny):
    flags = ["--checkpoint-interval", 2, *DROPOUT]
    torchrun(ssa, "train", tiny, "--out", "whole", *flags)
    torchrun(ssa, "train", tiny, "--out", "parts", *flags, "--stop-at", 3)
    torchrun(ssa, "train", "--out", "parts", "--resume")
    assert figures_of(ssa.folder / "parts", "loss") == figures_of(ssa.folder / "whole", "loss")
    whole, parts = (weights_of(ssa.folder / name, 6) for name in ("whole", "parts"))
    assert all(np.array_equal(weight, parts[name]) for name, weight in whole.items())
    refused = ssa("train", "--out", "parts", "--resume", "--steps", 8, code=1).stderr
    assert "parts: was trained by 2 processes, not by 1 process: start as many as before" in refused


def test_a_run_without_steps_is_any_number_of_processes(ssa, tiny):
    """One that `ssa import` made, or that was stopped before its first checkpoint."""
    ssa("train", tiny, "--out", "run", "--stop-at", 1)
    checkpoints = ssa.folder / "run/checkpoints"
    (checkpoints / "step-1").rename(ssa.folder / "step-1")
    torchrun(ssa, "train", "--out", "run", "--resume")
    assert json.loads((ssa.folder / "run/run.json").read_text())["processes"] == 2
    assert figures_of(ssa.folder / "run", "step")[-1] == 6


def test_a_signal_to_torchrun_saves(ssa, tiny):
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        str(free_port()),
    ]
    flags = ["--out", "run", "--steps", "1000000", "--checkpoint-interval", "0"]
    process = subprocess.Popen(
        [*command, "--no-python", ssa.binary, "train", str(tiny), *flags],
        cwd=ssa.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = ssa.folder / "run/metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0, [process])
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode != 0
    (checkpoint,) = (ssa.folder / "run/checkpoints").iterdir()
    step = int(checkpoint.name.removeprefix("step-"))
    torchrun(ssa, "train", "--out", "run", "--resume", "--steps", step + 2)
    assert len(figures_of(ssa.folder / "run", "loss")) == step + 2


@pytest.mark.parametrize(
    "sent, victim", [(signal.SIGKILL, 1), (signal.SIGKILL, 0), (signal.SIGSTOP, 2), (signal.SIGSTOP, 0)]
)
def test_the_others_stop_and_name_the_rank_that_is_gone(ssa, tiny, sent, victim):
    """Killed, or silent: then after 15 s. The checkpoint is whole and training goes on from it."""
    flags = ["train", tiny, "--out", "run", "--checkpoint-interval", 5, "--log-interval", 5, "--eval-batches", 0]
    processes = start_ranks(ssa, *flags, "--steps", 1_000_000, count=3)
    wait_for(lambda: last_checkpoint(ssa.folder / "run") >= 10, processes)  # each is gone soon: two are kept
    processes[victim].send_signal(sent)
    start = time.monotonic()
    try:
        for rank, process in enumerate(processes):
            if rank == victim:
                continue
            _, error = process.communicate(timeout=60)
            assert process.returncode == 1
            assert f"rank {victim} is gone" in error, error
            assert error.startswith("ssa: ") and error.count("\n") == 1, error
        assert time.monotonic() - start < 30
    finally:
        processes[victim].kill()
        processes[victim].communicate()
    step = last_checkpoint(ssa.folder / "run")
    told = json.loads((ssa.folder / "run/status.json").read_text())
    if victim == 0:  # which keeps the folder
        assert told["state"] == "running" and "was killed" in ssa("info", "run").stdout
    else:
        assert told["state"] == "failed" and f"rank {victim} is gone" in told["reason"] and told["step"] >= step
        assert told["reason"] in (ssa.folder / "run/log.txt").read_text()
    torchrun(ssa, "train", "--out", "run", "--resume", "--steps", step + 2, count=3)
    assert lines_of(ssa.folder / "run")[-1]["step"] == step + 2


def test_a_signal_to_one_process_stops_and_saves_in_all(ssa, tiny):
    flags = ["train", tiny, "--out", "run", "--steps", 1_000_000, "--checkpoint-interval", 0]
    processes = start_ranks(ssa, *flags)
    metrics = ssa.folder / "run/metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0, processes)
    processes[1].send_signal(signal.SIGTERM)
    assert [process.communicate(timeout=60)[1] for process in processes] == ["", ""]
    assert [process.returncode for process in processes] == [143, 143]
    assert len(list((ssa.folder / "run/checkpoints").iterdir())) == 1


def test_processes_that_are_not_started_alike(ssa, tiny):
    """Rank 1 has another learning rate."""
    other = ssa.folder / "other.toml"
    other.write_text(tiny.read_text().replace("1e-3", "2e-3"))
    processes = start_ranks(ssa, "train", lambda rank: [tiny, other][rank], "--out", "run")
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [1, 1]
    message = "ssa: the processes were not started alike: 1 of 2 differ from rank 0 in config, flags, data or program"
    assert errors == [message + "\n", message + ", rank 1 does\n"]
    assert not (ssa.folder / "run").exists()


def test_what_one_process_refuses_ends_all(ssa, tiny):
    ssa("train", tiny, "--out", "run")
    first, second = start_ranks(ssa, "train", tiny, "--out", "run")
    errors = [process.communicate(timeout=60)[1] for process in (first, second)]
    assert (first.returncode, second.returncode) == (1, 1)
    assert errors[0].startswith("ssa: run: already holds a run")
    assert "rank 0 is gone" in errors[1]


def test_one_device_is_not_for_several_processes(ssa, tiny):
    processes = start_ranks(ssa, "train", tiny, "--out", "run", "--device", "cuda:0")
    for process in processes:
        error = process.communicate(timeout=60)[1]
        assert error.startswith('ssa: train.device = "cuda:0" is one device for 2 processes: "cuda" gives each'), error
    assert not (ssa.folder / "run").exists()


@pytest.mark.parametrize(
    "variables, message",
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is set, but not RANK"),
        ({"WORLD_SIZE": "two"}, 'WORLD_SIZE = "two" is not a whole number from 1 to '),
        ({"WORLD_SIZE": "2", "RANK": "2"}, 'RANK = "2" is not a whole number from 0 to 1'),
        ({"WORLD_SIZE": "2", "RANK": "0"}, "not MASTER_PORT"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_PORT": "0"}, 'MASTER_PORT = "0"'),
        ({"WORLD_SIZE": "2", "RANK": "1", "MASTER_PORT": "29500"}, "not MASTER_ADDR"),
    ],
)
def test_environment_that_is_not_torchruns(ssa, tiny, monkeypatch, variables, message):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert message in ssa("train", tiny, "--out", "run", code=1).stderr
    assert not (ssa.folder / "run").exists()
