"""Monitor intervals of kernel runs: what the actor saw, as transitions to learn from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from multipilot import Record, RecordError, _core, console, expand
from multipilot.learn.logs import subflows, transitions
from multipilot.record import INTERVALS, SAMPLES, TRANSFERS
from multipilot.simulation import default_mss

SHIPPED = Path(__file__).parents[3] / "crates/policy/actors/ddpg.json"
SCENARIO = """
duration = "4s"
[paths.a]
rate = "20Mbit"
delay = "5ms"
[paths.b]
rate = "10Mbit"
delay = "10ms"
[[connections]]
name = "download"
[[variants]]
name = "actor"
controller = "ddpg-mpcc"
[[variants]]
name = "plain"
controller = "ddpg-mpcc"
agent = false
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record with a run under the shipped actor, and one of plain MPCC."""
    folder = tmp_path_factory.mktemp("intervals")
    if os.geteuid():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("the kernel world needs root")
    file = folder / "two.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    call = [console.command(), "compare", str(file), "--world", "kernel", "--seeds", "1", "--out", str(folder / "out")]
    subprocess.run(call, check=True, capture_output=True)
    return folder / "out"


def test_the_actor_gives_its_recorded_answers_to_the_observations(kernel: Path) -> None:
    record = Record.load(kernel)
    text = SHIPPED.read_text(encoding="utf-8")
    steered = plain = 0
    for rows, asked in subflows(record, history=4):
        answers = rows["answer"]
        if record.row_dicts[rows["row"][0]]["variant"] == "plain":
            assert np.isnan(answers).all()
            plain += 1
            continue
        steered += 1
        actions = np.frombuffer(_core.act(text, asked.observations.tobytes()), np.float32)
        factor = (np.float32(1) + np.float32(0.1) * actions).astype(np.float64)
        assert np.array_equal(answers, np.floor(rows["rate"] * factor + 0.5))
        assert len(answers) > 10
    assert (steered, plain) == (2, 2)


def test_transitions_lead_from_an_interval_to_the_next(kernel: Path) -> None:
    whole = list(subflows(Record.load(kernel), history=4))
    found = list(transitions(kernel, history=4))
    assert len(found) == len(whole) == 4
    for batch, (rows, asked) in zip(found, whole, strict=True):
        # The agent was there from the first interval to the last.
        assert np.array_equal(rows["serial"], np.arange(1, len(rows["serial"]) + 1))
        assert np.array_equal(batch.observation[:, :12], asked.observations[:-1])
        assert np.array_equal(batch.following[:, :12], asked.observations[1:])
        assert np.array_equal(batch.reward, np.clip(asked.rewards[1:], -1, 1))
        change = rows["rate"][1:] / rows["rate"][:-1] - 1
        assert batch.action == pytest.approx(np.clip(10 * change, -1, 1), abs=1e-5)
        # Part of the path's rate, and no more than what the critics' columns can hold.
        assert ((batch.observation >= 0) & (batch.observation <= 1)).all()


def made(folder: Path, intervals: list[dict[str, Any]], scenario: str = "") -> Path:
    text = scenario or "[paths.a]\nrate = '10Mbit'\ndelay = '10ms'\n[[variants]]\ncontroller = 'ddpg-mpcc'\n"
    common = {"row": 0, "transfer": 0, "subflow": 0, "path": "a", "mss": default_mss(), "delay_us": 40, "others": 0}
    row = {"variant": "ddpg-mpcc", "seed": 1, "goodput_mbps": 0.0}
    transfer = {"row": 0, "connection": "mptcp0", "id": 0, "multipath": True, "fallback": False, "start_s": 0.0}
    record = Record(
        document={"schema": 1, "scenario": "x", "world": "kernel", "rows": [row]},
        transfers=pa.Table.from_pylist([{**transfer, "bytes": 1, "path_bytes": []}], schema=TRANSFERS),
        samples=SAMPLES.empty_table(),
        intervals=pa.Table.from_pylist([{**common, **interval} for interval in intervals], schema=INTERVALS),
        scenario_text=expand(text),
    )
    return record.save(folder)


def interval(serial: int, rate: int, **changes: Any) -> dict[str, Any]:
    packets = {"delivered": 90, "lost": 0, "elapsed_us": 30_000, "rtt_us": 20_000, "min_rtt_us": 20_000}
    return {"serial": serial, "time_s": 0.05 * serial, "rate": rate, "answer": None, **packets, **changes}


def test_rewards_by_hand_and_no_step_over_a_gap(tmp_path: Path) -> None:
    """U = X^0.9 − (11.35 L + 900 dRTT/dT) X, X in Mbit/s, over that of a full path."""
    rows = [
        interval(1, 500_000),
        interval(2, 525_000, delivered=95, lost=5, answer=525_000),
        interval(3, 525_000, rtt_us=22_500, others=250_000),
        interval(5, 550_000),
        interval(6, 500_000),
    ]
    best = (10 * default_mss() / (default_mss() + 80)) ** 0.9
    (batch,) = transitions(made(tmp_path, rows), history=1)
    assert batch.action == pytest.approx([0.5, 0.0, -10 / 11], abs=1e-6)
    lossy, rising, quiet = 4.2**0.9 - 11.35 * 0.05 * 4.2, 6.2**0.9 - 900 * 0.05 * 6.2, 4.0**0.9
    expected = [lossy / best, max(rising / best, -1), quiet / best]
    assert batch.reward == pytest.approx(expected, abs=1e-5)
    # The path's fill, which critics alone see: x over twice what it carries.
    assert batch.observation[0, 3] == pytest.approx(4 / (2 * 10 * default_mss() / (default_mss() + 80)), abs=1e-6)


def test_records_that_teach_nothing_say_so(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no intervals; compare ddpg-mpcc"):
        list(transitions(made(tmp_path / "none", []), history=4))
    events = "[paths.a]\ntrace = 't'\ndelay = '10ms'\n[[variants]]\ncontroller = 'ddpg-mpcc'\n"
    (tmp_path / "t").write_text("1\n2\n", encoding="utf-8")
    varying = made(tmp_path / "trace", [interval(1, 500_000)], events.replace("'t'", f"'{tmp_path / 't'}'"))
    with pytest.raises(RecordError, match="path a has no constant rate"):
        list(transitions(varying, history=4))


@pytest.mark.extras
class TestTraining:
    @pytest.fixture(autouse=True)
    def _needs(self) -> None:
        pytest.importorskip("jax", reason="pip install 'multipilot[learn]'")
        pytest.importorskip("optax", reason="pip install 'multipilot[learn]'")

    def test_it_learns_from_records_of_the_kernel_and_resumes(self, kernel: Path, tmp_path: Path) -> None:
        import jax

        from multipilot.learn.training import Plan, Trainer

        plan = Plan(rounds=2, logs=2, lanes=2, steps=40, records=(str(kernel),))
        whole = Trainer.begin(plan)
        found = list(transitions(kernel, plan.history))
        assert len(whole.replay) == sum(len(batch.reward) for batch in found)
        untrained = whole.state.actor
        whole.run_round()
        whole.save(tmp_path)
        whole.run_round()
        resumed = Trainer.resume(plan, tmp_path)
        resumed.run_round()
        for ours, theirs in zip(jax.tree.leaves(whole.state), jax.tree.leaves(resumed.state), strict=True):
            assert np.array_equal(ours, theirs)
        assert not np.array_equal(untrained[0][0], whole.state.actor[0][0])
        assert np.isfinite(whole.curve[-1]["reward"])

    def test_the_command_takes_records(self, kernel: Path, tmp_path: Path) -> None:
        call = [sys.executable, "-m", "multipilot.learn.cli", "--rounds", "1", "--lanes", "2", "--steps", "20"]
        call += ["--records", str(kernel), "--out", str(tmp_path / "out")]
        refused = subprocess.run(call, capture_output=True, text=True)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "--logs N" in refused.stderr
        done = subprocess.run([*call, "--logs", "1"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert f"--logs 1 --records {kernel}" in (tmp_path / "out/actor.json").read_text(encoding="utf-8")
