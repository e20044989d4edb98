"""The TensorBoard export, read back with TensorBoard's own reader."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
import synthetic_runs
from ssa_attention import tensorboard
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def export(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "ssa_attention.tensorboard", *map(str, arguments)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )


def read_back(folder: Path) -> dict[str, list]:
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {tag: accumulator.Scalars(tag) for tag in accumulator.Tags()["scalars"]}


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> tuple[Path, Path]:
    """Two runs below one folder, one of them with a loss that is not finite, and the log folder."""
    root, logs = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("logs")
    synthetic_runs.write_run(root / "a" / "seed-1", "icl-every", "ssa", 1, steps=400, evaluated=False)
    synthetic_runs.write_run(root / "b" / "seed-1", "icl-linear", "softmax", 1, steps=400, evaluated=False)
    metrics = root / "b" / "seed-1" / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    lines[2]["loss"] = None
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = export(root, "-o", logs)
    assert result.returncode == 0, result.stderr
    return root, logs


def test_every_figure_of_metrics_is_there(exported):
    root, logs = exported
    for name in ("a/seed-1", "b/seed-1"):
        events = read_back(logs / name)
        lines = [json.loads(line) for line in (root / name / "metrics.jsonl").read_text().splitlines()]
        expected: dict[str, list] = {}
        for line in lines:
            step = line["step"]
            for key in ("loss", "learning_rate", "gradient_norm", "tokens_per_second"):
                if key in line:
                    expected.setdefault(f"training/{key}", []).append((step, line[key]))
            for group in ("validation", "progress"):
                for key, value in line.get(group, {}).items():
                    expected.setdefault(f"{group}/{key}", []).append((step, value))
            for k, layer in enumerate(line.get("score_parameters", [])):
                for key, values in layer.items():
                    for statistic, value in zip(("min", "mean", "max"), values, strict=True):
                        tag = f"score/{key}/layer-{k + 1}/{statistic}"
                        expected.setdefault(tag, []).append((step, value))
        assert events.keys() == expected.keys()
        for tag, points in expected.items():
            assert [e.step for e in events[tag]] == [step for step, _ in points]
            for event, (_, value) in zip(events[tag], points, strict=True):
                # TensorBoard keeps float32.
                assert math.isnan(event.value) if value is None else event.value == pytest.approx(value, rel=1e-6)


def test_wall_time_is_start_plus_seconds(exported):
    _, logs = exported
    start = datetime.fromisoformat("2026-01-02T03:04:05Z").timestamp()
    for event in read_back(logs / "a/seed-1")["training/loss"]:
        assert event.wall_time == pytest.approx(start + 0.05 * event.step, abs=1e-3)


def refusal(capsys, *arguments) -> str:
    """What the command says when it fails: one line."""
    assert tensorboard.main([*map(str, arguments)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("tensorboard: ") and told.count("\n") == 1
    return told


def test_refuses_to_mix_with_older_events(exported, capsys):
    root, logs = exported
    assert "already holds event files" in refusal(capsys, root, "-o", logs)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"step": 20, "loss": 0.5', "metrics.jsonl:2: not valid JSON"),
        ('{"loss": 0.5}', 'metrics.jsonl:2: "step" is missing'),
        ('{"step": 20, "loss": NaN}', "metrics.jsonl:2: NaN is not JSON"),
    ],
)
def test_malformed_metrics_are_one_line(tmp_path, capsys, line, told):
    synthetic_runs.write_run(tmp_path / "run", "icl-every", "ssa", 1, steps=400, evaluated=False)
    metrics = tmp_path / "run" / "metrics.jsonl"
    lines = metrics.read_text().splitlines()
    metrics.write_text("\n".join([lines[0], line, *lines[1:]]) + "\n")
    assert told in refusal(capsys, tmp_path / "run", "-o", tmp_path / "logs")


def test_folder_without_a_run(tmp_path, capsys):
    assert "holds no run" in refusal(capsys, tmp_path, "-o", tmp_path / "logs")
    assert "no such folder" in refusal(capsys, tmp_path / "absent", "-o", tmp_path / "logs")
