"""What every paper stands on: rows and their means, budgets, the page."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from running import PAPERS, stands

from multipilot import console
from multipilot.papers import cli
from multipilot.papers.paper import Experiment, Paper, Point
from multipilot.papers.provenance import Provenance, sources
from multipilot.papers.results import KERNEL, RELAY, SIM, Results, ratio, variant_of
from multipilot.papers.runs import Runner, find_scenarios
from multipilot.stats import mean_of


def row(controller: str, seed: int, goodput: float, path_manager: str = "fullmesh", **cell: str) -> dict[str, object]:
    return {
        "variant": controller,
        "controller": controller,
        "path_manager": path_manager,
        "scheduler": "default",
        "seed": seed,
        "goodput_mbps": goodput,
        "cell": cell,
    }


def results(*rows: dict[str, object]) -> Results:
    found = Results()
    found.add(SIM, "a", {"rows": list(rows)})
    return found


def test_one_subflow_of_reno_is_tcp() -> None:
    assert variant_of(row("reno", 1, 1.0, "single")) == "tcp"
    assert variant_of(row("reno", 1, 1.0)) == "reno"
    assert variant_of(row("bbr", 1, 1.0, "single")) == "bbr"


def test_means_are_over_the_seeds_of_one_cell() -> None:
    found = results(
        row("lia", 1, 1.0, queue="1bdp"), row("lia", 2, 3.0, queue="1bdp"), row("lia", 1, 9.0, queue="1000p"),
        row("reno", 1, 7.0, queue="1bdp"),
    )  # fmt: skip
    mean = found.mean(SIM, "a", "lia", "goodput_mbps", {"queue": "1bdp"})
    assert (mean.mean, mean.n) == (2.0, 2)
    assert found.mean(SIM, "a", "lia", "goodput_mbps").n == 3
    assert found.mean(KERNEL, "a", "lia", "goodput_mbps").n == 0
    assert found.mean(SIM, "a", "lia", "no_such_column").n == 0


def test_a_ratio_carries_both_intervals() -> None:
    a, b = mean_of([2.0, 2.2, 1.8]), mean_of([1.0, 1.1, 0.9])
    found = ratio(a, b)
    assert found.mean == pytest.approx(2.0)
    assert found.half == pytest.approx(2.0 * math.sqrt(2) * a.half / a.mean)
    assert math.isnan(ratio(a, mean_of([])).mean)


@pytest.mark.parametrize(("spare_s", "begun"), [(-1.0, 0), (60.0, 1)])
def test_a_point_that_would_outlast_the_budget_does_not_begin(
    spare_s: float, begun: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def measure(_: Runner, point: Point, __: Results, recall: bool = False) -> bool:
        if not recall:
            measured.append(point)
        return True

    monkeypatch.setattr(Runner, "measure", measure)
    runner = Runner("rsf", tmp_path, find_scenarios("rsf"), console.command(), 1)
    point = PAPERS["rsf"].points[0]
    budget = cli._estimate(point, Results()) + spare_s
    with console.progress() as bar:
        assert cli._in_real_time([point], runner, Results(), budget, 1, bar) == (None, 0)
    assert len(measured) == begun


@pytest.mark.parametrize("disturbance", [{"notes": ["90 % late: this machine is too busy"]}, {"fallback": True}])
def test_a_disturbed_point_is_measured_again(disturbance: dict[str, object], tmp_path: Path) -> None:
    point = PAPERS["rsf"].points[0]
    runner = Runner("rsf", tmp_path, find_scenarios("rsf"), console.command(), 1)

    folder = runner.point(point).folder

    def record(**more: object) -> bool:
        """Whether a record counts whose second run of three has this."""
        rows = [row("rsf-db", 1, 1.0), {**row("rsf-db", 2, 2.0), **more}, row("rsf-db", 3, 3.0)]
        for index, one in enumerate(rows):
            run = folder / "runs" / f"{index:04}"
            run.mkdir(parents=True, exist_ok=True)
            (run / "seed").write_text(str(one["seed"]))
        (folder / "result.json").write_text(json.dumps({"rows": rows}))
        Provenance("0123456789", "2026-11-27", "none", 1).write(folder)
        counts = runner.measure(point, Results(), recall=True)
        assert runner.point(point).done is counts
        return counts

    assert record(notes=["something else"])
    assert not record(**disturbance)
    # The others stay, each with its tables.
    kept = [one["seed"] for one in json.loads((folder / "result.json").read_text())["rows"]]
    assert kept == [int((folder / "runs" / f"{index:04}" / "seed").read_text()) for index in (0, 1)] == [1, 3]


def test_missing_scenarios_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--scenarios"):
        find_scenarios("rsf", tmp_path / "nowhere")


SCENARIO = """title = "a"
duration = "2s"
[paths.one]
trace = "rates.csv"
[[variants]]
controller = "lia"
"""


def test_a_record_is_named_by_what_decides_it(tmp_path: Path) -> None:
    file, trace = tmp_path / "a.toml", tmp_path / "rates.csv"
    file.write_text(SCENARIO, encoding="utf-8")
    trace.write_text("time_s,rate_mbps,delay_ms,loss\n0,10,20,0\n", encoding="utf-8")
    runner = Runner("rsf", tmp_path, tmp_path, "multipilot", 2)
    runner.__dict__["sources"] = {SIM: "aaaa", KERNEL: "bbbb"}
    first = runner.simulation(Experiment("a"))
    file.write_text("# A comment decides nothing.\n" + SCENARIO, encoding="utf-8")
    assert runner.simulation(Experiment("a")) == first
    runner.__dict__["sources"] = {SIM: "aaaa", KERNEL: "cccc"}
    assert runner.simulation(Experiment("a")) == first, "of the kernel's sources"
    points = [Point("a", {}, "lia")]
    expired = runner.point(points[0])
    runner.__dict__["sources"] = {SIM: "dddd", KERNEL: "dddd"}
    other = runner.simulation(Experiment("a"))
    assert (other.question, other.folder == first.folder) == (first.question, False)
    assert runner.point(points[0]).folder != expired.folder, "kernel points expire too"
    (tmp_path / "elsewhere").mkdir()
    for name in (file.name, trace.name):
        shutil.copy(tmp_path / name, tmp_path / "elsewhere")
    moved = Runner("rsf", tmp_path, tmp_path / "elsewhere", "multipilot", 2)
    moved.__dict__["sources"] = runner.__dict__["sources"]
    assert moved.simulation(Experiment("a")).folder == other.folder, "wherever the checkout lies"
    trace.write_text("time_s,rate_mbps,delay_ms,loss\n0,11,20,0\n", encoding="utf-8")
    assert runner.simulation(Experiment("a")).question != first.question
    file.write_text(SCENARIO.replace("2s", "3s"), encoding="utf-8")
    assert runner.simulation(Experiment("a")).question != first.question


def test_an_older_record_of_the_same_question_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(SCENARIO.replace('trace = "rates.csv"', 'rate = "1Mbit"'), encoding="utf-8")
    runner = Runner("rsf", tmp_path, tmp_path, "multipilot", 2)
    runner.__dict__["sources"] = {SIM: "aaaa"}
    first = runner.simulation(Experiment("a"))
    assert first.older() is None
    first.folder.mkdir(parents=True)
    origin = Provenance("abc", "2026-11-22", "aaaa", 2, first.question, 3.0)
    origin.write(first.folder)
    assert first.done
    runner.__dict__["sources"] = {SIM: "bbbb"}
    later = runner.simulation(Experiment("a"))
    assert not later.done
    older = later.older()
    assert older is not None
    assert older.origin == origin
    later.take_over(older)
    assert later.origin == replace(origin, source="bbbb"), "commit and date stay those of the runs"
    assert not first.folder.exists()
    runner.seeds = 3
    assert runner.simulation(Experiment("a")).older() is None, "another question"


def test_a_command_that_tells_no_sources_is_known_by_its_bytes(tmp_path: Path) -> None:
    command = tmp_path / "multipilot"
    found = []
    for text in ("echo '{}'", "echo '{}' # another", """echo '{"sources": {"simulator": "s", "kernel": "k"}}'"""):
        command.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        command.chmod(0o755)
        found.append(sources(str(command)))
    assert found[0][SIM] == found[0][KERNEL] == found[0][RELAY]
    assert found[0] != found[1]
    assert found[2] == {SIM: "s", KERNEL: "k", RELAY: "k"}


@pytest.fixture(params=PAPERS.values(), ids=PAPERS.keys())
def paper(request: pytest.FixtureRequest) -> Paper:
    chosen: Paper = request.param
    return chosen


#: Scenario files of a paper that no experiment of its own runs.
ELSEWHERE = {
    # Run with traces of the user's.
    "loss-aware": {"9-trace"},
    "pilot": {"trace"},
    # Looked at without transport; the simulator's speed; the picture.
    "drones": {"allocation", "energy", "overhead", "seven", "orbit"},
}


def test_every_scenario_of_a_paper_is_there_and_used(paper: Paper) -> None:
    files = {file.stem for file in find_scenarios(paper.name).glob("*.toml")}
    named = {e.scenario for e in paper.experiments}
    assert named == files - ELSEWHERE.get(paper.name, set())
    shown = {s for item in paper.items for s in item.scenarios}
    assert named <= shown <= files
    assert {p.scenario for p in paper.points} <= named


def test_points_are_named_once_and_run_five_times(paper: Paper) -> None:
    names = [(p.name, p.path_manager, tuple(p.cell.items())) for p in paper.points]
    assert len(set(names)) == len(names)
    assert {p.seeds for p in paper.points} <= {5}, "one run decides nothing"
    least = {"drones": 6, "bandit": 3}.get(paper.name, 25)
    assert least <= len(names) <= 45


def test_the_page_stands_without_any_measurement(paper: Paper) -> None:
    html = stands(paper, Results())
    for item in paper.items:
        assert f'id="{item.name}"' in html
        assert f"multipilot paper {paper.name} --only {item.name}" in html
