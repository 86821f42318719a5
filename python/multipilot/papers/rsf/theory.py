"""The theory's own pictures: phase portrait, Lyapunov decrease, regret."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from multipilot.papers.charts import Curve, Mark, Panel, draw
from multipilot.papers.page import Section, table
from multipilot.papers.results import Results
from multipilot.report import svg
from multipilot.stats import mean_of
from multipilot.theory.equilibrium import nash_equilibrium, normalised_equilibrium
from multipilot.theory.game import RentSeekingGame, symmetric_rate
from multipilot.theory.learning import MIRRORS, dual_averaging
from multipilot.theory.lyapunov import Lyapunov

THETA = (1.0, 2.0)
STARTS = ((0.3, 0.4), (3.2, 0.5), (0.4, 3.6), (3.4, 3.5), (1.8, 0.3), (3.0, 2.0))
STEPS = np.unique(np.logspace(1.5, 4, 14).astype(int))


def phase(_: Results) -> Section:
    system = Lyapunov.of(THETA).system()
    rest, prices = Lyapunov.of(THETA).equilibrium
    curves = []
    for index, start in enumerate(STARTS):
        run = system.run(start, prices * (0.3 + 0.4 * index), 120, points=1500)
        curves.append(Curve("", run.state[0], list(run.state[1]), svg.PATHS[index], markers=False))
    rates = Panel("Rates", "λ₁, packets/s", "λ₂, packets/s", curves, [Mark(rest[0], float(rest[1]), svg.INK, "rest")])
    curves = []
    for index, start in enumerate(STARTS):
        run = system.run(start, prices * (0.3 + 0.4 * index), 120, points=1500)
        curves.append(Curve("", run.state[2], list(run.state[3]), svg.PATHS[index], markers=False))
    price = Panel(
        "Prices", "p₁, s/packet", "p₂, s/packet", curves, [Mark(prices[0], float(prices[1]), svg.INK, "rest")]
    )
    return Section(
        "phase",
        "Phase portrait: all roads lead to one equilibrium",
        [
            "The fluid system dλ/dt = λ(λ₋/(Σλ)² − p)⁺, dp/dt = (λ − θ)⁺ with θ = (1, 2), from six starts. Rates "
            "and prices circle each other into the point λ* = θ, p* = φ(θ) (square).",
        ],
        [draw([rates, price], "Trajectories of two rates and two prices, all ending in one point", height=4.0)],
    )


def lyapunov(_: Results) -> Section:
    function = Lyapunov.of(THETA)
    _rest, prices = function.equilibrium
    curves = []
    for index, start in enumerate(STARTS):
        run = function.system().run(start, prices * (0.3 + 0.4 * index), 80, points=300)
        curves.append(
            Curve("", list(run.time), list(np.maximum(function.along(run), 1e-14)), svg.PATHS[index], markers=False)
        )
    panel = Panel("L(λ, p) along the trajectories", "time, s", "L", curves, log_y=True)
    rng = np.random.default_rng(0)
    points = [(rng.uniform(0.05, 8, 2), rng.uniform(0, 2, 2)) for _ in range(4000)]
    worst = max(function.derivative(r, p) for r, p in points)
    return Section(
        "lyapunov",
        "Lyapunov function: it never grows",
        [
            "L = Σ∫(z − λ*)/k(z) dz + Σ(p − p*)²/(2γ). The paper prints γ(p − p*)² for the second sum; its own "
            "derivative needs 1/(2γ). It is a Lyapunov function while θ is constant, k_i depends on λ_i alone and "
            "λ > 0; where θ follows the rates it can grow, and a test of ours holds an example.",
        ],
        [draw([panel], "The Lyapunov function falls along six trajectories", height=3.4)],
        [f"Largest dL/dt over {len(points)} random points: {worst:.1e} (0 or below, up to rounding)."],
    )


@cache
def _regret() -> dict[str, tuple[list[Any], float]]:
    game = RentSeekingGame.symmetric(4, 0.01)
    found = {}
    for mirror in MIRRORS:
        plays = [dual_averaging(game, int(STEPS[-1]), mirror=mirror, noise=1.0, seed=seed) for seed in range(8)]
        means = [mean_of(float(play.regret(int(m)).mean()) for play in plays) for m in STEPS]
        slope = float(np.polyfit(np.log(STEPS), np.log([max(m.mean, 1e-12) for m in means]), 1)[0])
        found[mirror] = (means, slope)
    return found


def regret(_: Results) -> Section:
    curves = [
        Curve(f"{mirror}, slope {slope:.2f}", list(STEPS), means, colour, bold=True)
        for (mirror, (means, slope)), colour in zip(_regret().items(), (svg.PATHS[0], svg.PATHS[1]), strict=True)
    ]
    first = max(means[0].mean for means, _slope in _regret().values())
    guide = [first * 1.5 * (STEPS[0] / m) ** 0.5 for m in STEPS]
    curves.append(Curve("slope −0.5", list(STEPS), guide, svg.MUTED, dashed=True, markers=False))
    panel = Panel("Average regret of four players", "steps", "regret, units of utility", curves, log_x=True, log_y=True)
    return Section(
        "regret",
        "Learning with noisy gradients: no regret",
        [
            "Four players learn at once by dual averaging, each gradient off by a Gaussian error as large as the "
            "price. Average regret against the best constant rate in hindsight falls as steps^−0.5 or faster.",
        ],
        [draw([panel], "Average regret over steps on logarithmic axes", height=3.6)],
        ["Mean over eight seeds; the paper gives no figure of this."],
    )


def regret_rows(_: Results) -> list[dict[str, Any]]:
    return [{"variant": mirror, "slope": slope, "paper": None} for mirror, (_means, slope) in _regret().items()]


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
    shared = RentSeekingGame(np.array([0.010, 0.011, 0.012]), paths=2)
    rng = np.random.default_rng(1)
    ends = [normalised_equilibrium(shared, [15.0, 20.0], rng.uniform(0.1, 20, (3, 2))) for _ in range(10)]
    sums = np.array([e.sums for e in ends])
    splits = np.array([e.rates[:, 0] / e.sums for e in ends])
    spread = [f"{s.mean():.3f} ± {np.ptp(s) / 2:.0e}" for s in sums.T]
    ranges = [f"{s.min() * 100:.0f}–{s.max() * 100:.0f} %" for s in splits.T]
    return Section(
        "game",
        "The game: Nash and normalised equilibrium",
        [
            "Subflow i bids λ_i, wins λ_i/Σλ and pays p̂λ_i. K players alike meet at λ* = (K − 1)/(K² p̂). With a "
            "capacity there are many equilibria, and one whose multiplier is common to all players.",
        ],
        [
            table(["Nash equilibrium", "found, packets/s", "closed form", "KKT residual"], lines),
            table(
                ["Three connections on paths of 15 and 20 packets/s", "first", "second", "third"],
                [["sum over paths, packets/s", *spread], ["share of the first path, ten starts", *ranges]],
            ),
        ],
        ["A connection's utility knows only the sum over its paths: the sums are unique, the split over paths is not."],
    )
