"""The drawn grid: in its ranges, the same for the same seed, and run by both worlds."""

import json
from pathlib import Path

import pytest

from multipilot import expand
from multipilot.agree import drawn, page
from multipilot.agree.drawn import DrawnCell, Kind, Trace
from multipilot.agree.judge import Aim, Judged, Verdict, Whole, judge
from multipilot.agree.worlds import RealWorld, simulate, simulated
from multipilot.draws import LEAST_QUEUE

MANY = drawn.draw("any", 200)


def recorded(folder: Path) -> Trace:
    for way, gap in (("down", 2), ("up", 4)):
        (folder / f"lte.{way}").write_text("\n".join(str(at) for at in range(1, 2000, gap)), encoding="utf-8")
    return Trace("lte", folder / "lte.down", folder / "lte.up")


def test_cells_lie_in_the_ranges_and_every_controller_comes_in_turn() -> None:
    turn = drawn.controllers()
    assert {"pilot", "mpcc", "ddpg-mpcc", "ld-mpsp", "lia", "bbr"} <= set(turn)
    assert {cell.controller for cell in MANY[: len(turn)]} == set(turn)
    assert {len(cell.links) for cell in MANY} == {1, 2, 3, 4}
    ranges = drawn.RANGES
    for cell in MANY:
        for link in cell.links:
            assert ranges.rate_mbps[0] <= link.rate_mbps <= ranges.rate_mbps[1]
            assert ranges.rtt_ms[0] <= link.rtt_ms <= ranges.rtt_ms[1]
            assert 0 <= link.loss <= ranges.loss[1]
            # A short queue is rounded to whole packets.
            assert link.bdp <= ranges.queue[1] * 1.01 or link.queue_packets == LEAST_QUEUE
            assert link.bdp >= ranges.queue[0] * 0.97
    assert {cell.kind for cell in MANY} == {Kind.LONG, Kind.SHORT, Kind.FAILURE}


def test_a_seed_draws_the_same_cells_and_another_draws_others(tmp_path: Path) -> None:
    assert drawn.draw("any", 20) == MANY[:20]
    assert not {cell.links for cell in drawn.draw("other", 20)} & {cell.links for cell in MANY}
    # Traces take the place of long cells and leave the rest as they were.
    traces = [recorded(tmp_path)]
    of_both = list(zip(MANY, drawn.draw("any", 200, traces), strict=True))
    differ = [(old, new) for old, new in of_both if old != new]
    assert differ
    assert {(old.kind, new.kind) for old, new in differ} == {(Kind.LONG, Kind.TRACE)}
    assert all(old.links == new.links for old, new in of_both)


@pytest.mark.parametrize("cell", drawn.draw("expanded", 60), ids=lambda cell: cell.name)
def test_every_drawn_cell_is_a_scenario(cell: DrawnCell) -> None:
    text = expand(cell.scenario())
    assert text.count("[paths.") == len(cell.links)
    assert f'controller = "{cell.controller}"' in text
    assert ("arrivals" in text) == (cell.kind is Kind.SHORT)
    assert text.count("outage = ") == 2 * (cell.kind is Kind.FAILURE)


def test_short_flows_end_and_leave_most_of_the_paths_free() -> None:
    for cell in MANY:
        if cell.kind is Kind.SHORT:
            load = cell.arrivals * cell.size_kb * 8e-3
            assert load <= 1.05 * drawn.LOAD * cell.mbps
            assert cell.arrivals * cell.duration_s >= 0.9 * drawn.DOWNLOADS


def test_short_flows_are_compared_by_their_completion() -> None:
    cell = next(cell for cell in MANY if cell.kind is Kind.SHORT)
    assert cell.value({"goodput_mbps": 3.0, "completion_median_s": 0.25}) == 250
    assert cell.value({"goodput_mbps": 3.0, "completion_median_s": None}) is None
    values = simulate(cell, 1)
    # A download of nothing takes a round trip; none can outlast its run.
    assert min(link.rtt_ms for link in cell.links) < values[0] < 1e3 * cell.duration_s


def test_each_kind_runs_through_the_command_as_in_this_process(tmp_path: Path) -> None:
    links = MANY[0].links[:1] + MANY[1].links[:1]
    cells = [
        DrawnCell(1, "lia", links, Kind.FAILURE, duration_s=3),
        DrawnCell(2, "cubic", links, Kind.SHORT, 30, 4.0, duration_s=3),
        DrawnCell(3, "mpcc", links, Kind.TRACE, trace=recorded(tmp_path), duration_s=3),
    ]
    wanted = dict.fromkeys(cells, 1)
    world = RealWorld(tmp_path / "out", budget_s=60, jobs=2, world="sim")
    assert world.measure(wanted), world.failures
    for cell in cells:
        assert world.goodputs(cell, 1) == simulate(cell, 1) == simulated(cell, 1, tmp_path / "out")


def test_a_kept_value_is_not_simulated_again(tmp_path: Path) -> None:
    cell = DrawnCell(1, "lia", MANY[0].links, duration_s=1)
    simulated(cell, 1, tmp_path)
    (kept,) = (tmp_path / "sim").iterdir()
    kept.write_text("[1.5]", encoding="utf-8")
    assert simulated(cell, 1, tmp_path) == [1.5]
    assert simulated(cell, 2, tmp_path) != [1.5]


def test_a_heavy_run_waits_for_the_others() -> None:
    heavy = max(MANY, key=lambda cell: cell.mbps)
    light = min(MANY, key=lambda cell: cell.mbps)
    world = RealWorld(Path(), budget_s=0, jobs=2)
    from multipilot.agree.worlds import BORNE_MBPS, RealRun

    assert heavy.mbps > 2 * BORNE_MBPS > 2 * light.mbps
    under_way = {object(): RealRun(light, 1)}
    assert not world._fits(RealRun(heavy, 1), under_way)  # type: ignore[arg-type]
    assert world._fits(RealRun(light, 2), under_way)  # type: ignore[arg-type]


def of_gap(cell: DrawnCell, gap: float, noise: float = 0.01) -> Judged:
    real = [10 * (1 + noise * s) for s in (-1, 0, 1, 0)]
    return judge(cell, [value * (1 + gap) for value in real], real)


@pytest.mark.parametrize(
    ("gaps", "noise", "median", "cells"),
    [
        ([0.01, 0.02, 0.14], 0.01, Aim.MET, Aim.MET),
        ([0.01, 0.02, 0.17], 0.01, Aim.MET, Aim.MISSED),
        ([0.06, 0.07, 0.14], 0.01, Aim.MISSED, Aim.MET),
        # A wide interval decides nothing.
        ([0.01, 0.02, 0.03], 0.3, Aim.MET, Aim.OPEN),
    ],
)
def test_the_aims_of_a_drawn_grid(gaps: list[float], noise: float, median: Aim, cells: Aim) -> None:
    whole = Whole([of_gap(cell, gap, noise) for cell, gap in zip(MANY, gaps, strict=False)], seed="any")
    assert (whole.median_aim, whole.cells_aim) == (median, cells)
    assert whole.agrees == (median is cells is Aim.MET)
    unmeasured = Whole([*whole.cells, judge(MANY[9], [10.0, 10.1], [])], seed="any")
    assert unmeasured.median_aim is Aim.OPEN
    assert unmeasured.cells_aim is not Aim.MET


def test_the_page_names_the_seed_and_lists_the_worst_first(tmp_path: Path) -> None:
    gaps = [0.01, -0.3, 0.04, 0.2]
    whole = Whole([of_gap(cell, gap) for cell, gap in zip(MANY, gaps, strict=False)], seed="1.2.3")
    assert [round(j.gap.mean, 2) for j in whole.worst] == [-0.3, 0.2, 0.04, 0.01]
    assert whole.count(Verdict.OFF) == 2
    page.write(whole, tmp_path / "agree.md", [], quick=False)
    text = (tmp_path / "agree.md").read_text(encoding="utf-8")
    assert "`multipilot agree --drawn --seed 1.2.3 --cells 4`" in text
    assert "2 of 4 cells are significantly off by more than 15 %, 0 undecided (aim: none: missed)" in text
    table = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert all(line.count(" | ") == 6 for line in table)
    assert MANY[1].label in table[1]
    document = json.loads(json.dumps(page.document(whole, []), allow_nan=False))
    assert document["seed"] == "1.2.3"
    assert document["aims"] == {"median": whole.median_aim.value, "cells": "missed"}
