"""A sweep: cells by content, a data set that grows cell by cell, workers that may die."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.dataset as arrow
import pytest
from typer.testing import CliRunner

import multipilot
from multipilot.sweep import cluster, dataset, pool
from multipilot.sweep.cells import Cell, simulations, trainings, value_of
from multipilot.sweep.cli import app
from multipilot.sweep.work import Done, run

SCENARIO = """
duration = "20s"
[paths.one]
rate = "20Mbit"
delay = "10ms"
[paths.two]
rate = "10Mbit"
delay = "30ms"
[[variants]]
controller = "lia"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "two-paths.toml"
    file.write_text(SCENARIO)
    return file


def cells_of(scenario: Path, seeds: int, duration: str = "2s", **axes: list[str]) -> list[Cell]:
    return list(simulations([scenario], ["lia", "bbr"], axes, {}, duration, range(1, seeds + 1)))


def test_a_grid_is_files_by_values_by_controllers_by_seeds(scenario: Path) -> None:
    axes = {"paths.one.loss": ["0", "0.02"], "paths.*.queue": ["50p"]}
    cells = list(simulations([scenario], ["lia", "bbr"], axes, {"paths.two.rate": "5Mbit"}, "2s", range(4, 7)))
    assert len(cells) == 2 * 2 * 3
    assert len({cell.key for cell in cells}) == len(cells)
    assert cells[0].name == "two-paths controller=lia paths.one.loss=0 paths.*.queue=50p seed 4"
    assert 'rate = "5Mbit"' in cells[0].text
    assert cells[0].text.count('queue = "50p"') == 2
    (row,) = run(cells[3]).rows
    assert (row["controller"], row["seed"]) == ("bbr", 4)
    again = list(simulations([scenario], ["lia", "bbr"], axes, {"paths.two.rate": "5Mbit"}, "2s", range(4, 7)))
    assert [c.key for c in again] == [c.key for c in cells]


def test_a_cell_gives_what_simulate_gives(scenario: Path) -> None:
    cell = cells_of(scenario, 2)[1]
    plain = multipilot.simulate(scenario, controllers=["lia"], duration="2s", seed=2).row_dicts
    assert run(cell).rows == plain


def test_a_built_in_scenario_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    axes = {"paths.*.delay": ["5ms", "9ms"]}
    cells = list(simulations(["ddpg/varying-capacity"], ["lia"], axes, {}, "1s", [1]))
    assert [cell.scenario for cell in cells] == ["varying-capacity"] * 2
    assert cells[1].text.count('delay = "9ms"') == 2
    assert [row["variant"] for row in run(cells[1]).rows] == ["lia"]
    refused = CliRunner().invoke(app, ["wifi-lt"])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert refused.stderr.startswith("multipilot: scenario wifi-lt: no such file and no built-in of that name (did you")


def test_a_wrong_axis_is_named_as_it_was_called(scenario: Path) -> None:
    refused = CliRunner().invoke(app, [str(scenario), "--vary", "paths.one.loss=5", "--duration", "1"])
    assert refused.exit_code == 2
    assert refused.stderr.startswith("multipilot: --vary paths.one.loss=5: paths.one.loss: 5 is impossible")


def test_a_key_of_the_files_own_grid_is_set_there(scenario: Path) -> None:
    scenario.write_text(SCENARIO + "[grid]\npaths.one.loss = [0, 0.01]\n")
    (plain,) = simulations([scenario], [], {}, {}, "2s", [1])
    assert len(run(plain).rows) == 2
    cells = list(simulations([scenario], [], {"paths.one.loss": ["0.02", "0.05"]}, {}, "2s", [1]))
    assert [[row["cell"] for row in run(cell).rows] for cell in cells] == [
        [{"paths.one.loss": "0.02"}],
        [{"paths.one.loss": "0.05"}],
    ]
    with pytest.raises(ValueError, match="a grid of its own"):
        list(simulations([scenario], [], {"paths.*.loss": ["0.02"]}, {}, "2s", [1]))


def test_values_are_toml_or_plain_text() -> None:
    assert [value_of(v) for v in ("0.02", "4MB", '"4MB"', "true", '["a", "b"]')] == [
        0.02,
        "4MB",
        "4MB",
        True,
        ["a", "b"],
    ]


def test_all_files_of_the_data_set_read_as_one_table(scenario: Path, tmp_path: Path) -> None:
    cells = cells_of(scenario, 2)
    for cell in cells:
        dataset.append(tmp_path, cell, run(cell))
    table = arrow.dataset(tmp_path / "simulation").to_table()
    assert table.num_rows == 4
    assert set(table["controller"].to_pylist()) == {"lia", "bbr"}
    assert not list(tmp_path.rglob(".*"))
    assert [row["seed"] for row in dataset.rows(tmp_path, cells)] == [1, 2, 1, 2]
    assert dataset.rows(tmp_path, cells)[0]["settings"] == {"controller": "lia"}


def test_a_data_set_is_a_record_and_has_a_report(scenario: Path, tmp_path: Path) -> None:
    from multipilot.report import cli as report
    from multipilot.report import grid, summary

    out = tmp_path / "data"
    call = [str(scenario), "--controllers", "lia,bbr", "--vary", "paths.one.rate=4Mbit,30Mbit,9Mbit", "--seeds", "2"]
    done = CliRunner().invoke(app, [*call, "--duration", "1s", "--workers", "1", "--out", str(out)])
    assert done.exit_code == 0, done.output
    record = dataset.record(out)
    assert len(record.row_dicts) == 2 * 3 * 2
    drawn = grid.of(summary.variants(record))
    assert drawn is not None
    assert (drawn.key, drawn.ticks, drawn.choices) == (
        "paths.one.rate",
        ["4Mbit", "9Mbit", "30Mbit"],
        ["bbr", "lia"],
    )
    (lines,) = drawn.panels.values()
    alone = [row["goodput_mbps"] for row in record.row_dicts if row["variant"] == "lia paths.one.rate=9Mbit"]
    assert lines["lia"][1].mean == pytest.approx(sum(alone) / 2)  # type: ignore[union-attr]
    page = CliRunner().invoke(report.app, [str(out)])
    assert page.exit_code == 0, page.output
    text = (out / "report.html").read_text()
    assert "3 cells · 2 variants" in text
    assert "Know before you read on" not in text, "a sweep keeps no telemetry; that is no fault of it"


def test_a_torn_file_of_a_data_set_is_named(scenario: Path, tmp_path: Path) -> None:
    from multipilot.report import cli as report

    out = tmp_path / "data"
    call = [str(scenario), "--controllers", "lia", "--duration", "1s", "--workers", "1", "--out", str(out)]
    assert CliRunner().invoke(app, call).exit_code == 0
    (file,) = out.rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:100])
    for refused in (CliRunner().invoke(report.app, [str(out)]), CliRunner().invoke(app, call)):
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1), refused.output
        assert refused.stderr.startswith(f"multipilot: {file}: not a Parquet file")


def test_a_data_set_of_trainings_alone_has_no_report(tmp_path: Path) -> None:
    from multipilot.report import cli as report

    (tmp_path / "training").mkdir()
    refused = CliRunner().invoke(report.app, [str(tmp_path)])
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
    assert "multipilot.learn.curve" in refused.stderr


@pytest.mark.extras
def test_a_fault_of_ours_is_no_result() -> None:
    (cell,) = trainings(["ddpg"], [1], {"rounds": -1, "no such setting": 1})
    with pytest.raises(TypeError):
        run(cell)


def test_an_error_is_a_result() -> None:
    broken = Cell("simulation", "[paths.one]\nrate = 5", "broken", 1)
    done = run(broken)
    assert done.rows == []
    assert done.error.startswith("broken seed 1: ")


def kill_one(pids: list[int]) -> None:
    os.kill(pids[0], signal.SIGKILL)


def test_a_killed_worker_costs_only_its_own_run(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    give = pool._Worker.give
    monkeypatch.setattr(pool._Worker, "give", lambda self, cell: (given.append(cell.name), give(self, cell)))
    cells = cells_of(scenario, 4, duration="120s")
    found: dict[str, Done] = {}
    for cell, done in pool.run_all(cells, 2):
        if not found:
            # The worker that has just handed in its cell has the next one by now, and so has the other.
            kill_one([child.pid for child in multiprocessing.active_children() if child.pid])
        found[cell.key] = done
    assert sorted(found) == sorted(cell.key for cell in cells)
    assert not any(done.error for done in found.values())
    assert len(given) == len(cells) + 1
    assert multiprocessing.active_children() == []
    victim = next(cell for cell in cells if given.count(cell.name) == 2)
    assert found[victim.key].rows == run(victim).rows


def test_a_cell_that_kills_every_worker_is_given_up(scenario: Path) -> None:
    (cell,) = simulations([scenario], ["bbr"], {"paths.one.rate": ["1Gbit"]}, {}, "6000s", [1])
    results = pool.run_all([cell], 1)
    done: list[Done] = []

    def kill_all() -> None:
        seen: set[int] = set()
        while len(seen) < pool.ATTEMPTS:
            for child in multiprocessing.active_children():
                if child.pid and child.pid not in seen:
                    time.sleep(0.1)
                    seen.add(child.pid)
                    os.kill(child.pid, signal.SIGKILL)
            time.sleep(0.02)

    import threading

    killer = threading.Thread(target=kill_all)
    killer.start()
    done += [d for _, d in results]
    killer.join()
    assert [d.error for d in done] == [f"{cell.name}: its worker was killed {pool.ATTEMPTS} times"]


def call(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "multipilot.sweep.cli", *map(str, words)], capture_output=True, text=True
    )


def test_the_command_skips_what_is_done(scenario: Path, tmp_path: Path) -> None:
    words = [scenario, "--controllers", "lia,bbr", "--vary", "paths.one.loss=0,0.02", "--duration", "2s"]
    words += ["--out", tmp_path / "out", "--json"]
    first = call(*words, "--seeds", "1")
    assert first.returncode == 0, first.stderr
    one = json.loads(first.stdout)
    assert (one["runs"], one["already_done"], len(one["rows"])) == (4, 0, 4)
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("*.parquet")}
    assert len(files) == 4
    second = json.loads(call(*words, "--seeds", "2").stdout)
    assert (second["runs"], second["already_done"], len(second["rows"])) == (8, 4, 8)
    assert all(file.stat().st_mtime_ns == when for file, when in files.items())


def test_the_table_has_the_time_of_transfers_with_a_size(scenario: Path, tmp_path: Path) -> None:
    words = [scenario, "--duration", "5s", "--out", tmp_path / "out"]
    assert "completion" not in call(*words).stdout
    scenario.write_text(SCENARIO + "[[connections]]\nbytes = '100kB'\n")
    assert "completion, s" in call(*words).stdout


def test_ctrl_c_keeps_what_is_done_and_leaves_no_process(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["--controllers", "lia,bbr", "--duration", "200s", "--seeds", "40", "--workers", "2", "--out", str(out)]
    running = subprocess.Popen(
        [sys.executable, "-m", "multipilot.sweep.cli", str(scenario), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Whoever runs the tests in the background may have them ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not list(out.rglob("*.parquet")):
        assert running.poll() is None
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate()
    assert running.returncode == 130, errors
    assert errors.strip().splitlines()[-1].startswith("multipilot: interrupted with ")
    deadline = time.monotonic() + 30  # the standard library's own helper process ends by itself
    while running.pid in _groups():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not list(out.rglob(".*"))


def _groups() -> set[int]:
    """Process groups of all processes that live."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if state != "Z":
            found.add(int(group))
    return found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name scenarios"),
        (["nosuch.toml"], "nosuch.toml"),
        (["SCENARIO", "--vary", "paths.one.loss"], "expected KEY=VALUE"),
        (["SCENARIO", "--vary", "paths.one.los=1"], "los"),
        (["SCENARIO", "--vary", "paths.on.rate=1Mbit,2Mbit"], 'there is no [paths.on] (did you mean "one"?)'),
        (["SCENARIO", "--train", "td3"], "the one or the other"),
        (["--train", "ppo"], "one of ddpg"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(words: list[str], said: str, scenario: Path, tmp_path: Path) -> None:
    chosen = [str(scenario) if w == "SCENARIO" else w for w in words]
    done = CliRunner().invoke(app, [*chosen, "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def on_ray(cells: list[Cell], kill: bool) -> dict[str, Done]:
    ray = pytest.importorskip("ray", reason="pip install 'multipilot[sweep]'")
    found: dict[str, Done] = {}
    for cell, done in cluster.run_all(cells, 2, None):
        if kill and not found:
            kill_one(_ray_workers())
        found[cell.key] = done
    assert not ray.is_initialized()
    return found


def _ray_workers() -> list[int]:
    """Worker processes that have a cell: Ray names them ``ray::NAME``. Only those below this process."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                title = (process / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            if title.startswith("ray::two-paths") and _is_below(int(process.name)):
                found.append(int(process.name))
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("no Ray worker has a cell")


def _is_below(pid: int) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


@pytest.mark.extras
def test_a_killed_ray_worker_costs_only_its_own_run(scenario: Path) -> None:
    cells = cells_of(scenario, 5, duration="300s")
    found = on_ray(cells, kill=True)
    assert sorted(found) == sorted(cell.key for cell in cells)
    assert not any(done.error for done in found.values()), [d.error for d in found.values()]
    assert found[cells[0].key].rows == run(cells[0]).rows


@pytest.mark.extras
def test_training_seeds_leave_actors_that_the_paper_takes(tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="pip install 'multipilot[learn]'")
    out = tmp_path / "out"
    done = call("--train", "td3", "--seeds", "2", "--rounds", "1", "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert {row["seed"] for row in document["rows"]} == {1, 2}
    from reproductions.ddpg.intervals import actors

    trained = [actor for actor in actors(out / "actors") if not actor.shipped and actor.file]
    assert len(trained) == 2
    assert all(actor.made_by.startswith("multipilot train td3") for actor in trained)
