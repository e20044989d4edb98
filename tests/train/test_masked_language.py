"""Training a masked language model on text: what it learns, resuming, precision, errors."""

import json

import pytest

SENTENCES = ["the dog likes the cats .", "the dogs like the cat .", "where is the dog ?", "ring a ring o' roses"]


@pytest.fixture
def text(masked):
    return masked(SENTENCES)


def lines_of(ssa, run):
    return [json.loads(line) for line in (ssa.folder / run / "metrics.jsonl").read_text().splitlines()]


def losses(ssa, run):
    return [line["loss"] for line in lines_of(ssa, run) if "loss" in line]


@pytest.mark.parametrize("masking", ["babyberta", "roberta"])
def test_it_learns_four_sentences(text, masking):
    text("train", "config.toml", "--out", "run", "--masking", masking, "--steps", 400, "--dropout", 0)
    validation = [line["validation"] for line in lines_of(text, "run") if "validation" in line]
    assert validation[0]["wrong"] > 0.3
    assert validation[-1]["loss"] < 0.5 * validation[0]["loss"]
    log = (text.folder / "run/log.txt").read_text()
    assert "train.txt: 4 lines, 4 sentences" in log
    assert f"{masking} masking" in log
    last = lines_of(text, "run")[-2]
    views = 40 if masking == "babyberta" else 4
    assert last["progress"]["pass"] == pytest.approx(400 * 8 / views)


def test_a_resumed_run_is_the_same_bit_for_bit(text):
    text("train", "config.toml", "--out", "whole", "--precision", "bfloat16")
    text("train", "config.toml", "--out", "parts", "--precision", "bfloat16", "--stop-at", 31)
    text("train", "--out", "parts", "--resume")
    assert losses(text, "whole") == losses(text, "parts")
    name = "checkpoints/step-60/model.safetensors"
    assert (text.folder / "whole" / name).read_bytes() == (text.folder / "parts" / name).read_bytes()


def test_a_resumed_run_notices_that_its_text_is_another(text):
    text("train", "config.toml", "--out", "run", "--stop-at", 2)
    file = text.folder / "train.txt"
    file.write_text(file.read_text() + "one more sentence .\n")
    done = text("train", "--out", "run", "--resume", code=1)
    assert "run: task.text has other content now (fnv1a64:" in done.stderr


def test_bfloat16_differs_from_float32_by_its_rounding(text):
    for precision in ("float32", "bfloat16"):
        text("train", "config.toml", "--out", precision, "--precision", precision, "--steps", 3, "--dropout", 0)
    exact, rounded = losses(text, "float32"), losses(text, "bfloat16")
    assert exact != rounded
    assert rounded == pytest.approx(exact, rel=1e-2)


def test_lines_that_are_not_utf8(text):
    with (text.folder / "train.txt").open("ab") as file:
        file.write(b"a bad \xff line\n")
    assert "train.txt:5: " in text("train", "config.toml", "--out", "run", code=1).stderr
    assert not (text.folder / "run").exists()
    text("train", "config.toml", "--out", "run", "--skip-bad-lines", "true", "--steps", 1)
    assert "1 that are not UTF-8, or have padding" in (text.folder / "run/log.txt").read_text()


def test_data_are_found_below_the_folder_of_the_environment(text, monkeypatch):
    data = text.folder / "data"
    data.mkdir()
    (text.folder / "train.txt").rename(data / "train.txt")
    monkeypatch.setenv("SSA_DATA", str(data))
    text("train", "config.toml", "--out", "run", "--steps", 1)
    monkeypatch.setenv("SSA_DATA", "elsewhere")
    missing = 'ssa: task.text: "train.txt": no such file or folder'
    hint = "; `ssa data fetch --list` lists data sets that can be fetched\n"
    refused = text("train", "config.toml", "--out", "other", code=1).stderr
    assert refused == f'{missing}, nor is there "elsewhere/train.txt" (SSA_DATA){hint}'
    monkeypatch.delenv("SSA_DATA")
    refused = text("train", "config.toml", "--out", "other", code=1).stderr
    elsewhere = "it is also looked for in the folder that the environment variable SSA_DATA names, which is not set"
    assert refused == f"{missing}; {elsewhere}{hint}"
    monkeypatch.setenv("SSA_DATA", "data")
    refused = text("train", "config.toml", "--text", "trian.txt", "--out", "other", code=1).stderr
    assert refused.endswith("(SSA_DATA); did you mean data/train.txt?\n")
    refused = text("train", "config.toml", "--text", "/none.txt", "--out", "other", code=1).stderr
    assert refused == 'ssa: task.text: "/none.txt": no such file or folder\n'
