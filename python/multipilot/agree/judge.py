"""When the two worlds agree.

Each world's goodput of a cell is a mean over independent runs. The difference of the means is given as a share of the
other world's mean, with Welch's 95 % interval. A cell

- is *undecided* where half of that interval is wider than 10 %: too few runs to say anything, so it counts as a miss;
- *agrees* where the difference is within 15 %, or where the interval holds zero;
- is *off* otherwise.

The whole agrees where the median |difference| is at most 5 % and at least 95 % of the cells agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

from scipy import stats

from multipilot.agree.grid import Cell
from multipilot.stats import CONFIDENCE, Mean, difference, mean_of

TOLERANCE = 0.15
WIDEST = 0.10
MEDIAN_AIM = 0.05
SHARE_AIM = 0.95

# What is planned for leaves room for a kernel that varies more than the simulator foretells.
PLANNED_HALF = 0.08
FEWEST_RUNS = 4
MOST_RUNS = 40


class Verdict(Enum):
    AGREES = "agrees"
    OFF = "off"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Judged:
    """One cell in both worlds; rates in Mbit/s."""

    cell: Cell
    sim: Mean
    real: Mean

    @property
    def gap(self) -> Mean:
        """(sim − real) / real"""
        gap = difference(self.sim, self.real)
        scale = self.real.mean or math.nan
        return Mean(gap.mean / scale, gap.half / scale, gap.n, gap.std / scale)

    @property
    def verdict(self) -> Verdict:
        gap = self.gap
        if math.isnan(gap.mean) or math.isnan(gap.half) or gap.half > WIDEST:
            return Verdict.UNDECIDED
        return Verdict.AGREES if abs(gap.mean) <= TOLERANCE or abs(gap.mean) <= gap.half else Verdict.OFF


@dataclass(frozen=True)
class Whole:
    cells: Sequence[Judged]
    # What the simulator is held against: kernel or relay.
    world: str = "kernel"

    @property
    def measured(self) -> list[Judged]:
        return [judged for judged in self.cells if judged.real.n and judged.sim.n]

    @property
    def median_difference(self) -> float:
        gaps = [abs(judged.gap.mean) for judged in self.measured if not math.isnan(judged.gap.mean)]
        return median(gaps) if gaps else math.nan

    @property
    def share(self) -> float:
        """Of all cells, the undecided and the unmeasured included."""
        return self.count(Verdict.AGREES) / len(self.cells) if self.cells else math.nan

    def count(self, verdict: Verdict) -> int:
        return sum(judged.verdict is verdict for judged in self.cells)

    @property
    def agrees(self) -> bool:
        return self.median_difference <= MEDIAN_AIM and self.share >= SHARE_AIM


def judge(cell: Cell, sim: Sequence[float], real: Sequence[float]) -> Judged:
    return Judged(cell, mean_of(sim), mean_of(real))


def runs_needed(variation: float) -> int:
    """Runs until half of a mean's interval is at most ``PLANNED_HALF``, given the variation (σ/mean) of one run.

    At least n ≥ 2 (CV / 0.05)², the runs at which a difference of two such means has a standard error of 5 %.
    """
    count = max(FEWEST_RUNS, math.ceil(2 * (variation / 0.05) ** 2))
    while (
        count < MOST_RUNS and stats.t.ppf(0.5 + CONFIDENCE / 2, count - 1) * variation / math.sqrt(count) > PLANNED_HALF
    ):
        count += 1
    return min(count, MOST_RUNS)
