"""What a paper's simulations cost: told before and during, and not paid twice."""

import json
import os
import signal
import subprocess
import sys
import time
from fcntl import LOCK_EX, LOCK_UN, flock
from pathlib import Path

import pytest
from running import simulated

from multipilot import console
from multipilot.papers.cost import Cost, Meter, of_comparison, spell
from multipilot.papers.paper import Experiment
from multipilot.papers.runs import SPARSE, find_scenarios

SCENARIO = "verdict-both-lossy"


def test_runs_are_counted_before_they_are_done(tmp_path: Path) -> None:
    settings = {**SPARSE, "grid.paths.lte.loss": "[0.001, 0.05]", "duration": "1s"}
    cost = of_comparison(find_scenarios("loss-aware") / f"{SCENARIO}.toml", settings, 2, ben=True)
    results = simulated(
        "loss-aware", tmp_path, Experiment(SCENARIO, settings=settings, ben=True, tables=False), seeds=2
    )
    assert cost == Cost(len(results.rows), len(results.rows))


def test_a_wrong_setting_is_told_before_anything_runs() -> None:
    with pytest.raises(ValueError, match=r"paths\.wifi\.los"):
        of_comparison(find_scenarios("loss-aware") / f"{SCENARIO}.toml", {"paths.wifi.los": "0.1"}, 1, ben=False)


def test_the_rest_is_told_at_the_pace_so_far(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    with console.progress() as progress:
        meter = Meter(progress, 1000.0, lambda: now[0])
        meter.begin("first", Cost(10, 400.0))
        now[0] = 5.0
        meter.heard("[1/10] balia seed 1: 20.00 Mbit/s")
        assert capsys.readouterr().err == "", "too early to say"
        now[0] = 20.0
        meter.heard("[5/10] balia seed 1: 20.00 Mbit/s")
        assert capsys.readouterr().err == "simulator: 20 %, about 80 s to go\n"
        meter.begin("second", Cost(10, 600.0))
        meter.heard("resuming: 5 of 10 runs are done")
        now[0] = 70.0
        meter.heard("[4/5] balia seed 2: 20.00 Mbit/s")
        assert capsys.readouterr().err == "", "once a minute is enough"
        now[0] = 94.0
        meter.heard("[4/5] balia seed 2: 20.00 Mbit/s")
        assert capsys.readouterr().err == "simulator: 94 %, about 6 s to go\n"


def test_times_as_people_say_them() -> None:
    assert [spell(s) for s in (40, 720, 12600)] == ["40 s", "12 min", "3.5 h"]


def command(out: Path) -> list[str]:
    call = [sys.executable, "-m", "multipilot.papers.cli", "loss-aware", "--quick", "--only", "sizes,limits"]
    return [*call, "--seeds", "2", "--out", str(out)]


def records(out: Path) -> dict[str, object]:
    found = sorted((out / "records" / "sim").glob("*/result.json"))
    return {file.parent.name: json.loads(file.read_text(encoding="utf-8"))["rows"] for file in found}


def test_a_kill_loses_nothing_that_was_measured(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = subprocess.Popen(command(killed), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    # In the middle of an experiment: some of its rows are on the disk, and it is not done.
    while not any(rows and not (killed / "records" / "sim" / name / "done").exists() for name, rows in kept(killed)):
        assert process.poll() is None, "it was over before it could be killed"
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = {name: len(rows) for name, rows in kept(killed)}
    again = subprocess.run(command(killed), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    subprocess.run(command(whole), check=True, capture_output=True)
    assert records(killed) == records(whole)
    assert all(len(records(killed)[name]) >= count for name, count in before.items())
    assert not list(killed.rglob(".run*"))


def kept(out: Path) -> list[tuple[str, list[object]]]:
    try:
        return [(name, rows) for name, rows in records(out).items() if isinstance(rows, list)]
    except (OSError, json.JSONDecodeError):
        return []


def test_a_comparison_that_outlived_its_caller_is_waited_for(tmp_path: Path) -> None:
    first = subprocess.run(command(tmp_path), capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    (folder,) = (tmp_path / "records" / "sim").glob("6-dead-primary-*")
    (folder / "done").unlink()
    with (folder / ".lock").open("rb") as lock:
        flock(lock, LOCK_EX)
        again = subprocess.Popen(command(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert again.stderr is not None
        lines = iter(again.stderr)
        assert any("still runs; waiting for it" in line for line in lines)
        assert again.poll() is None
        flock(lock, LOCK_UN)
    assert again.wait() == 0, list(lines)
    assert (folder / "done").exists()
