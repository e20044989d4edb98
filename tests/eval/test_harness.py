"""`ssa eval --suite zero-shot` and `ppl`: what EleutherAI's lm-evaluation-harness itself says of the same checkpoint."""

import csv
import json
import math
import sys
from itertools import compress
from pathlib import Path
from types import ModuleType

import pytest
import tomllib
from test_language import END, trained  # noqa: F401
from test_zero_shot import TASKS, asked, tasks  # noqa: F401
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

REASON = "lm-evaluation-harness is not installed: pip install lm-eval==0.4.13 accelerate"


@pytest.fixture(scope="module", autouse=True)
def installed():
    """In a fixture, for a file that skips as a whole has no tests, which is an error."""
    pytest.importorskip("lm_eval", reason=REASON)


PROJECT = Path(__file__).parents[2] / "configs/zero-shot"
NATS_PER_TOKEN = 1e-5  # float32: a log-probability of 6 is known to 5e-7, logits to some 1e-6

SPEECH = "the dog said : the cats like the mat , and a bird sees them"
QUESTION = {"question": "where is the dog?", "choices": ["on the mat", "in the water", "a bird sees it"], "label": 1}


def with_answer_key(item):
    letters = ["A", "B", "C"]
    return {"choices": {"text": item["choices"], "label": letters}, "answerKey": letters[item["label"]]}


def the_same(item):
    return item, item


SCIENCE = QUESTION, {"question": QUESTION["question"]} | with_answer_key(QUESTION)

# task of the project: (the harness's file, an item as the project's file has it, the same as the harness's data set has it)
ITEMS = {
    "arc_easy": ("arc/arc_easy.yaml", *SCIENCE),
    "arc_challenge": ("arc/arc_challenge.yaml", *SCIENCE),
    "openbookqa": (
        "openbookqa/openbookqa.yaml",
        {"question_stem": "the dog is on"} | QUESTION,
        {"question_stem": "the dog is on"} | with_answer_key(QUESTION),
    ),
    "boolq": (
        "super_glue/boolq/default.yaml",
        {"passage": SPEECH, "question": "is there a dog", "answer": True},
        {"passage": SPEECH, "question": "is there a dog", "label": 1},
    ),
    "cb": (
        "super_glue/cb/default.yaml",
        {"premise": SPEECH, "hypothesis": "the cats like the mat", "label": "entailment"},
        {"premise": SPEECH, "hypothesis": "the cats like the mat", "label": 0},
    ),
    "copa": (
        "super_glue/copa/default.yaml",
        {"query": "The dog sees a fish, therefore", "choices": ["it is here.", "the fish swims."], "label": 1},
        {
            "premise": "The dog sees a fish,.",
            "question": "effect",
            "choice1": "It is here.",
            "choice2": "The fish swims.",
            "label": 1,
        },
    ),
    "hellaswag": (
        "hellaswag/hellaswag.yaml",
        {"ctx": "Looking: the dog looks. The bird", "endings": ["sees it.", "is a fish.", "swims .", "!"], "label": 0},
        {
            "activity_label": "Looking",
            "ctx_a": "the dog looks.",
            "ctx_b": "the bird",
            "endings": ["sees  it.", "is a fish.", "swims [step] .", "!"],
            "label": "0",
        },
    ),
    "lambada": (
        "lambada/lambada_openai.yaml",
        {"context": SPEECH, "continuation": "\n\nthere"},
        {"text": SPEECH + " \n\nthere"},
    ),
    "multirc": (
        "super_glue/multirc/default.yaml",
        *the_same({"paragraph": SPEECH, "question": "who is it?", "answer": "the dog", "label": 1}),
    ),
    "piqa": (
        "piqa/piqa.yaml",
        *the_same({"goal": "see a fish", "sol1": "look in the water .", "sol2": "look at 'the' \"mat\" .", "label": 0}),
    ),
    "record": (
        "super_glue/record/default.yaml",
        {
            "passage": SPEECH + "\n\n  - the dog speaks.\n  - it is here.",
            "query": "who but @placeholder's dog ?",
            "entities": ["the cats", "the dog"],
            "label": [1],
        },
        {
            "passage": SPEECH + "\n@highlight\nthe dog speaks\n@highlight\nit is here",
            "query": "who but @placeholder's dog ?",
            "entities": ["the dog", "the cats"],
            "answers": ["the dog"],
        },
    ),
    "rte": (
        "super_glue/rte/default.yaml",
        {"premise": SPEECH, "hypothesis": "The cats are here.", "label": "not_entailment"},
        {"premise": SPEECH, "hypothesis": "The cats are here.", "label": 1},
    ),
    "wic": (
        "super_glue/wic/default.yaml",
        {"word": "sees", "sentence1": "the dog sees it", "sentence2": "it sees to it", "label": True},
        {"sentence1": "the dog sees it", "start1": 8, "end1": 12, "sentence2": "it sees to it", "label": 1},
    ),
    "winogrande": (
        "winogrande/default.yaml",
        *the_same({"sentence": "the dog sees it as _  looks .", "option1": "the dog", "option2": "it", "answer": "1"}),
    ),
    "wsc": (
        "super_glue/wsc/default.yaml",
        {"text": "The dog sees a fish as *it* looks.", "pronoun": "it", "noun": "The dog", "label": True},
        {
            "text": "The dog sees a fish as it looks.",
            "span1_text": "The dog",
            "span2_text": "it",
            "span2_index": 6,
            "label": 1,
        },
    ),
}


def harness(folder, run, length):
    """The harness's model of a run's last checkpoint. It reads no special tokens, as `ssa eval` does not."""
    (checkpoint,) = sorted((folder / run / "checkpoints").glob("step-*"), key=lambda path: int(path.name[5:]))[-1:]
    from lm_eval.models.huggingface import HFLM

    return HFLM(
        pretrained=AutoModelForCausalLM.from_pretrained(checkpoint).eval(),
        tokenizer=PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), eos_token="</s>"),
        backend="causal",
        device="cpu",
        max_length=length,
        add_bos_token=False,
        prefix_token_id=END,
        batch_size=4,
    )


def ask(model, kind, arguments):
    from lm_eval.api.instance import Instance

    requests = [Instance(kind, {}, one, number) for number, one in enumerate(arguments)]
    return getattr(model, kind)(requests, disable_tqdm=True)


def read_choices(file):
    with file.open() as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def check(ours, model, arguments):
    """ours: rows of --choices; arguments: (context, continuation) of the same."""
    theirs = ask(model, "loglikelihood", arguments)
    for row, request, (log_probability, greedy) in zip(ours, arguments, theirs, strict=True):
        bound = NATS_PER_TOKEN * len(model.tok_encode(request[1]))
        assert float(row["log_probability"]) == pytest.approx(log_probability, rel=0, abs=bound), request
        assert row["greedy"] == str(int(greedy)), request


@pytest.mark.parametrize("preset", ["nemotron-tiny", "gpt2-tiny"])
def test_log_likelihoods_are_the_harnesss(tasks, preset):  # noqa: F811
    tasks("train", "config.toml", "--preset", preset, "--score", "softmax", "--out", preset, "--quiet")
    tasks("eval", preset, "--suite", "zero-shot", "--tasks", "tasks", "--choices", "choices.tsv")
    ours = read_choices(tasks.folder / "choices.tsv")
    arguments = []
    for name in sorted(TASKS):
        for item in TASKS[name][1]:
            contexts, _, scored, _ = asked(name, item)
            arguments += [(context, " " + text) for context, text in zip(contexts, scored, strict=True)]
    model = harness(tasks.folder, preset, 32)
    # The harness refuses continuations of more tokens than the model reads; test_zero_shot.py has what ours does with them.
    tokens = [len(model.tok_encode(context + text)) - len(model.tok_encode(context)) for context, text in arguments]
    read = [count <= 32 for count in tokens]
    assert 0 < read.count(False) < len(read) / 10
    check(list(compress(ours, read)), model, list(compress(arguments, read)))
    assert {row["greedy"] for row in ours} == {"0", "1"}


@pytest.fixture
def asks(monkeypatch):
    """asks(file, item): the (context, continuation) that one of the harness's own task files makes of an item."""
    import datasets
    import lm_eval
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks._yaml_loader import load_yaml

    # What the file of ReCoRD imports for its metrics has left Transformers 5.
    for name in ("transformers.data.metrics", "transformers.data.metrics.squad_metrics"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))

    def ask_it(file, item):
        config = load_yaml(str(Path(lm_eval.__file__).parent / "tasks" / file), resolve_func=True)
        config |= {"custom_dataset": lambda **_: {"test": datasets.Dataset.from_list([item])}, "test_split": "test"}
        config |= {"training_split": None, "validation_split": None}
        task = ConfigurableTask(config=config)
        task.build_all_requests()
        return [request.args for request in task.instances]

    return ask_it


def test_the_projects_tasks_ask_what_the_harness_asks(trained, asks, monkeypatch):  # noqa: F811
    flags = ["--max-positions", 512, "--length", 32, "--steps", 1]
    trained("train", "config.toml", "--score", "softmax", "--out", "wide", "--quiet", *flags)
    monkeypatch.setenv("SSA_DATA", str(trained.folder))
    (trained.folder / "tasks").mkdir()
    names = sorted(file.stem for file in PROJECT.glob("*.toml"))
    assert names == sorted(ITEMS)
    arguments = []
    for name in names:
        file, ours, theirs = ITEMS[name]
        task = tomllib.loads((PROJECT / f"{name}.toml").read_text())["task"]
        (trained.folder / task["file"]).write_text(json.dumps(ours) + "\n")
        asked_of_it = asks(file, theirs)
        arguments += reversed(asked_of_it) if name == "multirc" else asked_of_it  # which has yes before no
    trained("eval", "wide", "--suite", "zero-shot", "--tasks", PROJECT, "--choices", "choices.tsv")
    check(read_choices(trained.folder / "choices.tsv"), harness(trained.folder, "wide", 512), arguments)


def test_perplexity_is_the_harnesss(trained):  # noqa: F811
    documents = (trained.folder / "texts.txt").read_text().removesuffix("\n").split("\n<|endoftext|>\n")
    for number, document in enumerate(documents):
        (trained.folder / f"{number}.txt").write_text(document + "\n")
    trained("eval", "run", "--suite", "ppl", "--texts", "0.txt,1.txt", "--lengths", 32)
    record = json.loads((trained.folder / "run/evals/ppl.json").read_text())
    rows = [row for row in record["rows"] if row["metric"] == "perplexity"]
    theirs = ask(harness(trained.folder, "run", 32), "loglikelihood_rolling", [(text,) for text in documents])
    for row, log_probability in zip(rows, theirs, strict=True):
        tokens = row["items"]
        assert -math.log(row["mean"]) * tokens == pytest.approx(log_probability, rel=0, abs=NATS_PER_TOKEN * tokens)
