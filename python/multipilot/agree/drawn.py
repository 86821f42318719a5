"""Cells drawn at random from a seed: nobody chose them, and each release has others.

Of one to four unlike paths; the controllers come in turn, shuffled. A few cells are of another kind than one download
without end: downloads that arrive at random, a path that fails and returns, and a recorded trace where the caller has
any. A cell depends on the seed and its number alone, so a longer grid begins with the shorter one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any

from multipilot.agree.grid import Cell, folder_of
from multipilot.draws import NAMES, Link, Ranges, between, whole
from multipilot.simulation import list_controllers

RANGES = Ranges(rate_mbps=(2.0, 100.0), rtt_ms=(5.0, 300.0), queue=(0.3, 4.0), loss=(0.0005, 0.05))
#: Share of links with random loss.
LOSSY = 0.5
CELLS = 24
DURATION_S = 20

#: Short flows: size in kB, arrivals a second at most, load as a share of all paths' rates, and downloads at least.
SIZE_KB, MOST_ARRIVALS, LOAD, DOWNLOADS = (30.0, 1000.0), 4.0, 0.3, 10


class Kind(Enum):
    LONG = "long"
    SHORT = "short"
    FAILURE = "failure"
    TRACE = "trace"


#: Of a hundred cells; the rest are long ones.
SHARES = {Kind.SHORT: 12, Kind.FAILURE: 12, Kind.TRACE: 12}


@dataclass(frozen=True)
class Trace:
    """A recorded link, of two Mahimahi traces."""

    name: str
    down: Path
    up: Path

    def toml(self, link: Link) -> str:
        """In place of the drawn rate. The files' hash is in the text, so that another recording is another cell."""
        found = hashlib.sha256(self.down.read_bytes() + self.up.read_bytes()).hexdigest()[:8]
        files = f"downlink.trace = {json.dumps(str(self.down))}, uplink.trace = {json.dumps(str(self.up))}"
        return f"{link.toml(files)} # {found}"


@dataclass(frozen=True)
class DrawnCell:
    number: int
    controller: str
    links: tuple[Link, ...]
    kind: Kind = Kind.LONG
    #: Of short flows.
    size_kb: int = 0
    arrivals: float = 0.0
    #: In place of the first link's rate.
    trace: Trace | None = None
    duration_s: int = DURATION_S

    @property
    def name(self) -> str:
        return f"{self.number:02}-{self.controller}-{len(self.links)}p-{self.kind.value}"

    @property
    def folder(self) -> str:
        return folder_of(self.name, self.scenario())

    @property
    def label(self) -> str:
        paths = f"{len(self.links)} path{'s' if len(self.links) > 1 else ''}"
        kind = {
            Kind.LONG: "",
            Kind.SHORT: ", short flows",
            Kind.FAILURE: ", a path fails",
            Kind.TRACE: f", trace {self.trace.name}" if self.trace else "",
        }[self.kind]
        return f"{self.number}: {self.controller}, {paths}{kind}"

    @property
    def detail(self) -> str:
        links = " | ".join(map(str, self.links))
        if self.kind is Kind.SHORT:
            return f"median completion in ms of {self.size_kb} kB, {self.arrivals:g}/s; {links}"
        if self.kind is Kind.FAILURE:
            down, up = self.outage
            return f"path one down from {down:g} to {up:g} s; {links}"
        return links

    @property
    def mbps(self) -> float:
        """Of all paths."""
        return sum(link.rate_mbps for link in self.links)

    @property
    def outage(self) -> tuple[float, float]:
        return 0.4 * self.duration_s, 0.7 * self.duration_s

    def value(self, row: Mapping[str, Any]) -> float | None:
        """Mbit/s, or of short flows ms; None where no download ended."""
        if self.kind is not Kind.SHORT:
            return float(row["goodput_mbps"])
        median = row.get("completion_median_s")
        return None if median is None else 1e3 * float(median)

    def facts(self) -> dict[str, Any]:
        """For the document."""
        return {
            "name": self.name,
            "controller": self.controller,
            "kind": self.kind.value,
            "links": [vars(link) for link in self.links],
            "size_kb": self.size_kb,
            "arrivals_per_s": self.arrivals,
            "trace": self.trace.name if self.trace else None,
            "duration_s": self.duration_s,
        }

    def scenario(self) -> str:
        names = NAMES[: len(self.links)]
        lines = [f'title = "{self.name}"', f'duration = "{self.duration_s}s"', 'sample_interval = "1s"', "", "[paths]"]
        for name, link in zip(names, self.links, strict=True):
            trace = self.trace if name == names[0] else None
            lines.append(f"{name} = {trace.toml(link) if trace else link.toml()}")
        lines += ["", "[[connections]]", 'name = "download"', f"paths = {json.dumps(names)}"]
        if self.kind is Kind.SHORT:
            lines += [f'bytes = "{self.size_kb}kB"', f'arrivals = "{self.arrivals:g}/s"', "count = 16"]
        if self.kind is Kind.FAILURE:
            for at, down in zip(self.outage, ("true", "false"), strict=True):
                lines += ["", "[[events]]", f'at = "{at:g}s"', f'path = "{names[0]}"', f"outage = {down}"]
        return "\n".join([*lines, "", "[[variants]]", f'controller = "{self.controller}"', ""])


AnyCell = Cell | DrawnCell


def controllers() -> list[str]:
    return [str(entry["name"]) for entry in list_controllers()]


def draw(seed: str, count: int = CELLS, traces: Sequence[Trace] = ()) -> list[DrawnCell]:
    turn = controllers()
    Random(f"agree {seed}").shuffle(turn)
    return [_cell(Random(f"agree {seed} {n}"), n, turn[(n - 1) % len(turn)], traces) for n in range(1, count + 1)]


def _cell(draws: Random, number: int, controller: str, traces: Sequence[Trace]) -> DrawnCell:
    # All is drawn whether used or not: the kind changes nothing else.
    links = tuple(RANGES.link(draws, LOSSY) for _ in range(whole(draws, 1, len(NAMES))))
    kind, size, trace = _kind(whole(draws, 1, 100)), between(draws, SIZE_KB), draws.random()
    if (kind is Kind.FAILURE and len(links) == 1) or (kind is Kind.TRACE and not traces):
        kind = Kind.LONG
    if kind is Kind.SHORT:
        mbps = LOAD * sum(link.rate_mbps for link in links)
        kb = max(1, round(min(size, mbps * DURATION_S / DOWNLOADS / 8e-3)))
        return DrawnCell(number, controller, links, kind, kb, float(f"{min(MOST_ARRIVALS, mbps / (8e-3 * kb)):.2g}"))
    chosen = traces[int(len(traces) * trace)] if kind is Kind.TRACE else None
    return DrawnCell(number, controller, links, kind, trace=chosen)


def _kind(percent: int) -> Kind:
    for kind, share in SHARES.items():
        if percent <= share:
            return kind
        percent -= share
    return Kind.LONG
