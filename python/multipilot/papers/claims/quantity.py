"""Quantities of ``claims.toml`` (docs/reference/claims.md). Every one is a mean with its 95 % interval. Intervals are
combined as of independent means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from multipilot.papers.results import ratio
from multipilot.stats import Mean, difference

Values = Mapping[str, Mean]

MISSING = Mean(math.nan, math.nan, 0, math.nan)
#: The number of runs behind a constant: more than behind any measured value, so that the smaller counts.
CERTAIN = 10**9


class Wrong(ValueError):
    """A claims.toml that cannot be read; the message says where and what was expected."""


def constant(value: float) -> Mean:
    return Mean(float(value), 0.0, CERTAIN, 0.0)


def quantity(given: Any, values: Values) -> Mean:
    """Raises Wrong where there is no such value or operation."""
    if isinstance(given, bool) or not isinstance(given, str | int | float | Mapping):
        raise Wrong(f"{given!r} is no quantity: a name, a number, or a table such as {{ ratio = [a, b] }}")
    if isinstance(given, str):
        if given not in values:
            raise Wrong(f'there is no value "{given}"')
        return values[given]
    if isinstance(given, int | float):
        return constant(given)
    if len(given) != 1:
        raise Wrong(f"{dict(given)} has {len(given)} operations, expected one")
    ((operation, operands),) = given.items()
    if operation not in _OPERATIONS:
        raise Wrong(f'there is no operation "{operation}": one of {", ".join(_OPERATIONS)}')
    means = [quantity(one, values) for one in operands]
    if operation in ("ratio", "minus") and len(means) != 2:
        raise Wrong(f"{operation} takes two quantities, not {len(means)}")
    found: Mean = _OPERATIONS[operation](means)
    return found


def minus(a: Mean, b: Mean) -> Mean:
    """Welch's interval where both are means of runs; else both intervals, added as independent errors."""
    if not math.isnan(a.std) and not math.isnan(b.std):
        return difference(a, b)
    return Mean(a.mean - b.mean, math.hypot(a.half, b.half), min(a.n, b.n), math.nan)


def _sum(means: list[Mean]) -> Mean:
    half = math.sqrt(sum(m.half**2 for m in means))
    return Mean(sum(m.mean for m in means), half, min(m.n for m in means), math.nan)


def _extreme(means: list[Mean], sign: int) -> Mean:
    """Only of means that are all there: the best of those measured need not be the best."""
    return max(means, key=lambda m: sign * m.mean) if all(m.n for m in means) else MISSING


_OPERATIONS: dict[str, Any] = {
    "ratio": lambda means: ratio(*means),
    "minus": lambda means: minus(*means),
    "sum": _sum,
    "best": lambda means: _extreme(means, 1),
    "least": lambda means: _extreme(means, -1),
}
