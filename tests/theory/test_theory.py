"""`ssa theory`: what it prints and writes, and what it refuses."""

import json
import math
import os
import re

import pytest


def curves(path):
    record = json.loads(path.read_text())
    assert record["schema"] == 1 and record["tolerance"] == 0.01
    return record["theorems"]


def test_every_score_has_its_curves(ssa):
    # Functions φ of one score alone: without N, without a sink.
    listed = re.findall(r"^(\w+)\n    phi\(s\) = (.*)\n    (.*)\n", ssa("scores").stdout, flags=re.MULTILINE)
    names = [name for name, formula, after in listed if "N" not in formula and "normaliser also" not in after]
    assert "ssa" in names and "sink" not in names and "ssmax" not in names
    shown = ssa("theory", "--json", "theory.json").stdout
    found = curves(ssa.folder / "theory.json")
    assert [c["score"] for c in found] == [name for name in names for _ in range(4)]
    for curve in found:
        assert curve["theorem"] in ("magnification", "disproportion")
        assert curve["axis"] in ("linear", "log")
        assert len(curve["x"]) == len(curve["log_miss"]) > 10
        assert curve["x"] == sorted(curve["x"]) and curve["x"][0] < curve["fit_from"] < curve["x"][-1]
        assert all(value < 0 for value in curve["log_miss"])
        assert math.isclose(curve["fitted_slope"], curve["predicted_slope"], rel_tol=0.01, abs_tol=0.01)
    assert all(re.search(rf"^{name} .*disproportion", shown, flags=re.MULTILINE) for name in names)
    assert "-0.0000" not in shown


def test_slopes_of_softmax_and_ssa(ssa):
    ssa("theory", "--score", "ssa", "--score", "softmax", "--json", "theory.json")
    found = curves(ssa.folder / "theory.json")
    slopes = {(c["score"], c["theorem"], c["case"]): (c["axis"], c["predicted_slope"]) for c in found}
    n = found[0]["params"]["n"]
    expected = {
        ("ssa", "magnification", "positive competitors"): ("log", 0),
        ("ssa", "magnification", "zero competitors"): ("log", -n),
        ("ssa", "magnification", "negative competitors"): ("log", -2 * n),
        ("ssa", "disproportion", "one huge value"): ("log", -n),
        ("softmax", "magnification", "positive competitors"): ("linear", -1),
        ("softmax", "magnification", "zero competitors"): ("linear", -2),
        ("softmax", "magnification", "negative competitors"): ("linear", -3),
        ("softmax", "disproportion", "one huge value"): ("linear", -1),
    }
    assert slopes.keys() == expected.keys()
    for key, (axis, slope) in expected.items():
        assert slopes[key][0] == axis
        assert math.isclose(slopes[key][1], slope, abs_tol=1e-6), key


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--score", "sofmax"], 1, "softmax"),
        (["--score"], 2, "--score"),
        (["--tolerance", 0], 1, "--tolerance 0: must be a number above 0"),
        (["--json", "absent/theory.json"], 1, "absent/theory.json"),
    ],
)
def test_bad_options_are_named(ssa, arguments, code, message):
    assert message in ssa("theory", *arguments, code=code).stderr


def test_a_slope_that_is_off_fails_and_is_named(ssa):
    # The tail of a power law is finite, so that SSA's fit is off by more than a millionth.
    failed = ssa("theory", "--score", "ssa", "--tolerance", 1e-6, "--json", "theory.json", code=1)
    assert "fitted slopes are off by more than 0.0001 %: ssa, " in failed.stderr
    assert "differs" in failed.stdout
    record = json.loads((ssa.folder / "theory.json").read_text())
    assert record["tolerance"] == 1e-6 and len(record["theorems"]) == 4


def test_json_is_written_through_links_and_only_over_files(ssa):
    (ssa.folder / "real.json").write_text("old")
    (ssa.folder / "link.json").symlink_to("real.json")
    ssa("theory", "--score", "ssa", "--json", "link.json")
    assert (ssa.folder / "link.json").is_symlink() and len(curves(ssa.folder / "real.json")) == 4
    os.mkfifo(ssa.folder / "pipe")
    failed = ssa("theory", "--score", "ssa", "--json", "pipe", code=1)
    assert failed.stderr == "ssa: pipe: is not a file that could be replaced\n"
    assert (ssa.folder / "pipe").is_fifo()
