"""Paper rsf in the simulator: its one claim, and where the two RSF forms are Reno and where not."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from running import simulated

from multipilot import console
from multipilot.papers.paper import Experiment
from multipilot.papers.results import SIM, Results, ratio
from multipilot.papers.rsf.claims import TABLE, Numbers, of_connection
from multipilot.papers.rsf.table import fluid

Simulate = Callable[..., Results]


@pytest.fixture(scope="module")
def simulate(tmp_path_factory: pytest.TempPathFactory) -> Simulate:
    def run(scenario: str, controllers: list[str], seeds: int, out: Path | None = None, **settings: str) -> Results:
        listed = ", ".join(f'"{c}"' for c in controllers)
        variants = f'[{{controller = [{listed}], path_manager = "fullmesh"}}]'
        experiment = Experiment(scenario, settings={"variants": variants, **settings})
        return simulated("rsf", out or tmp_path_factory.mktemp("records"), experiment, seeds=seeds)

    return run


def test_long_flows_on_scenario_2(simulate: Simulate) -> None:
    found = simulate("2-long-flows", ["lia", "rsf-db", "reno"], 24)
    lia, rsf, reno = (found.mean(SIM, "2-long-flows", v, of_connection) for v in ("lia", "rsf-db", "reno"))
    assert ratio(rsf, lia).mean == pytest.approx(1.9, abs=0.1)
    assert ratio(rsf, reno).mean == pytest.approx(1.0, abs=0.03)


def test_rsf_db_yields_where_the_queue_passes_half_its_target(simulate: Simulate) -> None:
    found = simulate("target-delay", ["reno", "rsf-db"], 4)

    def on(path: str, variant: str, queue: str) -> float:
        return found.mean(
            SIM, "target-delay", variant, lambda row: row["path_mbps"][path], {"paths.*.queue": queue}
        ).mean

    # 48 ms of buffer: Reno itself. Beside a Reno flow that fills 200 ms or more it gives way, by a packet a round trip
    # at most; alone it still fills its path.
    assert on("one", "rsf-db", "40p") == pytest.approx(on("one", "reno", "40p"), rel=0.1)
    assert on("one", "rsf-db", "170p") < 0.5 * on("one", "reno", "170p")
    assert on("one", "rsf-db", "1000p") < 0.95 * on("one", "reno", "1000p")
    assert on("two", "rsf-db", "1000p") > 0.95 * on("two", "reno", "1000p")


def test_rsf_lb_yields_where_the_loss_rate_passes_half_its_target(simulate: Simulate) -> None:
    found = simulate("target-loss", ["reno", "rsf-lb"], 8)

    def gain(loss: str) -> float:
        cell = {"paths.*.loss": loss}
        return ratio(*(found.mean(SIM, "target-loss", v, "goodput_mbps", cell) for v in ("rsf-lb", "reno"))).mean

    # Reno loses 6.1 and 10.6 packets a second a path, RSF-LB wants no more than 4.
    assert gain("0.01") < 0.95
    assert gain("0.03") < 0.8
    assert gain("0.001") > gain("0.01") > gain("0.03")


def test_rows_are_reproducible_by_seed(simulate: Simulate, tmp_path: Path) -> None:
    def rows(folder: str) -> list[dict[str, object]]:
        found = simulate("9-shared-bottleneck", ["olia", "rsf-lb"], 2, tmp_path / folder, duration="20s")
        return [{k: v for k, v in row.items() if k != "folder"} for row in found.rows]

    first = rows("first")
    assert len(first) == 8
    assert first == rows("second")
    assert len({row["goodput_mbps"] for row in first}) == 8


def test_the_command_writes_page_and_document_and_takes_up_its_records(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "multipilot.papers.cli", "rsf", "--quick", "--only", "fig4,regret"]
    call += ["--seeds", "2", "--out", str(tmp_path), "--json"]
    first = subprocess.run(call, capture_output=True, text=True, check=True)
    document = json.loads(first.stdout)
    assert document["schema"] == 1
    jain = [row for row in document["rows"] if row["item"] == "fig4"]
    assert {row["variant"] for row in jain} >= {"lia", "olia", "balia", "rsf-db", "rsf-lb", "reno", "cubic", "bbr"}
    assert all(0.5 < row["jain"] <= 1 and row["runs"] == 2 for row in jain)
    assert "Figure 4" in (tmp_path / "index.html").read_text(encoding="utf-8")
    written = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.arrow")}
    assert written
    again = subprocess.run(call, capture_output=True, text=True, check=True)
    assert json.loads(again.stdout)["rows"] == document["rows"]
    assert written == {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.arrow")}

    # What an older build simulated is no answer of this one.
    other = tmp_path / "multipilot"
    other.write_bytes(Path(console.command()).read_bytes() + b"\n")
    other.chmod(0o755)
    subprocess.run(call, capture_output=True, check=True, env={**os.environ, "MULTIPILOT": str(other)})
    assert len(list(tmp_path.rglob("*.arrow"))) == 2 * len(written)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["nosuch"], "there is no paper"),
        (["rsf", "--only", "fig99"], "--only fig99"),
        (["rsf", "--budget", "soon"], "length of time"),
        (["rsf", "--world", "moon"], "--world"),
        (["rsf", "--scenarios", "/nonexistent"], "no scenarios"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(call: list[str], words: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "multipilot.papers.cli", *call], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_fluid_model_stands_in_the_closed_forms_of_row_2() -> None:
    row = next(r for r in TABLE if r.id == "2")
    # sqrt(3/(2p)) packets of 1428 bytes in 150 ms, less the share of packets that are lost
    reno = math.sqrt(1.5 * 0.98 / 0.02) * 1428 * 8 / 0.15 / 1e6
    assert fluid(row, "reno") == pytest.approx(2 * reno, rel=0.01)
    assert fluid(row, "rsf-db") == pytest.approx(2 * reno, rel=0.01)
    assert fluid(row, "lia") == pytest.approx(reno, rel=0.01)
    assert fluid(row, "bbr") is None


def test_every_row_says_why_it_deviates() -> None:
    for row in TABLE:
        said = row.why(Numbers(Results(), row, row.cell))
        assert said.endswith("."), row.id
        assert "nan" not in said
        assert "(not measured)" in said, f"row {row.id} names no measured value"
