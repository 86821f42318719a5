"""Federation on Flower between hosts: a namespace each, a real network between them, and what goes wrong there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from spaces import Spaces, check, ip

from multipilot.federation import files

HERE = Path(__file__).parent
BRIDGE, PORT = "mpfed-br", 8471
HUB = "10.213.0.1"


class Hosts(Spaces):
    """Namespaces on one bridge; what runs in them ends with the test."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.running: dict[str, list[subprocess.Popen[str]]] = {}
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("link", "set", BRIDGE, "up")

    def host(self, name: str) -> None:
        space = self.add(f"mpfed-{name}")
        number = len(self.names)
        ip("link", "add", f"mpfed{number}", "type", "veth", "peer", "name", "eth0", "netns", space)
        ip("link", "set", f"mpfed{number}", "master", BRIDGE, "up")
        ip("-n", space, "addr", "add", f"10.213.0.{number}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")

    def run(self, name: str, *call: str) -> subprocess.Popen[str]:
        log = (self.folder / f"{name}.log").open("a")
        words = ["ip", "netns", "exec", f"mpfed-{name}", sys.executable, *call]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        self.running.setdefault(name, []).append(process)
        return process

    def kill(self, name: str) -> None:
        for process in self.running.pop(name, []):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def end(self) -> None:
        for name in list(self.running):
            self.kill(name)
        super().end()
        subprocess.run(["ip", "link", "delete", BRIDGE], check=False, capture_output=True)

    def device(self, name: str, seed: int, *how: str) -> None:
        self.host(name)
        own, known = self.folder / f"{name}.own", self.folder / f"{name}.known"
        self.run(name, str(HERE / "device.py"), str(own), str(known), str(seed), *how)
        self.run(
            name, "-m", "multipilot.federation.cli", "join", f"{HUB}:{PORT}",
            "--device", name, "--own", str(own), "--known", str(known),
        )  # fmt: skip


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    check()
    found = Hosts(tmp_path)
    try:
        yield found
    finally:
        found.end()


@pytest.mark.extras
def test_hosts_share_what_they_see_whatever_becomes_of_one(hosts: Hosts) -> None:
    out = hosts.folder / "out.json"
    hosts.host("hub")
    server = hosts.run(
        "hub", "-m", "multipilot.federation.cli", "serve", f"0.0.0.0:{PORT}",
        "--interval", "1s", "--trim", "0.25", "--out", str(out),
    )  # fmt: skip
    for seed, name in enumerate(["one", "two", "three", "four"]):
        hosts.device(name, seed)
    hosts.device("liar", 7, "liar")

    def says(words: str) -> Callable[[], bool]:
        return lambda: words in (hosts.folder / "hub.log").read_text()

    def told(file: Path) -> Callable[[], bool]:
        """Twenty rounds of each device's bandit at least."""
        return lambda: sum(count for count, _ in files.load(file).values()) > 100

    hosts.wait("a round with all five devices", says(": 5 devices, 7 links"))
    hosts.wait("knowledge of all links", told(out))
    # A device is killed, with its host's process that would say goodbye: the rounds go on and what it told stays.
    hosts.kill("two")
    killed = time.time()
    hosts.wait("rounds without it", lambda: (hosts.folder / "three.known").stat().st_mtime > killed + 3)
    assert " 5 devices" in (hosts.folder / "hub.log").read_text().splitlines()[-1]
    # One that comes late hears everything in its first round, and its first connection begins with the best links.
    late, own = hosts.folder / "late.known", hosts.folder / "late.own"
    hosts.host("late")
    hosts.run(
        "late", "-m", "multipilot.federation.cli", "join", f"{HUB}:{PORT}",
        "--device", "late", "--own", str(own), "--known", str(late),
    )  # fmt: skip
    hosts.wait("what the late device hears", told(late))
    hosts.run("late", str(HERE / "device.py"), str(own), str(late), "11")
    first = own.with_suffix(".first")
    hosts.wait("a connection of the late device", first.exists)
    hosts.wait("its first round", says(": 6 devices"))
    assert first.read_text() == "a c e"
    # The liar claimed that the worst links are the best, a thousand million times.
    heard = files.load(late)
    assert sorted(heard, key=lambda link: -heard[link][1])[:3] == ["a", "c", "e"]
    assert heard["a"][1] > 0.8 > 0.35 > heard["b"][1]
    assert sum(count for count, _ in heard.values()) < 1e6
    assert server.poll() is None
