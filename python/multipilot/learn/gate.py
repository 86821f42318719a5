"""The gate of the shipped actor: ddpg-mpcc beside mpcc on the kernel, in cells that training never saw.

    python -m multipilot.learn.gate [--seed S] [--cells 10] [--runs 5] [--duration 12s] [--budget 60m] [--out DIR]

A cell is a download over two paths drawn from the seed, once under each controller. The gate is passed where the actor
carries at least what MPCC does in 80 % of the cells, and less than 90 % of it in none. The same call goes on with what
is missing; runs of other sources than the command's are not counted. Exit code 1: not passed, or runs are missing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from multipilot import console
from multipilot.agree.drawn import AnyCell, DrawnCell
from multipilot.agree.worlds import RealWorld
from multipilot.draws import Link, Ranges
from multipilot.papers.provenance import sources
from multipilot.papers.results import KERNEL, ratio
from multipilot.stats import Mean, mean_of

LEARNED, PLAIN = "ddpg-mpcc", "mpcc"
#: All rates of a run together stay within what the emulator bears.
RANGES = Ranges(rate_mbps=(5.0, 50.0), rtt_ms=(15.0, 100.0), queue=(0.3, 3.0), loss=(0.001, 0.08))
PATHS, LOSSY, JITTERY = 2, 0.7, 0.3
SHARE_AIM, LEAST = 0.8, 0.9


class Verdict(Enum):
    PASSED = "passed"
    FAILED = "failed"
    OPEN = "open"


@dataclass(frozen=True)
class Judged:
    """Goodputs in Mbit/s; a controller without all of its runs leaves the cell open."""

    links: tuple[Link, ...]
    learned: Mean
    plain: Mean
    runs: int

    @property
    def over(self) -> Mean:
        """The actor's goodput over MPCC's."""
        return ratio(self.learned, self.plain)

    @property
    def complete(self) -> bool:
        return self.learned.n >= self.runs and self.plain.n >= self.runs


def verdict(cells: Sequence[Judged]) -> Verdict:
    if not cells or not all(cell.complete for cell in cells):
        return Verdict.OPEN
    at_least = sum(cell.over.mean >= 1 for cell in cells) / len(cells)
    passed = at_least >= SHARE_AIM and all(cell.over.mean >= LEAST for cell in cells)
    return Verdict.PASSED if passed else Verdict.FAILED


def draw(seed: str, count: int, duration_s: int) -> list[dict[str, DrawnCell]]:
    """Cells by controller; a longer list begins with the shorter one."""
    cells = []
    for number in range(1, count + 1):
        draws = Random(f"gate {seed} {number}")
        links = tuple(RANGES.link(draws, LOSSY, JITTERY) for _ in range(PATHS))
        cells.append({c: DrawnCell(number, c, links, duration_s=duration_s) for c in (LEARNED, PLAIN)})
    return cells


def judge(cells: Sequence[dict[str, DrawnCell]], real: RealWorld, runs: int) -> list[Judged]:
    def measured(cell: DrawnCell) -> Mean:
        return mean_of(real.goodputs(cell, runs))

    return [Judged(c[LEARNED].links, measured(c[LEARNED]), measured(c[PLAIN]), runs) for c in cells]


def document(cells: Sequence[Judged], seed: str, real: RealWorld) -> dict[str, Any]:
    def said(mean: Mean) -> list[float] | None:
        return [mean.mean, mean.half] if mean.n > 1 else None

    rows = [
        {"links": [str(link) for link in c.links], "n": min(c.learned.n, c.plain.n)}
        | {"learned_mbps": said(c.learned), "mpcc_mbps": said(c.plain), "ratio": said(c.over)}
        for c in cells
    ]
    found = verdict(cells).value
    return {"schema": 1, "seed": seed, "verdict": found, "cells": rows, "failed": real.failures}


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def main(
    seed: Annotated[str, typer.Option(help="seed of the cells")] = "1",
    cells: Annotated[int, typer.Option(min=1, help="number of cells")] = 10,
    runs: Annotated[int, typer.Option(min=2, help="runs of each controller in each cell")] = 5,
    duration: Annotated[str, typer.Option(help="duration of a run")] = "12s",
    budget: Annotated[str, typer.Option(help="real time for the runs; the next call continues with the rest")] = "60m",
    out: Annotated[Path, typer.Option(help="folder of the runs")] = Path("results/gate"),
    world: Annotated[str, typer.Option(help="kernel, or sim for a rehearsal")] = "kernel",
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document and nothing else")] = False,
) -> None:
    drawn = draw(seed, cells, round(console.seconds(duration)))
    folder = out / f"{world}-{sources(console.command())[KERNEL]}"
    real = RealWorld(folder, console.seconds(budget), world=world)
    wanted: dict[AnyCell, int] = {cell: runs for pair in drawn for cell in pair.values()}
    missing = real.missing(wanted)
    console.say(f"{len(missing)} of {runs * len(wanted)} runs to do, {sum(r.cost_s for r in missing) / 60:.0f} min")
    try:
        real.measure(wanted)
    except console.CannotHere as error:
        console.fail(str(error), console.CANNOT_HERE)
    except KeyboardInterrupt:
        console.say("stopped; the same call goes on from here")
        raise typer.Exit(130) from None
    judged = judge(drawn, real, runs)
    if as_json:
        print(json.dumps(document(judged, seed, real), indent=1))
    else:
        _show(judged)
    for failure in real.failures:
        console.say(f"failed: {failure}")
    if verdict(judged) is not Verdict.PASSED:
        raise typer.Exit(console.RUN_FAILED)


def _show(cells: Sequence[Judged]) -> None:
    print("| paths | ddpg-mpcc | mpcc | ratio | n |\n| --- | ---: | ---: | ---: | ---: |")
    for cell in cells:
        said = " | ".join(map(console.mean, (cell.learned, cell.plain, cell.over)))
        print(f"| {'; '.join(map(str, cell.links))} | {said} | {min(cell.learned.n, cell.plain.n)} |")
    print(f"\n{verdict(cells).value}")


if __name__ == "__main__":
    console.run(app, "learn.gate")
