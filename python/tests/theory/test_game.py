"""The rent-seeking game and its equilibria."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from multipilot.theory.equilibrium import kkt_residual, nash_equilibrium, normalised_equilibrium
from multipilot.theory.game import RentSeekingGame, concavity_matrix, symmetric_rate

positive = st.floats(1e-3, 1e3)


@given(rates=arrays(float, st.tuples(st.integers(1, 4), st.integers(1, 3)), elements=positive), price=positive)
def test_the_pseudo_gradient_is_the_derivative_of_the_utility(rates: np.ndarray, price: float) -> None:
    players, paths = rates.shape
    game = RentSeekingGame.symmetric(players, price, paths)
    gradient = game.pseudo_gradient(rates)
    total = rates.sum()
    for n in range(players):
        step = 1e-5 * total
        moved = rates.copy()
        moved[n, 0] += step
        ahead = game.utility(moved)[n]
        moved[n, 0] -= 2 * step
        slope = (ahead - game.utility(moved)[n]) / (2 * step)
        assert slope == pytest.approx(gradient[n, 0], rel=1e-6, abs=1e-6 * max(price, 1 / total))


@pytest.mark.parametrize("players", [2, 3, 5, 10, 40])
@pytest.mark.parametrize("price", [0.001, 0.02, 3.0])
def test_players_alike_meet_at_the_closed_form(players: int, price: float) -> None:
    found = nash_equilibrium(RentSeekingGame.symmetric(players, price))
    assert found.rates.ravel() == pytest.approx(np.full(players, symmetric_rate(players, price)), rel=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_nobody_gains_by_leaving_the_equilibrium(seed: int) -> None:
    rng = np.random.default_rng(seed)
    game = RentSeekingGame(rng.uniform(0.01, 0.05, 4))
    rates = nash_equilibrium(game).rates
    earned = game.utility(rates)
    for n in range(4):
        for other in np.linspace(0, 2 / game.prices[n], 2001):
            moved = rates.copy()
            moved[n, 0] = other
            assert game.utility(moved)[n] <= earned[n] + 1e-9


def largest_eigenvalue(rates: np.ndarray, weights: list[float] | None = None) -> float:
    """Of G′ + G; below 0 the game is diagonally strictly concave. Rates are scaled, for the matrix has their inverse
    square's dimension."""
    return float(np.linalg.eigvalsh(concavity_matrix(rates / rates.sum(), weights)).max())


# Down to a millionth of the total: beyond it the largest eigenvalue, though negative, drowns in the float's rounding.
@settings(max_examples=500)
@given(arrays(float, st.integers(2, 12), elements=positive))
def test_the_game_is_diagonally_strictly_concave(rates: np.ndarray) -> None:
    assert largest_eigenvalue(rates) < 0


@given(arrays(float, st.integers(2, 6), elements=st.floats(0.1, 10)))
def test_the_concavity_matrix_is_the_jacobian_of_the_pseudo_gradient(rates: np.ndarray) -> None:
    game = RentSeekingGame.symmetric(rates.size, 1.0)
    columns = []
    for j in range(rates.size):
        step = np.zeros_like(rates)
        step[j] = 1e-5
        change = game.pseudo_gradient(rates + step) - game.pseudo_gradient(rates - step)
        columns.append(change[:, 0] / 2e-5)
    jacobian = np.array(columns).T
    assert concavity_matrix(rates) == pytest.approx(jacobian + jacobian.T, rel=1e-4, abs=1e-5)


def test_other_weights_can_lose_the_concavity() -> None:
    assert largest_eigenvalue(np.ones(3), [1.0, 0.0, 0.0]) > 0


@pytest.mark.parametrize("seed", range(12))
def test_capacity_is_met_with_one_multiplier_a_path(seed: int) -> None:
    rng = np.random.default_rng(seed)
    players, paths = rng.integers(2, 6), rng.integers(1, 4)
    game = RentSeekingGame(rng.uniform(0.8, 1.2, players) * 0.01, paths)
    free = nash_equilibrium(game).rates.sum()
    capacity = free * rng.uniform(0.1, 0.5, paths) / paths
    found = normalised_equilibrium(game, capacity, rng.uniform(0.1, 1, (players, paths)) * free)
    assert found.residual < 1e-6
    assert found.rates.sum(axis=0) == pytest.approx(capacity, rel=1e-5)
    # Every path is full and paid alike: rates that all paths carry cannot be worth more on one of them.
    assert found.multipliers == pytest.approx(np.full(paths, found.multipliers.mean()), rel=1e-4)


def test_only_the_sums_over_paths_are_unique() -> None:
    game = RentSeekingGame(np.array([0.010, 0.011, 0.012]), paths=2)
    capacity = np.array([15.0, 20.0])
    rng = np.random.default_rng(1)
    found = [normalised_equilibrium(game, capacity, rng.uniform(0.1, 20, (3, 2))) for _ in range(20)]
    sums = np.array([f.sums for f in found])
    splits = np.array([f.rates[:, 0] / f.sums for f in found])
    assert np.ptp(sums, axis=0).max() < 1e-4 * sums.mean()
    assert np.ptp(splits, axis=0).max() > 0.1


def test_a_path_that_is_not_full_costs_nothing() -> None:
    game = RentSeekingGame.symmetric(4, 0.01, paths=2)
    found = normalised_equilibrium(game, [1e6, 1e6])
    assert found.multipliers == pytest.approx([0, 0], abs=1e-8)
    assert found.sums == pytest.approx(np.full(4, symmetric_rate(4, 0.01)), rel=1e-5)


def test_the_residual_sees_a_wrong_answer() -> None:
    game = RentSeekingGame.symmetric(3, 0.01)
    right = nash_equilibrium(game)
    assert kkt_residual(game, right.rates, right.multipliers, [np.inf]) < 1e-6
    assert kkt_residual(game, right.rates * 1.1, right.multipliers, [np.inf]) > 1e-2
    assert kkt_residual(game, right.rates, [0.001], [right.rates.sum() / 2]) > 1e-2


def test_a_free_bid_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        RentSeekingGame(np.array([0.01, 0.0]))
