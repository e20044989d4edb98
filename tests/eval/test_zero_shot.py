"""`ssa eval --suite zero-shot`: what a plain Hugging Face loop says that scores as EleutherAI's harness does."""

import csv
import json
import math
import re
import statistics
import string
from collections import Counter
from pathlib import Path

import pytest
import torch
from test_language import END, encoder, theirs, trained  # noqa: F401

TASKS = {
    "science": (
        'context = ["Question: {question}\\nAnswer:"]\nchoices = ["{choices}"]\nlabel = "label"',
        [
            {"question": "where is the dog?", "choices": ["on the mat", "the fish", "a bird sees it"], "label": 0},
            {"question": "what is in the water?", "choices": ["the cats and the dog on the hat", "fish"], "label": 1},
            {"question": "who looks?", "choices": ["they look .", "é ü", "look ! " * 40], "label": 2},
            {"question": "the cats like the dog . " * 9, "choices": ["yes", "no it is a bird"], "label": 0},
        ],
    ),
    "truth": (
        'context = ["{text}\\nAnswer: "]\nchoices = ["no", "yes"]\nlabel = "answer"\nlabels = ["false", "true"]',
        [{"text": "the dog is here", "answer": True}, {"text": "the fish sees", "answer": False}],
    ),
    "schema": (
        'split_field = "sentence"\nsplit_at = "_"\ncontext = ["{before}{option1}", "{before}{option2}"]'
        + '\nchoices = ["{rest}", "{rest}"]\nlabel = "answer"\nlabels = ["1", "2"]',
        [
            {"sentence": "the dog sees _  on the mat. ", "option1": "cats", "option2": "water", "answer": "1"},
            {"sentence": "_ is in the water.", "option1": "the hat", "option2": "the fish", "answer": "2"},
            {"sentence": "_\x1f sees the cats\x1c", "option1": "it", "option2": "the dog", "answer": "1"},
        ],
    ),
    "published": (  # a Winograd schema as WSC273 has it
        'split_field = "text"\nsplit_at = "{pronoun}"\nsplit_place = "pronoun_loc"\ncontext = ["{before}{options}"]'
        + '\nchoices = ["{rest}"]\nlabel = "label"',
        [
            {
                "text": "the dog sees it as it looks .",
                "pronoun": "it",
                "pronoun_loc": 19,
                "options": ["a dog", "fish"],
                "label": 1,
            },
            {"text": "é! they look .", "pronoun": "they", "pronoun_loc": 3, "options": ["a", "b", "c"], "label": 0},
        ],
    ),
    "entities": (
        'split_field = "query"\nsplit_at = "@"\ncontext = ["{passage}\\n"]\nchoices = ["{entities}"]\nlabel = "label"\n'
        + 'continuation = "{before}{choice}{after}"',
        [
            {
                "passage": "the dog is here .",
                "query": "@ sees the cats .",
                "entities": ["the dog", "it", "a bird"],
                "label": [0, 1],
            },
            {"passage": "look !", "query": "where is @ ?", "entities": ["the mat", "fish", "the dog"], "label": [2]},
        ],
    ),
    "word": (
        'context = ["{context}"]\nchoices = ["{last}"]',
        [
            {"context": "the cats like the", "last": "dog"},
            {"context": "the dog likes the", "last": "zebra"},
            {"context": "", "last": "look"},
            {"context": "the cats are on the mat and the dog is on the", "last": "hat"},
            # What Python counts as white space at an end, U+001C to U+001F too; U+200B is none.
            *(
                {"context": f"the dog is on the{end}", "last": "mat"}
                for end in ("\x1c", " \x1d\x1e", "\x1f\x85", "\u200b")
            ),
        ],
    ),
}


def asked(name, item):
    """(contexts, choices, what is scored of each, the right ones) by the words of the task."""
    if name == "science":
        contexts = [f"Question: {item['question']}\nAnswer:"] * len(item["choices"])
        return contexts, item["choices"], item["choices"], [item["label"]]
    if name == "truth":
        return [f"{item['text']}\nAnswer: "] * 2, ["no", "yes"], ["no", "yes"], [int(item["answer"])]
    if name == "schema":
        before, after = item["sentence"].split("_")
        contexts = [before + item[option] for option in ("option1", "option2")]
        return contexts, [after.strip()] * 2, [after.strip()] * 2, [int(item["answer"]) - 1]
    if name == "published":
        start = item["pronoun_loc"]
        before, after = item["text"][:start], item["text"][start + len(item["pronoun"]) :].strip()
        contexts = [before + option for option in item["options"]]
        return contexts, [after] * len(contexts), [after] * len(contexts), [item["label"]]
    if name == "entities":
        queries = [item["query"].replace("@", entity) for entity in item["entities"]]
        return [item["passage"] + "\n"] * len(queries), item["entities"], queries, item["label"]
    return [item["context"]], [item["last"]], [item["last"]], None


@torch.no_grad()
def log_likelihood(model, encode, context, continuation):
    """The harness's _encode_pair and _loglikelihood_tokens; the disjoint windows of its
    get_rolling_token_windows where the continuation is longer than the model reads."""
    spaces = len(context) - len(context.rstrip())
    if spaces:
        continuation = context[-spaces:] + continuation
        context = context[:-spaces]
    whole, first = encode(context + continuation), encode(context)
    rest = whole[len(first) :]
    length = model.config.max_position_embeddings
    joined = (first or [END]) + rest
    total, greedy = 0.0, True
    for begin in range(len(joined) - len(rest), len(joined), length):
        target = torch.tensor(joined[begin : begin + length])
        read = joined[: begin + len(target) - 1][-length:]
        logits = model(input_ids=torch.tensor([read])).logits[0, -len(target) :].double().log_softmax(-1)
        total += logits.gather(1, target[:, None]).sum().item()
        greedy = greedy and bool((logits.argmax(1) == target).all())
    return total, greedy


@pytest.fixture
def tasks(trained):  # noqa: F811
    (trained.folder / "tasks").mkdir()
    for name, (lines, items) in TASKS.items():
        (trained.folder / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
        (trained.folder / f"tasks/{name}.toml").write_text(f'[task]\nname = "{name}"\nfile = "{name}.jsonl"\n{lines}\n')
    return trained


def test_it_is_what_hugging_face_says(tasks, theirs):  # noqa: F811
    model, encode = theirs[0], encoder(theirs[1])
    tasks("eval", "run", "--suite", "zero-shot", "--tasks", "tasks", "--choices", "choices.tsv")
    record = json.loads((tasks.folder / "run/evals/zero-shot.json").read_text())
    found = {(row["text"], row["metric"]): row for row in record["rows"] if row["predictor"] == "model"}
    with (tasks.folder / "choices.tsv").open() as file:
        ours = iter(sorted(csv.DictReader(file, delimiter="\t"), key=lambda row: list(TASKS).index(row["task"])))
    for name, (_, items) in TASKS.items():
        right = {"acc": 0, "acc_norm": 0, "acc_bytes": 0}
        nats = 0.0
        for number, item in enumerate(items):
            contexts, choices, scored, labels = asked(name, item)
            sums = []
            for context, continuation in zip(contexts, scored, strict=True):
                value, greedy = log_likelihood(model, encode, context, " " + continuation)
                row = next(ours)
                assert (row["task"], int(row["item"])) == (name, number)
                assert float(row["log_probability"]) == pytest.approx(value, rel=1e-4)
                sums.append(value)
            nats -= sums[0]
            if labels is None:
                right["acc"] += greedy
                continue
            lengths = {"acc": [1] * len(sums), "acc_norm": map(len, choices)}
            lengths["acc_bytes"] = [len(choice.encode()) for choice in choices]
            for metric, sizes in lengths.items():
                scores = [value / size for value, size in zip(sums, sizes, strict=True)]
                right[metric] += scores.index(max(scores)) in labels
        for metric, count in right.items():
            if name != "word" or metric == "acc":
                assert found[name, metric]["mean"] == pytest.approx(100 * count / len(items)), (name, metric)
                assert found[name, metric]["items"] == len(items)
        if name == "word":
            assert found[name, "perplexity"]["mean"] == pytest.approx(math.exp(nats / len(items)), rel=1e-4)


def test_chance_majority_and_constant_predictions(tasks):
    items = [{"text": "the dog", "answer": True}] * 3 + [{"text": "the dog", "answer": False}]
    (tasks.folder / "truth.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    done = tasks("eval", "run", "--suite", "zero-shot", "--tasks", "tasks/truth.toml,tasks/science.toml")
    record = json.loads((tasks.folder / "run/evals/zero-shot.json").read_text())
    means = {(row["text"], row["predictor"]): row["mean"] for row in record["rows"] if row["metric"] == "acc"}
    assert means["truth", "chance"] == 50
    assert means["truth", "majority"] == 75
    assert means["science", "chance"] == pytest.approx(100 * (1 / 3 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert record["tasks"][0]["constant"]  # the same question four times
    assert record["tasks"][0]["labels"] == [1, 3]
    assert "always the same choice" in done.stdout


ANSWERS = [
    ["The Dog!", "dog"],
    ["a bird in the water", "bird, sees an 'water'"],
    ["the dog", "a big dog of the house", "cats, a dog and a bird"],
    ["the fish", "the mat"],
    ["dog dog cat", "dog cat cat cat"],
    ["the", "A !"],
    ["an", "ant"],
    ["Éa the\u2014mat", "éa \u2014\u00a0MAT"],
    ["it's theirs", "its"],
]


def normalized(answer):
    """SQuAD's script, by its definition."""
    text = "".join(character for character in answer.lower() if character not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def f1(predicted, right):
    if not predicted or not right:
        return float(predicted == right)
    same = sum((Counter(predicted) & Counter(right)).values())
    precision, recall = same / len(predicted), same / len(right)
    return 2 * precision * recall / (precision + recall) if same else 0.0


def test_answers_are_compared_by_their_words(tasks):
    lines = 'context = ["who is it ?"]\nchoices = ["{answers}"]\nlabel = "label"\nmetrics = ["f1", "em"]\n'
    (tasks.folder / "task.toml").write_text(f'[task]\nname = "x"\nfile = "x.jsonl"\n{lines}')

    def evaluate(labels):
        items = [{"answers": answers, "label": label} for answers, label in zip(ANSWERS, labels, strict=True)]
        (tasks.folder / "x.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
        return tasks("eval", "run", "--suite", "zero-shot", "--tasks", "task.toml", "--choices", "choices.tsv").stdout

    evaluate([0] * len(ANSWERS))
    sums = [[] for _ in ANSWERS]
    with (tasks.folder / "choices.tsv").open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            sums[int(row["item"])].append(float(row["log_probability"]))
    predicted = [values.index(max(values)) for values in sums]
    right = [[i for i in range(len(values)) if i != one] for values, one in zip(sums, predicted, strict=True)]
    printed = evaluate(right)  # so that acc is 0
    record = json.loads((tasks.folder / "run/evals/zero-shot.json").read_text())
    rows = {row["metric"]: row for row in record["rows"] if row["predictor"] == "model"}
    assert rows["acc"]["mean"] == 0
    words = [[normalized(answer) for answer in answers] for answers in ANSWERS]
    found = list(zip(words, predicted, right, strict=True))
    values = {
        "em": [float(of[one] in [of[i] for i in others]) for of, one, others in found],
        "f1": [max(f1(of[one], of[i]) for i in others) for of, one, others in found],
    }
    assert values["f1"][:2] == [1, pytest.approx(2 / 3)]
    assert values["f1"][3:] == [0, pytest.approx(4 / 7), 1, 0, pytest.approx(0.4), pytest.approx(2 / 3)]
    for metric, of_items in values.items():
        assert rows[metric]["mean"] == pytest.approx(100 * statistics.mean(of_items), rel=1e-12)
        error = 100 * statistics.stdev(of_items) / math.sqrt(len(of_items))
        assert rows[metric]["standard_error"] == pytest.approx(error, rel=1e-9)
        assert f"{metric} {rows[metric]['mean']:.2f}" in printed


HEAD = '[task]\nname = "x"\nfile = "truth.jsonl"\ncontext = ["{text}"]\n'


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("tasks/truth.toml", '[task]\nname = "x"\n', "tasks/truth.toml: task.file is missing"),
        ("tasks/truth.toml", "[task]\nname = 3\n", "tasks/truth.toml:2: task.name"),
        ("tasks/truth.toml", '[task]\nnom = "x"\n', "tasks/truth.toml:2: unknown key task.nom"),
        (
            "tasks/truth.toml",
            HEAD + 'choices = ["{answer}"]\nmetrics = ["f1"]\n',
            "tasks/truth.toml: task.metrics compares the predicted choice with the right ones, but task.label is missing",
        ),
        (
            "tasks/truth.toml",
            HEAD + 'choices = ["{a}", "{a}"]\nlabel = "answer"\nmetrics = ["f1"]\n',
            'tasks/truth.toml: task.metrics compares choices by their words, but task.choices has "{a}" twice',
        ),
        (
            "tasks/truth.toml",
            HEAD + 'choices = ["{a}", "{b}"]\nlabel = "answer"\nmetrics = ["f1", "em", "f1"]\n',
            'tasks/truth.toml: task.metrics has "f1" twice',
        ),
        ("tasks/truth.toml", HEAD + 'metrics = ["rouge"]\n', "tasks/truth.toml:5: task.metrics"),
        *[
            (
                "tasks/truth.toml",
                HEAD + f'choices = ["{text}"]\n',
                f'task.choices: "{text}" has a brace without its other',
            )
            for text in ("{answer", "answer}", "{{answer}}", "{a} {")
        ],
        (
            "tasks/truth.toml",
            HEAD + 'choices = ["a", "b"]\nlabel = "answer"\ncontinuation = "so"\n',
            'tasks/truth.toml: task.continuation = "so" has no {choice} in it',
        ),
        ("truth.jsonl", '{"text": null, "answer": true}\n', 'truth.jsonl:1: field "text" is null, where a text'),
        ("truth.jsonl", "", "truth.jsonl: is empty"),
        ("truth.jsonl", "no\n", "truth.jsonl:1: not valid JSON (byte 2)"),
        ("truth.jsonl", '{"text": "a", "answer": true}\n{"text": "a"}\n', 'truth.jsonl:2: field "answer" is missing'),
        ("truth.jsonl", '{"text": "a", "answer": 7}\n', 'field "answer" is 7, which names none of the 2 choices'),
        ("truth.jsonl", '{"text": "a", "answer": []}\n', 'field "answer" names no right choice'),
    ],
)
def test_broken_files_are_refused(tasks, file, text, message):
    (tasks.folder / file).write_text(text)
    done = tasks("eval", "run", "--suite", "zero-shot", "--tasks", "tasks/truth.toml", code=1)
    assert message in done.stderr


def test_tasks_of_one_name_are_refused(tasks):
    (tasks.folder / "tasks/again.toml").write_text((tasks.folder / "tasks/truth.toml").read_text())
    done = tasks("eval", "run", "--suite", "zero-shot", "--tasks", "tasks", code=1)
    assert 'tasks/truth.toml: there is another task of the name "truth"' in done.stderr


def test_tasks_whose_data_is_missing_are_named(tasks, monkeypatch):
    monkeypatch.setenv("SSA_DATA", str(tasks.folder / "nothing"))
    (tasks.folder / "word.jsonl").unlink()
    done = tasks("eval", "run", "--suite", "zero-shot", "--tasks", "tasks")
    assert "Left out, as their data is not there: word" in done.stdout
    done = tasks("eval", "run", "--suite", "zero-shot", "--tasks", "tasks/word.toml", code=1)
    assert "word.jsonl" in done.stderr


def test_the_projects_tasks_read_the_real_files(trained, real_data, monkeypatch):  # noqa: F811
    trained(
        "train", "config.toml", "--out", "wide", "--quiet", "--max-positions", "512", "--length", "32", "--steps", "1"
    )
    monkeypatch.setenv("SSA_DATA", str(real_data))
    folder = Path(__file__).parents[2] / "configs/zero-shot"
    trained("eval", "wide", "--suite", "zero-shot", "--tasks", folder, "--items", "3")
    record = json.loads((trained.folder / "wide/evals/zero-shot.json").read_text())
    run = {task["task"]: task["items_of_file"] for task in record["tasks"]}
    assert run == {
        "arc_challenge": 586, "arc_easy": 2376, "boolq": 3270, "copa": 100, "hellaswag": 500, "lambada": 5153,
        "openbookqa": 500, "piqa": 1838, "winogrande": 1267,
    }  # fmt: skip
    assert set(record["missing"]) == {"cb", "multirc", "record", "rte", "wic", "wsc"}
    assert {row["items"] for row in record["rows"] if row["predictor"] == "model"} == {3}
