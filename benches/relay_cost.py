"""What the relay costs a host: CPU, round trips, memory."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from relay_host import RELAY, Host, cpu, emulated, memory, namespaces, result, rollup, running

#: Device and relay.
Ends = Mapping[str, subprocess.Popen[str]]
#: Of a busy flow: Mbit/s and ms one way of each of two links.
BUSY_RATE, BUSY_DELAY = 30, 20
BUSY_FLOWS = (1, 4, 16)


def spent(ends: Ends, act: Callable[[], float]) -> tuple[float, dict[str, float]]:
    """What ``act`` returns, and the CPU of both ends meanwhile, s."""
    before = {name: cpu(end) for name, end in ends.items()}
    done = act()
    return done, {name: cpu(end) - before[name] for name, end in ends.items()}


def cost(ends: Ends, seconds: float, carry: Callable[[], float]) -> dict[str, float]:
    """CPU of both ends for what ``carry`` has carried in so many seconds (it returns Gbit), s per Gbit."""
    size, used = spent(ends, carry)
    return {"gbit_per_s": round(size / seconds, 3), **{name: round(cpu_s / size, 3) for name, cpu_s in used.items()}}


def host(binary: Path, runs: int, seconds: int) -> dict[str, Any]:
    """Round trips and connect() directly and captured, ms; CPU of both ends, s per Gbit; memory, MB."""
    with ExitStack() as stack:
        it = Host(binary, stack)
        client, relay = it.client, it.relay
        ways = ("tcp", "connect", "udp")
        figures: dict[str, Any] = {"direct_ms": {way: [client(way) for _ in range(runs)] for way in ways}}
        captured = it.capture()
        figures["memory_idle_mb"] = {"device": memory(captured), "relay": memory(relay)}
        figures["captured_ms"] = {way: [client(way) for _ in range(runs)] for way in ways}

        ends = {"device": captured, "relay": relay}
        figures["tcp_cpu"] = [cost(ends, seconds, partial(client, "download", seconds)) for _ in range(runs)]
        lost: list[float] = []

        def arrived() -> float:
            sent, came = client("stream", seconds, 300)
            lost.append(round(1 - came / sent, 5))
            return float(came * 1300 * 8 / 1e9)

        figures["udp_cpu"] = [cost(ends, seconds, arrived) for _ in range(runs)]
        figures["udp_lost"] = lost
        figures["memory_after_mb"] = {"device": memory(captured), "relay": memory(relay)}
        return figures


def held(it: Host, ends: Ends, *call: Any) -> dict[str, dict[str, float]]:
    """Memory of the ends with connections that nobody uses."""
    holder = it.ready("hold", *call)
    time.sleep(3)
    found = {name: memory(end) for name, end in ends.items()}
    holder.kill()
    holder.wait()
    return found


def flows(binary: Path, runs: int, count: int = 1000) -> list[dict[str, Any]]:
    """Memory of both ends, idle and with so many connections that nobody uses, MB."""
    found = []
    for _ in range(runs):
        with ExitStack() as stack:
            it = Host(binary, stack)
            ends = {"device": it.capture(), "relay": it.relay}
            idle = {name: memory(end) for name, end in ends.items()}
            found.append({"idle": idle, "opened": count, "held": held(it, ends, count)})
    return found


def busy(binary: Path, runs: int, seconds: int) -> dict[str, Any]:
    """The most private memory of both ends while so many flows download, less that of before, MB a flow."""

    def private(pid: int) -> float:
        found = rollup(pid)
        return (found["Private_Clean"] + found["Private_Dirty"]) / 1000

    grown: dict[str, list[dict[str, float]]] = {}
    link = f'{{ rate = "{BUSY_RATE}Mbit", delay = "{BUSY_DELAY}ms" }}'
    for _ in range(runs):
        for count in BUSY_FLOWS:
            with ExitStack() as stack:
                it = Host(binary, stack, emulated(binary, [link, link]))
                ends = {"device": it.capture().pid, "relay": it.relay.pid}
                before = {name: private(pid) for name, pid in ends.items()}
                most = dict(before)
                clients = [it.begin("download", seconds) for _ in range(count)]
                while any(client.poll() is None for client in clients):
                    most = {name: max(most[name], private(pid)) for name, pid in ends.items()}
                    time.sleep(0.2)
                for client in clients:
                    result(client)
                growth = {name: round((most[name] - before[name]) / count, 2) for name in ends}
                grown.setdefault(str(count), []).append(growth)
    return {"bdp_mb": 2 * BUSY_RATE / 8 * 2 * BUSY_DELAY / 1000, "flows": grown}


def beside(binary: Path, runs: int, seconds: int) -> list[dict[str, Any]]:
    """Round trips of a small UDP flow and of a TCP connection beside UDP of 60 Mbit/s, over 20 + 20 Mbit/s, ms."""
    found = []
    for _ in range(runs):
        with ExitStack() as stack:
            it = Host(binary, stack, namespaces("20mbit"))
            it.capture()
            figures: dict[str, Any] = {"alone": {name: it.client("spread", name, 2) for name in ("udp", "tcp")}}
            bulk = it.begin("stream", seconds + 4, 60, 1100)
            time.sleep(2)
            pings = {name: it.begin("spread", name, seconds) for name in ("udp", "tcp")}
            figures["beside"] = {name: result(ping) for name, ping in pings.items()}
            _, arrived = result(bulk)
            figures["bulk_mbps"] = round(arrived * 1100 * 8 / (seconds + 4) / 1e6, 1)
            found.append(figures)
    return found


def rivals(binary: Path, runs: int, seconds: int, count: int = 1000) -> dict[str, list[dict[str, Any]]]:
    """CPU of both ends for a connection with a byte each way, ms, and for a download, s per Gbit; memory with so many
    idle connections, MB."""
    found: dict[str, list[dict[str, Any]]] = {}
    ways = ["multipilot", *(["shadowsocks-rust"] if shutil.which("ssserver") and shutil.which("sslocal") else [])]
    for _ in range(runs):
        for way in ways:
            with ExitStack() as stack:
                it = Host(binary, stack)
                if way == "multipilot":
                    port, server, device = 1080, it.relay, it.proxy(1080)
                else:
                    secret = ("-m", "aes-128-gcm", "-k", "secret", "-s", f"{RELAY}:8388")
                    port, server = 1081, stack.enter_context(running(it.server, "ssserver", *secret))
                    device = stack.enter_context(running(it.device, "sslocal", *secret, "-b", f"127.0.0.1:{port}"))
                    time.sleep(1)
                ends = {"device": device, "relay": server}
                it.client("churn", port, 1)
                opened, used = spent(ends, partial(it.client, "churn", port, seconds))
                figures: dict[str, Any] = {
                    "per_s": round(opened / seconds),
                    "cpu_ms": {name: round(1e3 * cpu_s / opened, 3) for name, cpu_s in used.items()},
                }
                figures["download_cpu"] = cost(ends, seconds, partial(it.client, "download", seconds, port))
                figures["held_mb"] = held(it, ends, count, port)
                found.setdefault(way, []).append(figures)
    return found
