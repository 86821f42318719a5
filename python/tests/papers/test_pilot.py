"""The report on pilot: its verdicts on made-up data, the drawing, and a quick run of its command."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from running import simulated, stands

from multipilot import console, simulation
from multipilot.draws import LEAST_QUEUE, NAMES
from multipilot.papers.paper import Experiment, Point
from multipilot.papers.results import KERNEL, SIM, Results
from multipilot.papers.runs import Runner, find_scenarios
from multipilot.stats import Mean, mean_of
from reproductions.pilot import PAPER, ablation, alone, drawn
from reproductions.pilot.cells import alone_at, beside, pair, words
from reproductions.pilot.delay import queueing_ms
from reproductions.pilot.judge import (
    BETTER,
    FAIR,
    GREEDY,
    HARMS,
    LEVEL,
    SPARE,
    UNDECIDED,
    WORSE,
    YIELDS,
    Alone,
    Beside,
    judged,
    losers_first,
    relative,
    tally,
    unfair_first,
)
from reproductions.pilot.judge import fairness as verdict_of
from reproductions.pilot.plan import (
    ABLATION,
    ABLATION_ALONE,
    EXPERIMENTS,
    LATE,
    LOSS,
    POINTS,
    RENO,
    on_traces,
    reference,
)

NAN = math.nan


def mean(value: float, half: float = 0.0, n: int = 16) -> Mean:
    return Mean(value, half, n, NAN)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (mean(1.10, 0.05), BETTER),
        (mean(0.90, 0.05), WORSE),
        (mean(1.00, 0.05), LEVEL),
        # Significant, but too small to be noticed.
        (mean(0.985, 0.001), LEVEL),
        (mean(1.015, 0.001), LEVEL),
        # An interval that reaches the margin says neither; a wide one says nothing.
        (mean(0.90, 0.09), LEVEL),
        (mean(0.90, 0.20), UNDECIDED),
        # One run has no interval, and decides nothing.
        (mean(0.90, NAN, 1), UNDECIDED),
        (mean(1.50, NAN, 1), UNDECIDED),
        (mean(NAN, NAN, 0), UNDECIDED),
    ],
)
def test_the_whole_interval_decides(ratio: Mean, verdict: str) -> None:
    assert judged(ratio) == verdict


def test_a_ratio_has_welchs_interval_as_a_share_of_the_other() -> None:
    ours, other = mean_of([9.0, 10.0, 11.0]), mean_of([20.0, 20.0, 20.0])
    found = relative(ours, other)
    assert found.mean == pytest.approx(0.5)
    # All the spread is ours: Student's t with 2 degrees of freedom, 4.303 standard errors of 1/√3.
    assert found.half == pytest.approx(4.303 / math.sqrt(3) / 20, rel=1e-3)
    assert math.isnan(relative(ours, mean_of([])).mean)
    assert math.isnan(relative(ours, mean_of([0.0, 0.0])).mean)
    assert math.isnan(relative(mean_of([]), other).mean)
    assert math.isnan(relative(mean_of([10.0]), other).half)


@pytest.mark.parametrize(
    ("share", "keeps", "from_others", "verdict"),
    [
        (1.0, 1.0, 0.0, FAIR),
        (0.8, 0.85, 0.0, FAIR),
        (1.2, 0.85, 1.0, FAIR),
        (0.79, 1.1, 0.0, YIELDS),
        (1.3, 0.95, 0.9, GREEDY),
        (5.0, 0.9, 0.02, SPARE),
        (0.5, 0.84, 0.0, HARMS),
        (1.0, 0.84, 0.5, HARMS),
        (NAN, 1.0, 0.0, None),
        (1.0, NAN, 0.0, None),
    ],
)
def test_fair_is_one_share_that_leaves_the_others_theirs(
    share: float, keeps: float, from_others: float, verdict: str | None
) -> None:
    assert verdict_of(share, keeps, from_others) == verdict


def cell(name: str, **goodputs: float) -> Alone:
    means = {controller: mean_of([value, value]) for controller, value in goodputs.items()}
    return Alone(SIM, LOSS, (("case", name),), means, "pilot")


def test_losers_come_first_and_cells_without_a_measurement_not_at_all() -> None:
    cells = [
        cell("b", pilot=20, bbr=10, cubic=5),
        cell("l", pilot=10, bbr=10),
        cell("w", pilot=8, bbr=10),
        cell("lost", pilot=2, bbr=10, cubic=12),
        cell("alone", pilot=2),
        cell("without", bbr=2),
    ]
    assert [dict(c.cell)["case"] for c in losers_first(cells)] == ["lost", "w", "l", "b"]
    assert cells[3].best == "cubic"
    assert cells[4].best is None
    assert alone.said(cells) == "4 cells: better 1, level 1, worse 2; mean ratio 0.99."
    assert alone.said(cells[4:]) == ""
    assert tally([None, FAIR, FAIR, HARMS]).total() == 3


def row(variant: str, seed: int, goodput: float, **more: object) -> dict[str, object]:
    controller = variant.split(" ")[0]
    common = {"variant": variant, "controller": controller, "path_manager": "fullmesh", "scheduler": "default"}
    return {**common, "seed": seed, "goodput_mbps": goodput, "cell": {}, **more}


def shared(own: float, competing: float | None, at: dict[str, str]) -> list[dict[str, object]]:
    return [row("pilot", s, own, competing_mbps=competing, transfers=1, cell=at) for s in (1, 2)]


def test_a_reference_of_like_flows_is_their_mean_and_of_unlike_ones_is_not() -> None:
    # All are under test: the goodput is the sum of nine.
    own, others = pair([row("linux-reno", 1, 18.0, transfers=9, competing_mbps=None)])
    assert (own.mean, others.mean) == (2.0, 16.0)
    own, others = pair([row("linux-reno", 1, 12.0, transfers=1, competing_mbps=6.0)])
    assert (own.mean, others.mean) == (12.0, 6.0)
    own, others = pair([])
    assert (own.n, others.n) == (0, 0)


def beside_reno() -> Results:
    """Five cells: harm, too much, fair, one that yields, and one that has no competitor's rate."""
    rates = {"10Mbit": (15.0, 4.0), "20Mbit": (13.0, 9.0), "50Mbit": (10.0, 9.5), "60Mbit": (4.0, 12.0)}
    found = Results()
    cells = {rate: {"links.shared.rate": rate} for rate in (*rates, "70Mbit")}
    rows = [r for rate, (own, other) in rates.items() for r in shared(own, other, cells[rate])]
    found.add(SIM, RENO, {"rows": [*rows, *shared(10.0, None, cells["70Mbit"])]})
    found.add(SIM, reference(RENO), {"rows": [*reference_flows(cells, 1), *reference_flows(cells, 2)]})
    return found


def reference_flows(cells: dict[str, dict[str, str]], seed: int) -> list[dict[str, object]]:
    return [row("linux-reno", seed, 20.0, transfers=2, competing_mbps=None, cell=at) for at in cells.values()]


def test_a_share_of_one_run_is_undecided() -> None:
    found, at = Results(), {"links.shared.rate": "10Mbit"}
    found.add(SIM, RENO, {"rows": shared(15.0, 4.0, at)[:1]})
    found.add(SIM, reference(RENO), {"rows": reference_flows({"10Mbit": at}, 1)})
    assert [c.verdict for c in beside(found, SIM) if c.own.n] == [UNDECIDED]


@pytest.mark.parametrize(("spread", "verdict"), [(0.2, FAIR), (5.0, UNDECIDED)])
def test_a_share_is_fair_where_its_whole_interval_is(spread: float, verdict: str) -> None:
    varied, steady = mean_of([10 - spread, 10 + spread] * 8), mean_of([10.0] * 16)
    assert Beside(SIM, RENO, {}, "pilot", varied, steady, steady, steady).verdict == verdict


def test_shares_are_of_the_reference_in_the_same_cell() -> None:
    results = beside_reno()
    cells = unfair_first(beside(results, SIM))
    assert [c.verdict for c in cells] == [HARMS, GREEDY, YIELDS, FAIR]
    assert (cells[0].share.mean, cells[0].keeps.mean) == (1.5, 0.4)
    assert words(cells[0].cell) == "10 Mbit/s"
    assert PAPER.values(results, SIM)["keeps.pilot.beside-reno.10 Mbit/s"].mean == 0.4
    html = stands(PAPER, results)
    assert "Beside others, chosen: 4 cells: fair 1, yields 1, takes more 1, harms 1." in html


def test_the_page_counts_what_the_data_say() -> None:
    results = Results()
    rows = [row(c, s, g, cell={"case": "1 % on both"}) for s in (1, 2) for c, g in (("pilot", 5.0), ("bbr", 10.0))]
    results.add(SIM, LOSS, {"rows": [*rows, row("pilot", 1, 5.0, cell={"case": "no rival"})]})
    assert "Alone, chosen: 1 cell: worse 1; mean ratio 0.50." in stands(PAPER, results)
    (found,) = losers_first(alone_at(results, SIM, LOSS))
    assert (found.best, found.ratio.mean, found.verdict) == ("bbr", 0.5, WORSE)
    assert PAPER.values(results, SIM)["alone.loss.1 % on both"].mean == 0.5


def test_ablation_compares_each_bit_with_all_of_it() -> None:
    bit = next(iter(ABLATION))
    rows = [row(f"pilot without={b} no loss", s, g) for s in (1, 2) for b, g in ((0, 10.0), (bit, 5.0))]
    results = Results()
    results.add(SIM, ABLATION_ALONE, {"rows": rows})
    (effect,) = ablation.effects(results)
    assert (effect.bit, effect.cells, effect.mean, effect.worse, effect.better) == (bit, 1, 0.5, 1, 0)
    assert ablation.bit_of(row("pilot", 1, 1.0)) == 0
    assert ABLATION[bit] in stands(PAPER, results)
    assert PAPER.values(results, SIM)[f"without.{ABLATION[bit]}.goodput alone"].mean == 0.5


def test_queueing_is_the_median_once_start_up_is_over() -> None:
    time, srtt = np.array([1.0, 6.0, 7.0, 8.0, 9.0]), np.array([99_000, 12_000, 0, 13_000, 20_000])
    assert queueing_ms(time, srtt, 10.0) == pytest.approx(3.0)
    assert math.isnan(queueing_ms(time[:1], srtt[:1], 10.0))


def test_a_seed_always_draws_the_same_cells_and_another_others() -> None:
    assert drawn.draw(1) == drawn.draw(1)
    assert drawn.draw(1) != drawn.draw(2)
    for links in drawn.alone(7):
        assert 1 <= len(links) <= len(NAMES)
        for link in links:
            assert drawn.RANGES.rate_mbps[0] <= link.rate_mbps <= drawn.RANGES.rate_mbps[1]
            assert drawn.RANGES.rtt_ms[0] <= link.rtt_ms <= drawn.RANGES.rtt_ms[1]
            assert link.queue_packets >= LEAST_QUEUE
            assert 0 <= link.loss <= drawn.RANGES.loss[1]
    assert {len(links) for links in drawn.alone(drawn.DRAW)} == {1, 2, 3, 4}
    bottlenecks = drawn.beside(drawn.DRAW)
    assert len(bottlenecks) == drawn.BESIDE_CELLS
    assert {b.rival for b in bottlenecks} == set(drawn.RIVALS)
    assert all(1 <= b.rivals <= drawn.MOST_RIVALS and 1 <= b.subflows <= drawn.MOST_SUBFLOWS for b in bottlenecks)


def test_the_drawn_files_are_what_the_seed_gives() -> None:
    folder = find_scenarios("pilot")
    for name, text in drawn.draw(drawn.DRAW).items():
        assert (folder / f"{name}.toml").read_text(encoding="utf-8") == text, "write them again, do not edit them"


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.key)
def test_every_experiment_is_a_scenario(experiment: Experiment) -> None:
    file = find_scenarios("pilot") / f"{experiment.scenario}.toml"
    assert simulation.expanded(file, {**experiment.settings, **experiment.quick})


def test_another_draw_is_a_scenario_too() -> None:
    for seed in range(20):
        for text in drawn.draw(seed).values():
            assert simulation.expand(text)


def test_traces_take_the_place_of_one_rate(tmp_path: Path) -> None:
    for way in ("up", "down"):
        (tmp_path / f"slow.{way}").touch()
    (found,) = on_traces(tmp_path)
    assert found.key == "trace slow"
    assert set(found.settings) == {"paths.two.uplink.trace", "paths.two.downlink.trace"}


def test_kernel_points_are_cells_of_the_simulator_and_run_five_times(tmp_path: Path) -> None:
    assert {point.seeds for point in POINTS} == {5}
    assert POINTS[0].runs == 5
    assert any(point.label == reference(RENO) for point in POINTS)
    runner = Runner("pilot", tmp_path, find_scenarios("pilot"), console.command(), 1)
    for point in POINTS:
        assert not runner.measure(point, Results(), recall=True)


def test_a_kernel_point_of_an_unknown_case_is_refused(tmp_path: Path) -> None:
    runner = Runner("pilot", tmp_path, find_scenarios("pilot"), "/nonexistent", 1)
    with pytest.raises(ValueError, match='no case "none such"'):
        runner.measure(Point(LOSS, {"case": "none such"}, "pilot"), Results(), recall=True)


def test_the_simulators_rows_make_cells(tmp_path: Path) -> None:
    short = {"duration": "4s", "grid.links.shared.rate": "20Mbit", "grid.links.shared.queue": '["1bdp"]'}
    wanted = [e for e in EXPERIMENTS if e.key in (RENO, reference(RENO), LATE, reference(LATE))]
    experiments = [
        Experiment(
            e.scenario,
            settings={**e.settings, **{k: v for k, v in short.items() if e.scenario == RENO or "queue" not in k}}
            | ({"connections.1.start": "1s"} if e.scenario == LATE else {}),
            tables=False,
            label=e.label,
        )
        for e in wanted
    ]
    results = simulated("pilot", tmp_path, *experiments)
    cells = {c.scenario: c for c in beside(results, SIM) if c.own.n}
    assert set(cells) == {RENO, LATE}
    one = cells[RENO]
    assert one.own_reference.mean == one.competing_reference.mean, "all flows alike"
    assert 0 < one.own_reference.mean < 10
    late = cells[LATE]
    assert late.own_reference.mean > late.competing_reference.mean, "the older flow has the link to itself at first"
    assert not list(alone_at(results, KERNEL, LOSS))


def test_the_command_draws_some_of_the_page(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "multipilot.papers.cli", "pilot", "--quick", "--only", "delay,fairness", "--json"]
    done = subprocess.run([*call, "--seeds", "1", "--out", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = [value["name"] for value in json.loads(done.stdout)["values"]]
    assert {n.split(".")[1] for n in names if n.startswith("queue.")} == {"pilot", "bbr", "linux-reno", "cubic"}
    assert sum(n.startswith("share.pilot.beside-") for n in names) > 40
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Beside others, chosen:" in page
    assert str(tmp_path) not in page
