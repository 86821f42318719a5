"""Daemons on hosts of their own that share through the federation what MS-UCB saw: real connections, real links."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from spaces import Spaces, check, ip

from multipilot import console
from multipilot.federation import files

ADDRESS, FLOOD, FEDERATION = "10.99.0.1", 5001, 8472
#: What all call the links: two good ones and a slow one.
LINKS = {"ap-1": "10mbit", "ap-2": "10mbit", "far": "2mbit"}

SERVE = f"""
import socket, threading
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("{ADDRESS}", {FLOOD}))
listener.listen()
def flood(peer):
    try:
        while True:
            peer.sendall(bytes(16384))
    except OSError:
        pass
while True:
    threading.Thread(target=flood, args=[listener.accept()[0]], daemon=True).start()
"""
DOWNLOAD = f"""
import socket
peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
peer.connect(("{ADDRESS}", {FLOOD}))
peer.sendall(b"x")
while peer.recv(65536):
    pass
"""


def index(arm: tuple[float, float]) -> float:
    """By which MS-UCB ranks a link, two of which are used at a time, with a past that counts for a hundred rounds."""
    count, mean = arm
    return mean + math.sqrt(3 * math.log(101) / count)


class Hosts(Spaces):
    """A hub with servers, and devices with a link of each kind to it. What runs there ends with the test."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.running: list[subprocess.Popen[bytes]] = []
        self.devices: list[Device] = []
        self.hub = self._space("hub")
        ip("-n", self.hub, "addr", "add", f"{ADDRESS}/32", "dev", "lo")
        ip("-n", self.hub, "mptcp", "limits", "set", "subflow", "8")

    def _space(self, name: str) -> str:
        return self.add(f"mpfd{os.getpid()}{name}")

    def run(self, space: str, *call: str) -> None:
        words = ["nsenter", f"--net=/run/netns/{space}", *call]
        with (self.folder / f"{space}.log").open("ab") as log:
            self.running.append(subprocess.Popen(words, stdout=log, stderr=log))

    def federation(self, space: str, *call: str) -> None:
        self.run(space, sys.executable, "-m", "multipilot.federation.cli", *call)

    def device(self, name: str, *interfaces: str) -> Device:
        device = Device(self, self._space(name), len(self.names), dict(zip(interfaces, LINKS, strict=True)))
        self.devices.append(device)
        return device

    def end(self) -> None:
        for device in self.devices:
            device.down()
        for process in self.running:
            process.kill()
            process.wait()
        super().end()


class Device:
    def __init__(self, hosts: Hosts, space: str, number: int, links: dict[str, str]) -> None:
        self.hosts, self.space, self.links = hosts, space, links
        for at, (interface, link) in enumerate(links.items()):
            there = f"d{number}l{at}"
            ip("link", "add", interface, "netns", space, "type", "veth", "peer", "name", there, "netns", hosts.hub)
            for end, dev, host in ((space, interface, 1), (hosts.hub, there, 2)):
                ip("-n", end, "addr", "add", f"10.{60 + number}.{at}.{host}/24", "dev", dev)
                ip("-n", end, "link", "set", dev, "up")
                shape = f"tc -n {end} qdisc add dev {dev} root tbf rate {LINKS[link]} burst 8kb latency 20ms"
                subprocess.run(shape.split(), check=True)
            ip("-n", space, "route", "add", "default", "via", f"10.{60 + number}.{at}.2", "metric", str(at + 1))
        self.shared = hosts.folder / space
        self.socket = hosts.folder / f"{space}.sock"

    def begin(self) -> None:
        """A daemon, and what carries its files."""
        names = ", ".join(f'{interface} = "{link}"' for interface, link in self.links.items())
        config = self.hosts.folder / f"{self.space}.toml"
        config.write_text(
            'path-manager = "userspace"\nawareness.policy = "ms-ucb-federated"\n'
            f'[federation]\nfolder = "{self.shared}"\nlinks = {{ {names} }}\n'
        )
        call = [console.command(), "daemon", "--config", str(config), "--socket", str(self.socket)]
        self.hosts.run(self.space, *call)
        own, known = self.shared / "own.json", self.shared / "known.json"
        # It answers once new connections are its own.
        self.hosts.wait("its daemon", lambda: self.status().returncode == 0)
        self.hosts.federation(
            self.space, "join", f"{ADDRESS}:{FEDERATION}",
            "--device", self.space, "--own", str(own), "--known", str(known),
        )  # fmt: skip

    def down(self) -> None:
        """Killed, the daemon would leave its controller for the next one."""
        call = [console.command(), "down", "--socket", str(self.socket)]
        subprocess.run(["nsenter", f"--net=/run/netns/{self.space}", *call], capture_output=True)

    def download(self) -> None:
        self.hosts.run(self.space, sys.executable, "-c", DOWNLOAD)

    def own(self) -> files.Known:
        return files.load(self.shared / "own.json")

    def known(self) -> files.Known:
        return files.load(self.shared / "known.json")

    def status(self) -> subprocess.CompletedProcess[str]:
        call = [console.command(), "status", "--json", "--socket", str(self.socket)]
        return subprocess.run(call, capture_output=True, text=True)

    def subflows(self) -> list[Any]:
        status = json.loads(self.status().stdout)
        flood = [s for s in status["subflows"] if s["remote"].endswith(f":{FLOOD}")]
        return [(self.links[s["interface"]], s["backup"]) for s in flood]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    check()
    found = Hosts(tmp_path)
    try:
        yield found
    finally:
        found.end()


@pytest.mark.extras
def test_a_newcomers_first_connection_begins_on_the_links_that_others_found_good(hosts: Hosts) -> None:
    hosts.run(hosts.hub, sys.executable, "-c", SERVE)
    hosts.federation(hosts.hub, "serve", f"{ADDRESS}:{FEDERATION}", "--interval", "1s")
    old = [hosts.device("one", "wlan0", "wlan1", "wwan0"), hosts.device("two", "eth3", "eth4", "eth5")]
    for device in old:
        device.begin()
        device.download()

    def learnt(device: Device) -> bool:
        """So well that the slow link would not be tried for some time."""
        known = device.known()
        if set(known) != set(LINKS):
            return False
        far = known.pop("far")
        return far[0] > 30 and min(map(index, known.values())) > index(far) + 0.1

    for device in old:
        hosts.wait("what both have seen", lambda device=device: learnt(device))  # type: ignore[misc]
        # They have tried all there is.
        assert {link for link, _ in device.subflows()} == set(LINKS)
        assert device.own()["far"][0] < device.known()["far"][0]

    new = hosts.device("new", "usb0", "usb1", "usb2")
    new.begin()
    hosts.wait("what others know", lambda: learnt(new))
    assert new.own() == {}
    new.download()
    hosts.wait("its connection", lambda: len(new.subflows()) > 1)
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        assert sorted(new.subflows()) == [("ap-1", False), ("ap-2", False)]
        time.sleep(0.1)
    hosts.wait("what the newcomer saw", lambda: set(new.own()) >= {"ap-1", "ap-2"})
    assert "far" not in new.own()
