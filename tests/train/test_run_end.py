"""How runs begin and end: one process a folder, a reason in the folder, and a way on from every end."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest


def status(run):
    return json.loads((run / "status.json").read_text())


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_two_that_start_at_once_do_not_mix(ssa, tiny):
    """The folder is locked before anything of it is looked at or written."""
    for attempt in range(4):
        folder = f"run{attempt}"
        both = [ssa.start("train", "tiny.toml", "--out", folder, "--seed", seed, "--steps", 60) for seed in (1, 2)]
        errors = [process.communicate()[1] for process in both]
        codes = [process.returncode for process in both]
        assert sorted(codes) == [0, 1], errors
        winner = codes.index(0)
        assert re.search("another process is working|already holds a run", errors[1 - winner])
        record = json.loads((ssa.folder / folder / "run.json").read_text())
        assert record["config"]["train"]["seed"] == winner + 1
        assert f"seed {winner + 1}" in (ssa.folder / folder / "log.txt").read_text()


def test_the_folder_says_how_it_ended(ssa, tiny):
    run = ssa.folder / "run"
    ssa("train", "tiny.toml", "--out", "run", "--stop-at", 2)
    assert (status(run)["state"], status(run)["step"]) == ("stopped", 2)
    ssa("train", "--resume", "--out", "run")
    assert (status(run)["state"], status(run)["step"]) == ("finished", 6)
    assert "run: finished at step 6 of 6; newest checkpoint: step 6" in ssa("info", "run").stdout

    error = ssa("train", "tiny.toml", "--out", "bad", "--learning-rate", 1e30, code=1).stderr
    reason = error.removeprefix("ssa: ").strip()
    assert (status(ssa.folder / "bad")["state"], status(ssa.folder / "bad")["reason"]) == ("failed", reason)
    assert f"failed: {reason}" in (ssa.folder / "bad/log.txt").read_text()
    assert reason in ssa("info", "bad").stdout

    process = ssa.start("train", "tiny.toml", "--out", "killed", "--steps", 100000)
    while not (ssa.folder / "killed/metrics.jsonl").exists():
        time.sleep(0.05)
    assert "killed: running since step 0" in ssa("info", "killed").stdout
    process.kill()
    process.communicate()
    assert "its process was killed" in ssa("info", "killed").stdout


@pytest.mark.parametrize("flag", ["--seed", "--learning-rate"])  # of another run; no number
def test_the_folder_says_what_was_refused(ssa, tiny, flag):
    """The run's own state stays, and what goes on takes the refusal back."""
    ssa("train", "tiny.toml", "--out", "run", "--stop-at", 2)
    error = ssa("train", "--resume", "--out", "run", flag, -7 if flag == "--learning-rate" else 7, code=1).stderr
    reason = error.removeprefix("ssa: ").strip()
    assert (status(ssa.folder / "run")["state"], status(ssa.folder / "run")["refused"]) == ("stopped", reason)
    assert f"refused: {reason}" in (ssa.folder / "run/log.txt").read_text()
    assert f"run: stopped at step 2 of 6; newest checkpoint: step 2; the last try to go on was refused: {reason}" in (
        ssa("info", "run").stdout
    )
    # That a new run cannot begin here is no matter of this one.
    assert "already holds a run" in ssa("train", "tiny.toml", "--out", "run", code=1).stderr
    assert "already holds" not in (ssa.folder / "run/log.txt").read_text()
    ssa("train", "--resume", "--out", "run")
    assert "refused" not in status(ssa.folder / "run")


def test_the_folder_says_which_evaluations_failed(ssa, tiny):
    ssa("train", "tiny.toml", "--out", "run", "--max-positions", 128)
    evaluate = ["eval", "run", "--sequences", 2]
    error = ssa(*evaluate, "--sigma", 1e30, code=1).stderr
    reason = error.removeprefix("ssa: ").strip()
    assert f"evaluation icl-shift failed: {reason}" in (ssa.folder / "run/log.txt").read_text()
    shown = ssa("info", "run").stdout
    assert re.search(r"run: evaluation icl-shift failed at 20\S+Z: ", shown) and reason in shown
    ssa(*evaluate, "--grid", "reduced")
    assert "evaluation" not in ssa("info", "run").stdout


def test_evaluations_say_what_memory_was_for(ssa, tiny):
    ssa("train", "tiny.toml", "--out", "run", "--max-positions", 128)
    limit = 'ulimit -v $((2 << 20)); exec "$@"'
    command = ["bash", "-c", limit, "-", ssa.binary, "eval", "run", "--sequences", "900000000", "--length", "1"]
    done = subprocess.run(command, cwd=ssa.folder, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.fullmatch(
        r"ssa: run: suite icl-shift: out of memory: .* asked for at once, .* available; less takes: .*--sequences\n",
        done.stderr,
    ), done.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_validation_and_the_resumed_run_does_it(ssa, tiny, sent):
    """A validation of minutes: the signal ends it, the checkpoint of its step is there already."""
    flags = ["--steps", 4, "--eval-interval", 2, "--checkpoint-interval", 2]
    process = ssa.start("train", "tiny.toml", "--out", "run", *flags, "--eval-batches", 1_000_000)
    checkpoint = ssa.folder / "run/checkpoints/step-2"
    deadline = time.monotonic() + 60
    while not checkpoint.exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(sent)
    process.communicate(timeout=20)
    assert process.returncode == 128 + sent
    assert status(ssa.folder / "run")["state"] == "stopped"

    ssa("train", "--resume", "--out", "run", "--eval-batches", 2)
    ssa("train", "tiny.toml", "--out", "whole", *flags)
    lines = [
        [
            {key: value for key, value in json.loads(line).items() if "second" not in key}
            for line in (ssa.folder / run / "metrics.jsonl").read_text().splitlines()
        ]
        for run in ("run", "whole")
    ]
    assert lines[0] == lines[1]


def test_a_reader_that_is_gone_ends_a_run_with_its_state_saved(ssa, tiny):
    process = ssa.start("train", "tiny.toml", "--out", "run", "--steps", 100000, "--checkpoint-interval", 0)
    process.stdout.readline()
    process.stdout.close()
    process.wait(timeout=60)
    assert process.returncode == 128 + signal.SIGPIPE, process.stderr.read()
    process.stderr.close()
    assert list((ssa.folder / "run/checkpoints").glob("step-*"))


def test_resume_or_start_does_both(ssa, tiny):
    go = ["train", "tiny.toml", "--out", "run", "--resume-or-start"]
    ssa(*go, "--stop-at", 2)
    assert "steps 3 to 6" in ssa(*go).stdout
    ssa(*go)  # nothing is left to do
    assert "--resume-or-start" in ssa(*go, "--resume", code=2).stderr


def test_torchrun_restarts_where_a_killed_rank_left_off(ssa, tiny):
    marker = ssa.folder / "killed"
    program = ssa.folder / "rank"
    # The second rank kills itself once, when there is a checkpoint.
    program.write_text(
        f"""#!/bin/sh
if [ "$RANK" = 1 ] && [ ! -e {marker} ]; then
  (while [ ! -e run/checkpoints/step-20 ]; do sleep 0.05; done; touch {marker}; kill -9 $$) &
fi
exec "{ssa.binary}" train tiny.toml --out run --resume-or-start --steps 200 --checkpoint-interval 20 --eval-interval 0
"""
    )
    program.chmod(0o755)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, "--max-restarts", "1", "--no-python", str(program)],
        cwd=ssa.folder, check=False, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert marker.exists()
    begins = [int(step) for step in re.findall(r"steps (\d+) to 200", (ssa.folder / "run/log.txt").read_text())]
    assert begins[0] == 1 and len(begins) == 2 and begins[1] > 20
    assert status(ssa.folder / "run")["state"] == "finished"


def test_two_halves_of_different_checkpoints_are_refused(ssa, tiny):
    ssa("train", "tiny.toml", "--out", "run")
    shutil.copytree(ssa.folder / "run", ssa.folder / "mixed")
    steps = ssa.folder / "mixed/checkpoints"
    shutil.copy(steps / "step-3/model.safetensors", steps / "step-6/model.safetensors")
    error = ssa("train", "--resume", "--out", "mixed", "--steps", 8, code=1).stderr
    assert "trainer.safetensors: is not of the checkpoint that model.safetensors beside it is of" in error
    for command in (["eval", "mixed"], ["attention", "mixed", "--input", "1,2", "--out", "maps"]):
        assert ssa(*command, code=1).stderr == error
    assert ssa("attention", "mixed", "--checkpoint", 3, "--input", "1,2", "--out", "maps")


def test_a_checkpoint_with_numbers_that_are_not_finite_is_refused(ssa, tiny):
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    ssa("train", "tiny.toml", "--out", "run", "--stop-at", 3)
    for name, tensor in (("model", "h.0.mlp.c_fc.weight"), ("trainer", "second_moment.h.1.attn.score_n")):
        file = ssa.folder / f"run/checkpoints/step-3/{name}.safetensors"
        whole = file.read_bytes()
        with safe_open(file, "pt") as opened:
            metadata = opened.metadata()
        tensors = load_file(file)
        tensors[tensor] = torch.full_like(tensors[tensor], torch.nan)
        save_file(tensors, file, metadata)
        error = ssa("train", "--resume", "--out", "run", code=1).stderr
        assert f'{name}.safetensors: "{tensor}" holds numbers that are not finite' in error
        file.write_bytes(whole)
    ssa("train", "--resume", "--out", "run")


def test_a_folder_that_is_removed_during_training_ends_it(ssa, tiny):
    process = ssa.start("train", "tiny.toml", "--out", "run", "--steps", 100000, "--checkpoint-interval", 50)
    while not list((ssa.folder / "run").glob("checkpoints/step-*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    (ssa.folder / "run").rename(ssa.folder / "gone")
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert error == "ssa: run: was removed or replaced while this process worked in it\n"
    assert not (ssa.folder / "run").exists()


def test_what_killed_processes_left_is_swept(ssa, tiny):
    ssa("train", "tiny.toml", "--out", "run", "--stop-at", 3)
    run = ssa.folder / "run"
    whole = files(run)
    for name in ("checkpoints/.step-5.tmp", "checkpoints/.step-1.removed"):
        (run / name).mkdir()
        (run / name / "model.safetensors").write_text("x")
    for name in (".run.json.4711.tmp", ".metrics.jsonl.0123456789abcdef.tmp", "evals/.zorro.json.12.tmp"):
        (run / name).write_text("x")
    ssa("train", "--resume", "--out", "run")
    assert set(files(run)) - set(whole) == {
        "checkpoints/step-6", "checkpoints/step-6/model.safetensors", "checkpoints/step-6/trainer.safetensors"
    }  # fmt: skip


def test_a_full_disk_is_named_and_leaves_nothing_behind(ssa, tiny):
    """A limit on the size of files stands for the disk."""
    command = f'ulimit -f 20; exec "{ssa.binary}" train tiny.toml --out run'
    environment = {"PYTHONPATH": ""} | os.environ
    done = subprocess.run(
        ["bash", "-c", f"trap '' XFSZ; {command}"],
        cwd=ssa.folder, check=False, capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(r"ssa: run/checkpoints/\S+: cannot be written: File too large\n", done.stderr), done.stderr
    assert files(ssa.folder / "run/checkpoints") == []
    assert "File too large" in status(ssa.folder / "run")["reason"]


def test_a_run_that_could_not_begin_is_not_in_the_way_of_the_next(ssa, tiny):
    begin = f"trap '' XFSZ; ulimit -f 0; exec '{ssa.binary}' train tiny.toml --out run"
    done = subprocess.run(["bash", "-c", begin], cwd=ssa.folder, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "ssa: run/run.json: cannot be written: File too large\n")
    assert files(ssa.folder / "run") == []
    ssa("train", "tiny.toml", "--out", "run")


def test_out_of_memory_says_what_lowers_it(ssa, tiny):
    error = ssa("train", "tiny.toml", "--batch", 1_000_000, "--width", 8192, code=1).stderr
    assert re.search(r"out of memory before the first step: .* take .*, a batch of 1000000 keeps at least .* are available",
                     error)  # fmt: skip
    assert "a smaller train.batch" in error


def test_names_of_folders(ssa, tiny):
    for out, name in (("runs/x/", "x"), ("y", "y"), ("./z/.", "z")):
        ssa("train", "tiny.toml", "--out", out, "--steps", 1)
        assert json.loads((ssa.folder / out / "run.json").read_text())["name"] == name


def test_texts_and_tokenizers_are_found_where_a_run_was_moved_to(masked):
    ssa = masked([f"A bird sees fish number {i} ." for i in range(60)])
    ssa("train", "config.toml", "--out", "run", "--steps", 20)
    moved = ssa.folder / "elsewhere"
    moved.mkdir()
    for name in ("run", "tokenizer.json", "train.txt"):
        (ssa.folder / name).rename(moved / name)
    ssa("train", "--resume", "--out", "elsewhere/run", "--steps", 30)
    # Another path to the same content is the same run; other content is not.
    flags = ["--text", "elsewhere/train.txt", "--validation-text", "elsewhere/train.txt"]
    ssa("train", "--resume", "--out", "elsewhere/run", "--steps", 40, *flags)
    (moved / "train.txt").write_text("Other text about birds and fish .\n" * 60)
    assert "has other content now" in ssa("train", "--resume", "--out", "elsewhere/run", code=1).stderr


def test_validation_on_what_is_trained_on_is_said(masked):
    ssa = masked([f"A bird sees fish number {i} ." for i in range(60)])
    done = ssa("train", "config.toml", "--out", "run", "--steps", 2)
    wanted = (
        "validation_text train.txt has the content of text train.txt: the validation loss is of text that is trained on"
    )
    assert f"warning: {wanted}" in done.stdout
    assert json.loads((ssa.folder / "run/run.json").read_text())["warnings"] == [wanted]


def test_tokens_that_become_shorter_during_training_are_named(language):
    ssa = language([f"Birds see fish number {i}. They eat {i * i} of them." for i in range(300)])
    process = ssa.start("train", "config.toml", "--out", "run", "--steps", 100000, "--eval-batches", 0)
    process.stdout.readline()
    os.truncate(ssa.folder / "train.bin", 0)
    error = process.communicate(timeout=60)[1]
    reason = "train.bin: became shorter while it was read"
    assert (process.returncode, error) == (1, f"ssa: {reason}\n")
    assert (status(ssa.folder / "run")["state"], status(ssa.folder / "run")["reason"]) == ("failed", reason)
    assert f"failed: {reason}" in (ssa.folder / "run/log.txt").read_text()
    assert reason in ssa("info", "run").stdout
