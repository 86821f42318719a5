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

SIM, KERNEL, RELAY = "sim", "kernel", "relay"
WORLDS = {SIM: "simulator", KERNEL: "Linux kernel", RELAY: "relay"}
#: Measured in real time, at chosen points.
REAL = (KERNEL, RELAY)
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
        return [row for name, row in self._sets.get((world, scenario), ()) if name == variant and _at(row, cell)]

    def select(self, world: str, scenario: str, cell: Mapping[str, str] | None = None, **columns: str) -> list[Row]:
        """Rows by columns, such as ``scheduler``, that a variant's name leaves out."""
        rows = (row for _, row in self._sets.get((world, scenario), ()) if _at(row, cell))
        return [row for row in rows if all(row[key] == value for key, value in columns.items())]

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
        return mean_over(self.find(world, scenario, variant, cell), measure)

    def column(
        self, world: str, scenario: str, measure: Measure, cell: Mapping[str, str] | None = None
    ) -> Callable[[str], Mean]:
        """The mean of each variant, by its name."""
        return lambda variant: self.mean(world, scenario, variant, measure, cell)

    def has(self, world: str, scenario: str | None = None) -> bool:
        return any(w == world and scenario in (None, s) for w, s in self._sets)


def _at(row: Row, cell: Mapping[str, str] | None) -> bool:
    axes = row.get("cell", {})
    return all(key in axes and str(axes[key]) == value for key, value in (cell or {}).items())


def mean_over(rows: Iterable[Row], measure: Measure) -> Mean:
    """Of a column, or of a function of the row, where it has a value."""
    read = (lambda row: row.get(measure)) if isinstance(measure, str) else measure
    return mean_of(float(value) for row in rows if (value := read(row)) is not None)


def path_mbps(name: str) -> Measure:
    """Mbit/s of payload that one path carried."""
    return lambda row: row["path_mbps"].get(name)


def over_competing(row: Row) -> float | None:
    """Goodput under test over that of the competing flows."""
    theirs = row.get("competing_mbps")
    return float(row["goodput_mbps"]) / float(theirs) if theirs else None


def ratio(a: Mean, b: Mean) -> Mean:
    """a/b with its 95 % interval by the delta method (independent means)."""
    if not b.mean or math.isnan(a.mean) or math.isnan(b.mean):
        return Mean(math.nan, math.nan, 0, math.nan)
    value = a.mean / b.mean
    half = abs(value) * math.hypot(a.half / a.mean, b.half / b.mean) if a.mean else math.nan
    return Mean(value, half, min(a.n, b.n), math.nan)
