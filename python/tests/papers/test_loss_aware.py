"""Paper loss-aware: the arithmetic of its page in closed form, and a quick run of its command."""

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from running import named, simulated, stands

from multipilot.papers.paper import Experiment
from multipilot.papers.results import KERNEL, SIM, Results
from reproductions.loss_aware import PAPER
from reproductions.loss_aware.benefit import HARM, WIDEST, aggregation_benefit, benefits, of, verdict
from reproductions.loss_aware.dynamic import FAILURE, reactions
from reproductions.loss_aware.plan import (
    BEFORE,
    CONTROLLERS,
    EXPERIMENTS,
    LA,
    LOSS_KEY,
    LTE,
    REST,
    V_BOTH,
    WIFI,
    known,
    on_traces,
)
from reproductions.loss_aware.series import Series, changes_per_minute, in_order, recovery, time_to_use
from reproductions.loss_aware.verdict import KINDS, SETS, grid, judged


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
    stock, aware = of(found, "balia", "fullmesh"), of(found, "balia", "loss-aware")
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
    one = of(benefits(measured([-0.030, -0.031, -0.029], [0.0]), SIM, "a"), "balia", "fullmesh")[0]
    assert (one.harms, one.harms_beyond) == (True, False)


def test_single_paths_give_median_and_maximum() -> None:
    cell = of(benefits(measured([0.0, 0.0], [0.0]), SIM, "a"), "balia", "fullmesh")[0]
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
    assert time_to_use(series, 10.05) == pytest.approx(2.05, abs=0.11)
    assert math.isnan(time_to_use(series, 10.05, least=9.0))
    assert changes_per_minute(series) == pytest.approx(4.0)


def other_path(low: float, seconds: float) -> Series:
    """8 Mbit/s all along, but for ``seconds`` after 10 s, half a second late."""
    time = np.arange(0, 30.05, 0.1)
    middle = (time[1:] > 10.51) & (time[1:] <= 10.51 + seconds)
    rate = np.where(middle, low, 8.0)
    return Series(time, np.concatenate(([0.0], np.cumsum(rate * 0.1 / 8e-6))), np.zeros(len(time), dtype=bool))


def test_full_rate_is_reached_after_the_dip_and_not_before_it() -> None:
    # At the event the path is at full rate still: the time was 0.00 however long it fell afterwards.
    found = recovery(other_path(low=0.0, seconds=2.0), 10.0, (20.0, 30.0))
    assert found.lowest == pytest.approx(0.0, abs=1e-9)
    # 2.5 s until it carries again, and most of half a second until the mean says so.
    assert found.seconds == pytest.approx(2.95, abs=0.11)
    shallow = recovery(other_path(low=7.6, seconds=2.0), 10.0, (20.0, 30.0))
    assert (shallow.lowest, shallow.seconds) == (pytest.approx(0.95), 0.0)
    assert math.isnan(recovery(other_path(low=0.0, seconds=25.0), 10.0, (20.0, 30.0)).seconds)
    late = Series(ramp().time, ramp().delivered[::-1] * 0, ramp().backup)
    assert math.isnan(recovery(late, 10.0, (20.0, 30.0)).lowest), "it never carried anything"


def test_goodput_in_order_is_of_the_stream_and_not_of_a_subflow(tmp_path: Path) -> None:
    """The LTE is acknowledged all along, but what the dead Wi-Fi holds blocks the stream for 2 s."""
    time = np.repeat(np.arange(0.1, 30.05, 0.1), 2)
    lte = 1e6 * time
    blocked = np.where((time > 10) & (time < 12), 10e6, lte)
    columns = {
        "time_s": time,
        "transfer": np.zeros(len(time), dtype=np.uint32),
        "in_order_bytes": blocked.astype(np.uint64),
    }
    row = recorded(tmp_path / "new", columns)
    stream = in_order(row, 0.1, 29.0)
    assert stream is not None
    found = recovery(stream, 10.0, (20.0, 29.0))
    assert found.lowest == pytest.approx(0.0, abs=1e-6)
    # At 12 s the stream jumps; within half a second the mean is that of the path again.
    assert 2.0 <= found.seconds <= 2.6
    assert in_order(recorded(tmp_path / "old", {"time_s": time}), 0.1, 29.0) is None, "a record without the column"


def recorded(folder: Path, columns: dict[str, np.ndarray]) -> dict[str, object]:
    (folder / "runs" / "0000").mkdir(parents=True)
    table = pa.table(columns)
    with ipc.new_file(folder / "runs" / "0000" / "samples.arrow", table.schema) as writer:
        writer.write_table(table)
    return {"folder": folder, "index": 0}


def test_a_run_that_never_recovers_counts_with_the_time_that_it_had(tmp_path: Path) -> None:
    """It was left out, which left out the worst."""
    time = np.arange(0.1, 89.05, 0.1)
    results = Results()
    for seed, dead in enumerate((False, True)):
        total = np.where(dead & (time > 30), 30e6, 1e6 * time)
        columns = {
            "time_s": time,
            "transfer": np.zeros(len(time), dtype=np.uint32),
            "subflow": np.zeros(len(time), dtype=np.uint32),
            "path": np.full(len(time), "wifi"),
            "backup": np.zeros(len(time), dtype=bool),
            "delivered_bytes": total.astype(np.uint64),
            "in_order_bytes": total.astype(np.uint64),
        }
        folder = tmp_path / str(seed)
        recorded(folder, columns)
        row = {"variant": "balia", "controller": "balia", "path_manager": "fullmesh", "seed": seed}
        results.add(SIM, FAILURE, {"rows": [row]}, folder)
    found = reactions(results, SIM, "balia", "fullmesh")
    assert {name: one.n for name, one in found.items()} == {"lowest": 2, "full": 2, "used": 2}
    assert found["full"].mean == pytest.approx((0 + 30) / 2, abs=0.1)
    assert found["used"].mean == pytest.approx((0 + 29) / 2, abs=0.2)


def test_after_a_path_failure_the_stream_dips_in_the_simulator_too(tmp_path: Path) -> None:
    one = {"variants": '[{controller = "linux-reno", path_manager = ["fullmesh", "loss-aware"]}]'}
    results = simulated("loss-aware", tmp_path, Experiment(FAILURE, settings={**one, "sample_interval": "100ms"}))
    stock = reactions(results, SIM, "linux-reno", "fullmesh")
    assert stock["lowest"].mean < 90
    assert stock["full"].mean > 0.2, "a retransmission timeout at least"
    assert stock["used"].mean > reactions(results, SIM, "linux-reno", "loss-aware")["used"].mean


def test_figure_4_is_of_losses_at_which_the_papers_rule_acts() -> None:
    found = Results()
    for scenario, side, losses in ((WIFI, "wifi", ("0.00001", "0.0001")), (LTE, "lte", ("0.001", "0.01"))):
        for loss, goodput in zip(losses, (90.0, 40.0), strict=True):
            cell = {LOSS_KEY[scenario]: loss, f"paths.{side}.rate": "30Mbit"}
            row = {"variant": "balia", "controller": "balia", "path_manager": "fullmesh", "cell": cell}
            found.add(scenario=scenario, world=SIM, document={"rows": [{**row, "seed": 0, "goodput_mbps": goodput}]})
    values = PAPER.values(found, SIM)
    assert [values[f"fig4.{side}.stock.fast"].mean for side in ("wifi", "lte")] == [40.0, 40.0]


def test_claims_over_the_whole_grid_are_of_the_simulator_alone() -> None:
    """On the kernel a share of the grid was taken over a few chosen cells, and held against that of all."""
    for claim in PAPER.claims.all:
        if re.search(r"\b(fig[34]\.|harm)", json.dumps(dict(claim.test))):
            assert claim.worlds == (SIM,), claim.id


def test_one_run_is_undecided_and_harms_nobody() -> None:
    (one,) = of(benefits(measured([-0.5], [0.0]), SIM, "a"), "balia", "fullmesh")
    assert math.isnan(one.mean.half)
    assert (one.harms, one.harms_beyond, one.undecided, one.may_harm) == (False, False, True, True)
    found = verdict([one])
    assert found is not None
    assert (found.harmed, found.undecided, found.missed) == (0, 1, 1)


def test_traces_are_found_in_pairs(tmp_path: Path) -> None:
    for name in ("A.up", "A.down.gz", "A.up.gz", "B.down", "C.up"):
        (tmp_path / name).touch()
    assert [e.key for e in on_traces(tmp_path)] == ["9-trace A", "9-trace A once known"]


def test_the_benefit_of_the_record_is_that_of_the_page(tmp_path: Path) -> None:
    settings = {"grid.paths.wifi.loss": "0.01", "duration": "5s"}
    settings |= {f"grid.paths.{name}.rate": '["10Mbit", "20Mbit"]' for name in ("wifi", "lte")}
    results = simulated("loss-aware", tmp_path, Experiment(WIFI, settings=settings, ben=True, tables=False))
    found = benefits(results, SIM, WIFI)
    assert len(found) == 12
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
        stock, blind, knowing = (of(found, controller, a, k) for a, k in (("fullmesh", False), (LA, False), (LA, True)))
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
    for kind, harmed, beyond in (("stock", 4, 4), ("loss-aware, cold start", 4, 0), ("loss-aware, warm start", 0, 0)):
        cells = rf'<td class="name">{kind}</td><td>4</td><td><span[^>]*>{harmed}</span></td><td>[^<]*</td>'
        assert re.search(rf"{cells}<td><span[^>]*>{beyond}</span>", html)
    # 40.5 of 50 Mbit/s, where the better path alone has 40
    assert re.search("once more: warm start.*<td>-0.30</td><td>–</td><td>0.05</td><td>40.5</td>", html)
    totals = [judged(grid(found, SIM), kind) for kind in KINDS]
    assert [(one.harmed, one.beyond) for one in totals if one] == [(4, 4), (4, 0), (0, 0)]


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
    walks = named(document, "walk.linux-reno.")
    assert walks.keys() == {f"walk.linux-reno.{kind}" for kind in ("stock", "aware", "signal-aware")}
    assert all(walk["n"] == 2 and walk["mean"] > 0 for walk in walks.values())
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Beside a recorded LTE" in page
    # A line for each controller, with all three kinds measured.
    traced = re.findall(r'<td class="name">slow</td>.*?</tr>', page)
    assert len(traced) >= len(CONTROLLERS)
    assert not any("–" in line for line in traced)
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
