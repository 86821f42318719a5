"""The gate of the shipped actor: its rule, and that it goes on from where it was stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from multipilot.learn.gate import LEARNED, PLAIN, Judged, Verdict, draw, verdict
from multipilot.stats import mean_of


def judged(ratio: float, runs: int = 5, done: int = 5) -> Judged:
    return Judged((), mean_of([10 * ratio] * done), mean_of([10.0] * runs), runs)


@pytest.mark.parametrize(
    ("ratios", "found"),
    [
        ([1.0] * 8 + [0.9, 0.95], Verdict.PASSED),
        ([2.0] * 7 + [0.99] * 3, Verdict.FAILED),
        ([2.0] * 9 + [0.89], Verdict.FAILED),
    ],
)
def test_eight_in_ten_at_least_and_none_far_below(ratios: list[float], found: Verdict) -> None:
    assert verdict([judged(ratio) for ratio in ratios]) is found


def test_what_is_not_measured_is_open() -> None:
    assert verdict([]) is Verdict.OPEN
    assert verdict([judged(1.5), judged(1.5, done=4)]) is Verdict.OPEN


def test_cells_depend_on_seed_and_number_alone() -> None:
    few, many = draw("a", 3, 12), draw("a", 10, 12)
    assert few == many[:3]
    assert draw("b", 3, 12) != few
    for pair in many:
        assert pair[LEARNED].links == pair[PLAIN].links
        # Within what one emulator bears.
        assert pair[PLAIN].mbps <= 100


def test_the_command_judges_and_resumes(tmp_path: Path) -> None:
    """In the simulated world, which needs no root; the kernel differs by the name of the world alone."""
    call = [sys.executable, "-m", "multipilot.learn.gate", "--cells", "1", "--runs", "2", "--duration", "3s"]
    call += ["--world", "sim", "--out", str(tmp_path), "--json"]
    first = subprocess.run([*call, "--budget", "0s"], capture_output=True, text=True)
    assert first.returncode == 1
    assert json.loads(first.stdout)["verdict"] == "open"
    whole = subprocess.run(call, capture_output=True, text=True)
    found = json.loads(whole.stdout)
    assert found["verdict"] in ("passed", "failed"), whole.stderr
    assert found["cells"][0]["n"] == 2
    again = subprocess.run([*call, "--budget", "0s"], capture_output=True, text=True)
    assert json.loads(again.stdout) == found
