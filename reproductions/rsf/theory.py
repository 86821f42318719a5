"""The theory's own pictures: phase portrait, Lyapunov decrease, regret."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from multipilot.papers.charts import Curve, Mark, Panel, draw
from multipilot.papers.claims.quantity import constant
from multipilot.papers.page import Section, table
from multipilot.papers.results import Results
from multipilot.report import svg
from multipilot.stats import Mean, mean_of
from multipilot.theory.equilibrium import nash_equilibrium, normalised_equilibrium
from multipilot.theory.fluid import PrimalDual, Trajectory, rent_demand
from multipilot.theory.game import RentSeekingGame, concavity_matrix, symmetric_rate
from multipilot.theory.learning import MIRRORS, dual_averaging
from multipilot.theory.lyapunov import Lyapunov

THETA = (1.0, 2.0)
STARTS = ((0.3, 0.4), (3.2, 0.5), (0.4, 3.6), (3.4, 3.5), (1.8, 0.3), (3.0, 2.0))
STEPS = np.unique(np.logspace(1.5, 4, 14).astype(int))


#: Of the system whose θ follows the rates, as equation 5 has it: θ = C·λ/Σλ. Where rates rest, Σλ = C.
CAPACITY = 3.0


def _following() -> PrimalDual:
    return PrimalDual.rent_seeking(lambda rates: CAPACITY * rates / rates.sum())


def _runs(system: PrimalDual, seconds: float) -> list[Trajectory]:
    """From each of :data:`STARTS`, with prices that differ from start to start."""
    prices = rent_demand(np.array(THETA))
    return [system.run(start, prices * (0.3 + 0.4 * index), seconds, points=1500) for index, start in enumerate(STARTS)]


def phase(_: Results) -> Section:
    fixed, following = _runs(Lyapunov.of(THETA).system(), 120), _runs(_following(), 120)
    rest, prices = Lyapunov.of(THETA).equilibrium

    def curves(runs: list[Trajectory], first: int) -> list[Curve]:
        return [
            Curve("", run.state[first], list(run.state[first + 1]), svg.PATHS[index], markers=False)
            for index, run in enumerate(runs)
        ]

    ends = [Mark(float(run.end[0]), float(run.end[1]), svg.INK, "rest") for run in following]
    axes = ("λ₁, packets/s", "λ₂, packets/s")
    panels = [
        Panel("Rates, θ constant", *axes, curves(fixed, 0), [Mark(rest[0], float(rest[1]), svg.INK, "rest")]),
        Panel(
            "Prices, θ constant",
            "p₁, s/packet",
            "p₂, s/packet",
            curves(fixed, 2),
            [Mark(prices[0], float(prices[1]), svg.INK, "rest")],
        ),
        Panel("Rates, θ = C·λ/Σλ (equation 5)", *axes, curves(following, 0), ends),
    ]
    return Section(
        "Phase portrait: where the fluid system rests",
        [
            "The fluid system dλ/dt = λ(λ₋/(Σλ)² − p)⁺, dp/dt = (λ − θ)⁺ from six starts. With θ = (1, 2) constant it "
            f"rests at λ* = θ, p* = φ(θ). With the paper's θ = C·λ/Σλ, here C = {CAPACITY:.0f}, dp/dt = λ(1 − C/Σλ): "
            "every split with Σλ = C is at rest, each with prices of its own.",
        ],
        [draw(panels, "Trajectories of two rates and two prices, and where they end", height=4.0)],
    )


def lyapunov(_: Results) -> Section:
    function = Lyapunov.of(THETA)
    curves = [
        Curve("", list(run.time), list(np.maximum(function.along(run), 1e-14)), svg.PATHS[index], markers=False)
        for index, run in enumerate(_runs(function.system(), 80))
    ]
    panel = Panel("L(λ, p) along the trajectories", "time, s", "L", curves, log_y=True)
    return Section(
        "Lyapunov function",
        [
            "L = Σ∫(z − λ*)/k(z) dz + Σ(p − p*)²/(2γ). The paper prints γ(p − p*)² for the second sum; its own "
            "derivative needs 1/(2γ). Conditions: θ is constant, k_i depends on λ_i alone, and λ > 0.",
        ],
        [draw([panel], "The Lyapunov function along six trajectories", height=3.4)],
    )


@cache
def _regret() -> dict[str, tuple[list[Any], Mean]]:
    """Mean regret at each of :data:`STEPS`, and its slope, with an interval by the jackknife over the plays."""
    game = RentSeekingGame.symmetric(4, 0.01)
    found = {}
    for mirror in MIRRORS:
        plays = [dual_averaging(game, int(STEPS[-1]), mirror=mirror, noise=1.0, seed=seed) for seed in range(8)]
        table = np.array([[float(play.regret(int(m)).mean()) for m in STEPS] for play in plays])
        whole, n = _log_slope(table), len(plays)
        slope = mean_of(n * whole - (n - 1) * _log_slope(np.delete(table, k, axis=0)) for k in range(n))
        found[mirror] = ([mean_of(column) for column in table.T], slope)
    return found


def _log_slope(table: np.ndarray) -> float:
    """Of the mean over the rows, log against log."""
    return float(np.polyfit(np.log(STEPS), np.log(np.maximum(table.mean(axis=0), 1e-12)), 1)[0])


def regret(_: Results) -> Section:
    curves = [
        Curve(f"{mirror}, slope {slope.mean:.2f} ± {slope.half:.2f}", list(STEPS), means, colour, bold=True)
        for (mirror, (means, slope)), colour in zip(_regret().items(), (svg.PATHS[0], svg.PATHS[1]), strict=True)
    ]
    first = max(means[0].mean for means, _slope in _regret().values())
    guide = [first * 1.5 * (STEPS[0] / m) ** 0.5 for m in STEPS]
    curves.append(Curve("slope −0.5", list(STEPS), guide, svg.MUTED, dashed=True, markers=False))
    panel = Panel("Average regret of four players", "steps", "regret, units of utility", curves, log_x=True, log_y=True)
    return Section(
        "Learning with noisy gradients",
        [
            "Four players learn at once by dual averaging, each gradient off by a Gaussian error as large as the "
            "price. Regret is against the best constant rate in hindsight.",
        ],
        [draw([panel], "Average regret over steps on logarithmic axes", height=3.6)],
        ["Mean over eight seeds; the paper gives no figure of this."],
    )


@cache
def _normalised() -> tuple[np.ndarray, np.ndarray]:
    """Of three connections on two paths, from ten starts: each one's sum, and its share of the first path."""
    shared = RentSeekingGame(np.array([0.010, 0.011, 0.012]), paths=2)
    rng = np.random.default_rng(1)
    ends = [normalised_equilibrium(shared, [15.0, 20.0], rng.uniform(0.1, 20, (3, 2))) for _ in range(10)]
    return np.array([e.sums for e in ends]), np.array([e.rates[:, 0] / e.sums for e in ends])


def game(_: Results) -> Section:
    lines = []
    for players in (2, 5, 10):
        price = 0.01
        found = nash_equilibrium(RentSeekingGame.symmetric(players, price))
        lines.append(
            [
                f"{players} subflows, p̂ = {price} s/packet",
                f"{found.rates.mean():.3f}",
                f"{symmetric_rate(players, price):.3f}",
                f"{found.residual:.0e}",
            ]
        )
    sums, splits = _normalised()
    spread = [f"{s.mean():.3f} ± {np.ptp(s) / 2:.0e}" for s in sums.T]
    ranges = [f"{s.min() * 100:.0f}–{s.max() * 100:.0f} %" for s in splits.T]
    return Section(
        "The game: Nash and normalised equilibrium",
        [
            "Subflow i bids λ_i, receives λ_i/Σλ and pays p̂λ_i. K players alike meet at λ* = (K − 1)/(K² p̂). With a "
            "capacity there are many equilibria; the normalised ones have a multiplier common to all players.",
        ],
        [
            table(["Nash equilibrium", "found, packets/s", "closed form", "KKT residual"], lines),
            table(
                ["Three connections on paths of 15 and 20 packets/s", "first", "second", "third"],
                [["sum over paths, packets/s", *spread], ["share of the first path, ten starts", *ranges]],
            ),
        ],
        ["A connection's utility knows only the sum over its paths."],
    )


def _concavity(paths: int) -> float:
    """Largest eigenvalue of G′ + G of three players of so many paths each. A player's gradient is of the sum over its
    paths, and the same for each.
    """
    rng = np.random.default_rng(2)
    sums = rng.uniform(0.05, 1, (2000, 3))
    each = np.ones((paths, paths))
    matrices = (np.kron(concavity_matrix(one / one.sum()), each) for one in sums)
    return max(float(np.linalg.eigvalsh(matrix).max()) for matrix in matrices)


@cache
def values() -> dict[str, Mean]:
    """What the claims on the theory are about: computed, and without an interval where nothing is drawn."""
    closed = [
        nash_equilibrium(RentSeekingGame.symmetric(k, 0.01)).rates.mean() / symmetric_rate(k, 0.01) for k in (2, 5, 10)
    ]
    sums, splits = _normalised()
    fixed, following = (
        np.array([run.end[:2] for run in _runs(system, 400)]) for system in (Lyapunov.of(THETA).system(), _following())
    )
    shares = following[:, 0] / following.sum(axis=1)
    function, rng = Lyapunov.of(THETA), np.random.default_rng(0)
    points = [(rng.uniform(0.05, 8, 2), rng.uniform(0, 2, 2)) for _ in range(4000)]
    worst = max(function.derivative(*point) for point in points)
    # With γ = 1 the printed sum, γ(p − p*)², is that of 1/(2 · 0.5).
    printed = Lyapunov.of(THETA, price_gain=0.5)
    printed_worst = max(printed.derivative(*point, function.system()) for point in points)
    found = {
        "nash.error": max(abs(np.array(closed) - 1)),
        "normalised.sums": np.ptp(sums / sums.mean(axis=0)),
        "normalised.splits": np.ptp(splits, axis=0).max(),
        "rest.fixed": np.ptp(fixed, axis=0).max(),
        "rest.following": np.ptp(shares),
        "rest.total": abs(following.sum(axis=1) / CAPACITY - 1).max(),
        "lyapunov.worst": worst,
        "lyapunov.printed": printed_worst,
        "concave.single": _concavity(1),
        "concave.several": _concavity(2),
    }
    slopes = [slope for _means, slope in _regret().values()]
    return {name: constant(float(value)) for name, value in found.items()} | {
        "regret.slope": max(slopes, key=lambda slope: slope.mean)
    }
