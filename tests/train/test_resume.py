"""Stopping and going on: the same bits, and nothing lost."""

import json
import shutil
import signal
import time

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

# What an exact continuation must carry: random state (dropout), curriculum, schedule, slices.
COURSE = ["--steps", 40, "--dropout", 0.1, "--accumulation", 2, "--schedule", "cosine", "--warmup-steps", 5,
          "--optimizer", "adamw", "--weight-decay", 0.1, "--clip", 0.5, "--checkpoint-interval", 10,
          "--eval-interval", 8, "--keep-checkpoints", 0]  # fmt: skip


def metrics_without_times(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("seconds", None)
        line.pop("tokens_per_second", None)
    return json.dumps(lines)


def assert_same_run(one, other, step=40):
    assert metrics_without_times(one) == metrics_without_times(other)
    one, other = one / f"checkpoints/step-{step}", other / f"checkpoints/step-{step}"
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    states = [load_file(folder / "trainer.safetensors") for folder in (one, other)]
    assert states[0].keys() == states[1].keys()
    assert all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[0])


@pytest.mark.parametrize("score", ["softmax", "ssa"])
def test_17_and_23_steps_are_40(ssa, tiny, score):
    ssa("train", tiny, "--out", "whole", "--score", score, *COURSE)
    stopped = ssa("train", tiny, "--out", "parts", "--score", score, *COURSE, "--stop-at", 17)
    assert "stopped after step 17" in stopped.stdout
    assert "finished" not in stopped.stdout
    ssa("train", "--out", "parts", "--resume")
    assert_same_run(ssa.folder / "whole", ssa.folder / "parts")


def test_after_a_crash_the_newest_checkpoint_goes_on(ssa, tiny):
    """Lines of metrics after the checkpoint, a torn line and a half-written checkpoint are dropped."""
    ssa("train", tiny, "--out", "whole", *COURSE)
    whole, crashed = ssa.folder / "whole", ssa.folder / "crashed"
    shutil.copytree(whole, crashed)
    (crashed / "checkpoints/step-40").rename(crashed / "checkpoints/.step-40.tmp")
    (crashed / "checkpoints/.step-40.tmp/trainer.safetensors").unlink()
    shutil.rmtree(crashed / "checkpoints/step-30")
    with open(crashed / "metrics.jsonl", "a") as out:
        out.write('{"step":40,"val')
    ssa("train", tiny, "--out", "crashed", "--resume", *COURSE)
    assert_same_run(whole, crashed)
    assert [p.name for p in (crashed / "checkpoints").iterdir() if p.name.startswith(".")] == []


def test_a_run_without_checkpoint_begins_again(ssa, tiny):
    ssa("train", tiny, "--out", "whole")
    shutil.copytree(ssa.folder / "whole", ssa.folder / "crashed")
    shutil.rmtree(ssa.folder / "crashed/checkpoints")
    ssa("train", "--out", "crashed", "--resume")
    assert_same_run(ssa.folder / "whole", ssa.folder / "crashed", step=6)


def test_more_steps_go_on_where_the_run_ended(ssa, tiny):
    ssa("train", tiny, "--out", "whole", "--steps", 10)
    ssa("train", tiny, "--out", "run")
    ssa("train", "--out", "run", "--resume", "--steps", 10)
    names = ["whole", "run"]
    whole, run = [(ssa.folder / n / "checkpoints/step-10/model.safetensors").read_bytes() for n in names]
    assert whole == run
    assert json.loads((ssa.folder / "run/run.json").read_text())["config"]["train"]["steps"] == 10


def test_a_finished_run_has_nothing_left_to_do(ssa, tiny):
    ssa("train", tiny, "--out", "run")
    before = (ssa.folder / "run/metrics.jsonl").read_bytes()
    assert "finished" in ssa("train", tiny, "--out", "run", "--resume").stdout
    assert (ssa.folder / "run/metrics.jsonl").read_bytes() == before


def files_of(folder):
    """All but the two in which a refusal is noted."""
    notes = ("log.txt", "status.json")
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name not in notes}


def status_of(folder):
    """state, step and reason, and what was refused since."""
    status = json.loads((folder / "status.json").read_text())
    return [status[name] for name in ("state", "step", "reason")], status.get("refused", "")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["tiny.toml"], "run: already holds a run: continue it with --resume, or choose another folder"),
        (["tiny.toml", "--resume", "--width", 32],
         "run: model.width is 16 in this run, but 32 is asked for; a resumed run may change only steps"),
        (["--resume", "--score", "softmax"], 'run: model.score is "ssa" in this run, but "softmax" is asked for'),
        (["--resume", "--steps", 2], "run: train.steps = 2 lies before its newest checkpoint, 6"),
    ],
)  # fmt: skip
def test_what_would_lose_a_run_is_refused(ssa, tiny, arguments, message):
    ssa("train", tiny, "--out", "run")
    run = ssa.folder / "run"
    before, (state, _) = files_of(run), status_of(run)
    assert message in ssa("train", *arguments, "--out", "run", code=1).stderr
    assert files_of(run) == before
    state_after, refused = status_of(run)
    assert state_after == state == ["finished", 6, ""]
    assert message in refused if "--resume" in arguments else refused == ""


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def change(name, value):
    def changed(path):
        tensors = load_file(path)
        if value is None:
            del tensors[name]
        else:
            tensors[name] = value
        save_file(tensors, path)

    return changed


@pytest.mark.parametrize(
    "file, spoil, message",
    [
        ("model.safetensors", cut, "model.safetensors: broken safetensors file: "),
        ("trainer.safetensors", cut, "trainer.safetensors: broken safetensors file: "),
        ("model.safetensors", lambda path: path.write_bytes(b""), "broken safetensors file: it has 0 bytes"),
        ("model.safetensors", lambda path: path.unlink(), "incomplete checkpoint: model.safetensors is missing"),
        ("trainer.safetensors", lambda path: path.unlink(), "incomplete checkpoint: trainer.safetensors is missing"),
        ("model.safetensors", change("h.0.attn.c_attn.weight", None), 'the model\'s "h.0.attn.c_attn.weight" is not in it'),
        ("model.safetensors", change("h.7.x", np.zeros(2, np.float32)), 'the model has no weight "h.7.x"'),
        ("model.safetensors", change("h.0.attn.c_attn.weight", np.zeros((2, 3), np.float32)),
         '"h.0.attn.c_attn.weight" has shape (2, 3) and type Float, the model\'s has shape (16, 48) and type Float'),
        ("trainer.safetensors", change("other", np.zeros(1)), 'its metadata has no number "step"'),
    ],
)  # fmt: skip
def test_broken_checkpoints_are_refused(ssa, tiny, file, spoil, message):
    ssa("train", tiny, "--out", "run")
    spoil(ssa.folder / "run/checkpoints/step-6" / file)
    before = files_of(ssa.folder / "run")
    error = ssa("train", tiny, "--out", "run", "--resume", code=1).stderr
    assert error.startswith("ssa: run/checkpoints/step-6") and message in error
    assert files_of(ssa.folder / "run") == before


def test_a_checkpoint_under_the_wrong_name_is_refused(ssa, tiny):
    ssa("train", tiny, "--out", "run")
    checkpoints = ssa.folder / "run/checkpoints"
    (checkpoints / "step-6").rename(checkpoints / "step-5")
    assert "it is of step 6, its folder is not" in ssa("train", tiny, "--out", "run", "--resume", code=1).stderr


def wait_for_line(process, part):
    for line in process.stdout:
        if part in line:
            return
    raise AssertionError(f"no line with {part!r}: {process.stderr.read()}")


@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_first_signal_saves_and_stops(ssa, tiny, sent, code):
    process = ssa.start("train", tiny, "--out", "run", "--steps", 1_000_000, "--checkpoint-interval", 0)
    wait_for_line(process, "step 2/")
    process.send_signal(sent)
    output, error = process.communicate(timeout=60)
    assert process.returncode == code
    assert error == ""
    (checkpoint,) = (ssa.folder / "run/checkpoints").iterdir()
    step = int(checkpoint.name.removeprefix("step-"))
    assert f"stopped after step {step}" in output
    ssa("train", "--out", "run", "--resume", "--steps", step + 2)
    lines = [json.loads(line) for line in (ssa.folder / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, step + 3))


def test_two_signals_of_one_cause_are_one(ssa, tiny):
    process = ssa.start("train", tiny, "--out", "run", "--steps", 1_000_000, "--checkpoint-interval", 0)
    wait_for_line(process, "step 2/")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode in (130, 143)
    assert len(list((ssa.folder / "run/checkpoints").iterdir())) == 1


def test_second_signal_kills(ssa, tiny):
    """A step of a million slices does not end; the second signal ends it all the same."""
    process = ssa.start("train", tiny, "--out", "run", "--accumulation", 1_000_000)
    wait_for_line(process, "attention ran")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None, "the first signal waits for the step's end"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == -signal.SIGINT


def test_a_folder_in_use_is_refused(ssa, tiny):
    process = ssa.start("train", tiny, "--out", "run", "--steps", 1_000_000)
    wait_for_line(process, "step 2/")
    error = ssa("train", "--out", "run", "--resume", code=1).stderr
    assert "run: another process is working in this folder" in error
    process.kill()
    process.communicate()
