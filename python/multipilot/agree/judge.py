"""When the two worlds agree.

Each world's goodput of a cell is a mean over independent runs. The difference of the means is given as a share of the
other world's mean, with Welch's 95 % interval. A cell

- is *off* where the whole interval lies beyond 15 %;
- else *undecided* where half of the interval is wider than 10 %: too few runs to say anything, so it counts as a miss;
- *agrees* where the difference is within 15 %, or where the interval holds zero;
- is *off* otherwise.

The whole agrees where the median |difference| is at most 5 % and at least 95 % of the cells agree; a drawn grid where
no cell is off and none is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

from scipy import stats

from multipilot.agree.drawn import AnyCell
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


class Aim(Enum):
    MET = "met"
    MISSED = "missed"
    OPEN = "open"


@dataclass(frozen=True)
class Judged:
    """One cell in both worlds; rates in Mbit/s."""

    cell: AnyCell
    sim: Mean
    real: Mean

    @property
    def gap(self) -> Mean:
        """(sim − real) / real"""
        gap = difference(self.sim, self.real)
        scale = self.real.mean or math.nan
        return Mean(gap.mean / scale, gap.half / scale, gap.n, gap.std / scale)

    @property
    def significant(self) -> bool:
        """Beyond chance: zero lies outside of the interval."""
        return abs(self.gap.mean) > self.gap.half

    @property
    def verdict(self) -> Verdict:
        gap = self.gap
        if math.isnan(gap.mean) or math.isnan(gap.half):
            return Verdict.UNDECIDED
        if abs(gap.mean) - gap.half > TOLERANCE:
            return Verdict.OFF
        if gap.half > WIDEST:
            return Verdict.UNDECIDED
        return Verdict.OFF if abs(gap.mean) > TOLERANCE else Verdict.AGREES


@dataclass(frozen=True)
class Whole:
    cells: Sequence[Judged]
    # What the simulator is held against: kernel or relay.
    world: str = "kernel"
    # Of the drawn grid, which has other aims.
    seed: str | None = None

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
    def share_significant(self) -> float:
        """Of the measured cells: those that differ beyond chance."""
        return sum(j.significant for j in self.measured) / len(self.measured) if self.measured else math.nan

    @property
    def worst(self) -> list[Judged]:
        """The largest differences first, what is not measured last."""
        return sorted(self.cells, key=lambda judged: (math.isnan(judged.gap.mean), -abs(judged.gap.mean)))

    @property
    def median_aim(self) -> Aim:
        if not self.measured or (self.seed is not None and len(self.measured) < len(self.cells)):
            return Aim.OPEN
        return Aim.MET if self.median_difference <= MEDIAN_AIM else Aim.MISSED

    @property
    def cells_aim(self) -> Aim:
        """Of a drawn grid: no cell is off. Of the chosen one: at least 95 % of the cells agree."""
        if self.seed is None:
            return Aim.MET if self.share >= SHARE_AIM else Aim.MISSED
        if self.count(Verdict.OFF):
            return Aim.MISSED
        return Aim.OPEN if not self.cells or self.count(Verdict.UNDECIDED) else Aim.MET

    @property
    def agrees(self) -> bool:
        return self.median_aim is Aim.MET and self.cells_aim is Aim.MET


def judge(cell: AnyCell, sim: Sequence[float], real: Sequence[float]) -> Judged:
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
