#!/usr/bin/env python3
"""The relay on real sockets: what a flow gets of the links, and what a whole host pays for it.

Prints one JSON document. Shares are those of one download or upload of a scenario, over the relay and over the
kernel's MPTCP in turn, with BBR on every path. The rest is measured between two network namespaces with two links,
with ``run --relay - --all``: what a host pays, without rate or delay, beside the same without relay; and what others
have beside a UDP flow that is faster than the links; and the memory of connections that nobody uses. Needs root.
``rivals`` sets connections through the SOCKS proxy beside those through shadowsocks-rust, if ``ssserver`` and
``sslocal`` are in PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SERVER = "198.51.100.2"
PATHS = {
    "equal, 30 + 30 Mbit/s": ('{ rate = "30Mbit", delay = "10ms" }', '{ rate = "30Mbit", delay = "10ms" }', 60),
    "unequal, 40 + 20 Mbit/s, 10 and 40 ms": (
        '{ rate = "40Mbit", delay = "5ms" }',
        '{ rate = "20Mbit", delay = "20ms" }',
        60,
    ),
    "the same, 1 % loss on the second": (
        '{ rate = "40Mbit", delay = "5ms" }',
        '{ rate = "20Mbit", delay = "20ms", loss = 0.01 }',
        60,
    ),
}


def shares(binary: Path, runs: int, seconds: int) -> dict[str, dict[str, list[float]]]:
    """Goodput of one flow / sum of the links' rates, by case and direction, over the relay and the kernel's MPTCP."""
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case, (first, second, rate) in PATHS.items():
            for direction in ("download", "upload"):
                file = Path(folder) / "share.toml"
                file.write_text(
                    f'duration = "{seconds}s"\npaths.a = {first}\npaths.b = {second}\n'
                    f'connections = [{{ direction = "{direction}" }}]\nvariants = [{{ controller = "bbr" }}]\n'
                )
                of = found.setdefault(f"{case}, {direction}", {"relay": [], "kernel": []})
                for seed in range(1, runs + 1):
                    for world, values in of.items():
                        call = [str(binary), "compare", str(file), "--world", world, "--seeds", "1", "--json"]
                        call += ["--set", f"seed={seed}", "--out", f"{folder}/{world}-{direction}-{len(found)}-{seed}"]
                        done = subprocess.run(call, stdout=subprocess.PIPE, check=True)
                        values.append(round(json.loads(done.stdout)["rows"][0]["goodput_mbps"] / rate, 3))
    return found


# What runs in the namespaces: servers behind the relay, and a client.
SERVE = f"""
import resource, signal, socket, threading
signal.signal(signal.SIGINT, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
def echo(end):
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := end.recv(65536):
        end.sendall(data)
def source(end):
    block = bytes(1 << 20)
    try:
        while True:
            end.sendall(block)
    except OSError:
        pass
def accept(port, serve):
    server = socket.create_server(("{SERVER}", port), backlog=256)
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
def sink():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    # SO_RCVBUFFORCE
    server.setsockopt(socket.SOL_SOCKET, 33, 1 << 25)
    server.bind(("{SERVER}", 9))
    count = 0
    while True:
        data, peer = server.recvfrom(2048)
        if data[:1] == b"?":
            server.sendto(str(count).encode(), peer)
            count = 0
        elif data[:1] == b"!":
            server.sendto(data, peer)
        else:
            count += 1
for port, serve in ((7, echo), (19, source)):
    threading.Thread(target=accept, args=(port, serve)).start()
def keep():
    server, kept = socket.create_server(("{SERVER}", 21), backlog=4096), []
    while True:
        kept.append(server.accept()[0])
threading.Thread(target=keep).start()
print("ready", flush=True)
sink()
"""
CLIENT = f"""
import json, resource, socket, statistics, sys, threading, time
def clock(of, times, pause=0.0):
    took = []
    for _ in range(times):
        began = time.perf_counter()
        of()
        took.append(1e3 * (time.perf_counter() - began))
        time.sleep(pause)
    return statistics.median(took)
def tcp():
    end = socket.create_connection(("{SERVER}", 7))
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return clock(lambda: (end.send(b"x"), end.recv(1)), 300, 0.005)
def connect():
    return clock(lambda: socket.create_connection(("{SERVER}", 7)).close(), 100, 0.02)
def udp():
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.connect(("{SERVER}", 9))
    end.settimeout(1)
    return clock(lambda: (end.send(b"!2345"), end.recv(64)), 300, 0.005)
def download(seconds):
    end = socket.create_connection(("{SERVER}", 19))
    size, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        size += len(end.recv(1 << 20))
    return 8 * size / 1e9
def spread(kind, seconds):
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    end.connect(("{SERVER}", 7 if kind == "tcp" else 9))
    if kind == "tcp":
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.settimeout(1 if kind == "udp" else None)
    took, lost, until = [], 0, time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        try:
            end.send(b"!2345")
            end.recv(64)
            took.append(1e3 * (time.perf_counter() - began))
        except TimeoutError:
            lost += 1
        time.sleep(0.02)
    took.sort()
    return dict(p50=round(took[len(took) // 2], 1), p99=round(took[len(took) * 99 // 100], 1), lost=lost)
def stream(seconds, mbps, size=1300):
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.connect(("{SERVER}", 9))
    end.settimeout(5)
    data, began, sent = bytes(size), time.monotonic(), 0
    while (now := time.monotonic() - began) < seconds:
        while sent * size * 8 < now * mbps * 1e6:
            end.send(data)
            sent += 1
        time.sleep(0.0005)
    time.sleep(0.5)
    end.send(b"?")
    return [sent, int(end.recv(64))]
def hold(count, proxy=None):
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
    ends = [socket.create_connection(("{SERVER}", 21)) if proxy is None else socks(proxy, 21) for _ in range(count)]
    print(len(ends), flush=True)
    sys.stdin.read()
def socks(proxy, port):
    end = socket.create_connection(("127.0.0.1", proxy))
    end.sendall(bytes((5, 1, 0)))
    end.recv(2, socket.MSG_WAITALL)
    end.sendall(bytes((5, 1, 0, 1)) + socket.inet_aton("{SERVER}") + port.to_bytes(2, "big"))
    assert end.recv(10, socket.MSG_WAITALL)[1] == 0
    return end
def churn(proxy, seconds, width=32):
    until, counts = time.monotonic() + seconds, []
    def one():
        count = 0
        while time.monotonic() < until:
            with socks(proxy, 7) as end:
                end.sendall(b"x")
                count += len(end.recv(1))
        counts.append(count)
    threads = [threading.Thread(target=one) for _ in range(width)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)
print(json.dumps(eval(sys.argv[1])))
"""


def sh(script: str) -> None:
    subprocess.run(["sh", "-ec", script], check=True)


@contextmanager
def namespaces() -> Iterator[tuple[str, str]]:
    """A device with two links, and what is behind them."""
    device, server = (f"relay-bench-{who}-{os.getpid()}" for who in ("d", "s"))
    try:
        sh(f"ip netns add {device}; ip netns add {server}")
        for number in (1, 2):
            sh(
                f"""ip link add l{number} netns {device} type veth peer name l{number} netns {server}
for who in "{device} 1" "{server} 2"; do set -- $who
ip -n $1 address add 10.77.{number}.$2/24 dev l{number}; ip -n $1 link set l{number} up; ip -n $1 link set lo up; done
ip -n {device} route add default via 10.77.{number}.2 dev l{number} metric {number}"""
            )
        sh(f"for a in 10.99.0.1 {SERVER}; do ip -n {server} address add $a/32 dev lo; done")
        yield device, server
    finally:
        sh(f"ip netns delete {device} || true; ip netns delete {server} || true")


@contextmanager
def running(namespace: str, *call: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the block, by Ctrl-C."""
    command = ["ip", "netns", "exec", namespace, *call]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def cpu(process: subprocess.Popen[str]) -> float:
    """Seconds so far, all threads."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: subprocess.Popen[str]) -> dict[str, float]:
    """MB; what is not anonymous are pages of the executable."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    return {name: round(int(size) / 1024, 1) for name, size in re.findall(r"(VmRSS|RssAnon):\s+(\d+)", text)}


class Host:
    """A device whose packets go to a relay, and what is behind that."""

    def __init__(self, binary: Path, stack: ExitStack, rate: str | None = None) -> None:
        self.binary = binary
        self.stack = stack
        self.state = stack.enter_context(tempfile.TemporaryDirectory())
        self.device, self.server = stack.enter_context(namespaces())
        for who in (self.device, self.server):
            for link in ("l1", "l2") if rate else ():
                sh(f"tc -n {who} qdisc add dev {link} root tbf rate {rate} burst 8kb latency 100ms")
        served = stack.enter_context(running(self.server, sys.executable, "-c", SERVE))
        assert served.stdout is not None
        served.stdout.readline()
        listen = ("--listen", "10.99.0.1:443", "--state", f"{self.state}/relay", "--allow=198.51.100.0/24")
        self.relay = stack.enter_context(running(self.server, str(binary), "relay", *listen))
        assert self.relay.stdout is not None
        self.line = next(text for text in iter(self.relay.stdout.readline, "") if text.strip())

    def proxy(self, port: int) -> subprocess.Popen[str]:
        environment = {**os.environ, "XDG_STATE_HOME": self.state, "HOME": self.state}
        call = (str(self.binary), "run", "--relay", self.line.strip(), "--socks", f"127.0.0.1:{port}")
        device = self.stack.enter_context(running(self.device, *call, env=environment, stderr=subprocess.PIPE))
        assert device.stderr is not None
        device.stderr.readline()
        return device

    def begin(self, call: str) -> subprocess.Popen[str]:
        """Of the client."""
        command = ["ip", "netns", "exec", self.device, sys.executable, "-c", CLIENT, call]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def client(self, call: str) -> Any:
        return result(self.begin(call))

    def capture(self, *more: str) -> subprocess.Popen[str]:
        """From now on the relay carries the device's packets."""
        environment = {**os.environ, "XDG_STATE_HOME": self.state, "HOME": self.state}
        call = (
            self.device,
            str(self.binary),
            "run",
            "--relay",
            "-",
            "--all",
            "--relay-socket",
            f"{self.state}/relay.sock",
            *more,
        )
        captured = self.stack.enter_context(running(*call, stdin=subprocess.PIPE, env=environment))
        assert captured.stdin is not None
        captured.stdin.write(self.line)
        captured.stdin.close()
        route = ["ip", "-n", self.device, "route", "get", SERVER]
        while "tun" not in subprocess.run(route, stdout=subprocess.PIPE, text=True, check=True).stdout:
            if captured.poll() is not None:
                sys.exit(f"run --relay ended with exit code {captured.returncode}")
            time.sleep(0.1)
        self.client("udp()")  # The datagram lane is up, and every link has its ready connections.
        time.sleep(1)
        return captured


def result(client: subprocess.Popen[str]) -> Any:
    printed, _ = client.communicate("")
    if client.returncode:
        sys.exit(f"a client ended with exit code {client.returncode}")
    return json.loads(printed)


def host(binary: Path, runs: int, seconds: int) -> dict[str, Any]:
    """Round trips and connect() directly and captured, ms; CPU of both ends, s per Gbit; memory, MB."""
    with ExitStack() as stack:
        it = Host(binary, stack)
        client, relay = it.client, it.relay
        ways = {"tcp": "tcp()", "connect": "connect()", "udp": "udp()"}
        figures: dict[str, Any] = {
            "direct_ms": {name: [client(call) for _ in range(runs)] for name, call in ways.items()}
        }
        captured = it.capture()
        figures["memory_idle_mb"] = {"device": memory(captured), "relay": memory(relay)}
        figures["captured_ms"] = {name: [client(call) for _ in range(runs)] for name, call in ways.items()}

        def cost(call: str, gbit: Any) -> dict[str, float]:
            before = cpu(captured), cpu(relay)
            size = gbit(client(call))
            after = cpu(captured), cpu(relay)
            ends = zip(("device", "relay"), before, after, strict=True)
            return {"gbit_per_s": round(size / seconds, 3), **{end: round((b - a) / size, 3) for end, a, b in ends}}

        figures["tcp_cpu"] = [cost(f"download({seconds})", float) for _ in range(runs)]
        lost: list[float] = []

        def arrived(counts: list[int]) -> float:
            lost.append(round(1 - counts[1] / counts[0], 5))
            return counts[1] * 1300 * 8 / 1e9

        figures["udp_cpu"] = [cost(f"stream({seconds}, 300)", arrived) for _ in range(runs)]
        figures["udp_lost"] = lost
        figures["memory_after_mb"] = {"device": memory(captured), "relay": memory(relay)}
        return figures


def flows(binary: Path, runs: int, count: int = 1000) -> list[dict[str, Any]]:
    """Memory of both ends, idle and with so many connections that nobody uses, MB."""
    found = []
    for _ in range(runs):
        with ExitStack() as stack:
            it = Host(binary, stack)
            ends = {"device": it.capture(), "relay": it.relay}
            figures = {"idle": {name: memory(end) for name, end in ends.items()}}
            holder = it.begin(f"hold({count})")
            assert holder.stdout is not None
            figures["opened"] = int(holder.stdout.readline())
            time.sleep(3)
            figures["held"] = {name: memory(end) for name, end in ends.items()}
            holder.kill()
            holder.wait()
            found.append(figures)
    return found


def beside(binary: Path, runs: int, seconds: int) -> list[dict[str, Any]]:
    """Round trips of a small UDP flow and of a TCP connection beside UDP of 60 Mbit/s, over 20 + 20 Mbit/s, ms."""
    found = []
    for _ in range(runs):
        with ExitStack() as stack:
            it = Host(binary, stack, "20mbit")
            it.capture()
            figures: dict[str, Any] = {"alone": {name: it.client(f"spread({name!r}, 2)") for name in ("udp", "tcp")}}
            bulk = it.begin(f"stream({seconds + 4}, 60, 1100)")
            time.sleep(2)
            pings = {name: it.begin(f"spread({name!r}, {seconds})") for name in ("udp", "tcp")}
            figures["beside"] = {name: result(ping) for name, ping in pings.items()}
            _, arrived = result(bulk)
            figures["bulk_mbps"] = round(arrived * 1100 * 8 / (seconds + 4) / 1e6, 1)
            found.append(figures)
    return found


def rivals(binary: Path, runs: int, seconds: int, count: int = 1000) -> dict[str, list[dict[str, Any]]]:
    """CPU of both ends for a connection with a byte each way, ms; and memory with so many idle ones, MB."""
    found: dict[str, list[dict[str, Any]]] = {}
    ways = ["multipilot", *(["shadowsocks-rust"] if shutil.which("ssserver") and shutil.which("sslocal") else [])]
    for _ in range(runs):
        for way in ways:
            with ExitStack() as stack:
                it = Host(binary, stack)
                if way == "multipilot":
                    port, server, device = 1080, it.relay, it.proxy(1080)
                else:
                    secret = ("-m", "aes-128-gcm", "-k", "secret", "-s", "10.99.0.1:8388")
                    port, server = 1081, stack.enter_context(running(it.server, "ssserver", *secret))
                    device = stack.enter_context(running(it.device, "sslocal", *secret, "-b", f"127.0.0.1:{port}"))
                    time.sleep(1)
                ends = {"device": device, "relay": server}
                it.client(f"churn({port}, 1)")
                before = {name: cpu(end) for name, end in ends.items()}
                opened = it.client(f"churn({port}, {seconds})")
                figures: dict[str, Any] = {
                    "per_s": round(opened / seconds),
                    "cpu_ms": {name: round(1e3 * (cpu(end) - before[name]) / opened, 3) for name, end in ends.items()},
                }
                holder = it.begin(f"hold({count}, {port})")
                assert holder.stdout is not None
                holder.stdout.readline()
                time.sleep(3)
                figures["held_mb"] = {name: memory(end) for name, end in ends.items()}
                holder.kill()
                holder.wait()
                found.setdefault(way, []).append(figures)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/multipilot")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two runs, shorter: the order of magnitude")
    parser.add_argument("--only", default="host,shares,beside,flows,rivals", help="some of them, by comma")
    arguments = parser.parse_args()
    binary = arguments.binary.resolve()
    runs, seconds = (2, 4) if arguments.quick else (arguments.runs, 8)
    benches: dict[str, Callable[[], Any]] = {
        "host": lambda: host(binary, runs, 5),
        "shares": lambda: shares(binary, runs, seconds),
        "beside": lambda: beside(binary, runs, seconds),
        "flows": lambda: flows(binary, runs),
        "rivals": lambda: rivals(binary, runs, seconds),
    }
    print(json.dumps({name: benches[name]() for name in arguments.only.split(",")}, indent=2))


if __name__ == "__main__":
    main()
