"""Cells out of results, and words for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from multipilot.papers.results import SIM, Cell, Results, Row, mean_over
from multipilot.stats import Mean, mean_of
from reproductions.pilot import plan
from reproductions.pilot.judge import Alone, Beside

BESIDE_WORDS = {
    plan.RENO: "one Reno",
    plan.CUBIC: "one CUBIC",
    plan.EIGHT: "eight Renos",
    plan.LOSSY: "one Reno, 1 % random loss",
    plan.BBR: "one BBR",
    plan.LATE: "one Reno, which comes 15 s later",
    plan.OLDER: "a pilot that is 15 s older",
}


def words(cell: Cell) -> str:
    """A cell of a grid as people say it."""
    return ", ".join(_axis(key, value) for key, value in cell)


def _axis(key: str, value: str) -> str:
    if key == "case":
        return value
    if key.endswith(".loss"):
        return f"{100 * float(value):g} %" if float(value) else "no loss"
    if key.endswith(".rate"):
        return value.replace("Mbit", " Mbit/s")
    for discipline, name in (("codel", "CoDel"), ("red", "RED")):
        if f'"{discipline}"' in value:
            return name
    return value.replace("bdp", " bdp")


def alone_at(results: Results, world: str, scenario: str, ours: str = plan.PILOT) -> Iterator[Alone]:
    for cell, variants in results.cells(world, scenario).items():
        yield Alone(
            world, scenario, cell, {c: mean_over(variants.get(c, ()), "goodput_mbps") for c in plan.ALONE}, ours
        )


def alone_scenarios(results: Results) -> list[str]:
    """The chosen ones, not the drawn; traces where the user named some."""
    traces = sorted({s for w, s in results.folders if w == SIM and s.startswith(f"{plan.TRACE} ")})
    return [plan.LOSS, plan.LINKS, plan.WALKS, *traces]


def alone(results: Results, world: str) -> list[Alone]:
    return [cell for name in alone_scenarios(results) for cell in alone_at(results, world, name)]


def pair(rows: Iterable[Row]) -> tuple[Mean, Mean]:
    """Of the reference: one flow's rate, and all the competitors' together.

    Where all flows are under test they are alike, and the mean of all is steadier than what one of them happened to
    get; where they are of two ages, rows tell them apart.
    """
    rows = list(rows)
    if any(row.get("competing_mbps") is not None for row in rows):
        return mean_over(rows, "goodput_mbps"), mean_over(rows, "competing_mbps")
    flows = [(float(row["goodput_mbps"]), int(row["transfers"])) for row in rows]
    return mean_of(rate / n for rate, n in flows), mean_of(rate * (n - 1) / n for rate, n in flows)


def beside_at(
    results: Results, world: str, scenario: str, against: str, ours: str = plan.PILOT, label: str | None = None
) -> Iterator[Beside]:
    """``against`` is what results call the reference, ``label`` the runs themselves."""
    references = results.cells(world, against)
    for cell, variants in results.cells(world, label or scenario).items():
        rows = variants.get(ours, [])
        flows = [row for found in references.get(cell, {}).values() for row in found]
        yield Beside(
            world,
            label or scenario,
            cell,
            ours,
            mean_over(rows, "goodput_mbps"),
            mean_over(rows, "competing_mbps"),
            *pair(flows),
        )


def beside(results: Results, world: str, ours: str = plan.PILOT) -> list[Beside]:
    labels = [(name, name) for name in plan.RIVAL] + [(name, plan.three(name)) for name in plan.THREE]
    return [cell for n, label in labels for cell in beside_at(results, world, n, plan.reference(n), ours, label)]


def drawn_beside(results: Results) -> list[Beside]:
    return list(beside_at(results, SIM, plan.DRAWN_BESIDE, plan.DRAWN_REFERENCE))


def place(cell: Beside) -> str:
    """Beside whom, and where."""
    if cell.scenario == plan.DRAWN_BESIDE:
        return words(cell.cell)
    name = next(n for n in plan.RIVAL if cell.scenario in (n, plan.three(n)))
    subflows = "three subflows" if cell.scenario != name else "two subflows"
    return f"{subflows} beside {BESIDE_WORDS[name]}: {words(cell.cell)}"


def title_of(results: Results, scenario: str) -> str:
    """The title in the scenario file that was run: of a drawn one it names the seed."""
    for folder in results.folders.get((SIM, scenario), []):
        document: Mapping[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        return str(document.get("title") or "")
    return ""
