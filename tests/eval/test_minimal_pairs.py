"""`ssa eval --suite zorro|zorro-mlm|blimp-mlm`: sentence by sentence what a plain Hugging Face loop says."""

import csv
import json

import pytest
import torch
from transformers import PreTrainedTokenizerFast, RobertaForMaskedLM

SENTENCES = [
    "the dog likes the cats .",
    "the dogs like the cat .",
    "where is the dog ?",
    "the dog on the mats likes Sarah .",
    "look !",
]
PAIRS = {  # ungrammatical first
    "agreement-across_phrase": [
        "the dog like the cats .",
        "the dog likes the cats .",
        "dogs likes it .",
        "dogs like it .",
    ],
    "agreement-in_question": ["where is the dogs ?", "where is the dog ?"],
    "binding-principle_a": ["look Sarah !", "look !"],
}


@pytest.fixture
def trained(masked):
    ssa = masked(SENTENCES)
    (ssa.folder / "zorro").mkdir()
    for name, lines in PAIRS.items():
        (ssa.folder / "zorro" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    ssa("train", "config.toml", "--score", "softmax", "--out", "run", "--quiet")
    return ssa


def hugging_face(folder):
    model = RobertaForMaskedLM.from_pretrained(folder / "run/checkpoints/step-60").eval()
    return model, PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))


@torch.no_grad()
def holistic(model, tokenizer, sentence):
    ids = torch.tensor([tokenizer.encode(sentence)])
    return model(input_ids=ids, labels=ids).loss.item()


@torch.no_grad()
def pseudo_log_likelihood(model, tokenizer, sentence):
    ids = torch.tensor([tokenizer.encode(sentence)])
    total = 0.0
    for place in range(1, ids.shape[1] - 1):
        masked = ids.clone()
        masked[0, place] = 0
        total += model(input_ids=masked).logits[0, place].log_softmax(-1)[ids[0, place]].item()
    return total


@pytest.mark.parametrize(
    ("suite", "score", "lower_wins"), [("zorro", holistic, True), ("zorro-mlm", pseudo_log_likelihood, False)]
)
def test_zorro_is_what_hugging_face_says(trained, suite, score, lower_wins):
    done = trained("eval", "run", "--suite", suite, "--data", "zorro", "--sentences", "scores.tsv")
    model, tokenizer = hugging_face(trained.folder)
    with (trained.folder / "scores.tsv").open() as file:
        scores = list(csv.DictReader(file, delimiter="\t"))
    rows = json.loads((trained.folder / f"run/evals/{suite}.json").read_text())["rows"]
    accuracy = {row["paradigm"]: row for row in rows}
    assert len(scores) == 4
    for name, lines in PAIRS.items():
        own = [row for row in scores if row["paradigm"] == name]
        right = 0
        for pair, row in enumerate(own):
            bad, good = (score(model, tokenizer, line) for line in lines[2 * pair : 2 * pair + 2])
            assert float(row["ungrammatical"]) == pytest.approx(bad, rel=1e-5)
            assert float(row["grammatical"]) == pytest.approx(good, rel=1e-5)
            right += good < bad if lower_wins else good > bad
        assert accuracy[name]["mean"] == 100 * right / len(own)
        assert accuracy[name]["items"] == len(own)
    average = sum(accuracy[name]["mean"] for name in PAIRS) / len(PAIRS)
    assert accuracy["average"]["mean"] == pytest.approx(average)
    assert f"{average:.2f}" in done.stdout


def test_bfloat16_scores_are_near(trained):
    trained("eval", "run", "--data", "zorro", "--sentences", "float32.tsv")
    trained("eval", "run", "--data", "zorro", "--sentences", "bfloat16.tsv", "--precision", "bfloat16")
    columns = []
    for name in ("float32.tsv", "bfloat16.tsv"):
        with (trained.folder / name).open() as file:
            columns.append([float(row["grammatical"]) for row in csv.DictReader(file, delimiter="\t")])
    assert columns[0] != columns[1]
    assert columns[1] == pytest.approx(columns[0], rel=2e-2)  # 8 bits of mantissa, two layers and a head


def test_blimp(trained):
    (trained.folder / "blimp").mkdir()
    item = {"sentence_good": "The dog likes it.", "sentence_bad": "The dog like it.", "linguistics_term": "agreement"}
    (trained.folder / "blimp/a.jsonl").write_text(json.dumps(item | {"UID": "sv"}) + "\n")
    trained("eval", "run", "--suite", "blimp-mlm", "--data", "blimp", "--sentences", "scores.tsv")
    model, tokenizer = hugging_face(trained.folder)
    with (trained.folder / "scores.tsv").open() as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    assert row["paradigm"] == "sv"
    expected = pseudo_log_likelihood(model, tokenizer, item["sentence_good"])
    assert float(row["grammatical"]) == pytest.approx(expected, rel=1e-5)


def test_what_does_not_fit_is_refused(trained):
    assert (
        "--sigma: belongs to --suite icl-shift, not to zorro" in trained("eval", "run", "--sigma", "2", code=1).stderr
    )
    refused = trained("eval", "run", "--suite", "icl-shift", code=1).stderr
    assert "no such suite for a model of mlm; there is zorro, zorro-mlm, blimp-mlm" in refused
    assert "--data" in trained("eval", "run", "--data", "nowhere", code=1).stderr
    for place in ("nowhere/scores.tsv", "zorro"):
        refused = trained("eval", "run", "--data", "zorro", "--sentences", place, code=1).stderr
        assert f"--sentences {place}: is not a file" in refused
    assert [file.name for file in (trained.folder / "run/evals").iterdir()] == ["zorro.failed"], "no results"


def test_the_real_zorro(masked, real_data, monkeypatch):
    """All paradigms are read, beside the published values; an untrained model is near chance."""
    monkeypatch.setenv("SSA_DATA", str(real_data.resolve()))
    ssa = masked(["any words at all"])
    config = ssa.folder / "config.toml"
    config.write_text(
        config.read_text()
        .replace("vocabulary = 400", "vocabulary = 8192")
        .replace('"tokenizer.json"', '"babyberta/tokenizer.json"')
        .replace('"train.txt"', '"aochildes/dev.txt"')
    )
    ssa("train", "config.toml", "--out", "run", "--quiet")
    done = ssa("eval", "run", "--suite", "zorro")
    rows = json.loads((ssa.folder / "run/evals/zorro.json").read_text())["rows"]
    own = [row for row in rows if row["predictor"] == "model" and row["items"] == 2000]
    assert len({row["paradigm"] for row in own}) >= 23
    (average,) = [row for row in rows if row["predictor"] == "model" and row["paradigm"] == "average"]
    assert average["items"] == 46000
    assert 30 < average["mean"] < 70
    (published,) = [row for row in rows if row["predictor"] == "published" and row["paradigm"] == "average"]
    assert published["mean"] == 77.87
    assert "77.87" in done.stdout
