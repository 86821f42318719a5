"""Dual averaging: it settles at the equilibrium, and its average regret falls as it should."""

import numpy as np
import pytest

from multipilot.theory.game import RentSeekingGame, symmetric_rate
from multipilot.theory.learning import MIRRORS, Play, dual_averaging

STEPS = np.unique(np.logspace(2, 4, 9).astype(int))


def regret(play: Play) -> np.ndarray:
    """Mean average regret at each of STEPS."""
    return np.array([play.regret(int(m)).mean() for m in STEPS])


def slope(values: np.ndarray) -> float:
    """Of the logarithm over that of the steps: -0.5 is O(1/√M)."""
    return float(np.polyfit(np.log(STEPS), np.log(values), 1)[0])


@pytest.mark.parametrize("mirror", MIRRORS)
def test_average_regret_falls_at_least_as_the_root(mirror: str) -> None:
    game = RentSeekingGame.symmetric(4, 0.01)
    curves = [regret(dual_averaging(game, 10_000, mirror=mirror, noise=1.0, seed=s)) for s in range(8)]
    assert slope(np.mean(curves, axis=0)) <= -0.35


@pytest.mark.parametrize("mirror", MIRRORS)
def test_play_settles_at_the_equilibrium(mirror: str) -> None:
    game = RentSeekingGame.symmetric(4, 0.01)
    play = dual_averaging(game, 20_000, mirror=mirror, noise=0.3, seed=1)
    assert play.rates[-5000:].mean(axis=0) == pytest.approx(np.full(4, symmetric_rate(4, 0.01)), rel=0.05)


def test_a_player_that_does_not_learn_keeps_its_regret() -> None:
    """The slope is the learning's doing: a score that never moves leaves the regret where it was."""
    game = RentSeekingGame.symmetric(4, 0.01)
    kept = regret(dual_averaging(game, 10_000, noise=0.0, rate=1e-9))
    assert slope(kept) > -0.05
    assert kept.min() > 1e-3


def test_a_seed_gives_one_play() -> None:
    game = RentSeekingGame.symmetric(3, 0.02)
    once, again, other = (dual_averaging(game, 500, seed=s).rates for s in (7, 7, 8))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)
