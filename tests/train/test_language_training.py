"""`ssa train` of language models, from a text file to a checkpoint."""

import json
import math
import random

import pytest
from safetensors.torch import load_file

WORDS = {"the": ["dog", "cat", "bird"], "a": ["mat", "hat", "bat"], "one": ["fish"]}


def documents(count=40, seed=1):
    """Sentences in which each first word says which second ones may come."""
    generator = random.Random(seed)
    texts = []
    for _ in range(count):
        firsts = generator.choices(list(WORDS), k=generator.randint(3, 30))
        texts.append(" ".join(f"{first} {generator.choice(WORDS[first])}" for first in firsts))
    return texts


def lines(ssa, run="run"):
    return [json.loads(line) for line in (ssa.folder / run / "metrics.jsonl").read_text().splitlines()]


def weights(ssa, run="run", step=60):
    return load_file(ssa.folder / run / f"checkpoints/step-{step}/model.safetensors")


def same(a, b):
    assert a.keys() == b.keys()
    return all((a[name] == b[name]).all() for name in a)


@pytest.mark.parametrize("together", ["apart", "across"])
@pytest.mark.parametrize("preset", ["nemotron-tiny", "gpt2-tiny", "llama-tiny"])
def test_it_learns(language, preset, together):
    ssa = language(documents())
    ssa("train", "config.toml", "--out", "run", "--quiet", "--documents", together, "--preset", preset)
    validation = [line["validation"]["loss"] for line in lines(ssa) if "validation" in line]
    losses = [line["loss"] for line in lines(ssa) if "loss" in line]
    assert losses[0] == pytest.approx(math.log(400), abs=0.7)
    # A word of the first kind has about 1.1 nats, one of the second at most log 3.
    assert validation[-1] < 1.6
    assert "documents" in (ssa.folder / "run/log.txt").read_text()


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_a_resumed_run_equals_one_that_was_not_stopped(language, optimizer):
    ssa = language(documents())
    flags = ["config.toml", "--quiet", "--optimizer", optimizer]
    ssa("train", *flags, "--out", "whole")
    ssa("train", *flags, "--out", "parts", "--stop-at", "17")  # in the middle of a pass
    ssa("train", *flags, "--out", "parts", "--resume")
    assert same(weights(ssa, "whole"), weights(ssa, "parts"))
    validation = [line["validation"]["loss"] for line in lines(ssa, "whole") if "validation" in line]
    assert validation[-1] < 1.6


def test_a_checkpoint_without_config_says_why(language):
    ssa = language(documents())
    ssa("train", "config.toml", "--out", "run", "--quiet", "--dropout", 0.1, "--steps", 1)
    assert not (ssa.folder / "run/checkpoints/step-1/config.json").exists()
    log = (ssa.folder / "run/log.txt").read_text()
    assert "checkpoints have no config.json of Hugging Face: NemotronForCausalLM drops attention weights out" in log
    ssa("train", "config.toml", "--out", "plain", "--quiet", "--steps", 1)
    assert (ssa.folder / "plain/checkpoints/step-1/config.json").exists()
    assert "no config.json" not in (ssa.folder / "plain/log.txt").read_text()


def test_recomputing_blocks_and_accumulating_batches_change_nothing_but_rounding(language):
    ssa = language(documents())
    ssa("train", "config.toml", "--out", "plain", "--quiet")
    ssa("train", "config.toml", "--out", "recomputed", "--quiet", "--recompute", "true")
    assert same(weights(ssa, "plain"), weights(ssa, "recomputed"))
    # Across documents each batch has as many targets, so that the mean of means is the mean.
    for run, flags in {"one": [], "two": ["--batch", "2", "--accumulation", "2"]}.items():
        ssa("train", "config.toml", "--out", run, "--quiet", "--documents", "across", "--steps", "5", *flags)
    one, two = ([line["loss"] for line in lines(ssa, run) if "loss" in line] for run in ("one", "two"))
    assert one == pytest.approx(two, rel=1e-5)


def test_bfloat16_keeps_weights_in_float32_and_follows(language):
    ssa = language(documents())
    ssa("train", "config.toml", "--out", "run", "--quiet", "--precision", "bfloat16")
    ssa("train", "config.toml", "--out", "exact", "--quiet")
    assert {str(w.dtype) for w in weights(ssa).values()} == {"torch.float32"}
    last = {run: [line["loss"] for line in lines(ssa, run) if "loss" in line][-1] for run in ("run", "exact")}
    assert last["run"] == pytest.approx(last["exact"], abs=0.1)
    assert last["run"] != last["exact"]


def test_tokens_of_another_tokenizer_are_refused(language):
    ssa = language(documents())
    file = ssa.folder / "tokenizer.json"
    file.write_text(file.read_text() + " ")
    done = ssa("train", "config.toml", "--out", "run", code=1)
    assert "train.json: its tokens are of tokenizer.json, not of task.tokenizer" in done.stderr
    assert not (ssa.folder / "run").exists()


def test_a_batch_of_more_than_there_is_is_refused(language):
    ssa = language(documents())
    done = ssa("train", "config.toml", "--out", "run", "--batch", "100000", code=1)
    assert "train.batch = 100000, but a pass over task.tokens has " in done.stderr
    assert not (ssa.folder / "run").exists()


def test_tokens_outside_the_vocabulary_are_refused(language):
    """Shards without a record are another program's."""
    ssa = language(documents())
    (ssa.folder / "train.json").unlink()
    file = ssa.folder / "train.bin"
    ids = bytearray(file.read_bytes())
    ids[1::2] = b"\x7f" * (len(ids) // 2)  # uint16
    file.write_bytes(ids)
    done = ssa("train", "config.toml", "--out", "run", code=1)
    assert "train: token id 32" in done.stderr and ", but model.vocabulary = " in done.stderr


def test_a_run_notices_that_its_files_are_others_now(language):
    ssa = language(documents())
    ssa("train", "config.toml", "--out", "run", "--quiet", "--stop-at", "2")
    file = ssa.folder / "tokenizer.json"
    before = file.read_text()
    file.write_text(before + " ")
    changed = "run: task.tokenizer has other content now (fnv1a64:"
    assert changed in ssa("generate", "run", code=1).stderr
    assert changed in ssa("eval", "run", "--suite", "ppl", "--texts", "train.txt", code=1).stderr
    file.write_text(before)
    (ssa.folder / "train.txt").write_text("\n<|endoftext|>\n".join(documents(seed=2)))
    tokenize = ["--tokenizer", "tokenizer.json", "--out", "train", "--held-out", "0.2", "--force"]
    ssa("data", "tokenize", "train.txt", *tokenize)
    assert "run: task.tokens has other content now" in ssa("train", "--out", "run", "--resume", code=1).stderr
