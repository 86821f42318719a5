"""Predicates of ``claims.toml`` (docs/reference/claims.md). Each becomes checks: an effect that must lie between two
bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

from multipilot.papers.claims.quantity import Values, Wrong, minus, quantity
from multipilot.papers.results import ratio
from multipilot.stats import Mean, widening


class Verdict(str, Enum):
    HOLDS = "holds"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    UNTESTABLE = "not testable"


@dataclass(frozen=True)
class Check:
    effect: Mean
    low: float = -math.inf
    high: float = math.inf

    @property
    def verdict(self) -> Verdict:
        return self.among(1)

    def among(self, parts: int) -> Verdict:
        """As one of so many parts of a claim. All together hold no less surely than each alone. That one misses is
        likelier by chance, so that its interval is widened (Bonferroni).
        """
        effect = self.effect
        if effect.n < 2 or math.isnan(effect.half):
            return Verdict.UNDECIDED
        if self.low < effect.low and effect.high < self.high:
            return Verdict.HOLDS
        half = effect.half * widening(effect.n, parts)
        if effect.mean + half < self.low or self.high < effect.mean - half:
            return Verdict.CONTRADICTED
        return Verdict.UNDECIDED

    @property
    def room(self) -> float:
        """From the mean to the nearer bound; negative outside."""
        return min(self.effect.mean - self.low, self.high - self.effect.mean)

    @property
    def wanted(self) -> str:
        # A margin of none is negative zero.
        low, high = self.low + 0.0, self.high + 0.0
        if math.isinf(high):
            return f"> {low:.3g}"
        return f"< {high:.3g}" if math.isinf(low) else f"{low:.3g} to {high:.3g}"


_BOUNDS = frozenset({"of", "tolerance", "low", "high", "at_least", "at_most"})
_KEYS: Mapping[str, frozenset[str]] = {
    "within": _BOUNDS,
    "ratio": _BOUNDS,
    "compare": frozenset({"margin"}),
    "order": frozenset(),
    "monotone": frozenset({"direction"}),
    "alike": frozenset({"tolerance"}),
    "all": frozenset(),
    "none": frozenset(),
}


def kind_of(test: Mapping[str, Any]) -> str:
    """The one predicate of a test. Raises Wrong where it has none, several, or keys that mean nothing to it."""
    kinds = [key for key in test if key in _KEYS]
    if len(kinds) != 1:
        raise Wrong(f"test {dict(test)}: expected one of {', '.join(_KEYS)}")
    strange = set(test) - {kinds[0]} - _KEYS[kinds[0]]
    if strange:
        raise Wrong(f"test {kinds[0]}: {', '.join(sorted(strange))} is no key of it")
    return kinds[0]


def checks(test: Mapping[str, Any], values: Values) -> list[Check]:
    """None for a test that cannot be done. Raises Wrong."""
    kind = kind_of(test)
    given = test[kind]
    if kind == "none":
        return []
    if kind == "all":
        return [check for one in given for check in checks(one, values)]
    if kind == "within":
        return [Check(quantity(given, values), *_bounds(test))]
    if kind == "ratio":
        return [Check(quantity({"ratio": given}, values), *_bounds(test))]
    if kind == "compare":
        return [_compare(given, float(test.get("margin", 0.0)), values)]
    if kind == "monotone":
        return _monotone(given, test.get("direction"), values)
    means = [quantity(one, values) for one in given]
    if len(means) < 2:
        raise Wrong(f"{kind} takes two quantities or more")
    if kind == "order":
        return [Check(minus(a, b), 0.0) for a, b in pairwise(means)]
    tolerance = _positive(test, "tolerance")
    return [Check(ratio(one, means[0]), 1 - tolerance, 1 + tolerance) for one in means[1:]]


def _compare(given: Any, margin: float, values: Values) -> Check:
    try:
        left, sign, right = given
    except (TypeError, ValueError):
        raise Wrong('compare takes [a, ">", b]') from None
    if sign not in ("<", ">"):
        raise Wrong(f'compare: "{sign}" is neither ">" nor "<"')
    a, b = quantity(left, values), quantity(right, values)
    return Check(minus(a, b), low=margin) if sign == ">" else Check(minus(a, b), high=-margin)


def _monotone(prefix: Any, direction: Any, values: Values) -> list[Check]:
    series = [mean for name, mean in values.items() if name.startswith(f"{prefix}.")]
    if len(series) < 2:
        raise Wrong(f'monotone: there are no two values "{prefix}.…"')
    if direction not in ("rising", "falling"):
        raise Wrong('monotone: direction is "rising" or "falling"')
    pairs = pairwise(series)
    return [Check(minus(b, a), 0.0) if direction == "rising" else Check(minus(b, a), high=0.0) for a, b in pairs]


def _bounds(test: Mapping[str, Any]) -> tuple[float, float]:
    if "of" in test:
        centre, tolerance = float(test["of"]), _positive(test, "tolerance")
        return centre - tolerance * abs(centre), centre + tolerance * abs(centre)
    low = float(test.get("at_least", test.get("low", -math.inf)))
    high = float(test.get("at_most", test.get("high", math.inf)))
    if math.isinf(low) and math.isinf(high):
        raise Wrong(f"test {dict(test)}: expected of and tolerance, at_least, at_most, or low and high")
    return low, high


def _positive(test: Mapping[str, Any], key: str) -> float:
    value = test.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise Wrong(f"test {dict(test)}: {key} is to be a number above 0")
    return float(value)


def combined(found: list[Check]) -> tuple[Verdict, Check | None]:
    """The verdict over all checks, and the check that decides: the one farthest out, or the one with the least room."""
    if not found:
        return Verdict.UNTESTABLE, None
    for verdict in (Verdict.CONTRADICTED, Verdict.UNDECIDED, Verdict.HOLDS):
        such = [check for check in found if check.among(len(found)) is verdict]
        if such:
            return verdict, min(such, key=lambda check: -math.inf if math.isnan(check.room) else check.room)
    raise AssertionError("a check has one of three verdicts")
