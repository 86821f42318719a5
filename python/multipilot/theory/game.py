"""The rent-seeking game that subflows play for the capacity of their paths.

Player n (a connection, or a single subflow) sends ``rates[n, i]`` on path i. It wins throughput in proportion to its
bid, and pays for each unit of it:

    U_n(λ) = Σ_i ( λ_i^n / S − p̂_n λ_i^n ),    S = Σ_m Σ_j λ_j^m

With one path a player this is the game among the subflows of one connection, U_i(λ) = λ_i / Σ_j λ_j − p̂ λ_i.

Units: a rate λ is in packets/s, a price p̂ in seconds per packet (its inverse is the rate at which a player with no
rival would pay all it wins), utility has none.

Sources: paper *rsf* eqs 5, 6, 10–15, 26 (Future Internet 14(9), 257, 2022); Tullock, "Efficient rent seeking", 1980;
Rosen, Econometrica 33(3), 1965 (diagonal strict concavity).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def symmetric_rate(players: int, price: float) -> float:
    """Rate of each of ``players`` alike at the Nash equilibrium: λ* = (K − 1) / (K² p̂), packets/s."""
    return (players - 1) / (players**2 * price)


@dataclass(frozen=True)
class RentSeekingGame:
    """``prices[n]`` is player n's price p̂_n in s/packet; every player has ``paths`` paths.

    ``value`` is the concave V of eq. 5, from a share in 0..1 to a throughput; the default is the share itself, to be
    scaled by a capacity. It shapes :meth:`throughput` alone: the utility of eq. 6 is about shares.
    """

    prices: Array
    paths: int = 1
    value: Callable[[Array], Array] = field(default=lambda share: share)

    def __post_init__(self) -> None:
        prices = np.atleast_1d(np.asarray(self.prices, dtype=float))
        if prices.ndim != 1 or not np.all(prices > 0):
            raise ValueError("prices must be positive numbers, one a player; a free bid has no equilibrium")
        object.__setattr__(self, "prices", prices)

    @classmethod
    def symmetric(cls, players: int, price: float, paths: int = 1) -> RentSeekingGame:
        """``players`` players who all pay ``price``."""
        return cls(np.full(players, float(price)), paths)

    @property
    def players(self) -> int:
        return self.prices.size

    def shape(self, rates: ArrayLike) -> Array:
        """``rates`` as an array of (players, paths)."""
        return np.asarray(rates, dtype=float).reshape(self.players, self.paths)

    def throughput(self, rates: ArrayLike) -> Array:
        """θ_i^n = V(λ_i^n / S), eq. 25."""
        rates = self.shape(rates)
        return self.value(rates / rates.sum())

    def utility(self, rates: ArrayLike) -> Array:
        """U_n of each player, eq. 26 (eq. 6 with one path)."""
        own = self.shape(rates).sum(axis=1)
        found: Array = own / own.sum() - self.prices * own
        return found

    def pseudo_gradient(self, rates: ArrayLike) -> Array:
        """∂U_n/∂λ_i^n = (S − x_n)/S² − p̂_n with x_n = Σ_i λ_i^n: eq. 10 at z = 1, price included.

        The same for each path of a player, for U_n knows only the sum x_n.
        """
        own = self.shape(rates).sum(axis=1)
        total = own.sum()
        gradient = (total - own) / total**2 - self.prices
        return np.repeat(gradient[:, None], self.paths, axis=1)


def concavity_matrix(rates: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """G′ + G of eq. 12, G the Jacobian of the weighted pseudo-gradient of the one-path game.

    Diagonal −4 z_i λ_{−i}/S³, elsewhere (z_i (λ_i − λ_{−i}) + z_j (λ_j − λ_{−j}))/S³, with λ_{−i} = S − λ_i.
    Negative definite for z = 1 and λ > 0, which is Rosen's sufficient condition for one normalised equilibrium.
    """
    rates = np.asarray(rates, dtype=float).ravel()
    weights = np.ones_like(rates) if weights is None else np.asarray(weights, dtype=float)
    total = rates.sum()
    half = weights * (2 * rates - total)
    matrix = half[:, None] + half[None, :]
    np.fill_diagonal(matrix, -4 * weights * (total - rates))
    found: Array = matrix / total**3
    return found
