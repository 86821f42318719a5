"""The outcomes of a host's own connections: written by `multipilot run`, read and trained on here."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet
import pytest
import records
from typer.testing import CliRunner

from multipilot import console, experience
from multipilot.bandit import PathBandit, context_names
from multipilot.experience import HOST, ExperienceError, app, load, read, rounds

ARMS = ["fast", "slow"]


def streams(folder: Path, numbers: range, name: str = "0000000000001-7") -> Path:
    """As the core writes them: a batch whenever something came."""
    file = folder / "experience" / f"{name}.arrows"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as to, ipc.new_stream(to, HOST) as stream:
        for number in numbers:
            row = {field.name: None for field in HOST} | {
                "chosen_by": "device",
                "transfer": number,
                "arm": ARMS[number % 2],
                "features": [{"name": "fast.rtt_ms", "value": float(number)}],
                "throughput_mbps": 3.0,
                "reward": number % 2 == 0,
            }
            stream.write_table(pa.Table.from_pylist([row], schema=HOST))
    return file


def test_streams_are_read_in_order_and_as_far_as_they_go(tmp_path: Path) -> None:
    streams(tmp_path, range(5))
    cut = streams(tmp_path, range(5, 9), "0000000000002-7")
    cut.write_bytes(cut.read_bytes()[:-200])
    streams(tmp_path, range(9, 11), "0000000000003-8")
    (tmp_path / "experience" / "0000000000004-9.arrows").write_bytes(b"")
    table = read(tmp_path).read_all()
    assert table["transfer"].to_pylist() == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]
    assert experience.export(tmp_path / "experience", tmp_path / "out.parquet") == 10
    assert parquet.read_table(tmp_path / "out.parquet").equals(table)


def test_one_loader_reads_hosts_servers_records_and_parquet(tmp_path: Path) -> None:
    host, record, file = tmp_path / "host", tmp_path / "record", tmp_path / "all.parquet"
    streams(host, range(6))
    records.make({"bandit": 0.5}, seeds=1, decided=[0]).save(record)
    experience.export(host, file)
    table = load(host, record, file)
    assert table.column_names == ["arm", "features", "throughput_mbps", "latency_ms", "reward"]
    assert len(table) == 6 + 1 + 6
    contexts, chosen, rewards = rounds(table, ["slow", "fast"], ["fast.rtt_ms", "slow.rtt_ms"])
    assert chosen == [1, 0] * 6
    assert rewards == [True, False] * 6
    assert contexts[:, 0].tolist() == [*range(6), *range(6)]
    assert np.isnan(contexts[:, 1]).all()
    assert rounds(table, ["lte"], [])[1:] == ([0], [False])
    unfinished = table.set_column(4, "reward", pa.nulls(len(table), pa.bool_()))
    assert rounds(unfinished, ARMS, [])[1:] == ([], [])
    assert load().schema.equals(table.schema)


def test_what_cannot_be_read_says_so_in_one_line(tmp_path: Path) -> None:
    streams(tmp_path, range(1))
    with pytest.raises(ExperienceError, match="give no thresholds"):
        read(tmp_path, throughput_mbps=3)
    (tmp_path / "experience.db").write_bytes(b"")
    with pytest.raises(ExperienceError, match="of a server and of a host"):
        read(tmp_path)
    parquet.write_table(pa.table({"arm": ["x"]}), tmp_path / "other.parquet")
    with pytest.raises(ExperienceError, match="it lacks"):
        load(tmp_path / "other.parquet")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Host:
    """A host with two paths to a server that answers each connection; its routes prefer the slow one."""

    ANSWER = 40_000

    def __init__(self, state: Path) -> None:
        self.state = state
        self.host, self.server = (f"mplived{os.getpid()}{end}" for end in "hs")
        for space in (self.host, self.server):
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        ip("-n", self.server, "addr", "add", "10.98.0.1/32", "dev", "lo")
        for number, (arm, rate) in enumerate([("slow", "1mbit"), ("fast", "20mbit")], start=1):
            ip("link", "add", arm, "netns", self.host, "type", "veth", "peer", "name", arm, "netns", self.server)
            for space, end in ((self.host, 1), (self.server, 2)):
                ip("-n", space, "addr", "add", f"10.76.{number}.{end}/24", "dev", arm)
                ip("-n", space, "link", "set", arm, "up")
                shape = f"tc -n {space} qdisc add dev {arm} root tbf rate {rate} burst 4kb latency 100ms"
                subprocess.run(shape.split(), check=True)
            ip("-n", self.host, "route", "add", "default", "via", f"10.76.{number}.2", "metric", str(number))
        # A listener belongs to the namespace in which its socket was made.
        script = (
            "import socket, threading\n"
            "listener = socket.create_server(('10.98.0.1', 5001), backlog=100)\n"
            "print('ready', flush=True)\n"
            "def answer(peer):\n"
            f"    peer.sendall(bytes({self.ANSWER})); peer.close()\n"
            "while True:\n"
            "    threading.Thread(target=answer, args=[listener.accept()[0]]).start()\n"
        )
        call = ["nsenter", f"--net=/run/netns/{self.server}", sys.executable, "-c", script]
        self.service = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
        assert self.service.stdout
        assert self.service.stdout.readline() == "ready\n"

    def run(self, times: int) -> subprocess.Popen[str]:
        download = f"[ $(cat < /dev/tcp/10.98.0.1/5001 | wc -c) = {self.ANSWER} ] || exit 9"
        script = f"for i in $(seq {times}); do {download}; done"
        words = ["run", "--initial-path", "lin-ucb", "--", "bash", "-c", script]
        call = ["nsenter", f"--net=/run/netns/{self.host}", console.command(), *words]
        environment = os.environ | {"XDG_STATE_HOME": str(self.state)}
        return subprocess.Popen(call, env=environment, text=True, start_new_session=True)

    def end(self) -> None:
        self.service.kill()
        self.service.wait()
        for space in (self.host, self.server):
            subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    cannot = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    if os.geteuid() != 0:
        cannot("network namespaces need root")
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP).close()
    except OSError:
        cannot("this kernel has no MPTCP")
    found = Host(tmp_path)
    try:
        yield found
    finally:
        found.end()


def test_connections_of_this_host_are_recorded_and_train_a_policy(host: Host, tmp_path: Path) -> None:
    assert host.run(30).wait(300) == 0
    place = tmp_path / "multipilot"
    table = read(place).read_all()
    assert len(table) == 30
    assert set(table["chosen_by"].to_pylist()) == {"device"}
    assert set(table["arm"].to_pylist()) <= set(ARMS)
    assert pc.min(table["throughput_mbps"]).as_py() > 0
    assert pc.min(table["latency_ms"]).as_py() > 0
    assert all(0 < chance <= 1 for chance in table["probability"].to_pylist())
    ended = table["ended"].to_pylist()
    assert ended == sorted(ended)
    assert abs(ended[-1].timestamp() - time.time()) < 300

    # Killed without a word: what had been written is there, and lasts.
    running = host.run(100_000)
    end = time.monotonic() + 120
    while len(read(place).read_all()) < 40:
        assert running.poll() is None
        assert time.monotonic() < end, "nothing was written"
        time.sleep(0.2)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    out = tmp_path / "out.parquet"
    done = CliRunner().invoke(app, [str(place), "--parquet", str(out)])
    assert done.exit_code == 0, done.output

    features = context_names(ARMS)
    contexts, chosen, rewards = rounds(load(out), ARMS, features)
    assert len(chosen) >= 40
    assert not np.isnan(contexts[-1]).all(), "the round trips of connections before"
    # Which arm it prefers is what this machine's speed made of forty draws; that the log decides it is not.
    fitted, again = (PathBandit(arms=ARMS, features=features).fit(contexts, chosen, rewards) for _ in range(2))
    assert fitted.predict(contexts).tolist() == again.predict(contexts).tolist()
