"""Help, version and the commands that only tell."""

import json
import os
import re
import resource
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(os.environ["SSA_SOURCE"])
COMMANDS = ["train", "eval", "import", "generate", "attention", "reproduce", "theory", "tokenizer", "data", "scores", "info",
            "completion", "help"]  # fmt: skip


def test_help_names_every_command_and_has_an_example(ssa):
    text = ssa("--help").stdout
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", text, flags=re.MULTILINE)
    assert "Example: ssa " in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example(ssa, command):
    assert re.search(rf"Example: ssa {command}\b", ssa(command, "--help").stdout)


def test_help_command_is_the_help_flag(ssa):
    assert ssa("help").stdout == ssa("--help").stdout
    assert ssa("help", "data", "info").stdout == ssa("data", "info", "--help").stdout
    assert "Example: ssa help train" in ssa("help", "help").stdout


@pytest.mark.parametrize("words", [[], ["train"], ["tokenizer", "encode"], ["help"]], ids=" ".join)
def test_help_is_told_without_torch_as_with_it(ssa, words):
    """bin/ssa, which is not linked with torch, against the program that has the flags."""
    with_torch = str(Path(ssa.binary).parents[1] / "libexec/ssa-torch")
    told = subprocess.run([with_torch, *words, "--help"], capture_output=True, text=True, check=True)
    assert ssa(*words, "--help").stdout == ssa("help", *words).stdout == told.stdout


def test_version_is_told_without_torch_as_with_it(ssa):
    with_torch = str(Path(ssa.binary).parents[1] / "libexec/ssa-torch")
    told = subprocess.run([with_torch, "--version"], capture_output=True, text=True, check=True)
    assert ssa("--version").stdout == told.stdout


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["eval", "-h"], ["--version"], ["help", "eval"]]
)
def test_help_and_version_take_no_time(ssa, arguments):
    """At most 50 ms of processor time: loading torch alone takes several times as long, on any machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ssa(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.05


def test_no_argument_shows_the_help_as_a_usage_error(tmp_path):
    done = subprocess.run([os.environ["SSA_BINARY"]], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "train" in done.stderr and done.stdout == ""


def test_version_is_the_projects(ssa):
    project = re.search(r"project\(ssa VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
    assert re.fullmatch(rf"ssa {re.escape(project)} \(([0-9a-f]{{7,}}(-dirty)?|unknown)\)\n", ssa("--version").stdout)


def test_info_names_what_decides_speed(ssa):
    text = ssa("info").stdout
    for name in ["ssa", "build", "torch", "kernels", "threads", "BLAS", "oneDNN"]:
        assert re.search(rf"^{name} +\S", text, flags=re.MULTILINE), name


def test_info_obeys_the_environment(ssa, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("SSA_TARGET", "SCALAR")
    text = ssa("info").stdout
    assert re.search(r"^threads +1$", text, flags=re.MULTILINE)
    assert re.search(r"^kernels +SCALAR\b", text, flags=re.MULTILINE)


def test_scores_lists_formula_and_parameters(ssa):
    text = ssa("scores").stdout
    assert "phi(s) = sgn(s)·n·log(1 + b·|s|)" in text
    assert re.search(r"n = 1\.5, trained: ", text)
    assert re.search(r"tau = 1, fixed: ", text)
    assert "the normaliser also has e^z" in text


def test_markdown_table_lists_the_same_scores(ssa):
    names = re.findall(r"^([\w-]+)\n    (?:phi\(s\)|p) = ", ssa("scores").stdout, flags=re.MULTILINE)
    rows = ssa("scores", "--markdown").stdout.splitlines()
    assert len(names) > 10
    assert [re.match(r"\| `([\w-]+)` \|", row)[1] for row in rows[2:]] == names
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 for row in rows)


def test_every_field_of_a_run_is_a_flag_with_its_default(ssa, tiny):
    ssa("train", tiny, "--smoke", "--out", "run")
    config = json.loads((tiny.parent / "run/run.json").read_text())["config"]
    text = ssa("train", "--help").stdout
    for section, fields in config.items():
        assert f"[{section}] over the TOML file's values:" in text
        for name in fields:
            flag = "task" if name == "name" else name.replace("_", "-")
            assert re.search(rf"^  --{flag}[= ]", text, flags=re.MULTILINE), name
    assert "--learning-rate=0.0001 " in text


def test_flags_of_every_type_reach_the_run(ssa, tiny):
    ssa("train", tiny, "--smoke", "--out", "run", "--layers", 1, "--residual", "false", "--norm", "none",
        "--learning-rate", "2e-3", "--score-initial", "2.5,0.5", "--score-frozen", "b", "--steps", 1)  # fmt: skip
    config = json.loads((tiny.parent / "run/run.json").read_text())["config"]
    assert config["model"]["layers"] == 1
    assert config["model"]["residual"] is False
    assert config["model"]["norm"] == "none"
    assert config["model"]["score_initial"] == [2.5, 0.5]
    assert config["model"]["score_frozen"] == ["b"]
    assert config["train"]["learning_rate"] == 2e-3
    assert config["train"]["steps"] == 1, "flags go over --smoke"
    assert config["train"]["batch"] == 2, "--smoke goes over the file"
