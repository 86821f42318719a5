"""Rows of many comparisons, found by scenario, cell and variant."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multipilot.stats import Mean, mean_of

if TYPE_CHECKING:
    from multipilot.papers.provenance import Provenance

Row = dict[str, Any]
Cell = tuple[tuple[str, str], ...]
Measure = str | Callable[[Row], float | None]

SIM, KERNEL = "sim", "kernel"
WORLDS = {SIM: "simulator", KERNEL: "Linux kernel"}
#: In place of a scenario: what a paper measures by itself.
OWN = "own"


ALONE = re.compile(r"\[tcp on (.+?)\]")


def variant_of(row: Row) -> str:
    """``tcp`` for one subflow of Reno, ``CONTROLLER on PATH`` for the plain TCP that a benefit is measured by,
    ``CONTROLLER PATH_MANAGER`` for a path manager that chooses, else the controller.
    """
    alone = ALONE.search(row["variant"])
    if alone:
        return f"{row['controller']} on {alone[1]}"
    if row["path_manager"] == "single" and row["controller"] == "reno":
        return "tcp"
    plain = row["path_manager"] in ("fullmesh", "single")
    return str(row["controller"]) if plain else f"{row['controller']} {row['path_manager']}"


@dataclass
class Results:
    """What was measured so far. ``folders`` maps (world, scenario) to the records that hold transfers and samples."""

    rows: list[Row] = field(default_factory=list)
    folders: dict[tuple[str, str], list[Path]] = field(default_factory=dict)
    #: What a paper measured by itself (:attr:`multipilot.papers.paper.Paper.measure`).
    own: object = None
    #: Where the rows come from, by world and scenario; what a paper measured by itself is under :data:`OWN`.
    provenance: dict[tuple[str, str], list[Provenance]] = field(default_factory=dict)
    #: The same rows with their variants, by world and scenario: pages look for them hundreds of times.
    _sets: dict[tuple[str, str], list[tuple[str, Row]]] = field(default_factory=dict)

    def add(
        self,
        world: str,
        scenario: str,
        document: Mapping[str, Any],
        folder: Path | None = None,
        provenance: Provenance | None = None,
    ) -> None:
        rows = [
            {**row, "world": world, "scenario": scenario, "index": index, "folder": folder}
            for index, row in enumerate(document["rows"])
        ]
        self.rows += rows
        self._sets.setdefault((world, scenario), []).extend((variant_of(row), row) for row in rows)
        if folder is not None:
            self.folders.setdefault((world, scenario), []).append(folder)
        if provenance is not None:
            self.provenance.setdefault((world, scenario), []).append(provenance)

    def origins(self, world: str, scenarios: Iterable[str] | None = None) -> list[Provenance]:
        """Of the rows of some scenarios, or of all."""
        wanted = None if scenarios is None else set(scenarios)
        return [
            one
            for (w, scenario), found in self.provenance.items()
            if w == world and (wanted is None or scenario in wanted)
            for one in found
        ]

    def find(self, world: str, scenario: str, variant: str, cell: Mapping[str, str] | None = None) -> list[Row]:
        """Rows of one variant; of the grid's axes, those in ``cell`` must match."""
        wanted = (cell or {}).items()
        return [
            row
            for name, row in self._sets.get((world, scenario), ())
            if name == variant and all(_axis(row, key) == value for key, value in wanted)
        ]

    def cells(self, world: str, scenario: str) -> dict[Cell, dict[str, list[Row]]]:
        """Rows of a whole grid by cell (its axes in order) and variant, in one pass."""
        found: dict[Cell, dict[str, list[Row]]] = {}
        for variant, row in self._sets.get((world, scenario), ()):
            cell = tuple((key, str(value)) for key, value in row.get("cell", {}).items())
            found.setdefault(cell, {}).setdefault(variant, []).append(row)
        return found

    def mean(
        self, world: str, scenario: str, variant: str, measure: Measure, cell: Mapping[str, str] | None = None
    ) -> Mean:
        """Mean over seeds of a column, or of a function of the row."""
        read = (lambda row: row.get(measure)) if isinstance(measure, str) else measure
        values = (read(row) for row in self.find(world, scenario, variant, cell))
        return mean_of(float(value) for value in values if value is not None)

    def has(self, world: str, scenario: str | None = None) -> bool:
        return any(w == world and scenario in (None, s) for w, s in self._sets)

    def seeds(self, world: str) -> int:
        return len({row["seed"] for row in self.rows if row["world"] == world})


def _axis(row: Row, key: str) -> str | None:
    value = row.get("cell", {}).get(key)
    return None if value is None else str(value)


def measured(means: Iterable[Mean]) -> list[Mean]:
    return [m for m in means if not math.isnan(m.mean)]


def ratio(a: Mean, b: Mean) -> Mean:
    """a/b with its 95 % interval by the delta method (independent means)."""
    if not b.mean or math.isnan(a.mean) or math.isnan(b.mean):
        return Mean(math.nan, math.nan, 0, math.nan)
    value = a.mean / b.mean
    half = abs(value) * math.hypot(a.half / a.mean, b.half / b.mean) if a.mean else math.nan
    return Mean(value, half, min(a.n, b.n), math.nan)
