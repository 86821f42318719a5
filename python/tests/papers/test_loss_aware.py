"""Paper loss-aware: the arithmetic of its page in closed form, and a quick run of its command."""

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.ipc as ipc
import pytest
from running import simulated, stands

from multipilot.papers.loss_aware import PAPER
from multipilot.papers.loss_aware.benefit import HARM, WIDEST, aggregation_benefit, benefits, of, verdict
from multipilot.papers.loss_aware.plan import BEFORE, CONTROLLERS, EXPERIMENTS, REST, V_BOTH, WIFI, known, on_traces
from multipilot.papers.loss_aware.series import Series, changes_per_minute, time_to_full, time_to_use
from multipilot.papers.loss_aware.verdict import SETS
from multipilot.papers.loss_aware.verdict import rows as verdict_rows
from multipilot.papers.paper import Experiment
from multipilot.papers.results import KERNEL, SIM, Results


def test_the_benefit_is_one_for_the_sum_and_zero_for_the_better_path_alone() -> None:
    assert aggregation_benefit(60, [40, 20]) == 1
    assert aggregation_benefit(40, [40, 20]) == 0
    assert aggregation_benefit(50, [40, 20]) == 0.5
    assert aggregation_benefit(20, [40, 20]) == -0.5
    assert aggregation_benefit(0, [40, 20]) == -1
    # Stock Linux with 5 % loss, as measured: 28.2 beside 4.8 and 41.8 Mbit/s alone.
    assert aggregation_benefit(28.2, [4.8, 41.8]) == pytest.approx(-0.33, abs=0.005)


def rows(manager: str, ben: list[float]) -> list[dict[str, object]]:
    common = {"controller": "balia", "scheduler": "default", "cell": {"loss": "0.01"}}
    return [
        {**common, "variant": f"balia/{manager}", "path_manager": manager, "seed": i, "ben": b, "goodput_mbps": 40 + b}
        for i, b in enumerate(ben)
    ]


def alone(path: str, goodputs: list[float]) -> list[dict[str, object]]:
    name = f"balia/fullmesh [tcp on {path}] loss=0.01"
    return [
        {"controller": "balia", "scheduler": "default", "cell": {"loss": "0.01"}, "variant": name, "seed": i,
         "path_manager": "single", "ben": None, "goodput_mbps": g}
        for i, g in enumerate(goodputs)
    ]  # fmt: skip


def measured(stock: list[float], aware: list[float]) -> Results:
    found = Results()
    singles = alone("wifi", [10, 20, 30]) + alone("lte", [38, 40, 44])
    found.add(SIM, "a", {"rows": [*rows("fullmesh", stock), *rows("loss-aware", aware), *singles]})
    return found


def test_a_cell_is_harmed_only_where_its_whole_interval_is() -> None:
    found = benefits(measured([-0.30, -0.31, -0.29], [-0.04, 0.03, -0.09]), SIM, "a")
    stock, aware = of(found, "balia", False), of(found, "balia", True)
    assert len(found) == 2, "single paths have no benefit"
    assert stock[0].harms
    assert not stock[0].undecided
    # Student's t with 2 degrees of freedom: 4.303 standard errors
    half = 4.303 * float(np.std([-0.04, 0.03, -0.09], ddof=1)) / math.sqrt(3)
    assert aware[0].mean.half == pytest.approx(half, rel=1e-3)
    assert half > WIDEST
    assert aware[0].undecided
    assert aware[0].may_harm
    assert not aware[0].harms
    assert aware[0].mean.mean < HARM
    assert stock[0].harms_beyond
    whole = verdict([*stock, *aware])
    assert whole is not None
    assert whole.beyond == 1
    assert (whole.cells, whole.harmed, whole.undecided, whole.open, whole.missed) == (2, 1, 1, 1, 2)
    assert verdict([]) is None


def test_what_the_header_alone_costs_is_harm_but_not_beyond_it() -> None:
    one = of(benefits(measured([-0.030, -0.031, -0.029], [0.0]), SIM, "a"), "balia", False)[0]
    assert (one.harms, one.harms_beyond) == (True, False)


def test_single_paths_give_median_and_maximum() -> None:
    cell = of(benefits(measured([0.0, 0.0], [0.0]), SIM, "a"), "balia", False)[0]
    assert {name: list(values) for name, values in cell.singles.items()} == {"wifi": [10, 20, 30], "lte": [38, 40, 44]}
    assert cell.best_single == 40
    assert cell.with_maximum == pytest.approx((40 - 44) / 44)


def ramp() -> Series:
    """2 Mbit/s until 10 s, nothing until 12 s, then 8 Mbit/s."""
    time = np.arange(0, 30.05, 0.1)
    rate = np.where(time[1:] <= 10.01, 2.0, np.where(time[1:] <= 12.01, 0.0, 8.0))
    delivered = np.concatenate(([0.0], np.cumsum(rate * 0.1 / 8e-6)))
    return Series(time, delivered, (time > 10) & (time < 12))


def test_reaction_times_and_changes_are_read_off_the_curve() -> None:
    series = ramp()
    # The mean over half a second has passed 90 % of 8 Mbit/s when all of it has.
    assert time_to_full(series, 10.0, (20.0, 30.0)) == pytest.approx(2.5, abs=0.11)
    assert time_to_use(series, 10.05) == pytest.approx(2.05, abs=0.11)
    assert math.isnan(time_to_use(series, 10.05, least=9.0))
    assert changes_per_minute(series) == pytest.approx(4.0)


def test_traces_are_found_in_pairs(tmp_path: Path) -> None:
    for name in ("A.up", "A.down.gz", "A.up.gz", "B.down", "C.up"):
        (tmp_path / name).touch()
    assert [e.key for e in on_traces(tmp_path)] == ["9-trace A", "9-trace A once known"]


def test_the_benefit_of_the_record_is_that_of_the_page(tmp_path: Path) -> None:
    settings = {"grid.paths.wifi.loss": "0.01", "duration": "5s"}
    settings |= {f"grid.paths.{name}.rate": '["10Mbit", "20Mbit"]' for name in ("wifi", "lte")}
    results = simulated("loss-aware", tmp_path, Experiment(WIFI, settings=settings, ben=True, tables=False))
    found = benefits(results, SIM, WIFI)
    assert len(found) == 8
    assert all(b.mean.mean == pytest.approx(b.with_maximum) for b in found), "one seed: median and maximum are one"
    assert not list(tmp_path.rglob("*.arrow")), "rows alone are kept"


def test_a_known_path_is_judged_by_the_second_transfer_alone_and_by_the_first_ones_yardsticks(tmp_path: Path) -> None:
    chosen = {"grid.paths.wifi.loss": "0.001", "grid.paths.lte.loss": "0.01"}
    first, later = (
        replace(e, settings={**e.settings, **chosen}, tables=True) for e in EXPERIMENTS if e.scenario == V_BOTH
    )
    results = simulated("loss-aware", tmp_path, first, later)
    assert [e.key for e in (first, later)] == [V_BOTH, known(V_BOTH)]
    found = benefits(results, SIM, V_BOTH)
    for controller in CONTROLLERS:
        stock, blind, knowing = (of(found, controller, a, k) for a, k in ((False, False), (True, False), (True, True)))
        assert [len(b) for b in (stock, blind, knowing)] == [1, 1, 1]
        assert knowing[0].singles == stock[0].singles
        singles = [values[0] for values in knowing[0].singles.values()]
        assert knowing[0].mean.mean == pytest.approx(aggregation_benefit(knowing[0].goodput.mean, singles))
        row = results.find(SIM, known(V_BOTH), f"{controller} loss-aware")[0]
        with ipc.open_file(row["folder"] / "runs" / f"{row['index']:04}" / "transfers.arrow") as reader:
            transfers = {t["connection"]: t for t in reader.read_all().to_pylist()}
        before = transfers.pop("before")
        # It begins within a millisecond, and ends once what was sent by then is delivered.
        assert before["start_s"] < 0.001
        assert BEFORE <= before["end_s"] < BEFORE + REST + 30
        (measured,) = transfers.values()
        assert measured["start_s"] == pytest.approx(BEFORE + REST, abs=0.001)
        assert row["elapsed_s"] == BEFORE + REST + 30
        assert row["goodput_mbps"] == pytest.approx(measured["bytes"] * 8e-6 / 30, rel=1e-4)
        alone = results.find(SIM, V_BOTH, f"{controller} on wifi")[0]
        assert (alone["elapsed_s"], alone["competing_mbps"]) == (30, None), "nothing goes before or beside"


def test_the_page_tells_all_three_kinds_apart() -> None:
    found = Results()
    for name in SETS:
        singles = alone("wifi", [10, 20, 30]) + alone("lte", [38, 40, 44])
        cells = [*rows("fullmesh", [-0.3, -0.31, -0.29]), *rows("loss-aware", [-0.03, -0.031, -0.029])]
        found.add(SIM, name, {"rows": [*cells, *singles]})
        found.add(SIM, known(name), {"rows": rows("loss-aware", [0.1, 0.11, 0.12])})
    found.add(KERNEL, V_BOTH, {"rows": [*rows("fullmesh", [-0.3]), *alone("wifi", [10]), *alone("lte", [40])]})
    found.add(KERNEL, known(V_BOTH), {"rows": rows("loss-aware", [0.5])})
    html = stands(PAPER, found)
    assert "surely worse than the better path alone in 4 of 4 cells" in html
    assert "With it, in 4 at a first transfer" in html
    assert "and in 0 once an earlier transfer" in html
    assert "4 → 0 → 0 of them" in html
    # 40.5 of 50 Mbit/s, where the better path alone has 40
    assert re.search("once more with known paths.*<td>-0.30</td><td>–</td><td>0.05</td><td>40.5</td>", html)
    totals = [r for r in verdict_rows(found) if r["world"] == SIM and "cells" in r and r["scenario"] is None]
    assert [(r["known"], r["harmed"], r["harmed_beyond_header"]) for r in totals] == [
        (False, 4, 4),
        (False, 4, 0),
        (True, 0, 0),
    ]


def test_the_command_draws_a_walk_and_recorded_traces(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    for way in ("up", "down"):
        (traces / f"slow.{way}").write_text("\n".join(str(ms) for ms in range(2, 2002, 2)) + "\n", encoding="utf-8")
    call = [sys.executable, "-m", "multipilot.papers.cli", "loss-aware", "--quick", "--only", "handover,traces"]
    call += ["--seeds", "2", "--out", str(tmp_path / "out"), "--json", "--traces", str(traces)]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    walks = [row for row in document["rows"] if row["item"] == "handover"]
    assert {row["path_manager"] for row in walks} == {"fullmesh", "loss-aware", "signal-aware"}
    assert all(row["runs"] == 2 and row["goodput_mbps"] > 0 for row in walks)
    traced = [row for row in document["rows"] if row["item"] == "traces" and row["scenario"] == "9-trace slow"]
    assert {(row["path_manager"], row["known"]) for row in traced} == {
        ("fullmesh", False),
        ("loss-aware", False),
        ("loss-aware", True),
    }
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Beside a recorded LTE" in page
    assert str(tmp_path) not in page


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["loss-aware", "--traces", "/nonexistent"], "no trace there"),
        (["rsf", "--traces", "/nonexistent"], "no experiment on traces"),
    ],
)
def test_a_wrong_folder_of_traces_is_one_line_and_exit_code_2(call: list[str], words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "multipilot.papers.cli", *call], capture_output=True, text=True)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
