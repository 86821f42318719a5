"""Means with their 95 % intervals: runs with different seeds are independent draws, so Student's t applies."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Mean:
    """A mean of ``n`` values; ``half`` is half its 95 % interval, NaN where one value alone says nothing of it."""

    mean: float
    half: float
    n: int
    std: float

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    @property
    def relative_half(self) -> float:
        """Half the interval as a share of the mean."""
        return self.half / abs(self.mean) if self.mean else math.nan


def mean_of(values: Iterable[float]) -> Mean:
    """Mean and Student's 95 % interval."""
    data = np.asarray([v for v in values if v is not None and not math.isnan(v)], dtype=float)
    n = len(data)
    if n == 0:
        return Mean(math.nan, math.nan, 0, math.nan)
    if n == 1:
        return Mean(float(data[0]), math.nan, 1, math.nan)
    std = float(data.std(ddof=1))
    return Mean(float(data.mean()), _quantile(n - 1) * std / math.sqrt(n), n, std)


@cache
def _quantile(freedom: int, parts: int = 1) -> float:
    """Of Student's t. Asked for thousands of times, and never with many different answers."""
    return float(stats.t.ppf(1 - (1 - CONFIDENCE) / 2 / parts, freedom))


def widening(n: int, parts: int) -> float:
    """How many times as wide the interval of ``n`` values is if the error is to be that of ``parts`` intervals together
    (Bonferroni)."""
    return _quantile(n - 1, parts) / _quantile(n - 1)


def difference(a: Mean, b: Mean) -> Mean:
    """a − b with Welch's 95 % interval (unequal variances; Welch 1947). ``n`` is the smaller of the two."""
    n = min(a.n, b.n)
    if n < 2:
        return Mean(a.mean - b.mean, math.nan, n, math.nan)
    va, vb = a.std**2 / a.n, b.std**2 / b.n
    if va + vb == 0:
        return Mean(a.mean - b.mean, 0.0, n, 0.0)
    share = va / (va + vb)
    freedom = 1 / (share**2 / (a.n - 1) + (1 - share) ** 2 / (b.n - 1))
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)) * math.sqrt(va + vb)
    return Mean(a.mean - b.mean, half, n, math.sqrt(va + vb))
