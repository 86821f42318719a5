"""Paper drones over the relay: its points are what its claims need, and one of them runs."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from running import PAPERS

from multipilot import console
from multipilot.papers.claims import judge
from multipilot.papers.results import RELAY, SIM, Results
from multipilot.papers.runs import Runner, find_scenarios
from reproductions.drones import balance
from reproductions.drones.values import values

PAPER = PAPERS["drones"]


def runner(out: Path) -> Runner:
    return Runner(PAPER.name, out, find_scenarios(PAPER.name), console.command(), 1)


def test_the_points_are_what_the_claims_need(tmp_path: Path) -> None:
    """The same cells and schedulers, in the simulator: it takes no real time."""
    results = Results()
    assert {point.world for point in PAPER.points} == {RELAY}
    for point in PAPER.points:
        runner(tmp_path).measure(replace(point, world=SIM, settings={"duration": "6s"}, seeds=2), results)
    judged = {j.claim.id: j for j in judge(PAPER.claims, values(results, SIM), SIM) if RELAY in j.claim.worlds}
    assert len(judged) == 19
    assert [name for name, one in judged.items() if one.n < 2] == []


def test_a_point_runs_over_the_relay(tmp_path: Path) -> None:
    if os.geteuid():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("the relay world needs root")
    point = next(p for p in PAPER.points if p.scenario == balance.SCENARIO)
    results, short = Results(), replace(point, settings={"duration": "4s"}, seeds=1)
    assert not runner(tmp_path).measure(short, results, recall=True)
    assert runner(tmp_path).measure(short, results)
    found = values(results, RELAY)
    assert {name for name, one in found.items() if one.n} == {"balance.min-rtt.1MB", "balance.delay-balance.1MB"}
    # 1 MB over 40 Mbit/s takes 210 ms at least.
    assert all(one.mean > 210 for one in found.values() if one.n)
    again = Results()
    assert runner(tmp_path).measure(short, again, recall=True)
    assert again.rows == results.rows
