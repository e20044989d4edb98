"""What tests of the built program share."""

import os
import pty
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
import tomllib

# A model and a course so small that a run takes a second.
TINY = """
[model]
layers = 2
heads = 2
width = 16
max_positions = 32

[task]
points_start = 3
points_end = 7
points_step = 1
points_interval = 5

[train]
steps = 6
batch = 4
learning_rate = 1e-3
log_interval = 1
eval_interval = 3
eval_batches = 2
checkpoint_interval = 3
threads = 1
"""


# A masked language model of the same kind; the test makes tokenizer.json and train.txt.
TINY_MASKED = """
[model]
preset = "babyberta-tiny"
vocabulary = 400

[task]
name = "mlm"
tokenizer = "tokenizer.json"
text = ["train.txt"]
validation_text = ["train.txt"]
least_words = 1

[train]
steps = 60
batch = 8
learning_rate = 3e-3
log_interval = 1
eval_interval = 30
eval_batches = 1
checkpoint_interval = 20
threads = 1
"""

# A language model of the same kind; the test makes tokenizer.json and the tokens train and held-out.
TINY_LANGUAGE = """
[model]
preset = "nemotron-tiny"
vocabulary = 400
max_positions = 32
init_std = 0.1

[task]
name = "lm"
tokenizer = "tokenizer.json"
tokens = ["train"]
validation_tokens = ["train-held-out"]

[train]
steps = 60
batch = 4
learning_rate = 1e-2
log_interval = 1
eval_interval = 30
eval_batches = 2
checkpoint_interval = 20
threads = 1
"""


class Program:
    """Runs `ssa` in a folder of its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.binary = os.environ["SSA_BINARY"]

    def __call__(self, *arguments, code=0):
        """The finished process. Whatever fails says so in one line on stderr."""
        done = subprocess.run(
            [self.binary, *map(str, arguments)],
            cwd=self.folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        if code != 0:
            assert done.stderr.startswith("ssa: ")
            assert done.stderr.count("\n") == 1, done.stderr
        return done

    def on_terminal(self, *arguments, stream):
        """The bytes that it writes to "stdout" or "stderr", which is a terminal."""
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [self.binary, *map(str, arguments)],
            cwd=self.folder,
            env=os.environ | {"TERM": "xterm"},
            **({"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | {stream: follower}),
        )
        os.close(follower)
        shown = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:  # Linux' way to say that the other end is closed
                break
            if not part:
                break
            shown += part
        os.close(leader)
        assert process.wait() == 0
        return shown

    def start(self, *arguments):
        """A running process, its standard output a pipe of text lines."""
        return subprocess.Popen(
            [self.binary, *map(str, arguments)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def ssa(tmp_path):
    return Program(tmp_path)


@pytest.fixture(scope="session")
def real_data():
    """The folder of the real data, which SSA_DATA names. Tests skip where there is none."""
    if not os.environ.get("SSA_DATA"):
        pytest.skip("no real data: the environment variable SSA_DATA names no folder")
    folder = Path(os.environ["SSA_DATA"]).resolve()
    if not folder.is_dir():
        pytest.skip(f"no real data: SSA_DATA = {os.environ['SSA_DATA']} is no folder")
    return folder


@pytest.fixture
def small_data(real_data, tmp_path_factory):
    """The real tokenizers, and the first lines of the real texts: a folder for SSA_DATA."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("babyberta", "tokenizers"):
        (folder / name).symlink_to((real_data / name).resolve())
    texts = {
        200: ["aochildes/train.txt", "aochildes/dev.txt", "wikipedia/wikisplit_sentences.txt"],
        60: ["web_and_books/books_valid.txt", "web_and_books/fineweb_edu_sample_valid.txt"],
        8: ["zorro/sentences/*.txt", "tasks/*.jsonl", "tasks/blimp/*.jsonl"],
        2: ["*/*_valid.jsonl"],
    }
    for count, patterns in texts.items():
        for text in (path for pattern in patterns for path in real_data.glob(pattern)):
            copy = folder / text.relative_to(real_data)
            copy.parent.mkdir(parents=True, exist_ok=True)
            with text.open() as lines:
                copy.write_text("".join(islice(lines, count)))
    return folder


@pytest.fixture
def data_for(ssa, request, monkeypatch):
    """data_for(config): what a config of the project reads, small: SSA_DATA, and for task lm the tokens it names."""

    def find(name):
        own = ssa.folder / name
        return own if own.exists() else Path(os.environ["SSA_DATA"]) / name

    def make(config):
        task = tomllib.loads(config.read_text())["task"]
        if task.get("name") not in ("lm", "mlm"):
            return
        monkeypatch.setenv("SSA_DATA", str(request.getfixturevalue("small_data")))
        if task["name"] == "mlm":
            return
        text = ssa.folder / "text.txt"
        text.write_text("look !\n".join(f"{i} birds see a fish .\n" * 90 for i in range(40)))
        (ssa.folder / "tokens").mkdir()
        flags = ["--out", task["tokens"][0], "--held-out", 0.5, "--document-line", "look !"]
        if "merges" in task:
            flags += ["--merges", find(task["merges"])]
        else:  # a tokenizer of one's own
            monkeypatch.setenv("SSA_PYTHON", sys.executable)
            ssa("tokenizer", "train", text, "--vocabulary", 512, "-o", task["tokenizer"])
        ssa("data", "tokenize", text, "--tokenizer", find(task["tokenizer"]), *flags)

    return make


@pytest.fixture
def tiny(tmp_path):
    """The path of a config whose run takes a second."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture
def masked(ssa, babyberta_tokenizer):
    """make(sentences): `ssa` in a folder with config.toml (TINY_MASKED), train.txt and tokenizer.json."""

    def make(sentences):
        (ssa.folder / "train.txt").write_text("\n".join(sentences) + "\n")
        babyberta_tokenizer(ssa.folder / "tokenizer.json", sentences)
        (ssa.folder / "config.toml").write_text(TINY_MASKED)
        return ssa

    return make


@pytest.fixture
def language(ssa, babyberta_tokenizer):
    """make(documents): `ssa` in a folder with config.toml (TINY_LANGUAGE), tokenizer.json, train.txt and its tokens."""

    def make(documents):
        (ssa.folder / "train.txt").write_text("\n<|endoftext|>\n".join(documents) + "\n")
        babyberta_tokenizer(ssa.folder / "tokenizer.json", documents)
        (ssa.folder / "config.toml").write_text(TINY_LANGUAGE)
        tokenize = ["--tokenizer", "tokenizer.json", "--out", "train", "--held-out", "0.2"]
        ssa("data", "tokenize", "train.txt", *tokenize)
        return ssa

    return make


@pytest.fixture
def babyberta_tokenizer():
    """make(file, sentences): a small tokenizer.json of BabyBERTa's kind (<mask> 0, <pad> 1, …), trained on them."""

    def make(file, sentences):
        # Here, because most tests do without the package.
        from tokenizers import (
            AddedToken,
            Tokenizer,
            decoders,
            models,
            normalizers,
            pre_tokenizers,
            processors,
            trainers,
        )

        tokenizer = Tokenizer(models.BPE())
        tokenizer.normalizer = normalizers.Lowercase()
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = decoders.ByteLevel()
        special = [AddedToken("<mask>", lstrip=True, normalized=False), "<pad>", "<unk>", "<s>", "</s>"]
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
        tokenizer.train_from_iterator(sentences, trainer)
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 4), ("<s>", 3), add_prefix_space=True)
        tokenizer.save(str(file))

    return make
