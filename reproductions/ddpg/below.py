"""Where DDPG-MPCC carries less than MPCC: cell by cell, over all figures and sweeps with one connection under test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from multipilot.papers.claims.quantity import MISSING
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import WORLDS, Results
from multipilot.stats import Mean, difference, widening
from reproductions.ddpg import plan, tolerance
from reproductions.ddpg.topologies import LOSSES, QUEUES, SECOND_RATES

SWEPT = (
    (plan.BUFFERS, plan.QUEUE_KEY, QUEUES, "figure 4, buffers of {} packets"),
    (plan.LOSS, plan.LOSS_KEY, LOSSES, "figure 5, {} % loss"),
    (plan.RATES, plan.RATE_KEY, SECOND_RATES, "paths of 100 and {} Mbit/s"),
    (plan.ALONE, plan.LOSS_KEY, tolerance.LOSSES, "alone, {} % loss"),
)
SCENARIOS = tuple(scenario for scenario, *_ in SWEPT)


@dataclass(frozen=True)
class Cell:
    where: str
    learned: Mean
    plain: Mean

    @property
    def measured(self) -> bool:
        return min(self.learned.n, self.plain.n) > 1


def cells(results: Results, world: str) -> list[Cell]:
    return [
        Cell(
            words.format(f"{shown:g}"),
            *(results.mean(world, scenario, c, "goodput_mbps", {key: value}) for c in ("ddpg-mpcc", "mpcc")),
        )
        for scenario, key, axis, words in SWEPT
        for value, shown in axis
    ]


def _differences(found: Sequence[Cell]) -> list[Mean]:
    """DDPG-MPCC less MPCC. Of many cells one misses by chance, so that intervals are widened for their number."""
    each = [difference(cell.learned, cell.plain) for cell in found]
    return [Mean(one.mean, one.half * widening(one.n, len(each)), one.n, one.std) for one in each]


def count(results: Results, world: str) -> Mean:
    """Cells in which it carries significantly less. Over some of them the count would say nothing."""
    every = cells(results, world)
    if not all(cell.measured for cell in every):
        return MISSING
    less, runs = sum(one.high < 0 for one in _differences(every)), min(min(c.learned.n, c.plain.n) for c in every)
    return Mean(float(less), 0.0, runs, math.nan)


def show(results: Results) -> Section:
    body = []
    for world, name in WORLDS.items():
        found = [cell for cell in cells(results, world) if cell.measured]
        for cell, one in zip(found, _differences(found), strict=True):
            word, style = ("less", "no") if one.high < 0 else ("more", "yes") if one.low > 0 else ("open", "muted")
            means = (number(mean, 1) for mean in (cell.learned, cell.plain, one))
            body.append([name, cell.where, *means, f'<span class="{style}">{word}</span>'])
    head = ["", "cell", "DDPG-MPCC,<br>Mbit/s", "MPCC,<br>Mbit/s", "difference", ""]
    return Section(
        "DDPG-MPCC against MPCC in every cell",
        [
            "Goodput of the connection under test. DDPG-MPCC has less or more where the whole interval of the "
            "difference lies below or above 0.",
        ],
        [table(head, body, names=2)],
        ["The difference has Welch's 95 % interval, widened for the number of cells (Bonferroni)."],
    )
