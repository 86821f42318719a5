"""Nash and normalised equilibria of the rent-seeking game, each with its Karush–Kuhn–Tucker residual.

Without a capacity, the equilibrium is where no player gains by another rate. With capacities Σ_n λ_i^n ≤ C_i there are
many such points; the *normalised* one (Rosen 1965) has a single multiplier L_i a path, the same for all players:

    ∂U_n/∂λ_i^n − L_i ≤ 0,   λ_i^n ≥ 0,   product 0        (a player's best answer at that price)
    Σ_n λ_i^n ≤ C_i,         L_i ≥ 0,     product 0        (only a full path costs)

Both are complementarity problems, solved as a root of Fischer–Burmeister functions by SciPy's least squares. U_n knows
only x_n = Σ_i λ_i^n, so the sums x_n are unique and the split over paths is not.

Sources: paper *rsf* eqs 7–9, 23, 27 and section 4; Fischer, "A special Newton-type optimization method", 1992.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import least_squares

from .game import Array, RentSeekingGame


@dataclass(frozen=True)
class Equilibrium:
    """``rates[n, i]`` in packets/s, ``multipliers[i]`` in s/packet, ``residual`` as of :func:`kkt_residual`."""

    rates: Array
    multipliers: Array
    residual: float

    @property
    def sums(self) -> Array:
        """x_n = Σ_i λ_i^n: the part that is unique."""
        found: Array = self.rates.sum(axis=1)
        return found


def kkt_residual(game: RentSeekingGame, rates: ArrayLike, multipliers: ArrayLike, capacity: ArrayLike) -> float:
    """Largest violation of any condition above, relative: 0 at a normalised equilibrium.

    Prices and multipliers are measured against the mean price, rates against the total.
    """
    rates, multipliers, capacity = game.shape(rates), np.asarray(multipliers, float), np.asarray(capacity, float)
    price, total = game.prices.mean(), rates.sum()
    gain = (game.pseudo_gradient(rates) - multipliers) / price
    share = rates / total
    used = rates.sum(axis=0)
    # An endless path has no slack to speak of, and must be free.
    endless = np.isinf(capacity)
    slack = np.where(endless, 1.0, (np.where(endless, 0.0, capacity) - used) / total)
    rent = multipliers / price
    return float(
        max(
            np.max(gain, initial=0),
            np.max(-share, initial=0),
            np.abs(gain * share).max(),
            np.max(-slack, initial=0),
            np.max(-rent, initial=0),
            np.abs(rent * slack).max(),
        )
    )


def _fischer_burmeister(a: Array, b: Array) -> Array:
    """Zero exactly where a ≥ 0, b ≥ 0 and ab = 0."""
    return a + b - np.hypot(a, b)


def normalised_equilibrium(game: RentSeekingGame, capacity: ArrayLike, start: ArrayLike | None = None) -> Equilibrium:
    """The equilibrium with one multiplier a path, for path capacities in packets/s (inf: no limit).

    ``start`` are the rates to begin at (all alike by default); the sums do not depend on it, the split may.
    """
    capacity = np.broadcast_to(np.asarray(capacity, dtype=float), (game.paths,))
    if not np.all(capacity > 0):
        raise ValueError("every capacity must be positive: take a path without capacity out of the game")
    price = game.prices.mean()
    scale = min(capacity.sum(), 1 / price)  # no equilibrium total exceeds 1/p̂
    finite = np.isfinite(capacity)
    first = np.full((game.players, game.paths), scale / (game.players * game.paths))
    if start is not None:
        first = game.shape(start)

    def unpack(v: Array) -> tuple[Array, Array]:
        multipliers = np.zeros(game.paths)
        multipliers[finite] = v[first.size :] * price
        return v[: first.size].reshape(first.shape) * scale, multipliers

    def conditions(v: Array) -> Array:
        rates, multipliers = unpack(v)
        own = rates.sum(axis=1)
        total = max(own.sum(), 1e-9 * scale)
        loss = (game.prices - (total - own) / total**2)[:, None] + multipliers
        slack = (capacity[finite] - rates.sum(axis=0)[finite]) / scale
        return np.concatenate(
            [
                _fischer_burmeister(rates / scale, loss / price).ravel(),
                _fischer_burmeister(multipliers[finite] / price, slack),
            ]
        )

    guess = np.concatenate([first.ravel() / scale, np.full(finite.sum(), 0.1)])
    # Two starts: where the split is degenerate one of them may stall at a stationary point that is no root.
    for x0 in (guess, np.concatenate([np.full(first.size, 1 / first.size), np.ones(finite.sum())])):
        found = least_squares(conditions, x0, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=2000)
        rates, multipliers = unpack(found.x)
        rates, multipliers = np.maximum(rates, 0), np.maximum(multipliers, 0)
        residual = kkt_residual(game, rates, multipliers, capacity)
        if residual < 1e-6:
            return Equilibrium(rates, multipliers, residual)
    raise ArithmeticError(f"no equilibrium found (KKT residual {residual:.1e}): try another start")


def nash_equilibrium(game: RentSeekingGame, start: ArrayLike | None = None) -> Equilibrium:
    """The unconstrained equilibrium. For K players alike: λ* = (K − 1)/(K² p̂)."""
    return normalised_equilibrium(game, np.full(game.paths, np.inf), start)
