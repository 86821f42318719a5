"""The scenarios that both worlds run.

Five factors: controller (8), loss (0, 0.1, 1, 3 %), round trip (20, 150 ms), rate (10, 50 Mbit/s), one or two paths.
The kernel takes real time, so of all 256 combinations 32 are chosen, an orthogonal array of strength two: every level
of every factor meets every level of every other factor equally often. Four shared bottlenecks come on top, and queues
of other kinds and depths: CoDel and RED, with drops and with ECN marks, 0.3 and 4 bandwidth-delay products.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from multipilot.simulation import default_mss, list_schedulers

# In this order wvegas and cubic do not meet rare loss on the long path, where one run says least of their mean.
CONTROLLERS = ("reno", "lia", "olia", "cubic", "bbr", "balia", "rsf-db", "wvegas")
SCHEDULERS = tuple(entry["name"] for entry in list_schedulers() if "relay" in entry["worlds"])
LOSSES = (0.0, 0.001, 0.01, 0.03)
ROUND_TRIPS_MS = (20, 150)
RATES_MBIT = (10, 50)
PATHS = (1, 2)

MOST_CONNECTIONS = 8

# Wire size of a full segment, for queues of one bandwidth-delay product.
PACKET_BITS = 1500 * 8


@dataclass(frozen=True)
class Queue:
    """The queue before a bottleneck: its limit in bandwidth-delay products, and which packets it signals."""

    label: str = ""
    bdp: float = 1.0
    discipline: str = "droptail"
    ecn: bool = False

    def value(self, bdp_packets: float) -> str:
        """As a scenario has it."""
        limit = f"{max(20, round(self.bdp * bdp_packets))}p"
        if self.discipline == "droptail":
            return f'"{limit}"'
        keys = [f'limit = "{limit}"', f'discipline = "{self.discipline}"']
        if self.discipline == "red":
            # The maximum three times the minimum (Floyd & Jacobson 1993, section 5), below one bandwidth-delay product.
            low = max(5, round(bdp_packets / 4))
            keys.append(f"min = {low}, max = {3 * low}, probability = 0.1")
        if self.ecn:
            keys.append("ecn = true")
        return f"{{ {', '.join(keys)} }}"


# Active queue management decides long before a queue of four bandwidth-delay products is full.
QUEUES = (
    Queue("CoDel", 4, "codel"),
    Queue("CoDel with ECN", 4, "codel", ecn=True),
    Queue("RED", 4, "red"),
    Queue("RED with ECN", 4, "red", ecn=True),
    Queue("queue of 4 BDP", 4),
    Queue("queue of 0.3 BDP", 0.3),
)


def folder_of(name: str, scenario: str) -> str:
    """Results of another text must not be taken for this one's."""
    return f"{name}-{hashlib.sha256(scenario.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Cell:
    """One scenario. ``connections`` equal ones share the paths and are added up."""

    name: str
    controller: str
    loss: float
    round_trip_ms: int
    rate_mbit: int
    paths: int
    shared: bool = False
    connections: int = 1
    duration_s: int = 30
    queue: Queue = Queue()
    scheduler: str = "default"
    # The second path has half the rate and four times the round trip.
    unlike: bool = False

    @property
    def folder(self) -> str:
        return folder_of(self.name, self.scenario())

    @property
    def label(self) -> str:
        """For tables and axes."""
        where = f"{self.rate_mbit} Mbit/s, {self.round_trip_ms} ms"
        if self.shared:
            return f"{self.controller}, shared {where}"
        if self.unlike:
            rates = f"{self.rate_mbit} + {self.rate_mbit / 2:g}"
            times = f"{self.round_trip_ms} and {4 * self.round_trip_ms}"
            return f"{self.scheduler}, {self.loss * 100:g} %, {rates} Mbit/s, {times} ms"
        what = self.queue.label or f"{self.loss * 100:g} %"
        if self.scheduler != "default":
            what = f"{self.scheduler}, {what}"
        return f"{self.controller}, {what}, {'2 × ' if self.paths == 2 else ''}{where}"

    @property
    def mbps(self) -> float:
        """Of all paths."""
        return self.rate_mbit * (1 if self.shared else self.paths)

    @property
    def detail(self) -> str:
        """What the label leaves out."""
        return ""

    def value(self, row: Mapping[str, Any]) -> float | None:
        """Mbit/s."""
        return float(row["goodput_mbps"])

    def facts(self) -> dict[str, Any]:
        """For the document."""
        keys = ("name", "controller", "scheduler", "loss", "round_trip_ms", "rate_mbit", "paths", "shared")
        return {key: getattr(self, key) for key in (*keys, "connections", "duration_s")}

    def scenario(self) -> str:
        """As TOML. Round trips are split evenly, losses meet data only."""
        bdp = self.rate_mbit * 1e3 * self.round_trip_ms / PACKET_BITS
        lines = [
            f'title = "{self.name}"',
            f'duration = "{self.duration_s}s"',
            'sample_interval = "100ms"',
        ]
        if self.shared:
            lines += [
                "",
                "[links.bottleneck]",
                f'rate = "{self.rate_mbit}Mbit"',
                'delay = "0ms"',
                f"queue = {self.queue.value(bdp)}",
            ]
        names = [f"path{index + 1}" for index in range(self.paths)]
        for index, name in enumerate(names):
            slower, longer = (2, 4) if self.unlike and index else (1, 1)
            lines += ["", f"[paths.{name}]", f'delay = "{longer * self.round_trip_ms / 2:g}ms"']
            if self.shared:
                lines.append('link = "bottleneck"')
            else:
                queue = self.queue.value(bdp * longer / slower)
                lines += [f'rate = "{self.rate_mbit / slower:g}Mbit"', f"queue = {queue}"]
            if self.loss:
                lines.append(f"loss = {self.loss:g}")
        listed = ", ".join(f'"{name}"' for name in names)
        lines += ["", "[[connections]]", 'name = "download"', f"paths = [{listed}]", f"count = {self.connections}"]
        if self.shared:
            lines += ["", "[[connections]]", 'name = "rival"', 'paths = ["path1"]', 'protocol = "tcp"']
            lines.append('controller = "reno"')
        lines += ["", "[[variants]]", f'controller = "{self.controller}"']
        if self.scheduler != "default":
            lines.append(f'scheduler = "{self.scheduler}"')
        return "\n".join([*lines, ""])


def cells() -> list[Cell]:
    """The whole grid, in an order such that any beginning of it spans the factors."""
    spanning = sorted(array(), key=lambda cell: (LOSSES.index(cell.loss) % 2, cell.round_trip_ms))
    return [*spanning, *_shared(), *_queues()]


def array() -> Iterator[Cell]:
    for i, controller in enumerate(CONTROLLERS):
        for j, loss in enumerate(LOSSES):
            # Columns of the orthogonal array: sums over GF(2) of the bits of i and j, no two alike.
            bits = (i ^ j) & 1, (i >> 1 ^ j >> 1) & 1, (i >> 2 ^ j ^ j >> 1) & 1
            rtt, rate, paths = ROUND_TRIPS_MS[bits[0]], RATES_MBIT[bits[1]], PATHS[bits[2]]
            yield Cell(
                name=f"{controller}-{loss * 100:g}pc-{rtt}ms-{rate}M-{paths}p",
                controller=controller,
                loss=loss,
                round_trip_ms=rtt,
                rate_mbit=rate,
                paths=paths,
                connections=_crowd(controller, loss, rtt, rate),
            )


def _crowd(controller: str, loss: float, round_trip_ms: int, rate_mbit: int) -> int:
    """Connections whose losses leave half the path free: so many independent draws of the same quantity in one run.

    A flow's rate is Reno's, (MSS/τ)·sqrt(3/(2p)) (Mathis et al., CCR 27(3), 1997); BBR fills the path whatever is lost.
    """
    if not loss or controller == "bbr":
        return 1
    each_mbit = default_mss() * 8e-3 / round_trip_ms * math.sqrt(1.5 / loss)
    return max(1, min(MOST_CONNECTIONS, int(rate_mbit / 2 / each_mbit)))


def _shared() -> Iterator[Cell]:
    for controller in ("reno", "lia", "olia", "balia"):
        yield Cell(f"{controller}-shared", controller, 0.0, 40, 20, 2, shared=True)


def _queues() -> Iterator[Cell]:
    """One flow over one path, by loss and by rate, and coupled ones over two."""
    for queue in QUEUES:
        name = queue.label.lower().replace(" ", "-")
        for controller, paths in (("cubic", 1), ("bbr", 1), ("lia", 2)):
            yield Cell(f"{controller}-{name}", controller, 0.0, 40, 20, paths, queue=queue)


def relay() -> list[Cell]:
    """Each scheduler over two equal paths, and over unlike ones with and without loss: the relay has all of them."""
    return [
        Cell(f"{scheduler}-{name}", "bbr", loss, rtt, rate, 2, duration_s=15, scheduler=scheduler, unlike=unlike)
        for scheduler in SCHEDULERS
        for name, loss, rtt, rate, unlike in (
            ("equal", 0.0, 20, 30, False),
            ("unlike", 0.0, 10, 40, True),
            ("unlike-1pc", 0.01, 10, 40, True),
        )
    ]


def quick() -> list[Cell]:
    """Six cells of ten seconds: enough to see that both worlds run and roughly agree, not to publish."""
    chosen = (
        Cell("quick-reno-0pc-20ms-10M-1p", "reno", 0.0, 20, 10, 1, duration_s=10),
        Cell("quick-reno-1pc-20ms-10M-2p", "reno", 0.01, 20, 10, 2, duration_s=10),
        Cell("quick-lia-3pc-20ms-10M-2p", "lia", 0.03, 20, 10, 2, duration_s=10),
        Cell("quick-lia-0pc-20ms-50M-2p", "lia", 0.0, 20, 50, 2, duration_s=10),
        Cell("quick-olia-3pc-20ms-50M-2p", "olia", 0.03, 20, 50, 2, duration_s=10),
        Cell("quick-lia-shared", "lia", 0.0, 40, 20, 2, shared=True, duration_s=10),
    )
    return list(chosen)
