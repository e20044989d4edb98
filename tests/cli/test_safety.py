"""What files, names and an odd environment must not do: run code, move the cursor, hang, end without a word."""

import json
import os
import subprocess
import sys
import time

import pytest


def run(ssa, *arguments, **options):
    return subprocess.run(
        [ssa.binary, *map(str, arguments)], cwd=ssa.folder, check=False, timeout=60, capture_output=True, **options
    )


def test_control_characters_of_names_are_shown_not_obeyed(ssa):
    name = "\x1b]0;title\x07\x9b31m"
    done = ssa("train", f"{name}.toml", code=1)
    assert done.stderr == "ssa: \\x1b]0;title\\x07\\u009b31m.toml: no such file\n"
    (ssa.folder / "run").mkdir()
    record = {"schema": 1, "name": "x", "config": {"model": {"score": "\x1b[2J"}}}
    (ssa.folder / "run/run.json").write_text(json.dumps(record))
    assert "\x1b" not in ssa("info", "run", code=1).stderr


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", ">&- 2>&- <&-"])
def test_errors_without_a_standard_error(ssa, redirection):
    command = f'"{ssa.binary}" train absent.toml {redirection}'
    assert subprocess.run(command, shell=True, cwd=ssa.folder, check=False).returncode == 1


def test_closed_descriptors_do_not_become_the_log(ssa, tiny):
    command = f'"{ssa.binary}" train tiny.toml --out run --steps 2 <&- >&- 2>&-'
    subprocess.run(command, shell=True, cwd=ssa.folder, check=True)
    log = (ssa.folder / "run/log.txt").read_text()
    assert all(line[:2] == "20" for line in log.splitlines()), log


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["train", "pipe"], "pipe: not a file"),
        (["train", "tiny.toml", "--out", "pipe"], "pipe: is a file, not a folder"),
        (["tokenizer", "info", "pipe"], "pipe: is a pipe or device, not a file"),
        (["data", "tokenize", "pipe.txt", "--tokenizer", "t.json", "--out", "x"], "pipe.txt: is a pipe or device"),
        (["data", "info", "pipe"], "pipe.idx: is a pipe or device, not a file"),
        (["info", "folder"], "run.json is missing"),
        (["import", "folder", "--out", "x"], "config.json: is missing"),
    ],
)
def test_pipes_are_not_waited_for(ssa, tiny, arguments, message):
    (ssa.folder / "folder").mkdir()
    for name in ("pipe", "pipe.txt", "pipe.idx", "folder/run.json", "folder/config.json"):
        os.mkfifo(ssa.folder / name)
    assert message in ssa(*arguments, code=1).stderr


def test_python_modules_beside_the_text_are_not_run(ssa, monkeypatch):
    """`python -m` would look for tokenizers in the working directory first."""
    monkeypatch.setenv("SSA_PYTHON", sys.executable)
    for module in ("tokenizers", "ssa_attention", "argparse", "importlib"):
        (ssa.folder / f"{module}.py").write_text("raise SystemExit('ssa: run from the working directory')")
    (ssa.folder / "text.txt").write_text("a bird sees a fish .\n" * 30)
    ssa("tokenizer", "train", "text.txt", "--vocabulary", 300, "-o", "t.json")
    assert (ssa.folder / "t.json").exists()


@pytest.mark.parametrize("places", [":/absent", "/absent:", "/absent::/absent", ":", ".:./"])
def test_the_working_directory_is_none_of_the_places_of_pythonpath(ssa, monkeypatch, places):
    """An empty entry is the working directory, even for what Python itself imports at its start."""
    monkeypatch.setenv("SSA_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", f"{os.environ.get('PYTHONPATH', '')}:{places}")
    for module in ("tokenizers", "argparse", "usercustomize"):
        (ssa.folder / f"{module}.py").write_text("raise SystemExit('ssa: run from the working directory')")
    (ssa.folder / "text.txt").write_text("a bird sees a fish .\n" * 30)
    ssa("tokenizer", "train", "text.txt", "--vocabulary", 300, "-o", "t.json")


def test_a_pipe_that_is_empty_is_an_empty_file_at_once(ssa, babyberta_tokenizer):
    """Of `|` and `<(…)`; a named pipe waits for its writer."""
    babyberta_tokenizer(ssa.folder / "t.json", ["a bird sees a fish ."])
    encode = f"'{ssa.binary}' tokenizer encode t.json"
    for command in (f"true | {encode} /dev/stdin", f"{encode} <(true)", f"{encode} /dev/null"):
        begun = time.monotonic()
        done = subprocess.run(["bash", "-c", command], cwd=ssa.folder, check=False, capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), command
        assert time.monotonic() - begun < 4
    os.mkfifo(ssa.folder / "pipe")
    error = ssa("tokenizer", "encode", "t.json", "pipe", code=1).stderr
    assert error == "ssa: pipe: is a pipe that no process writes to (waited 5 s)\n"


def test_without_the_python_package(ssa, monkeypatch):
    monkeypatch.setenv("SSA_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", "")
    done = run(ssa, "tokenizer", "train", "text.txt", env=os.environ | {"PYTHONNOUSERSITE": "1"})
    if done.returncode == 0 or b"no such file" in done.stderr:
        pytest.skip("the package is installed in this Python")
    assert b"it needs ssa_attention with tokenizers" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("nested", ["[" * 80000, '{"a":' * 80000])
@pytest.mark.parametrize(
    "name, arguments",
    [
        ("tokenizer.json", ["tokenizer", "info", "tokenizer.json"]),
        ("run/run.json", ["info", "run"]),
        ("model/config.json", ["import", "model", "--out", "x"]),
        ("shards.json", ["train", "language.toml"]),
        ("lines.jsonl", ["tokenizer", "encode", "tokenizer.json", "lines.jsonl", "--jsonl"]),
    ],
)
def test_json_nested_too_deep(ssa, babyberta_tokenizer, name, arguments, nested):
    babyberta_tokenizer(ssa.folder / "tokenizer.json", ["a bird sees a fish ."])
    for folder in ("run", "model"):
        (ssa.folder / folder).mkdir()
    if name == "shards.json":
        (ssa.folder / "text.txt").write_text("a bird sees a fish .\n" * 90)
        ssa("data", "tokenize", "text.txt", "--tokenizer", "tokenizer.json", "--out", "shards")
        (ssa.folder / "language.toml").write_text(
            '[model]\npreset = "nemotron-tiny"\nvocabulary = 400\n[task]\nname = "lm"\ntokenizer = "tokenizer.json"\n'
            'tokens = ["shards"]\n[train]\neval_batches = 0\n'
        )
    (ssa.folder / name).write_text(nested)
    assert "nested more than 64 deep" in ssa(*arguments, code=1).stderr


def test_a_dumb_terminal_gets_plain_lines(ssa, tiny):
    import pty

    leader, follower = pty.openpty()
    with subprocess.Popen(
        [ssa.binary, "train", "tiny.toml", "--out", "run"],
        cwd=ssa.folder, stdout=follower, env=os.environ | {"TERM": "dumb"},
    ) as process:  # fmt: skip
        os.close(follower)
        shown = b""
        try:
            while part := os.read(leader, 4096):
                shown += part
        except OSError:  # Linux' way to say that the other end is closed
            pass
        os.close(leader)
        assert process.wait() == 0
    assert b"\x1b" not in shown and b"step 6/6" in shown


def test_arguments_after_two_dashes_are_no_flags(ssa):
    assert "--odd.toml: no such file" in ssa("train", "--out", "x", "--", "--odd.toml", code=1).stderr


def test_a_text_with_a_byte_order_mark_is_the_same_text(ssa, babyberta_tokenizer):
    babyberta_tokenizer(ssa.folder / "t.json", ["a bird sees a fish ."])
    outputs = []
    for mark, end in ((b"", b"\n"), (b"\xef\xbb\xbf", b"\r\n")):
        (ssa.folder / "text").write_bytes(mark + end.join([b"a bird", b"sees a fish ."]) + end)
        outputs.append(ssa("tokenizer", "encode", "t.json", "text").stdout)
    assert outputs[0] == outputs[1]
