"""The edge server's experience as Parquet: its own schema, filled by hand."""

import json
import random
import sqlite3
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

from multipilot import experience
from multipilot.bandit import Judge, PathBandit
from multipilot.experience import ExperienceError, app

SCHEMA = Path(__file__).resolve().parents[2] / "crates/server/src/store/schema.sql"


def database(folder: Path, rounds: int = 600) -> sqlite3.Connection:
    """Two places, where Wi-Fi is good while its signal is; every tenth connection got no answer."""
    connection = sqlite3.connect(folder / "experience.db")
    connection.executescript(SCHEMA.read_text(encoding="utf-8") + "PRAGMA journal_mode=wal; PRAGMA user_version=1;")
    dice = random.Random(3)
    for i in range(rounds):
        signal = dice.uniform(-90, -40)
        path = dice.choice(["wifi", "cellular"])
        good = (path == "wifi") == (signal > -65)
        context = json.dumps({"wifi.signal_dbm": signal, "cellular.cqi": None if i % 2 else 7})
        connection.execute(
            "INSERT INTO outcomes (received_ms, device, id, location, path, chosen_by, context, throughput, latency)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                1_760_000_000_000 + i,
                "phone",
                f"c{i}",
                "cafe" if i % 3 else "station",
                path,
                "server",
                context,
                dice.uniform(30, 40) if good else dice.uniform(1, 8),
                None if i % 10 == 9 else dice.uniform(10, 20),
            ),
        )
    connection.commit()
    return connection


def test_what_devices_told_is_read_whole_and_judged_by_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experience, "TOGETHER", 70)
    with database(tmp_path) as server:  # still open, its write-ahead log not yet moved into the database
        table = experience.read(tmp_path).read_all()
        log = server.execute("SELECT location, throughput, latency FROM outcomes ORDER BY seq").fetchall()
    assert table["connection"].to_pylist() == [f"c{i}" for i in range(600)]
    assert table["received"][1].as_py().timestamp() == pytest.approx(1_760_000_000.001)
    judges = {"cafe": Judge(), "station": Judge()}
    judged = [judges[place].judge(rate, float("inf") if delay is None else delay) for place, rate, delay in log]
    assert table["reward"].to_pylist() == judged
    assert table["features"][1].as_py()[1] == {"name": "cellular.cqi", "value": None}


def test_thresholds_of_the_server_judge_when_given(tmp_path: Path) -> None:
    database(tmp_path).close()
    table = experience.read(tmp_path, throughput_mbps=20).read_all()
    fast = np.array(table["throughput_mbps"]) >= 20
    answered = np.array(table["latency_ms"].is_valid())
    assert (fast & ~answered).any()
    assert np.array(table["reward"]).tolist() == fast.tolist()
    both = experience.read(tmp_path, throughput_mbps=20, latency_ms=1e9).read_all()
    assert np.array(both["reward"]).tolist() == (fast & answered).tolist()


def test_an_export_trains_a_bandit(tmp_path: Path) -> None:
    database(tmp_path).close()
    file = tmp_path / "out.parquet"
    assert experience.export(tmp_path, file) == 600
    table = parquet.read_table(file)
    assert table.equals(experience.read(tmp_path / "experience.db").read_all())
    assert list(tmp_path.glob(".*")) == []

    arms, features = ["wifi", "cellular"], ["wifi.rtt_ms", "wifi.signal_dbm", "cellular.cqi"]
    x = experience.contexts(table, features)
    assert np.isnan(x[:, 0]).all()
    assert np.isnan(x[:, 2]).tolist() == [i % 2 == 1 for i in range(600)]
    chosen = [arms.index(arm) for arm in table["arm"].to_pylist()]
    bandit = PathBandit(arms=arms, features=features).fit(x, chosen, table["reward"].to_pylist())
    assert bandit.predict([[np.nan, -45, 7], [np.nan, -85, np.nan]]).tolist() == [0, 1]


def test_a_server_that_was_told_nothing_exports_an_empty_table(tmp_path: Path) -> None:
    database(tmp_path, rounds=0).close()
    assert experience.export(tmp_path, tmp_path / "out.parquet") == 0
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table.schema.equals(experience.SCHEMA)
    assert experience.contexts(table, ["wifi.rtt_ms"]).shape == (0, 1)


def test_the_command_writes_the_file_and_says_how_much(tmp_path: Path) -> None:
    database(tmp_path).close()
    out = tmp_path / "out.parquet"
    done = CliRunner().invoke(app, [str(tmp_path), "--parquet", str(out), "--throughput", "20"])
    assert done.exit_code == 0
    assert str(out) in done.output
    assert parquet.read_metadata(out).num_rows == 600


def test_what_is_no_experience_says_so_in_one_line(tmp_path: Path) -> None:
    def says(what: str) -> None:
        with pytest.raises(ExperienceError, match=what) as caught:
            experience.export(tmp_path, tmp_path / "out.parquet")
        assert "\n" not in str(caught.value)
        assert str(tmp_path / "experience.db") in str(caught.value)
        assert not (tmp_path / "out.parquet").exists()

    says("no such file")
    (tmp_path / "experience.db").write_bytes(b"something else" * 100)
    says("not a database")
    (tmp_path / "experience.db").unlink()
    with database(tmp_path, rounds=1) as connection:
        connection.execute("PRAGMA user_version = 2")
    says("format 2")
