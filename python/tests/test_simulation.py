import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import multipilot
from multipilot import Record, ScenarioError, console

SCENARIO = """
title = "Two paths"
duration = "3s"
[paths.wifi]
rate = "50Mbit"
delay = "5ms"
loss = 0.01
[paths.lte]
rate = "20Mbit"
delay = "30ms"
[[variants]]
controller = ["reno", "lia"]
"""


def test_rows_samples_and_transfers_belong_together() -> None:
    record = multipilot.simulate(SCENARIO, seeds=3)
    assert record.rows.select(["variant", "seed"]).to_pylist() == [
        {"variant": variant, "seed": seed} for variant in ("reno", "lia") for seed in (1, 2, 3)
    ]
    assert record.world == "sim"
    assert set(record.samples["row"].to_pylist()) == set(range(6)) == set(record.transfers["row"].to_pylist())
    for row, transfer in zip(record.row_dicts, record.transfers.to_pylist(), strict=True):
        assert row["goodput_mbps"] == pytest.approx(transfer["bytes"] * 8e-6 / row["elapsed_s"], rel=1e-6)
        assert 1 < row["goodput_mbps"] < 70
        assert row["window_overruns"] == transfer["window_overruns"]


def test_any_number_of_threads_gives_the_same_bits() -> None:
    one, many = (multipilot.simulate(SCENARIO, seeds=4, threads=threads) for threads in (1, 4))
    assert one.rows.equals(many.rows)
    assert one.samples.equals(many.samples)
    assert one.transfers.equals(many.transfers)


def test_file_text_and_dictionary_are_one_scenario(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(SCENARIO)
    table = {
        "title": "Two paths",
        "duration": "3s",
        "paths": {
            "wifi": {"rate": "50Mbit", "delay": "5ms", "loss": 0.01},
            "lte": {"rate": "20Mbit", "delay": "30ms"},
        },
        "variants": [{"controller": ["reno", "lia"]}],
    }
    texts = {multipilot.expand(form) for form in (file, str(file), SCENARIO, table)}
    assert len(texts) == 1


def test_built_in_scenarios_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = [entry["name"] for entry in multipilot.list_scenarios()]
    assert {"wifi-lte", "rsf/1-no-loss", "ddpg/varying-capacity"} <= set(names)
    record = multipilot.simulate("wifi-lte", controllers=["lia"], duration=1, telemetry=False)
    assert (record.scenario, record.variants) == ("wifi-lte", ["lia"])
    # Its traces are built in too, and the scenario as a text, or from the record, still names them.
    text = multipilot.expand("ddpg/varying-capacity", controllers=["lia"])
    assert multipilot.expand(text) == text
    saved = multipilot.simulate(text, duration=1, telemetry=False).save(tmp_path / "record")
    assert multipilot.expand(saved / "scenario.toml", duration="60s") == text
    # A file comes first; a path is never a name.
    Path("wifi-lte").write_text(SCENARIO)
    assert multipilot.expand("wifi-lte") == multipilot.expand(SCENARIO, name="wifi-lte")
    with pytest.raises(ScenarioError, match="cannot read the scenario"):
        multipilot.expand(Path("lossy-wifi"))


def test_near_names_answer_a_wrong_one() -> None:
    for wrong, near in (("wifi_lte", '"wifi-lte"'), ("goal-", '"rsf/goal-1-throughput", "rsf/goal-2-no-harm"')):
        with pytest.raises(ScenarioError) as caught:
            multipilot.simulate(wrong)
        said = f"scenario {wrong}: no such file and no built-in of that name (did you mean {near}"
        assert str(caught.value).startswith(said)


def test_what_toml_cannot_hold_is_refused() -> None:
    with pytest.raises(ScenarioError, match="TOML cannot hold"):
        multipilot.expand({"title": None})


def test_overrides_nested_and_dotted() -> None:
    nested = multipilot.expand(
        SCENARIO, controllers=["olia"], duration=7, paths={"wifi": {"loss": 0.25, "rate": "9Mbit"}}
    )
    dotted = multipilot.expand(
        SCENARIO, controllers=["olia"], duration="7s", **{"paths.wifi.loss": 0.25, "paths.wifi.rate": "9Mbit"}
    )
    assert nested == dotted
    for line in ('duration = "7s"', "downlink.loss = 0.25", 'rate = "9Mbit"', 'controller = "olia"'):
        assert line in nested
    assert 'controller = "lia"' not in nested


def test_loss_matters_and_without_telemetry_rows_are_the_same() -> None:
    clean = multipilot.simulate(SCENARIO, telemetry=False, paths={"wifi": {"loss": 0}})
    lossy = multipilot.simulate(SCENARIO, telemetry=False, paths={"wifi": {"loss": 0.05}})
    assert len(clean.samples) == 0
    assert lossy.row_dicts[0]["goodput_mbps"] < clean.row_dicts[0]["goodput_mbps"]
    assert multipilot.simulate(SCENARIO, paths={"wifi": {"loss": 0}}).rows.equals(clean.rows)


def test_a_simulated_record_is_one_of_the_command(tmp_path: Path) -> None:
    record = multipilot.simulate(SCENARIO, seeds=2)
    again = Record.load(record.save(tmp_path))
    assert again.rows.equals(record.rows)
    assert again.samples.equals(record.samples)
    assert set(again.to_pandas()["samples"].columns) == set(record.samples.column_names)


def test_what_a_bandit_chose_is_in_the_record_as_it_is_on_disk(tmp_path: Path) -> None:
    paths, _ = SCENARIO.split("[[variants]]")
    text = paths + '[[connections]]\nbytes = "50kB"\narrivals = "5/s"\ncount = 4\n'
    text += '[[variants]]\ninitial_path = ["active-explorer", "first"]\n'
    record = multipilot.simulate(text, seeds=2, telemetry=False)
    assert set(record.decisions["row"].to_pylist()) == {0, 1}
    assert set(record.decisions["arm"].to_pylist()) <= {"wifi", "lte"}
    file = tmp_path / "bandit.toml"
    file.write_text(text, encoding="utf-8")
    call = [console.command(), "compare", str(file), "--world", "sim", "--seeds", "2", "--out", str(tmp_path / "out")]
    subprocess.run(call, check=True, capture_output=True)

    def chosen(of: Record) -> dict[tuple[int, int], dict[str, object]]:
        """Of the only variant that chooses, by seed and transfer: the command orders its rows by seed."""
        return {(of.row_dicts[d["row"]]["seed"], d["transfer"]): {**d, "row": 0} for d in of.decisions.to_pylist()}

    assert chosen(Record.load(tmp_path / "out")) == chosen(record)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"paths": {"wifi": {"rate": 50}}}, "paths.wifi.rate"),
        ({"paths": {"wifi": {"colour": "red"}}}, "colour"),
        ({"duration": "7 parsecs"}, "7 parsecs"),
        ({"paths.wfi.rate": "3Mbit"}, r'there is no \[paths.wfi\] \(did you mean "wifi"\?\)'),
    ],
)
def test_a_wrong_scenario_names_the_place(change: dict[str, object], says: str) -> None:
    with pytest.raises(ScenarioError, match=says) as caught:
        multipilot.simulate(SCENARIO, **change)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_missing_file_and_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot read the scenario"):
        multipilot.simulate(tmp_path / "no.toml")
    with pytest.raises(ValueError, match="controllers: an empty list"):
        multipilot.simulate(SCENARIO, controllers=[])
    with pytest.raises(ValueError, match="seeds"):
        multipilot.simulate(SCENARIO, seeds=0)
    with pytest.raises(TypeError, match=r'\["lia"\]'):
        multipilot.simulate(SCENARIO, controllers="lia")
    with pytest.raises(TypeError, match="seeds: '3'"):
        multipilot.simulate(SCENARIO, seeds="3")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="scenario: is int"):
        multipilot.simulate(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no value of a scenario"):
        multipilot.simulate({"paths": {"a": {"rate": object()}}})


def test_an_unknown_controller_is_named() -> None:
    with pytest.raises(ScenarioError, match='"nosuch" is unknown'):
        multipilot.simulate(SCENARIO, controllers=["nosuch"])


def test_lists_are_those_of_the_command() -> None:
    said = subprocess.run([console.command(), "list", "--json"], capture_output=True, check=True).stdout
    document = json.loads(said)
    for kind in ("controllers", "schedulers", "path_managers", "initial_paths", "scenarios"):
        assert getattr(multipilot, f"list_{kind}")() == document[kind]


def test_what_there_is_to_choose_from() -> None:
    names = [entry["name"] for entry in multipilot.list_controllers()]
    assert {"cubic", "reno", "lia", "olia", "balia", "rsf-db"} <= set(names)
    assert all(entry["summary"] and entry["source"] for entry in multipilot.list_controllers())
    assert "default" in [entry["name"] for entry in multipilot.list_schedulers()]
    assert "fullmesh" in [entry["name"] for entry in multipilot.list_path_managers()]
    assert "active-explorer" in [entry["name"] for entry in multipilot.list_initial_paths()]
    (rule,) = [entry for entry in multipilot.list_path_managers() if entry["name"] == "mptcp-la"]
    assert {parameter["name"] for parameter in rule["parameters"]} >= {"window", "gamma_ppm"}
    assert {entry["kind"] for entry in multipilot.list_controllers()} == {"window", "rate"}


def test_ctrl_c_ends_a_long_batch() -> None:
    # A shell starts background jobs with SIGINT ignored, and Python then leaves it so: the test may itself be in one.
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"import multipilot; print('on', flush=True); multipilot.simulate({SCENARIO!r}, seeds=1000000)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "on\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        try:
            _, errors = child.communicate(timeout=60)
        finally:
            child.kill()
    assert "KeyboardInterrupt" in errors
    assert child.returncode != 0


def test_the_interpreter_goes_on_while_the_simulator_runs() -> None:
    import threading

    beats = 0
    done = threading.Event()

    def beat() -> None:
        nonlocal beats
        while not done.wait(0.001):
            beats += 1

    thread = threading.Thread(target=beat)
    thread.start()
    multipilot.simulate(SCENARIO, seeds=40, threads=1, telemetry=False)
    done.set()
    thread.join()
    assert beats > 3
