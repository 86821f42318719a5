"""The Lyapunov function of the rent-seeking fluid system, and the conditions under which it is one.

For dλ_i/dt = k_i(λ_i)(φ_i(λ) − p_i)⁺, dp_i/dt = γ_i(λ_i − θ_i)⁺ with equilibrium (λ*, p*):

    L = Σ_i ∫_{λ*_i}^{λ_i} (z − λ*_i)/k_i(z) dz + Σ_i (p_i − p*_i)²/(2γ_i)

    dL/dt ≤ Σ_i (λ_i − λ*_i)(φ_i(λ) − φ_i(λ*)) ≤ 0

**Conditions.** (1) θ_i is constant; (2) k_i > 0 depends on λ_i alone, else L is not a sum of integrals; (3) φ_i(λ) =
λ_{−i}/(Σλ)², whose negative is strictly monotone by diagonal strict concavity; (4) λ > 0. With θ_i = V(λ_i/Σλ), a θ
that follows the rates, the cross terms of the two sums no longer cancel and L can grow: the tests hold an example.

Source: paper *rsf* eqs 18–22. It prints γ_i(p_i − p*_i)² for the second sum; its own derivative needs 1/(2γ_i).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad

from .fluid import PrimalDual, Trajectory, rent_demand
from .game import Array


@dataclass(frozen=True)
class Lyapunov:
    """L around the equilibrium of the rent-seeking system with constant ``throughput`` θ (packets/s).

    ``gain`` is k_i as a function of one rate; ``price_gain`` is γ.
    """

    throughput: Array
    gain: Callable[[float], float]
    price_gain: Array

    @classmethod
    def of(
        cls, throughput: ArrayLike, gain: Callable[[float], float] = lambda rate: rate, price_gain: ArrayLike = 1.0
    ) -> Lyapunov:
        theta = np.asarray(throughput, dtype=float)
        if not np.all(theta > 0):
            raise ValueError("every throughput must be positive")
        return cls(theta, gain, np.broadcast_to(np.asarray(price_gain, dtype=float), theta.shape))

    def system(self) -> PrimalDual:
        """The fluid system that L belongs to."""
        return PrimalDual.rent_seeking(self.throughput, np.vectorize(self.gain, otypes=[float]), self.price_gain)

    @property
    def equilibrium(self) -> tuple[Array, Array]:
        """λ* = θ and p* = φ(θ): prices rest where rates meet throughputs, rates where demand meets price."""
        return self.throughput, rent_demand(self.throughput)

    def value(self, rates: ArrayLike, prices: ArrayLike) -> float:
        """L at a point; zero at the equilibrium alone."""
        rest, price_rest = self.equilibrium
        kinetic = sum(
            quad(lambda z, r=r: (z - r) / self.gain(z), r, x)[0] for x, r in zip(np.asarray(rates), rest, strict=True)
        )
        return float(kinetic + (((np.asarray(prices) - price_rest) ** 2) / (2 * self.price_gain)).sum())

    def derivative(self, rates: ArrayLike, prices: ArrayLike, system: PrimalDual | None = None) -> float:
        """dL/dt along ``system`` (the one that L belongs to by default)."""
        rates, prices = np.asarray(rates, dtype=float), np.asarray(prices, dtype=float)
        rest, price_rest = self.equilibrium
        change, price_change = np.split((system or self.system()).rhs(np.concatenate([rates, prices])), 2)
        gains = np.array([self.gain(r) for r in rates])
        return float(
            ((rates - rest) * change / gains).sum() + ((prices - price_rest) * price_change / self.price_gain).sum()
        )

    def along(self, trajectory: Trajectory) -> Array:
        """L at each time of a run of :meth:`system`."""
        size = self.throughput.size
        return np.array([self.value(y[:size], np.maximum(y[size:], 0)) for y in trajectory.state.T])
