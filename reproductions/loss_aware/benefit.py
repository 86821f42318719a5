"""The benefit of aggregation, cell by cell, and what can be said for sure of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from multipilot.papers.results import Cell, Results, Row
from multipilot.stats import Mean, mean_of
from reproductions.loss_aware.plan import known

#: A benefit below this is harm, for noise alone makes some hundredths.
HARM = -0.02
#: MPTCP's own header, as a share of each packet's payload: what using nothing but the better path costs.
HEADER = 0.019
#: Harm that the header alone does not explain.
BEYOND = HARM - HEADER
#: An interval wider than this each way says nothing, and counts as a miss.
WIDEST = 0.05


def aggregation_benefit(goodput: float, singles: Sequence[float]) -> float:
    """Ben = (G − C_max)/(ΣC − C_max) where G ≥ C_max, else (G − C_max)/C_max (Kaspar 2011; the paper's section 3.3).

    The column ``ben`` of a record has it with the median of each C_i; this is for the paper's maximum of ten runs.
    """
    best = max(singles)
    gain = goodput - best
    if gain >= 0:
        rest = sum(singles) - best
        return gain / rest if rest else 0.0
    return gain / best


@dataclass(frozen=True)
class Benefit:
    """One cell, controller and path manager. ``mean`` is of the benefit over seeds."""

    world: str
    scenario: str
    cell: Cell
    controller: str
    manager: str
    mean: Mean
    goodput: Mean
    #: Plain TCP alone on each path, Mbit/s, by seed.
    singles: Mapping[str, Sequence[float]]
    #: An earlier transfer had gone over these paths.
    known: bool = False
    #: The benefit of each seed.
    each: Sequence[float] = ()

    @property
    def with_maximum(self) -> float:
        """As the paper takes it: against the fastest single-path run of all seeds."""
        return aggregation_benefit(self.goodput.mean, [max(values) for values in self.singles.values()])

    @property
    def best_single(self) -> float:
        return max(median(values) for values in self.singles.values())

    @property
    def harms(self) -> bool:
        """The whole interval lies below :data:`HARM`. One run alone has no interval, and decides nothing."""
        return self.mean.high < HARM

    @property
    def harms_beyond(self) -> bool:
        """The whole interval lies below :data:`BEYOND`."""
        return self.mean.high < BEYOND

    @property
    def undecided(self) -> bool:
        return math.isnan(self.mean.half) or self.mean.half > WIDEST

    @property
    def may_harm(self) -> bool:
        """Undecided, and the interval, if there is one, reaches below :data:`HARM`."""
        low = self.mean.mean if math.isnan(self.mean.half) else self.mean.low
        return self.undecided and not self.harms and low < HARM

    def at(self, key: str) -> str | None:
        return dict(self.cell).get(key)


def benefits(results: Results, world: str, scenario: str) -> list[Benefit]:
    """Every variant of every cell that has a benefit, and those cells once their paths are known."""
    first = results.cells(world, scenario)
    return [
        benefit
        for later, cells in ((False, first), (True, results.cells(world, known(scenario))))
        for cell, variants in cells.items()
        for rows in variants.values()
        if (benefit := _benefit(world, scenario, cell, rows, first.get(cell, {}), later))
    ]


def _benefit(
    world: str, scenario: str, cell: Cell, rows: list[Row], first: Mapping[str, list[Row]], later: bool
) -> Benefit | None:
    """``later``: against the single paths of ``first``, the same cell without an earlier transfer."""
    controller = str(rows[0]["controller"])
    singles = _singles(first, controller)
    goodputs = [float(row["goodput_mbps"]) for row in rows]
    if later:
        medians = [median(values) for values in singles.values()]
        each = [aggregation_benefit(goodput, medians) for goodput in goodputs] if medians else []
    else:
        each = [float(row["ben"]) for row in rows if row.get("ben") is not None]
    if not each:
        return None
    manager = str(rows[0]["path_manager"])
    return Benefit(world, scenario, cell, controller, manager, mean_of(each), mean_of(goodputs), singles, later, each)


def _singles(variants: Mapping[str, list[Row]], controller: str) -> dict[str, list[float]]:
    alone = f"{controller} on "
    return {
        name.removeprefix(alone): [float(row["goodput_mbps"]) for row in rows]
        for name, rows in variants.items()
        if name.startswith(alone)
    }


def over_seeds(cells: Sequence[Benefit], summary: Callable[[Sequence[float]], float] = fmean) -> Mean:
    """Of the benefits of these cells, one value a seed."""
    seeds = min((len(b.each) for b in cells), default=0)
    return mean_of(summary([b.each[k] for b in cells]) for k in range(seeds))


@dataclass(frozen=True)
class Verdict:
    """A set of cells under one controller and path manager."""

    cells: int
    harmed: int
    #: Of the harmed ones, those beyond what MPTCP's own header costs.
    beyond: int
    undecided: int
    #: Of the undecided ones, those whose interval reaches below :data:`HARM`.
    open: int
    mean: float
    lowest: float

    @property
    def missed(self) -> int:
        return self.harmed + self.undecided


def verdict(chosen: Iterable[Benefit]) -> Verdict | None:
    cells = list(chosen)
    if not cells:
        return None
    values = [b.mean.mean for b in cells]
    return Verdict(
        cells=len(cells),
        harmed=sum(b.harms for b in cells),
        beyond=sum(b.harms_beyond for b in cells),
        undecided=sum(b.undecided and not b.harms for b in cells),
        open=sum(b.may_harm for b in cells),
        mean=fmean(values),
        lowest=min(values),
    )


def of(found: Iterable[Benefit], controller: str, manager: str, later: bool = False) -> list[Benefit]:
    return [b for b in found if (b.controller, b.manager, b.known) == (controller, manager, later)]
