"""No-regret learning by dual averaging, with noisy gradients.

Each player adds up the gradients that it sees and answers the sum, held back by a penalty that grows with the steps:

    W(m+1) = argmax_W { ⟨Σ_{s ≤ m} ĝ(s), W⟩ − √m · h(W)/η },    ĝ = ∂U/∂λ + ξ,   E ξ = 0,  E ξ² ≤ σ²

over A ≤ W ≤ B for each player. Two penalties: Euclidean, h = W²/2, whose argmax is a projection (lazy projection), and
entropic, h = W ln(W/B) + (B − W) ln(1 − W/B), whose argmax is a logistic curve that never touches the bounds.

Regret after M steps is what the best constant rate in hindsight would have earned beyond the rates that were played;
its average falls as O(1/√M).

Units: rates in packets/s, utilities without unit, η in (packets/s)² for Euclidean and packets/s for entropic.
Sources: paper *rsf* eqs 28–35 and algorithm 1; Nesterov, Math. Programming 120, 2009; Mertikopoulos and Zhou, Math.
Programming 173, 2019.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from .game import Array, RentSeekingGame

#: A penalty's argmax: (score divided by √m/η, lowest, highest rate) to rates.
Mirror = Callable[[Array, float, float], Array]


def euclidean(score: Array, lowest: float, highest: float) -> Array:
    """argmax ⟨y, W⟩ − W²/2: the projection of y onto the interval."""
    return np.clip(score, lowest, highest)


def entropic(score: Array, lowest: float, highest: float) -> Array:
    """argmax ⟨y, W⟩ − binary entropy: a logistic curve between the bounds."""
    return lowest + (highest - lowest) * expit(score)


MIRRORS: dict[str, Mirror] = {"euclidean": euclidean, "entropic": entropic}


@dataclass(frozen=True)
class Play:
    """``rates[m, n]`` is what player n played at step m, in packets/s."""

    game: RentSeekingGame
    rates: Array
    lowest: float
    highest: float

    def regret(self, steps: int) -> Array:
        """Average regret of each player over the first ``steps`` steps, in units of utility."""
        played = self.rates[:steps]
        total = played.sum(axis=1, keepdims=True)
        earned = (played / total - self.game.prices * played).mean(axis=0)
        rivals = total - played

        def best_constant(n: int) -> float:
            def cost(rate: float) -> float:
                return -float((rate / (rate + rivals[:, n])).mean() - self.game.prices[n] * rate)

            found = minimize_scalar(
                cost, bounds=(self.lowest, self.highest), method="bounded", options={"xatol": 1e-10}
            )
            return -min(found.fun, cost(self.lowest), cost(self.highest))

        found: Array = np.array([best_constant(n) for n in range(self.game.players)]) - earned
        return found


def dual_averaging(
    game: RentSeekingGame,
    steps: int,
    *,
    mirror: str = "euclidean",
    noise: float = 0.1,
    rate: float | None = None,
    highest: float | None = None,
    seed: int = 0,
) -> Play:
    """All players of a one-path game learn at once for ``steps`` steps.

    ``noise`` is σ of the Gaussian error of each gradient, in units of the mean price; ``rate`` is η (a value that suits
    the size of the game by default); ``highest`` is B, by default 1/p̂ of the mean price, more than any player would
    bid. A is B/20, for the gradient has no bound where all bids go to zero.
    """
    if game.paths != 1:
        raise ValueError("dual averaging plays the game with one path a player: the split over paths earns nothing")
    price = game.prices.mean()
    top = 1 / price if highest is None else highest
    low = top / 20
    answer = MIRRORS[mirror]
    if rate is None:
        rate = top / price / 8 if mirror == "euclidean" else 1 / price
    rng = np.random.default_rng(seed)
    score = np.zeros(game.players)
    rates = np.empty((steps, game.players))
    for m in range(steps):
        rates[m] = answer(rate * score / np.sqrt(max(m, 1)), low, top)
        gradient = game.pseudo_gradient(rates[m])[:, 0]
        score += gradient + noise * price * rng.standard_normal(game.players)
    return Play(game, rates, low, top)
