"""The judging grid: links and competitors drawn from a seed, so that nobody chose them and nothing was tuned on them.

The files ``drawn-*.toml`` of ``scenarios/pilot`` are what this writes for :data:`DRAW`. Another draw is judged by::

    python -m multipilot.papers.pilot.drawn SEED FOLDER
    multipilot paper pilot --only drawn,drawn-fairness --scenarios FOLDER
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

from multipilot.papers.pilot.plan import ALONE, DRAWN, DRAWN_BESIDE, DRAWN_REFERENCE

DRAW = 20261122
CELLS, BESIDE_CELLS = 48, 24
NAMES = ("one", "two", "three", "four")

#: Ranges, each drawn from uniformly in the logarithm: Mbit/s, ms a round trip, bandwidth-delay products, shares.
RATE, RTT, QUEUE, LOSS, JITTER_MS = (2.0, 200.0), (5.0, 300.0), (0.05, 8.0), (0.0005, 0.05), (0.2, 10.0)
#: How many of the cells have any loss or jitter; the links beside others mostly lose only by their queue.
LOSSY, JITTERY, LOSSY_BESIDE = 0.5, 1 / 3, 0.25
#: Packets of 1500 bytes that the shortest queue holds: 0.05 bandwidth-delay products of a slow link are less than one.
LEAST_QUEUE = 10
RIVALS = ("linux-reno", "cubic")
MOST_RIVALS, MOST_SUBFLOWS = 8, 3


def _between(draws: Random, ends: tuple[float, float]) -> float:
    low, high = (math.log(end) for end in ends)
    return math.exp(low + (high - low) * draws.random())


def _whole(draws: Random, least: int, most: int) -> int:
    return least + int((most - least + 1) * draws.random())


@dataclass(frozen=True)
class Link:
    rate_mbps: float
    rtt_ms: float
    queue_packets: int
    loss: float
    jitter_ms: float

    @property
    def bdp(self) -> float:
        """The queue in bandwidth-delay products."""
        return self.queue_packets * 12 / (self.rate_mbps * self.rtt_ms)

    def toml(self) -> str:
        """Its keys, but for the delay; jitter is that of the direction in which data flow."""
        keys = f'rate = "{self.rate_mbps:g}Mbit", queue = "{self.queue_packets}p", loss = {self.loss:g}'
        return keys + (f', downlink.jitter = "0..{self.jitter_ms:g}ms"' if self.jitter_ms else "")

    def __str__(self) -> str:
        """At most 46 letters: four of them have to fit into the 200 of a case's name."""
        loss = f" {100 * self.loss:.2g} %" if self.loss else ""
        jitter = f" +{self.jitter_ms:.2g} ms" if self.jitter_ms else ""
        return f"{self.rate_mbps:.3g} Mbit/s {self.rtt_ms:.3g} ms {self.bdp:.2g} bdp{loss}{jitter}"


def _link(draws: Random, lossy: float, jittery: float) -> Link:
    rate, rtt, queue, loss, jitter = (_between(draws, ends) for ends in (RATE, RTT, QUEUE, LOSS, JITTER_MS))
    # Drawn whether used or not: a share that changes leaves the other links as they were.
    is_lossy, is_jittery = draws.random() < lossy, draws.random() < jittery
    return Link(
        rate_mbps=float(f"{rate:.3g}"),
        rtt_ms=float(f"{rtt:.3g}"),
        queue_packets=max(LEAST_QUEUE, round(queue * rate * rtt / 12)),
        loss=float(f"{loss:.2g}") if is_lossy else 0.0,
        jitter_ms=float(f"{jitter:.2g}") if is_jittery else 0.0,
    )


@dataclass(frozen=True)
class Beside:
    """A bottleneck that the connection's subflows share with TCP flows."""

    link: Link
    subflows: int
    rival: str
    rivals: int

    def __str__(self) -> str:
        who = {"linux-reno": "Reno", "cubic": "CUBIC"}[self.rival]
        return f"{self.subflows} beside {self.rivals} {who}: {self.link}"


def alone(seed: int) -> list[list[Link]]:
    """Cells of one to four unlike paths."""
    draws = Random(f"alone {seed}")
    return [[_link(draws, LOSSY, JITTERY) for _ in range(_whole(draws, 1, len(NAMES)))] for _ in range(CELLS)]


def beside(seed: int) -> list[Beside]:
    draws = Random(f"beside {seed}")
    return [
        Beside(
            _link(draws, LOSSY_BESIDE, 0.0),
            _whole(draws, 1, MOST_SUBFLOWS),
            RIVALS[_whole(draws, 0, len(RIVALS) - 1)],
            _whole(draws, 1, MOST_RIVALS),
        )
        for _ in range(BESIDE_CELLS)
    ]


def draw(seed: int) -> dict[str, str]:
    """The text of each scenario file, by its name."""
    bottlenecks = beside(seed)
    return {
        DRAWN: _alone_text(seed, alone(seed)),
        DRAWN_BESIDE: _beside_text(seed, bottlenecks, reference=False),
        DRAWN_REFERENCE: _beside_text(seed, bottlenecks, reference=True),
    }


def _head(title: str, seed: int, description: str, duration: str) -> list[str]:
    return [
        f"# Written by `python -m multipilot.papers.pilot.drawn {seed} FOLDER`: draw another, do not edit.",
        f'title = "Drawn from seed {seed}: {title}"',
        f'description = "{description}"',
        f'duration = "{duration}"',
    ]


def _case(number: int, name: str, *lines: str) -> list[str]:
    return ["", "[[cases]]", f'name = "{number}: {name}"', *lines]


def _alone_text(seed: int, cells: list[list[Link]]) -> str:
    lines = _head("one connection alone", seed, "One to four unlike paths.", "40s")
    for name in NAMES:
        lines += ["", f"[paths.{name}]", 'rate = "10Mbit"']
    lines += ["", "[[variants]]", f"controller = {json.dumps(ALONE)}"]
    for number, links in enumerate(cells, 1):
        names = NAMES[: len(links)]
        lines += _case(number, " | ".join(map(str, links)), f"connections = [{{ paths = {json.dumps(names)} }}]")
        for name, link in zip(names, links, strict=True):
            lines.append(f'paths.{name} = {{ {link.toml()}, delay = "{link.rtt_ms / 2:g}ms" }}')
    return "\n".join(lines) + "\n"


def _beside_text(seed: int, cells: list[Beside], reference: bool) -> str:
    title = "the reference, one TCP flow in place of the connection" if reference else "beside one to eight TCP flows"
    lines = _head(title, seed, "One bottleneck; the subflows and their competitors share it.", "60s")
    lines += ["", "[links.shared]", 'rate = "10Mbit"']
    for name in NAMES[:MOST_SUBFLOWS]:
        lines += ["", f"[paths.{name}]", 'link = "shared"']
    # In the reference every flow has a controller of its own, and this one is not used.
    lines += ["", "[[variants]]", f'controller = "{RIVALS[0] if reference else "pilot"}"']
    for number, cell in enumerate(cells, 1):
        lines += _case(number, str(cell), f"connections = [{_connections(cell, reference)}]")
        lines.append(f'links.shared = {{ {cell.link.toml()}, delay = "{cell.link.rtt_ms / 2:g}ms" }}')
    return "\n".join(lines) + "\n"


def _connections(cell: Beside, reference: bool) -> str:
    tcp = f'protocol = "tcp", controller = "{cell.rival}", paths = ["one"]'
    own = f"paths = {json.dumps(NAMES[: cell.subflows])}"
    rival = f'{{ name = "rival", {tcp}, client = "other", count = {cell.rivals} }}'
    return f'{{ name = "multipath", {tcp if reference else own} }}, {rival}'


def main() -> None:
    seed, folder = int(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in draw(seed).items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
