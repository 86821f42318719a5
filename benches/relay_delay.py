"""What an interactive user has of the relay: a call beside a bulk transfer, over lossy links and while one dies, pages,
and the silence of a download whose link dies. On emulated links, beside the same without relay and the kernel's MPTCP.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay_host import Host, emulated, result, running
from relay_programs import SERVER

#: A voice codec's packets, and a video call's: one each so many seconds, bytes.
VOICE, VIDEO = (0.02, 160), (0.004, 1200)
#: 12 Mbit/s: a flow of which no packet is copied any more.
BULK = (0.0008, 1200)


@dataclass(frozen=True)
class Way:
    """How the packets go, with the congestion control of the programs' own sockets: over MPTCP that of its subflows."""

    name: str
    congestion: str = "cubic"
    mptcp: bool = False
    relayed: bool = False
    #: Of ``run --relay``.
    options: tuple[str, ...] = ()


DIRECT, RELAY = Way("better link"), Way("relay", relayed=True)
MPTCP = tuple(Way(f"MPTCP, {name}", name, mptcp=True) for name in ("bbr", "cubic"))


def link(mbps: int, delay_ms: int, more: str = "") -> str:
    """``delay_ms`` is one way."""
    return f'{{ rate = "{mbps}Mbit", delay = "{delay_ms}ms"{more} }}'


def dies(at_s: float) -> str:
    return f'events = [{{ at = "{at_s}s", path = "l1", outage = true }}]'


def measured(
    binary: Path,
    runs: int,
    ways: tuple[Way, ...],
    links: list[str],
    act: Callable[[Host, Way], Any],
    *,
    direction: str = "download",
    more: str = "",
) -> dict[str, list[Any]]:
    """What ``act`` returns, by way: on new hosts for each run and way, the ways in turns, with a relay that carries all
    where it is the way."""
    found: dict[str, list[Any]] = {}
    for _ in range(runs):
        for way in ways:
            with ExitStack() as stack:
                it = Host(binary, stack, emulated(binary, links, direction, more), way.congestion)
                if way.relayed:
                    it.capture(*way.options)
                found.setdefault(way.name, []).append(act(it, way))
    return found


def quantile(values: list[float], share: float) -> float:
    return round(sorted(values)[min(int(share * len(values)), len(values) - 1)], 2)


def voice(binary: Path, runs: int, seconds: int) -> dict[str, list[dict[str, float]]]:
    """One-way times of a voice call's uplink beside an upload, ms. MPTCP carries the upload alone: the call takes the
    better link then."""
    count = round(seconds / VOICE[0])

    def act(it: Host, way: Way) -> dict[str, float]:
        bulk = it.begin("upload", seconds + 4, way.mptcp)
        time.sleep(3)
        took = it.one_way(count, *VOICE)
        return {
            "p50_ms": quantile(took, 0.5),
            "p99_ms": quantile(took, 0.99),
            "lost": round(1 - len(took) / count, 4),
            "upload_mbps": round(result(bulk), 1),
        }

    links = [link(40, 10), link(20, 40)]
    return measured(binary, runs, (DIRECT, *MPTCP, RELAY), links, act, direction="upload")


def call(binary: Path, runs: int, count: int) -> dict[str, dict[str, list[float]]]:
    """Lost share of a video call of 2.4 Mbit/s one way, where both links lose 5 %, and where the better dies in it."""
    at_s, lossy = 25.0, ", loss = 0.05"

    def lost(it: Host, _: Way) -> float:
        return round(1 - len(it.one_way(count, *VIDEO)) / count, 5)

    def lost_halfway(it: Host, way: Way) -> float:
        pause = it.began + at_s - count * VIDEO[0] / 2 - time.monotonic()
        if pause < 0:
            sys.exit("call: the link would die before the middle of the call: is the machine busy?")
        time.sleep(pause)
        return lost(it, way)

    both = [link(20, 10, lossy), link(20, 25, lossy)]
    whole = [link(20, 10), link(20, 25)]
    return {
        "5 % loss on both links": measured(binary, runs, (DIRECT, RELAY), both, lost, direction="upload"),
        "the better link dies silently": measured(
            binary, runs, (RELAY,), whole, lost_halfway, direction="upload", more=dies(at_s)
        ),
    }


def schedulers(binary: Path, runs: int, seconds: int) -> dict[str, list[dict[str, float]]]:
    """One-way times of a UDP flow of 12 Mbit/s over 20 + 20 Mbit/s, 20 and 150 ms, and its lost share, by scheduler."""
    listed = subprocess.run([str(binary), "list", "schedulers", "--json"], stdout=subprocess.PIPE, check=True)
    names = [entry["name"] for entry in json.loads(listed.stdout)["schedulers"]]
    ways = tuple(Way(name, relayed=True, options=("--scheduler", name)) for name in names)
    count = round(seconds / BULK[0])

    def act(it: Host, _: Way) -> dict[str, float]:
        took = it.one_way(count, *BULK)
        return {
            "p50_ms": quantile(took, 0.5),
            "p99_ms": quantile(took, 0.99),
            "lost": round(1 - len(took) / count, 4),
        }

    return measured(binary, runs, ways, [link(20, 10), link(20, 75)], act, direction="upload")


def quic(binary: Path, runs: int, seconds: int) -> dict[str, dict[str, list[dict[str, float]]]]:
    """A download over QUIC with CUBIC to port 443, Mbit/s, and round trips of a small UDP flow beside it, ms."""
    example = binary.parent / "examples/quic"
    if not example.exists():
        sys.exit(f"{example} is missing: build it with cargo build --release -p mp-relay --example quic")

    def act(it: Host, _: Way) -> dict[str, float]:
        server = it.stack.enter_context(running(it.server, str(example), "serve", f"{SERVER}:443"))
        assert server.stdout is not None
        key = server.stdout.readline().strip()
        bulk = it.stack.enter_context(running(it.device, str(example), "fetch", f"{SERVER}:443", key, str(seconds)))
        time.sleep(1)
        ping = it.client("spread", "udp", seconds - 2)
        return {"mbps": result(bulk), **ping}

    cases = {
        "30 + 30 Mbit/s, 20 ms": [link(30, 10), link(30, 10)],
        "40 + 20 Mbit/s, 10 and 40 ms": [link(40, 5), link(20, 20)],
        "the same, 1 % loss on the second": [link(40, 5), link(20, 20, ", loss = 0.01")],
        "40 + 20 Mbit/s, 20 and 80 ms, queues of 500 packets": [
            link(40, 10, ', queue = "500p"'),
            link(20, 40, ', queue = "500p"'),
        ],
    }
    return {name: measured(binary, runs, (DIRECT, RELAY), links, act) for name, links in cases.items()}


def silence(binary: Path, runs: int) -> dict[str, dict[str, list[dict[str, float]]]]:
    """The longest time of a download without a byte, before and after one of two equal links dies, s."""
    at_s = 14.0

    def of(link_down: str | None, event: str) -> dict[str, list[Any]]:
        def act(it: Host, way: Way) -> Any:
            return it.client("silence", it.began + at_s, 5, way.mptcp, link_down)

        return measured(binary, runs, (*MPTCP, RELAY), [link(30, 5)] * 2, act, more=event)

    return {"a link dies silently": of(None, dies(at_s)), "its link goes down": of("l1", "")}


def pages(binary: Path, runs: int, count: int) -> dict[str, list[float]]:
    """Round trips that a page of 2 kB takes over links of 20 ms, directly and over the relay with ready connections."""

    def act(it: Host, _: Way) -> float:
        it.client("page", 5)
        return round(it.client("page", count) / 20, 2)

    return measured(binary, runs, (DIRECT, RELAY), [link(40, 10)] * 2, act)
