"""Paper drones: what its radio says without transport, and that each named system changes a figure."""

import json
import re
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc
import pytest
from running import simulated

from multipilot import console
from multipilot.papers import runs
from multipilot.papers.paper import Experiment
from multipilot.papers.results import SIM, Results
from multipilot.papers.runs import find_scenarios
from reproductions.drones import PAPER, air, beams, factors, flows, links, tables, transport
from reproductions.drones.series import delays, extra_bytes
from reproductions.drones.values import values


def run(out: Path, scenario: str, **settings: str) -> Results:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return simulated("drones", out, Experiment(scenario, settings=named))


def test_the_mobile_rows_are_predicted_with_what_was_calibrated() -> None:
    mobile = (find_scenarios("drones") / "mobile.toml").read_text(encoding="utf-8")
    assert f'handoff = "{tables.CALIBRATED}"' in mobile


#: What the paper names, as `multipilot list` has it, by the list that it stands in.
NAMED = {
    "controllers": ("ld-mpsp", "dalia"),
    "path_managers": ("ms-ucb", "ms-ucb-federated"),
    "schedulers": ("delay-balance", "cloning", "ld-mpsp"),
    "allocations": ("greedy", "exhaustive", "hekaton", "bush", "mu-mimo"),
}


def test_each_named_system_is_listed_and_some_picture_runs_it() -> None:
    call = [console.command(), "list", "--json"]
    listed = json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
    drawn = {*(e.scenario for e in PAPER.experiments), beams.ALLOCATION, beams.ENERGY}
    text = "".join((find_scenarios("drones") / f"{name}.toml").read_text(encoding="utf-8") for name in drawn)
    for kind, names in NAMED.items():
        assert set(names) <= {entry["name"] for entry in listed[kind]}
        assert [name for name in names if f'"{name}"' not in text] == []


def test_a_second_access_point_doubles_what_ld_mpsp_carries_and_the_phy_changes_it(tmp_path: Path) -> None:
    results = run(tmp_path, "best", duration="1s")
    ours = {name: value.mean for name, value in values(results, SIM).items()}
    alone = {phy: ours[f"table.max LD-MPSP, controller alone.{phy}"] for phy in ("sc", "ofdm")}
    assert 1.7 < alone["sc"] / ours["table.max TCP.sc"] < 2.1
    assert alone["ofdm"] > 1.05 * alone["sc"]
    # The paper's row is of the whole, with its scheduler: the row was of the controller alone.
    assert ours["table.max LD-MPSP.sc"] not in (alone["sc"], 0)


def test_who_allocates_beams_changes_what_transport_carries(tmp_path: Path) -> None:
    results = run(tmp_path, "throughput", duration="2s", sample_interval="100ms")
    found = {case: transport.gbps(results, case).mean for case in transport.NAMES}
    assert found["greedy"] > found["hekaton"] > found["802.11ad"]
    assert found["greedy"] > found["bush"]
    # MS-UCB keeps three of five subflows out of backup; without it all carry data.
    assert carrying(results, "ms-ucb") == 3
    assert carrying(results, "all") == 5


def test_figure_10_runs_the_papers_systems_and_shares_ten_devices_with_figure_8(tmp_path: Path) -> None:
    other = next(e for e in PAPER.experiments if e.label == transport.COUNTS)
    settings = {**other.settings, "duration": "500ms", "grid.radio.seed": "[1]"}
    results = simulated("drones", tmp_path, replace(other, settings=settings))
    cells = {(row["cell"]["case"], int(row["cell"][transport.COUNT])) for row in results.rows}
    assert cells == set(product(transport.COUNTED, beams.OTHER_COUNTS))
    assert set(beams.DEVICES) == {transport.TEN, *beams.OTHER_COUNTS}
    assert f"count = {transport.TEN}" in (find_scenarios("drones") / "throughput.toml").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="no case"):
        simulated("drones", tmp_path, replace(other, cases=("wigig",)))


def carrying(results: Results, case: str) -> float:
    """Subflows that are not in backup, the median over times at which a connection has all five."""
    (row,) = (row for row in results.rows if row["cell"]["case"] == case)
    with ipc.open_file(row["folder"] / "runs" / f"{row['index']:04}" / "samples.arrow") as reader:
        samples = reader.read_all()
    now = samples.group_by(["transfer", "time_s"]).aggregate([("backup", "count"), ("backup", "sum")])
    whole = now.filter(pc.equal(now["backup_count"], 5))
    return float(np.median(pc.subtract(whole["backup_count"], whole["backup_sum"].cast("int64")).to_numpy()))


def test_copies_cost_bytes_and_only_where_there_is_loss(tmp_path: Path) -> None:
    results = run(tmp_path, "cloning", duration="8s", **{"grid__paths.*.loss": "[0, 0.2]"})
    extra = {name: value.mean for name, value in values(results, SIM).items() if name.endswith(".extra")}
    assert extra["cloning.cloning.500kB.0.0.extra"] < 0.02
    assert extra["cloning.cloning.500kB.0.2.extra"] > extra["cloning.min-rtt.500kB.0.2.extra"] + 0.02
    assert extra["cloning.redundant.500kB.0.2.extra"] > 0.3


def test_a_federated_population_begins_on_near_links(tmp_path: Path) -> None:
    results = run(tmp_path, "population", duration="3s")
    alone, federated = (
        np.median(delays(results.find(SIM, "population", f"ld-mpsp {name}")[0]))
        for name in ("ms-ucb", "ms-ucb-federated")
    )
    assert federated < 0.8 * alone


def test_what_arrives_twice_is_counted_of_transfers_that_ended(tmp_path: Path) -> None:
    def arrived(**bytes_by_path: int) -> list[dict[str, object]]:
        return [{"path": path, "bytes": count} for path, count in bytes_by_path.items()]

    (tmp_path / "runs" / "0000").mkdir(parents=True)
    transfers = {
        "start_s": [0.0, 1.0, 2.0],
        "end_s": [0.5, 2.0, None],
        "bytes": [1000, 3000, 400],
        "path_bytes": [arrived(near=700, far=600), arrived(near=3000), arrived(near=400, far=400)],
    }
    table = pa.table(transfers)
    with ipc.new_file(tmp_path / "runs" / "0000" / "transfers.arrow", table.schema) as writer:
        writer.write_table(table)
    row = {"folder": tmp_path, "index": 0}
    assert extra_bytes(row) == pytest.approx(300 / 4000)
    assert delays(row).tolist() == [0.5, 1.0]


def test_delay_balancing_sends_less_over_the_far_link(tmp_path: Path) -> None:
    results = run(tmp_path, "balance", duration="5s", **{"grid__connections.0.bytes": "1MB"})
    far = {
        row["scheduler"]: row["path_mbps"]["far"] / sum(row["path_mbps"].values())
        for row in results.rows
        if row["scheduler"] in ("min-rtt", "delay-balance")
    }
    assert 0.1 < far["delay-balance"] < 0.9 * far["min-rtt"]


def test_the_page_says_where_lia_and_dalia_are_the_same_runs(tmp_path: Path) -> None:
    """Two claims of figure 12 had the same value and interval, and no word of why."""
    settings = {"variants": '[{controller = ["lia", "dalia"]}]', f"grid.{flows.SIZE}": '["2MB", "100MB"]'}
    results = simulated("drones", tmp_path, Experiment(flows.DOWNLOADS, settings=settings), seeds=2)
    (note,) = [text for text in flows.downloads(results).notes if "same runs" in text]
    assert note.startswith("At 2MB LIA and DALIA")


def test_each_part_of_ld_mpsp_is_run_by_itself_and_with_the_others(tmp_path: Path) -> None:
    results = run(tmp_path, "factors", duration="8s", sample_interval="1s", **{"grid__paths.*.loss": "[0.02]"})
    found = {c: factors.mean(results, c, "0.02", "goodput").mean for c in factors.COMBINATIONS}
    # LIA has no target: an endless stream balanced is then the lowest RTT first, and with copies cloning.
    parts = [c for c in factors.COMBINATIONS if c[:2] not in (("lia", "delay-balance"), ("lia", "ld-mpsp"))]
    assert len({found[c] for c in parts}) == len(parts)
    assert all(2 < value < 105 for value in found.values())
    # What sets the whole scheduler apart from balancing is its copies.
    arrived = {c: copies(results, *c) for c in factors.COMBINATIONS}
    for controller in factors.CONTROLLERS:
        for manager in factors.MANAGERS:
            whole, balanced = (arrived[controller, name, manager] for name in ("ld-mpsp", "delay-balance"))
            assert whole > balanced + 0.01, (controller, manager)


def copies(results: Results, controller: str, scheduler: str, manager: str) -> float:
    """What arrived over what was delivered in order."""
    wanted = (controller, scheduler, manager)
    rows = (r for r in results.rows if (r["controller"], r["scheduler"], r["path_manager"]) == wanted)
    return float(np.mean([sum(row["path_mbps"].values()) / row["goodput_mbps"] for row in rows]))


def test_a_newcomer_that_has_heard_is_sooner_at_its_best() -> None:
    assert links.rounds_to_best(16).high < links.rounds_to_best(0).low
    # Regret adds up, so it rises under any choice; that the second half adds less than the first is learning.
    regret = links.regrets()
    assert regret[-1] - regret[len(regret) // 2] < 0.5 * regret[len(regret) // 2]


def test_training_grows_with_devices_in_11ad_and_stops_at_the_chosen_ones() -> None:
    training = {(r["case"], r["devices"]): r["training_ms"] for r in beams.training()}
    assert training["802.11ad", 100] - training["802.11ad", 90] == pytest.approx(
        training["802.11ad", 20] - training["802.11ad", 10]
    )
    assert training["chosen", 100] == training["chosen", 40]
    assert training["802.11ad", 30] < training["chosen", 30]
    assert training["802.11ad", 50] > training["chosen", 50]


def test_the_radios_pictures_are_of_the_scenarios_that_the_user_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--scenarios changed what was simulated, and not what the radio alone says."""
    text = (find_scenarios("drones") / "overhead.toml").read_text(encoding="utf-8")
    (tmp_path / "overhead.toml").write_text(re.sub(r"count = \[.*\]", "count = [10]", text), encoding="utf-8")
    monkeypatch.setattr(runs, "_named", {})
    find_scenarios("drones", tmp_path)
    air.cells.cache_clear()
    found = beams.training()
    air.cells.cache_clear()
    assert {one["devices"] for one in found} == {10}


def test_each_allocation_has_an_energy_of_its_own() -> None:
    energy = {case: value.mean for case, value in beams.efficiency().items()}
    assert set(energy) == set(beams.OPTIMUM)
    assert len({energy[case] for case in beams.NAMES}) == len(beams.NAMES)
    assert {"greedy", "exhaustive"} == set(sorted(energy, key=lambda case: -energy[case])[:2])
    assert min(energy, key=lambda case: energy[case]) == "802.11ad"
