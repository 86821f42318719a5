"""When a controller is better than another, and when it is fair: arithmetic alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from multipilot.papers.results import Cell
from multipilot.stats import Mean, difference, mean_of

#: Ratios nearer to 1 than this are level even where the difference is significant: users do not notice it.
MARGIN = 0.02
#: A wider interval, each way, cannot tell level from better or worse.
WIDEST = 0.10
BETTER, LEVEL, WORSE, UNDECIDED = "better", "level", "worse", "undecided"
#: Losers first, and what is not known before what is.
ORDER = (WORSE, UNDECIDED, LEVEL, BETTER)

#: A fair share is one TCP flow's, within a fifth; a competing flow keeps what it has beside its own kind.
FAIR_SHARE = (0.8, 1.2)
KEEPS_AT_LEAST = 0.85
#: What goes beyond a share is spare capacity where at most so much of it is missing from the competitors' rate.
FROM_OTHERS = 0.25
FAIR, HARMS, GREEDY, YIELDS, SPARE = "fair", "harms", "takes more", "yields", "takes the spare"
FAIRNESS_ORDER = (HARMS, GREEDY, YIELDS, UNDECIDED, SPARE, FAIR)


def relative(ours: Mean, other: Mean) -> Mean:
    """ours / other; the interval is Welch's of the difference, as a share of the other's mean."""
    n = min(ours.n, other.n)
    if not n or not other.mean > 0:
        return Mean(math.nan, math.nan, 0, math.nan)
    lead = difference(ours, other)
    return Mean(1 + lead.mean / other.mean, lead.half / other.mean, n, math.nan)


def judged(ratio: Mean) -> str:
    """The whole interval decides; one run alone has none, and decides nothing."""
    if math.isnan(ratio.mean) or math.isnan(ratio.half):
        return UNDECIDED
    if ratio.high < 1 - MARGIN:
        return WORSE
    if ratio.low > 1 + MARGIN:
        return BETTER
    return LEVEL if ratio.half <= WIDEST else UNDECIDED


def fairness(share: float, keeps: float, from_others: float) -> str | None:
    """Nothing where a rate was not measured. ``from_others`` counts above the largest fair share alone."""
    if math.isnan(share) or math.isnan(keeps):
        return None
    low, high = FAIR_SHARE
    if keeps < KEEPS_AT_LEAST:
        return HARMS
    if share < low:
        return YIELDS
    if share <= high:
        return FAIR
    return SPARE if from_others <= FROM_OTHERS else GREEDY


@dataclass(frozen=True)
class Alone:
    """One cell: goodput by controller, Mbit/s."""

    world: str
    scenario: str
    cell: Cell
    goodput: Mapping[str, Mean]
    ours: str

    @property
    def best(self) -> str | None:
        """The other controller with the largest mean. It is known only afterwards: the comparison favours it."""
        others = {name: mean.mean for name, mean in self.goodput.items() if name != self.ours and mean.n}
        return max(others, key=lambda name: others[name]) if others else None

    @property
    def ratio(self) -> Mean:
        return self.to(self.best)

    def to(self, other: str | None) -> Mean:
        nothing = mean_of([])
        return relative(self.goodput.get(self.ours, nothing), self.goodput.get(other or "", nothing))

    @property
    def verdict(self) -> str:
        return judged(self.ratio)


@dataclass(frozen=True)
class Beside:
    """One cell at a shared bottleneck, Mbit/s: the connection and its competitors, and what both get in the reference,
    where one TCP flow of the competitors' kind has the connection's place.
    """

    world: str
    scenario: str
    cell: Cell
    ours: str
    own: Mean
    competing: Mean
    own_reference: Mean
    competing_reference: Mean

    @property
    def share(self) -> Mean:
        return relative(self.own, self.own_reference)

    @property
    def keeps(self) -> Mean:
        return relative(self.competing, self.competing_reference)

    @property
    def from_others(self) -> float:
        """Of what it has beyond one flow's share, the part that is missing from the competitors' rate."""
        gain = self.own.mean - self.own_reference.mean
        return (self.competing_reference.mean - self.competing.mean) / gain if gain > 0 else 0.0

    @property
    def verdict(self) -> str | None:
        """The whole intervals decide; one run alone has none."""
        if min(self.share.n, self.keeps.n) == 1:
            return UNDECIDED
        corners = product((self.share.low, self.share.high), (self.keeps.low, self.keeps.high))
        found = {fairness(share, keeps, self.from_others) for share, keeps in corners}
        return found.pop() if len(found) == 1 else UNDECIDED


def losers_first(cells: Iterable[Alone]) -> list[Alone]:
    known = [cell for cell in cells if cell.ratio.n]
    return sorted(known, key=lambda cell: (ORDER.index(cell.verdict), cell.ratio.mean))


def unfair_first(cells: Iterable[Beside]) -> list[Beside]:
    known = [(cell.verdict, cell) for cell in cells]
    ranked = [(FAIRNESS_ORDER.index(v), _distress(v, cell), i) for i, (v, cell) in enumerate(known) if v]
    return [known[i][1] for *_, i in sorted(ranked)]


def _distress(verdict: str, cell: Beside) -> float:
    return cell.share.mean if verdict == YIELDS else cell.keeps.mean


def tally(verdicts: Iterable[str | None]) -> Counter[str]:
    """How many cells have which verdict."""
    return Counter(verdict for verdict in verdicts if verdict is not None)


def counted(found: Counter[str], order: Sequence[str]) -> str:
    """``5 cells: better 3, level 2``, without verdicts that no cell has."""
    counts = ", ".join(f"{name} {found[name]}" for name in order if found[name])
    return f"{found.total()} cell{'' if found.total() == 1 else 's'}: {counts}"
