"""Claims and what a world says of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from multipilot.papers.claims.claim import Claim, Claims, fill
from multipilot.papers.claims.predicate import Check, Verdict, checks, combined
from multipilot.papers.claims.quantity import CERTAIN, Values, Wrong
from multipilot.papers.results import KERNEL, SIM
from multipilot.stats import Mean


@dataclass(frozen=True)
class Origin:
    """Where a verdict of ``claims.lock`` comes from."""

    commit: str
    date: str
    #: Why it may be of other results than the present sources give; empty where it is of these.
    stale: str = ""


@dataclass(frozen=True)
class Judgement:
    claim: Claim
    world: str
    verdict: Verdict
    #: The check that decides; none for what cannot be tested.
    check: Check | None
    #: The claim's template for this verdict, filled in; empty where there is none or nothing was measured.
    prose: str = ""
    #: How many checks the test has: of several, worlds may be decided by different ones.
    parts: int = 1
    #: Of a verdict that was not measured now.
    earlier: Origin | None = None

    @property
    def effect(self) -> Mean | None:
        return self.check.effect if self.check else None

    @property
    def n(self) -> int:
        """Runs behind the effect, the fewest of its parts."""
        return self.effect.n if self.effect and self.effect.n < CERTAIN else 0

    @property
    def measured(self) -> bool:
        """There is an effect, of runs or counted over them, or none is needed."""
        return bool(self.effect and self.effect.n) or self.verdict is Verdict.UNTESTABLE

    @property
    def stale(self) -> str:
        return self.earlier.stale if self.earlier else ""

    @property
    def why(self) -> str:
        """Why there is no decision."""
        if self.verdict is Verdict.UNTESTABLE:
            return self.claim.excuse
        # Of an earlier verdict the part that decided is not known.
        if self.verdict is not Verdict.UNDECIDED or (self.earlier and self.parts > 1):
            return ""
        if not self.measured:
            return "not measured"
        if self.n < 2:
            return "one run"
        if self.check and self.check.verdict is Verdict.CONTRADICTED:
            return f"one of {self.parts} parts misses, as chance may have it"
        return "the interval reaches across the bound"


def judge(claims: Claims, values: Values, world: str) -> list[Judgement]:
    """All claims that this world can test, in their order."""
    known = claims.values(values, world)
    return [_one(claim, known, world) for claim in claims.all if world in claim.worlds]


def _one(claim: Claim, values: Values, world: str) -> Judgement:
    try:
        found = checks(claim.test, values)
        verdict, check = combined(found)
        prose = ""
        if text := claim.template(verdict):
            effect = {"effect": check.effect} if check else {}
            if check is None or check.effect.n > 0:
                prose = fill(text, {**values, **effect}) or ""
        return Judgement(claim, world, verdict, check, prose, len(found))
    except Wrong as error:
        raise Wrong(f"claim {claim.id}: {error}") from None


def _effects(judged: Sequence[Judgement], real: str) -> dict[str, tuple[Mean, Mean]]:
    """In the simulator and in a real world, of claims with one effect that has an interval in both and is not stale."""
    sure = [j for j in judged if j.parts == 1 and not j.stale]
    sim, other = (
        {j.claim.id: j.effect for j in sure if j.world == world and j.effect and j.n >= 2} for world in (SIM, real)
    )
    return {name: (sim[name], other[name]) for name in sim if name in other}


def compared(judged: Sequence[Judgement], real: str = KERNEL) -> set[str]:
    """Claims of which the simulator and a real world can be told apart."""
    return {*_effects(judged, real)}


def differ(judged: Sequence[Judgement], real: str = KERNEL) -> set[str]:
    """Those whose effect differs significantly between the two."""
    effects = _effects(judged, real)
    return {name for name, (a, b) in effects.items() if abs(a.mean - b.mean) > math.hypot(a.half, b.half)}
