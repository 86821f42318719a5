"""A device with two links, a relay and servers behind it, in network namespaces: what the parts of benches/relay.py
measure on. Needs root."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from relay_programs import SERVER

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = Path(__file__).with_name("relay_programs.py")
RELAY = "10.99.0.1"
#: More than any part takes.
LONGEST_S = 600


def sh(script: str) -> None:
    subprocess.run(["sh", "-ec", script], check=True)


def interrupt(process: subprocess.Popen[str]) -> None:
    """As one Ctrl-C does: a second one, which the terminal sends to its own session, would keep it from cleaning up."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()


@contextmanager
def running(namespace: str, *call: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the block."""
    command = ["ip", "netns", "exec", namespace, *call]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            interrupt(process)


@contextmanager
def namespaces(rate: str | None = None) -> Iterator[tuple[str, str]]:
    """The device's and the server's, with two links without delay."""
    device, server = (f"relay-bench-{who}-{os.getpid()}" for who in ("d", "s"))
    try:
        sh(f"ip netns add {device}; ip netns add {server}")
        for number in (1, 2):
            sh(
                f"""ip link add l{number} netns {device} type veth peer name l{number} netns {server}
for who in "{device} 1" "{server} 2"; do set -- $who
ip -n $1 address add 10.77.{number}.$2/24 dev l{number}; ip -n $1 link set l{number} up; done
ip -n {device} route add default via 10.77.{number}.2 dev l{number} metric {number}"""
            )
            for who in (device, server) if rate else ():
                sh(f"tc -n {who} qdisc add dev l{number} root tbf rate {rate} burst 8kb latency 100ms")
        yield device, server
    finally:
        sh(f"ip netns delete {device} || true; ip netns delete {server} || true")


@contextmanager
def emulated(binary: Path, links: list[str], direction: str = "download", more: str = "") -> Iterator[tuple[str, str]]:
    """Those of ``multipilot compare --world kernel``, with an MPTCP endpoint for each link. A link is the table of a
    path in a scenario, and ``more`` further text of it; loss is that of the direction."""
    with tempfile.TemporaryDirectory() as folder:
        name, log = Path(folder) / "name", Path(folder) / "log"
        command = f"unset LD_PRELOAD; ip netns identify $$ > {name}.new; mv {name}.new {name}; exec sleep {LONGEST_S}"
        connection = f'{{ bytes = "1MB", direction = "{direction}", command = {json.dumps(command)} }}'
        paths = "".join(f"paths.l{number} = {link}\n" for number, link in enumerate(links, 1))
        scenario = Path(folder) / "hosts.toml"
        scenario.write_text(f'duration = "{LONGEST_S}s"\n{paths}{more}\nconnections = [{connection}]\n')
        call = [str(binary), "compare", str(scenario), "--world", "kernel", "--seeds", "1", "--out", f"{folder}/record"]
        options: dict[str, Any] = {"text": True, "start_new_session": True}
        with log.open("w") as said, subprocess.Popen(call, stdout=said, stderr=said, **options) as hosts:
            try:
                while not name.exists():
                    if hosts.poll() is not None:
                        sys.exit(f"multipilot compare ended with exit code {hosts.returncode}: {log.read_text()}")
                    time.sleep(0.01)
                device = name.read_text().strip()
                yield device, device.replace("client0", "server")
            finally:
                interrupt(hosts)


def cpu(process: subprocess.Popen[str]) -> float:
    """Seconds so far, all threads."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: subprocess.Popen[str]) -> dict[str, float]:
    """MB; what is not anonymous are pages of the executable."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    return {name: round(int(size) / 1024, 1) for name, size in re.findall(r"(VmRSS|RssAnon):\s+(\d+)", text)}


def rollup(pid: int) -> dict[str, int]:
    """kB of each kind of memory."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {name: int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.M)}


class Host:
    """A device whose packets go to a relay once it is asked to, and what is behind that. ``congestion`` is that of the
    servers and clients themselves."""

    def __init__(
        self,
        binary: Path,
        stack: ExitStack,
        hosts: AbstractContextManager[tuple[str, str]] | None = None,
        congestion: str | None = None,
    ) -> None:
        self.binary = binary
        self.stack = stack
        self.state = stack.enter_context(tempfile.TemporaryDirectory())
        self.device, self.server = stack.enter_context(hosts or namespaces())
        #: When the time of emulated links began.
        self.began = time.monotonic()
        self.congestion = {"CONGESTION": congestion} if congestion else {}
        for who in (self.device, self.server):
            sh(f"ip -n {who} link set lo up")
        sh(f"for a in {RELAY} {SERVER}; do ip -n {self.server} address add $a/32 dev lo; done")
        self.ready("serve", at=self.server)
        listen = ("--listen", f"{RELAY}:443", "--state", f"{self.state}/relay", "--allow=198.51.100.0/24")
        self.relay = stack.enter_context(running(self.server, str(binary), "relay", *listen))
        assert self.relay.stdout is not None
        self.line = next(text for text in iter(self.relay.stdout.readline, "") if text.strip())

    def run(self, *call: str, **options: Any) -> subprocess.Popen[str]:
        """``multipilot run --relay`` on the device."""
        environment = {**os.environ, "XDG_STATE_HOME": self.state, "HOME": self.state}
        command = (str(self.binary), "run", "--relay", *call)
        return self.stack.enter_context(running(self.device, *command, env=environment, **options))

    def proxy(self, port: int) -> subprocess.Popen[str]:
        device = self.run(self.line.strip(), "--socks", f"127.0.0.1:{port}", stderr=subprocess.PIPE)
        assert device.stderr is not None
        device.stderr.readline()
        return device

    def begin(self, name: str, *arguments: Any, at: str | None = None) -> subprocess.Popen[str]:
        """A function of relay_programs.py, on the device or in another namespace."""
        call = (sys.executable, str(PROGRAMS), name, *map(json.dumps, arguments))
        environment = {**os.environ, **self.congestion}
        return self.stack.enter_context(running(at or self.device, *call, stdin=subprocess.PIPE, env=environment))

    def ready(self, name: str, *arguments: Any, at: str | None = None) -> subprocess.Popen[str]:
        """The same, once it has printed a line."""
        process = self.begin(name, *arguments, at=at)
        assert process.stdout is not None
        if not process.stdout.readline():
            sys.exit(f"{name} ended with exit code {process.wait()}")
        return process

    def client(self, name: str, *arguments: Any) -> Any:
        return result(self.begin(name, *arguments))

    def one_way(self, count: int, every_s: float, size: int) -> list[float]:
        """Times of a flow of datagrams from the device to the server, of those that came, ms."""
        receiver = self.ready("receive", 4000, at=self.server)
        self.client("send", 4000, count, every_s, size)
        return list(result(receiver))

    def capture(self, *more: str) -> subprocess.Popen[str]:
        """From now on the relay carries the device's packets."""
        captured = self.run("-", "--all", "--relay-socket", f"{self.state}/relay.sock", *more, stdin=subprocess.PIPE)
        assert captured.stdin is not None
        captured.stdin.write(self.line)
        captured.stdin.close()
        route = ["ip", "-n", self.device, "route", "get", SERVER]
        while "tun" not in subprocess.run(route, stdout=subprocess.PIPE, text=True, check=True).stdout:
            if captured.poll() is not None:
                sys.exit(f"run --relay ended with exit code {captured.returncode}")
            time.sleep(0.1)
        self.client("udp")  # The datagram lane is up, and every link has its ready connections.
        time.sleep(1)
        return captured


def result(client: subprocess.Popen[str]) -> Any:
    """What a program has returned, once it has."""
    printed, _ = client.communicate("")
    if client.returncode:
        sys.exit(f"a client ended with exit code {client.returncode}")
    return json.loads(printed.splitlines()[-1])
