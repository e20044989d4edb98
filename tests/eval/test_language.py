"""`ssa eval --suite ppl|blimp` and `ssa generate` on a small language model: what Hugging Face says with the same
weights."""

import csv
import json
import math
import os
import signal
import subprocess

import pytest
import torch
from ssa_attention import hf
from transformers import NemotronForCausalLM, PreTrainedTokenizerFast

TEXTS = [
    "the dog likes the cats . the cats like the dog . where is the dog ? here is the dog .",
    "a bird sees a fish . the fish does not see the bird .",
    "the dog and the bird see the cats on the mat . they look .",
    "look !",
    "the cats are on the mat and the dog is on the hat . the fish is in the water .",
] * 4
END = 4  # </s>


@pytest.fixture
def trained(language):
    ssa = language(TEXTS)
    ssa("train", "config.toml", "--score", "softmax", "--out", "run", "--quiet")
    (ssa.folder / "texts.txt").write_text("the dog sees a bird .\n<|endoftext|>\n" + " ".join(TEXTS[:5]) + "\n")
    return ssa


@pytest.fixture
def theirs(trained):
    model = NemotronForCausalLM.from_pretrained(trained.folder / "run/checkpoints/step-60").eval()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(trained.folder / "tokenizer.json"))
    return model, tokenizer


def encoder(tokenizer):
    return lambda text: tokenizer.encode(text, add_special_tokens=False)


@torch.no_grad()
def losses(model, ids, wanted):
    """Cross-entropies of the last `wanted` tokens."""
    logits = model(input_ids=torch.tensor([ids[:-1]])).logits[0].double()
    return torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")[-wanted:]


@pytest.mark.parametrize(("length", "stride"), [(32, 32), (32, 8), (10, 3), (80, 80)])
def test_perplexity_is_what_hugging_face_says(trained, theirs, length, stride):
    check_perplexity(trained, theirs[0], encoder(theirs[1]), length, stride)


def test_a_text_that_was_trained_on_is_named_in_the_result(trained):
    done = trained("eval", "run", "--suite", "ppl", "--texts", "train.txt,texts.txt")
    warnings = json.loads((trained.folder / "run/evals/ppl.json").read_text())["warnings"]
    assert warnings == ["train.txt: the model was trained on it (it is in train)"]
    assert done.stderr == f"ssa: warning: {warnings[0]}\n"


def test_a_run_that_was_moved_takes_its_tokenizer_or_another(trained):
    (trained.folder / "moved").mkdir()
    for name in ("run", "tokenizer.json"):
        (trained.folder / name).rename(trained.folder / "moved" / name)
    flags = ["--suite", "ppl", "--texts", "texts.txt"]
    trained("eval", "moved/run", *flags)
    wanted = json.loads((trained.folder / "moved/run/evals/ppl.json").read_text())["rows"]
    (trained.folder / "moved/tokenizer.json").rename(trained.folder / "other.json")
    assert 'task.tokenizer: "tokenizer.json": no such file' in trained("eval", "moved/run", *flags, code=1).stderr
    trained("eval", "moved/run", *flags, "--tokenizer", "other.json")
    assert json.loads((trained.folder / "moved/run/evals/ppl.json").read_text())["rows"] == wanted


def test_perplexity_of_ssa_is_what_hugging_face_says_with_it(trained, theirs):
    trained("train", "config.toml", "--score", "ssa", "--out", "ssa", "--quiet")
    model = NemotronForCausalLM.from_pretrained(trained.folder / "ssa/checkpoints/step-60").eval()
    assert (hf.score_values(model)["model.layers.0.self_attn"]["n"] - 1.5).abs().min() > 1e-3  # trained
    check_perplexity(trained, model, encoder(theirs[1]), 32, 32, run="ssa")


def check_perplexity(trained, model, encode, length, stride, run="run"):
    total, tokens = 0.0, 0
    documents = (trained.folder / "texts.txt").read_text().removesuffix("\n").split("\n<|endoftext|>\n")
    for document in documents:
        ids = [END, *encode(document)]
        first = 1
        while first < len(ids):
            end = min(len(ids), first + (length if first == 1 else stride))
            total += losses(model, ids[max(0, end - 1 - length) : end], end - first).sum().item()
            tokens += end - first
            first = end
    flags = ["--texts", "texts.txt", "--lengths", length, "--stride", stride]
    trained("eval", run, "--suite", "ppl", *flags)
    record = json.loads((trained.folder / run / "evals/ppl.json").read_text())
    rows = {row["metric"]: row for row in record["rows"]}
    size = sum(len(document.encode()) for document in documents)
    words = sum(len(document.split()) for document in documents)
    assert rows["perplexity"]["items"] == tokens == sum(len(encode(document)) for document in documents)
    assert rows["perplexity"]["mean"] == pytest.approx(math.exp(total / tokens), rel=1e-4)
    assert rows["bits-per-byte"]["mean"] == pytest.approx(total / math.log(2) / size, rel=1e-4)
    assert rows["word-perplexity"]["mean"] == pytest.approx(math.exp(total / words), rel=1e-4)
    assert record["texts"][0] | {"hash": ""} == {
        "text": "texts", "file": "texts.txt", "hash": "", "documents": 2, "tokens": tokens, "bytes": size,
        "words": words, "left_out": 0,
    }  # fmt: skip


def test_blimp_is_what_hugging_face_says(trained, theirs):
    model, encode = theirs[0], encoder(theirs[1])
    (trained.folder / "blimp").mkdir()
    pair = {"sentence_good": "The dog likes the cats.", "sentence_bad": "The dog like the cats."}
    item = pair | {"linguistics_term": "agreement", "UID": "sv"}
    (trained.folder / "blimp/a.jsonl").write_text(json.dumps(item) + "\n")
    trained("eval", "run", "--suite", "blimp", "--data", "blimp", "--sentences", "scores.tsv")
    with (trained.folder / "scores.tsv").open() as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    for column, sentence in (("grammatical", "sentence_good"), ("ungrammatical", "sentence_bad")):
        ids = encode(item[sentence])
        assert float(row[column]) == pytest.approx(-losses(model, [END, *ids], len(ids)).sum().item(), rel=1e-5)


def test_greedy_text_is_hugging_faces_with_and_without_the_cache(trained, theirs):
    model, tokenizer = theirs
    ids = torch.tensor([encoder(tokenizer)("the dog")])
    found = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False, eos_token_id=END, pad_token_id=END
    )
    prompt, all_of_it = (tokenizer.decode(part, skip_special_tokens=True) for part in (ids[0], found[0]))
    expected = all_of_it.removeprefix(prompt)
    for flags in ([], ["--no-cache"]):
        done = trained("generate", "run", "--prompt", "the dog", "--temperature", "0", "--tokens", "20", *flags)
        assert done.stdout == f"the dog{expected}\n"
        assert "tokens/s" in done.stderr


def test_draws_depend_on_the_seed_alone(trained):
    def text(*flags):
        return trained("generate", "run", "--prompt", "the", "--tokens", "25", "--no-end", *flags).stdout

    assert text("--seed", "1") == text("--seed", "1", "--no-cache") == text()
    assert len({text("--seed", seed) for seed in range(1, 7)}) > 3
    greedy = text("--temperature", "0")
    assert greedy == text("--top-k", "1", "--seed", "5") == text("--top-p", "1e-9", "--seed", "6")


def test_prompts_of_a_file_and_stop_texts(trained):
    (trained.folder / "prompts.txt").write_bytes(b"the dog\n\nwhere\r\n")
    flags = ["--prompts", "prompts.txt", "--temperature", "0", "--tokens", "12"]
    rows = [json.loads(line) for line in trained("generate", "run", *flags).stdout.splitlines()]
    assert [row["prompt"] for row in rows] == ["the dog", "", "where"]
    alone = trained("generate", "run", "--prompt", "where", "--temperature", "0", "--tokens", "12").stdout
    assert alone == "where" + rows[2]["text"] + "\n"
    stop = rows[0]["text"][2:5]
    first = json.loads(trained("generate", "run", *flags, "--stop", stop).stdout.splitlines()[0])
    assert first["text"] == rows[0]["text"].partition(stop)[0]
    assert first["ending"] == "stop text"
    long = trained("generate", "run", "--prompt", "the", "--tokens", "1000", "--no-end")
    assert "ended by: max_positions" in long.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["eval", "run", "--suite", "ppl", "--texts", "none.txt"], "none.txt"),
        (["eval", "run", "--suite", "ppl", "--texts", "run"], "run"),
        (["eval", "run", "--suite", "ppl", "--texts", "texts.txt", "--stride", "33"], "--stride 33: more than --lengths 32"),
        (["eval", "run", "--suite", "ppl", "--texts", "texts.txt,texts.txt"], "the same name in the results, texts"),
        (["eval", "run", "--suite", "zorro"], "no such suite for a model of lm; there is ppl, zero-shot, blimp"),
        (["eval", "run", "--suite", "blimp", "--texts", "texts.txt"], "--texts: belongs to --suite ppl, not to blimp"),
        (["generate", "run", "--prompt", "a " * 40], "tokens, but model.max_positions = 32"),
        (["generate", "run", "--tokenizer", "nowhere.json"], "nowhere.json"),
        (["generate", "run", "--end-token", "<nothing>"], "--end-token <nothing>: the tokenizer's vocabulary has no such token"),
        (["generate", "run", "--prompts", "nowhere.txt"], "nowhere.txt"),
        (["generate", "run", "--prompts", "long.txt"], "long.txt:2: the prompt has 81 tokens, but model.max_positions = 32"),
        (["generate", "run", "--prompts", "bytes.txt"], "bytes.txt:3: byte 2 (0xff) is not valid UTF-8"),
        (["eval", "run", "--suite", "ppl", "--texts", "empty.txt"], "empty.txt: there is no text in it"),
        (["eval", "run", "--suite", "ppl", "--texts", "texts.txt", "--lengths", "8,16,8"], "--lengths: 8 is given twice"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(trained, flags, message):
    (trained.folder / "long.txt").write_text("the dog\n" + "the dog " * 40 + "\n")
    (trained.folder / "bytes.txt").write_bytes(b"the dog\n\na\xff\n")
    (trained.folder / "empty.txt").write_text(" \n")
    done = trained(*flags, code=1)
    assert message in done.stderr and "dog" not in done.stdout


@pytest.mark.parametrize("flags", [["--temperature", "nan"], ["--top-p", "nan"], ["--temperature", "1x"]])
def test_what_is_no_number_is_refused(trained, flags):
    assert f"{flags[0]}: {flags[1]}: expected a number from " in trained("generate", "run", *flags, code=2).stderr


def test_texts_that_cannot_be_written_are_a_failure(trained):
    (trained.folder / "prompts.txt").write_text("the dog\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [trained.binary, "generate", "run", "--prompts", "prompts.txt", "--tokens", "2"],
            cwd=trained.folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "ssa: standard output: cannot be written: No space left on device\n")


def test_bad_lines_are_left_out_of_texts(trained):
    (trained.folder / "lines.jsonl").write_text('{"text": "the dog"}\n{"txet": "a"}\n')
    flags = ["eval", "run", "--suite", "ppl", "--texts", "lines.jsonl"]
    assert 'lines.jsonl:2: there is no field "text" (fields: txet) (--skip-bad-lines' in trained(*flags, code=1).stderr
    trained(*flags, "--skip-bad-lines")
    record = json.loads((trained.folder / "run/evals/ppl.json").read_text())
    assert [(text["documents"], text["left_out"]) for text in record["texts"]] == [(1, 1)]


def test_text_comes_from_language_models_alone(ssa, tiny):
    ssa("train", tiny, "--out", "run", "--quiet")
    assert "was trained on icl-every: text comes from runs of lm" in ssa("generate", "run", code=1).stderr


def test_it_streams_and_can_be_stopped(trained):
    (trained.folder / "prompts.txt").write_text("the dog\n" * 100_000)
    running = trained.start("generate", "run", "--prompts", "prompts.txt", "--tokens", "5")
    first = json.loads(running.stdout.readline())
    assert first["prompt"] == "the dog"
    os.kill(running.pid, signal.SIGINT)
    rest, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert all(json.loads(line)["prompt"] == "the dog" for line in rest.splitlines())
