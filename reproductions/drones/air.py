"""What ``multipilot radio`` says of a scenario: rates, energy and training without any transport."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import cache
from typing import Any

from multipilot import console
from multipilot.console import RunFailed
from multipilot.papers.runs import find_scenarios


@dataclass(frozen=True)
class Cell:
    values: dict[str, str]
    document: dict[str, Any]

    @property
    def gbps(self) -> float:
        """All links together."""
        return sum(float(link["mean_mbps"]) for link in self.document["links"]) / 1e3

    @property
    def bits_per_joule(self) -> float:
        aps = self.document["aps"]
        joules = sum(float(ap["joules"]) for ap in aps)
        return sum(float(ap["bits"]) for ap in aps) / joules if joules else 0.0

    @property
    def training_ms(self) -> float:
        return sum(float(ap["training_ms"]) for ap in self.document["aps"])


@cache
def cells(scenario: str, *settings: str) -> tuple[Cell, ...]:
    """Each cell of the scenario's grid, the same on every call."""
    file = find_scenarios("drones") / f"{scenario}.toml"
    call = [console.command(), "radio", str(file), "--json"]
    for setting in settings:
        call += ["--set", setting]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunFailed(done.stderr.strip().removeprefix("multipilot: "))
    found = json.loads(done.stdout)["cells"]
    return tuple(Cell({key: str(value) for key, value in cell["cell"]}, cell) for cell in found)
