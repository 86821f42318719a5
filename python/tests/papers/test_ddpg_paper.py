"""Paper ddpg: closed forms, what is measured where, and its page."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from running import named, simulated

from multipilot.papers.paper import Experiment
from multipilot.papers.results import SIM, Results
from multipilot.papers.runs import find_scenarios
from reproductions.ddpg import PAPER, below, plan
from reproductions.ddpg.intervals import INTERVALS, PLAIN, Course, Measured, actors
from reproductions.ddpg.over_time import rates
from reproductions.ddpg.sections import of_rivals, resting_goodput, resting_rate
from reproductions.ddpg.topologies import LOSSES, QUEUES
from reproductions.ddpg.values import values as all_values


def test_the_resting_rate_is_where_the_utility_peaks() -> None:
    assert resting_rate(0.05) == pytest.approx(100.6, abs=0.1)
    # The authors' code counts bytes/s, with beta 11: 10.5 Mbit/s at 2 %.
    assert resting_rate(0.02, beta=11) * 8e-6 == pytest.approx(10.5, abs=0.1)
    for loss in (0.03, 0.05, 0.08):
        best = resting_rate(loss)
        utility = [x**0.9 - 11.35 * loss * x for x in (0.99 * best, best, 1.01 * best)]
        assert max(utility) == utility[1]
    assert math.isinf(resting_rate(0))
    assert resting_goodput(0, 200) == pytest.approx(200 * 1420 / 1500)
    assert resting_goodput(0.06, 200) == pytest.approx(resting_rate(0.06) * 0.94 * 1420 / 1500)


def test_rivals_are_averaged_over_those_that_there_are() -> None:
    assert of_rivals({"competing_mbps": 80.0, "cell": {"connections.rival.controller": "pcc"}}) == 80
    two = {"connections.rival-one.controller": "pcc", "connections.rival-two.controller": "pcc"}
    assert of_rivals({"competing_mbps": 80.0, "cell": two}) == 40
    assert of_rivals({"competing_mbps": None, "cell": {}}) is None


def test_axes_of_the_pictures_are_those_of_the_scenarios() -> None:
    scenarios = find_scenarios("ddpg")
    for name, key, values in ((plan.BUFFERS, "queue", QUEUES), (plan.LOSS, "loss", LOSSES)):
        text = (scenarios / f"{name}.toml").read_text()
        listed = re.search(rf'^paths\."\*"\.{key} = (\[.*\])$', text, re.MULTILINE)
        assert listed
        assert [str(v) for v in json.loads(listed[1])] == [v for v, _ in values]


def test_a_course_is_judged_by_its_second_half() -> None:
    rate = np.tile(np.arange(INTERVALS, dtype=float), (3, 1)) + np.array([[0], [1], [2]])
    course = Course(rate, rate, rate)
    assert course.late("rate").mean == pytest.approx(np.arange(50, 100).mean() + 1)
    assert course.late("rate").n == 3
    again = Course.of(json.loads(json.dumps(course.to_json())))
    assert (again.rate == course.rate).all()


def test_actors_are_plain_mpcc_what_ships_and_what_the_user_names(tmp_path: Path) -> None:
    found = actors(None)
    assert found[0].name == PLAIN
    assert found[0].file is None
    assert [a.shipped for a in found[1:]] == [True] * (len(found) - 1)
    assert len(found) > 1
    with pytest.raises(ValueError, match="multipilot train"):
        actors(tmp_path)
    folder = tmp_path / "td3-1"
    folder.mkdir()
    document = json.loads(found[1].text)
    (folder / "actor.json").write_text(json.dumps({**document, "made_by": "multipilot train td3 --seed 1"}))
    assert actors(tmp_path)[-1].name == "td3, td3-1"


def test_each_controller_meets_its_own_kind(tmp_path: Path) -> None:
    tested = ("mpcc", "lia", "bbr")
    narrow = {f"grid.{plan.QUEUE_KEY}": "400p", "duration": "10s"}
    wanted = [
        Experiment(plan.BUFFERS, settings={**e.settings, **narrow}, tables=False)
        for e in PAPER.experiments
        if e.scenario == plan.BUFFERS and any(f'"{c}"' in e.settings["variants"] for c in tested)
    ]
    results = simulated("ddpg", tmp_path, *wanted)
    for controller in tested:
        (row,) = results.find(SIM, plan.BUFFERS, controller, {plan.QUEUE_KEY: "400p"})
        assert row["cell"]["connections.rival.controller"] == plan.RIVAL_OF[controller]
        assert row["competing_mbps"] > 5
        assert row["goodput_mbps"] > 20


def test_figures_6_to_8_are_measured_once_and_recalled(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "multipilot.papers.cli", "ddpg", "--quick", "--only", "fig6,fig8,learning"]
    call += ["--out", str(tmp_path), "--json"]
    first = json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
    found = {name: value["mean"] for name, value in named(first).items()}
    # Two of a kind on two paths: each has something, and together no more than there is.
    assert found["fig6.plain"] > 10
    assert found["fig6.plain-rival"] > 10
    assert found["fig6.plain"] + found["fig6.plain-rival"] < 110
    # A reward is cut off at −1 and 1: at its ends it would say nothing of who is better.
    assert all(-0.95 < found[f"fig8.{who}"] < 0.95 for who in ("learned", "plain"))
    assert {c["claim"]: c["n"] for c in first["claims"] if c["world"] == SIM}["fig6-no-harm"] >= 2
    assert {o["scenario"] for o in first["origins"]} == {"own"}
    written = {file: file.stat().st_mtime_ns for file in (tmp_path / "intervals").iterdir()}
    assert len(written) == len(actors(None))
    assert "Figure 6" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_rates_over_time_are_of_each_connection(tmp_path: Path) -> None:
    settings = {"variants": '[{controller = "lia"}]', "duration": "8s", "sample_interval": "200ms"}
    results = simulated("ddpg", tmp_path, Experiment(plan.AGAINST, settings=settings))
    (row,) = results.find(SIM, plan.AGAINST, "lia")
    found = rates(row)
    assert {name: len(series) for name, series in found.items()} == {"tested": 4, "mpcc": 4}
    assert found["tested"].mean() == pytest.approx(row["goodput_mbps"], rel=0.1)
    assert found["mpcc"].mean() == pytest.approx(row["competing_mbps"], rel=0.1)
    assert rates({**row, "folder": None}) == {}


def test_cells_below_mpcc_are_counted_over_all_of_them_and_not_by_chance() -> None:
    """The count was over the cells that a call happened to measure, each at 95 %: one of thirty misses by chance."""

    def measured(less: float, cells: int) -> Results:
        results, first = Results(), (plan.BUFFERS, 0, "ddpg-mpcc")
        for scenario, key, axis, _ in below.SWEPT[:cells]:
            rows = [
                {"variant": name, "controller": name, "path_manager": "fullmesh", "seed": seed, "cell": {key: value},
                 "goodput_mbps": 50 + seed - (less if (scenario, n, name) == first else 0)}
                for n, (value, _) in enumerate(axis) for name in ("mpcc", "ddpg-mpcc") for seed in range(8)
            ]  # fmt: skip
            results.add(SIM, scenario, {"rows": rows})
        return results

    # Welch's half for eight seeds 0 to 7: 2.145 · sqrt(2 · 6 / 8) = 2.63.
    found = below.count(measured(10, 4), SIM)
    assert (found.mean, found.n) == (1, 8)
    assert below.count(measured(3, 4), SIM).mean == 0, "alone it would be significant"
    assert below.count(measured(10, 3), SIM).n == 0, "some of the cells"


def test_a_rise_leaves_slow_start_out() -> None:
    """Any controller's rate rises from where it starts; utility and reward of figures 7 and 8 included that rise."""
    rate = np.where(np.arange(INTERVALS) < 8, 4.0, 90.0) + np.array([[0.0], [1.0], [2.0]])
    after = rate + np.where(np.arange(INTERVALS) < 20, 0.0, 7.0)
    results = Results()
    plain, shipped = actors(None)[0], next(a for a in actors(None) if a.shipped)
    flat, rising = Course(rate, rate, rate), Course(after, after, after)
    results.own = Measured({PLAIN: plain, "ours": shipped}, {PLAIN: (flat, flat), "ours": (rising, flat)})
    found = all_values(results, SIM)
    rises = {name: one.mean for name, one in found.items() if ".rise" in name}
    assert rises == {"fig6.rise": 7, "fig7.rise": 7, "fig7.rise-rival": 0, "fig8.rise": 7}


def test_a_lead_is_of_each_run() -> None:
    """What one connection has more of the shared links the other has less: the leads vary more than either."""
    ours = 50 + np.array([[-10.0], [0.0], [13.0]]) + np.zeros(INTERVALS)
    shipped = next(a for a in actors(None) if a.shipped)
    results = Results()
    results.own = Measured({"ours": shipped}, {"ours": (Course(ours, ours, ours), Course(*[90 - ours] * 3))})
    lead = all_values(results, SIM)["fig6.lead"]
    assert (lead.mean, lead.n) == (pytest.approx(12), 3)
    assert lead.std == pytest.approx(2 * np.std([-10, 0, 13], ddof=1))
