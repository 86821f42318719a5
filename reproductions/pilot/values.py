"""Values by name, for ``--json``.

alone.SCENARIO.CELL            pilot's goodput over that of the best other controller
share.CONTROLLER.SCENARIO.CELL its rate over that of one TCP flow in its place; keeps.…: the competitors' rate
                               beside it over theirs beside that flow
queue.CONTROLLER.CELL.PATH     ms of queueing delay
without.MECHANISM.LOOK         mean ratio to all of pilot, over the cells
"""

from __future__ import annotations

import math

from multipilot.papers.claims.quantity import Values
from multipilot.papers.results import KERNEL, SIM, Results
from multipilot.stats import Mean
from reproductions.pilot import ablation, delay
from reproductions.pilot.cells import alone, alone_at, beside, drawn_beside, words
from reproductions.pilot.plan import ABLATION, DRAWN, ON_KERNEL, PILOT


def values(results: Results, world: str) -> Values:
    if world not in (SIM, KERNEL):
        return {}
    cells = [*alone(results, world), *alone_at(results, world, DRAWN)]
    found = {f"alone.{c.scenario}.{words(c.cell)}": c.ratio for c in cells}
    others = [c for ours in (ON_KERNEL if world == KERNEL else (PILOT,)) for c in beside(results, world, ours)]
    for one in [*others, *(drawn_beside(results) if world == SIM else [])]:
        where = f"{one.ours}.{one.scenario}.{words(one.cell)}"
        found |= {f"share.{where}": one.share, f"keeps.{where}": one.keeps}
    if world == SIM:
        for waiting in delay.waiting(results):
            for path, mean in waiting.delay_ms.items():
                found[f"queue.{waiting.controller}.{words(waiting.cell)}.{path}"] = mean
        for effect in ablation.effects(results):
            found[f"without.{ABLATION[effect.bit]}.{effect.look}"] = Mean(effect.mean, math.nan, effect.cells, math.nan)
    return found
