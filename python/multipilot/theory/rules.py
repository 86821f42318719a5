"""What each congestion controller adds per acknowledged packet and takes per loss, as the mean of its window sees it.

These are the equations of the controllers, in floating point, for the fluid model alone; what runs in the simulator and
in the kernel is the integer code in ``controllers/``.

Between two evenly spaced losses a Reno window climbs from 2w/3 to 4w/3 around its mean w, so the halving takes
(4w/3)/2 = 2w/3: with D = 2w/3 the fixed point is the closed form w = sqrt(3/(2l)), and for LD-MPSP
l = (8/3)·((τ*−q)/τ*)/w_max².

wVegas is left out: it changes its window by one packet once a round trip and by a factor at rare moments, which no mean
of the window follows.

Units: windows in packets, times in seconds. Sources: RFC 5681 (Reno); RFC 6356 (LIA); Khalili et al., IEEE/ACM ToN
21(5), 2013 (OLIA); Peng et al., IEEE/ACM ToN 24(1), 2016 (BALIA); paper *rsf* eqs 1, 2 (RSF); paper *drones* algorithm
3 (LD-MPSP).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .game import Array

#: Peak of the sawtooth over its mean.
PEAK = 4 / 3
#: Smallest window of every rule, packets.
FLOOR = 2.0


@dataclass(frozen=True)
class State:
    """Subflows of one connection: windows (packets), RTTs (s), loss probabilities, queueing delays (s)."""

    window: Array
    rtt: Array
    loss: Array
    queue: Array

    @property
    def rate(self) -> Array:
        return self.window / self.rtt


class Rule(Protocol):
    """A controller's right-hand side: packets per acknowledged packet, and packets per loss."""

    def increase(self, s: State) -> Array: ...

    def decrease(self, s: State) -> Array: ...


class Reno:
    """1/w_i on each path by itself."""

    def increase(self, s: State) -> Array:
        return 1 / s.window

    def decrease(self, s: State) -> Array:
        return PEAK * s.window / 2


class Lia(Reno):
    """min(α/W, 1/w_i), α = W · max_k(w_k/τ_k²)/(Σ_k w_k/τ_k)²."""

    def increase(self, s: State) -> Array:
        coupled = (s.window / s.rtt**2).max() / s.rate.sum() ** 2
        found: Array = np.minimum(coupled, 1 / s.window)
        return found


@dataclass(frozen=True)
class Olia(Reno):
    """(w_i/τ_i²)/(Σ_k w_k/τ_k)² + α_i/w_i.

    α_i jumps as paths enter and leave the sets of best paths and of largest windows. Here a path within ``width`` of
    the best counts as best in part, so that the right-hand side is continuous.
    """

    width: float = 0.05

    def _belongs(self, x: Array) -> Array:
        found: Array = np.clip((x / x.max() - (1 - self.width)) / (self.width / 2), 0, 1)
        return found

    def increase(self, s: State) -> Array:
        best = self._belongs(1 / (np.maximum(s.loss, 1e-12) * s.rtt**2))
        largest = self._belongs(s.window)
        collected = best * (1 - largest)
        weight = min(1.0, collected.sum())
        alpha = weight * (collected / max(collected.sum(), 1e-12) - largest / largest.sum()) / s.window.size
        found: Array = (s.window / s.rtt**2) / s.rate.sum() ** 2 + alpha / s.window
        return found


class Balia:
    """(λ_i/τ_i)/(Σλ)² · (1+α_i)/2 · (4+α_i)/5, decrease w_i/2 · min(α_i, 3/2), α_i = max λ/λ_i."""

    def increase(self, s: State) -> Array:
        alpha = s.rate.max() / s.rate
        found: Array = (s.rate / s.rtt) / s.rate.sum() ** 2 * (1 + alpha) / 2 * (4 + alpha) / 5
        return found

    def decrease(self, s: State) -> Array:
        found: Array = PEAK * s.window / 2 * np.minimum(s.rate.max() / s.rate, 1.5)
        return found


def _balanced(target: float, measured: Array) -> Array:
    """min(1, (target − x)/x), which is 1 up to half the target and falls towards −1."""
    return np.minimum(1, target / np.maximum(measured, 1e-12) - 1)


@dataclass(frozen=True)
class RsfDb(Reno):
    """(1/w_i) · min(1, (d − q_i)/q_i). ``target`` is d in seconds."""

    target: float = 0.1

    def increase(self, s: State) -> Array:
        return _balanced(self.target, s.queue) / s.window


@dataclass(frozen=True)
class RsfLb(Reno):
    """(1/w_i) · min(1, (μ − λ_i l_i)/(λ_i l_i)). ``target`` is μ in lost packets/s."""

    target: float = 4.0

    def increase(self, s: State) -> Array:
        return _balanced(self.target, s.rate * s.loss) / s.window


@dataclass(frozen=True)
class LdMpsp(Reno):
    """((τ* − q_i)/τ*)/w_i, the ratio at least −1. ``target`` is τ* in seconds."""

    target: float = 0.02

    def increase(self, s: State) -> Array:
        return np.maximum(-1, 1 - s.queue / self.target) / s.window


#: By the names of ``multipilot list controllers``.
RULES: dict[str, Rule] = {
    "reno": Reno(),
    "lia": Lia(),
    "olia": Olia(),
    "balia": Balia(),
    "rsf-db": RsfDb(),
    "rsf-lb": RsfLb(),
    "ld-mpsp": LdMpsp(),
}
