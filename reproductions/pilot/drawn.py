"""The judging grid: links and competitors drawn from a seed, so that nobody chose them. Rules of pilot were changed
after a look at the cells of :data:`DRAW` (docs/notes/2026-11-23-pilot-unlike-paths.md): a claim on unseen cells needs
another draw.

The files ``drawn-*.toml`` of ``scenarios/pilot`` are what this writes for :data:`DRAW`. Another draw is judged by::

    python -m reproductions.pilot.drawn SEED FOLDER
    multipilot paper pilot --only drawn,drawn-fairness --scenarios FOLDER
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

from multipilot.draws import NAMES, Link, Ranges, whole
from reproductions.pilot.plan import ALONE, DRAWN, DRAWN_BESIDE, DRAWN_REFERENCE

DRAW = 20261122
CELLS, BESIDE_CELLS = 48, 24
RANGES = Ranges(rate_mbps=(2.0, 200.0), rtt_ms=(5.0, 300.0), queue=(0.05, 8.0), loss=(0.0005, 0.05))
#: How many of the cells have any loss or jitter; the links beside others mostly lose only by their queue.
LOSSY, JITTERY, LOSSY_BESIDE = 0.5, 1 / 3, 0.25
RIVALS = ("linux-reno", "cubic")
MOST_RIVALS, MOST_SUBFLOWS = 8, 3


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
    return [[RANGES.link(draws, LOSSY, JITTERY) for _ in range(whole(draws, 1, len(NAMES)))] for _ in range(CELLS)]


def beside(seed: int) -> list[Beside]:
    draws = Random(f"beside {seed}")
    return [
        Beside(
            RANGES.link(draws, LOSSY_BESIDE),
            whole(draws, 1, MOST_SUBFLOWS),
            RIVALS[whole(draws, 0, len(RIVALS) - 1)],
            whole(draws, 1, MOST_RIVALS),
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
        f"# Written by `python -m reproductions.pilot.drawn {seed} FOLDER`: draw another, do not edit.",
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
            lines.append(f"paths.{name} = {link.toml()}")
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
        lines.append(f"links.shared = {cell.link.toml()}")
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
