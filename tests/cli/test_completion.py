"""`ssa completion`: bash itself completes with the script; zsh reads it where it is installed."""

import shutil
import subprocess

import pytest

ASK = """
source ./script
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_ssa
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def complete(ssa):
    """complete(words…): what bash offers for the last word."""
    (ssa.folder / "script").write_text(ssa("completion", "bash").stdout)

    def ask(*words):
        done = subprocess.run(
            ["bash", "-c", ASK, "bash", "ssa", *words], cwd=ssa.folder, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return done.stdout.split()

    return ask


@pytest.mark.parametrize(
    "words, offered",
    [
        (["tr"], ["train"]),
        (["--ver"], ["--version"]),
        (["tokenizer", "en"], ["encode"]),
        (["tokenizer", "encode", "--js"], ["--jsonl"]),
        (["train", "--weight-d"], ["--weight-decay"]),
        (["train", "--score", "sparse"], ["sparsemax"]),
        (["train", "--score", "=", "sparse"], ["sparsemax"]),
        (["train", "--norm", "=", ""], ["layer", "layer-1p", "rms", "none"]),
        (["train", "--mlp", ""], ["true", "false"]),
        (["train", "--preset", "baby"], ["babyberta", "babyberta-tiny"]),
        (["eval", "--suite", "icl"], ["icl-shift"]),
        (["eval", "--sequen"], ["--sequences"]),
        (["eval", "--precision", "b"], ["bfloat16"]),
        (["help", "comp"], ["completion"]),
        (["completion", "z"], ["zsh"]),
        (["train", "conf"], ["config one.toml"]),
        (["train", "--out", "conf"], ["config one.toml"]),
        (["train", "--resume", "conf"], ["config one.toml"]),
        (["train", "xyz"], []),
    ],
)
def test_bash(complete, ssa, words, offered):
    (ssa.folder / "config one.toml").write_text("")
    assert complete(*words) == [part for one in offered for part in one.split()]


def test_bash_offers_every_command(complete, ssa):
    text = ssa("--help").stdout.split("Subcommands:")[1].split("Example:")[0]
    commands = [line.split()[0] for line in text.splitlines() if line.startswith("  ") and line[2] != " "]
    assert complete("") == commands


def test_bash_registers_it(ssa):
    script = ssa("completion", "bash").stdout + "complete -p ssa\n"
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True)
    assert done.stdout == "complete -F _ssa ssa\n"


def test_zsh(ssa):
    script = ssa("completion", "zsh").stdout
    assert script.startswith("#compdef ssa\n")
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    done = subprocess.run(["zsh", "-f", "-n"], input=script, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    # The functions of zsh's completion system, which has no terminal here, replaced by what they are called with.
    ask = """
        compdef() { }; compadd() { shift; print -l -- "$@" }; _files() { print files }
        source ./script
        words=(ssa train --norm ''); CURRENT=4; _ssa
        words=(ssa tokenizer ''); CURRENT=3; _ssa
        words=(ssa train ''); CURRENT=3; _ssa
    """
    (ssa.folder / "script").write_text(script)
    done = subprocess.run(["zsh", "-f", "-c", ask], cwd=ssa.folder, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["layer", "layer-1p", "rms", "none", "encode", "decode", "train", "info", "files"]


def test_another_shell(ssa):
    refused = ssa("completion", "fish", code=2).stderr
    assert refused == "ssa: SHELL: fish: expected one of bash, zsh (see ssa completion --help)\n"
