"""What a paper's simulations cost: how many are to do, how far they are, how long the rest takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from time import monotonic
from typing import Any

from multipilot import console, simulation, toml

_DONE = re.compile(r"\[(\d+)/(\d+)\] ")
_KEPT = re.compile(r"resuming: (\d+) of ")
#: Seconds between two lines where there is no bar; the first comes as soon as something can be said.
FIRST_WORD, LATER_WORDS = 10.0, 60.0


@dataclass(frozen=True)
class Cost:
    """``seconds`` are simulated ones: what a run takes grows with them."""

    runs: int
    seconds: float


def of_comparison(file: Path, settings: Mapping[str, str], seeds: int, ben: bool) -> Cost:
    """Runs of a scenario's whole grid. Raises ScenarioError as ``compare`` would.

    Yardsticks of ``ben`` are taken as one for each controller and path; what runs share beyond that is not looked into,
    for this only tells how long to wait.
    """
    scenario = toml.loads(simulation.expanded(file, settings))
    cells = prod(_axes(scenario.get("grid", {}))) * max(1, len(scenario.get("cases", [])))
    variants = scenario.get("variants", [{}])
    count = sum(prod(_axes(variant)) for variant in variants)
    if ben:
        count += len({name for variant in variants for name in _names(variant.get("controller"))}) * len(
            scenario["paths"]
        )
    runs = cells * count * seeds
    return Cost(runs, runs * console.seconds(scenario["duration"]))


def _axes(grid: Any) -> list[int]:
    if isinstance(grid, Mapping):
        return [length for value in grid.values() for length in _axes(value)]
    return [len(grid) if isinstance(grid, list) else 1]


def _names(controller: Any) -> list[Any]:
    return controller if isinstance(controller, list) else [controller]


@dataclass
class Meter:
    """How far the simulator is: a bar on a terminal, a line a minute elsewhere."""

    progress: console.Progress
    total: float
    clock: Callable[[], float] = monotonic
    #: Simulated seconds of the experiments that have ended, and of the one under way.
    ended: float = 0.0
    under_way: float = 0.0
    kept: int = 0
    begun: float = field(init=False)
    spoke: float = field(init=False)

    def __post_init__(self) -> None:
        self.task = self.progress.add_task("simulator", total=self.total)
        self.begun = self.clock()
        self.spoke = self.begun - LATER_WORDS + FIRST_WORD

    def begin(self, name: str, cost: Cost) -> None:
        self.ended += self.under_way
        self.under_way, self.kept = cost.seconds, 0
        self.progress.update(self.task, description=f"simulator  {name}", completed=self.ended)

    def heard(self, line: str) -> None:
        """A line of ``compare``: what it takes over from an earlier call, or how many of the rest are done."""
        if found := _KEPT.match(line):
            self.kept = int(found[1])
        elif found := _DONE.match(line):
            done, of = int(found[1]), int(found[2])
            self._tell(self.ended + self.under_way * (self.kept + done) / (self.kept + of))

    def end(self) -> None:
        self.progress.update(self.task, completed=self.total)

    def _tell(self, completed: float) -> None:
        self.progress.update(self.task, completed=completed)
        now = self.clock()
        if self.progress.disable and now >= self.spoke + LATER_WORDS and 0 < completed < self.total:
            self.spoke = now
            rest = (now - self.begun) * (self.total - completed) / completed
            console.say(f"simulator: {100 * completed / self.total:.0f} %, about {spell(rest)} to go")


def spell(seconds: float) -> str:
    """As people say it: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
