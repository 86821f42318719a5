"""MS-UCB: regret alone, what federation saves a newcomer, and what the printed reward and the printed merge do."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np

from multipilot import console
from multipilot.federation import Known, SuperArms, merge
from multipilot.papers.charts import Curve, Panel, draw
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import SIM, Results
from multipilot.report import svg
from multipilot.stats import Mean, mean_of
from reproductions.drones.series import delays

#: Mean delays of seven links, ms; each draw is uniform within half of that around it.
DELAYS = {"a": 12.0, "b": 60.0, "c": 18.0, "d": 45.0, "e": 15.0, "f": 55.0, "g": 50.0}
POPULATION = "population"
SIZE, REFERENCE_MS = 3, 100.0
ROUNDS, SEEDS = 10_000, 5
#: Devices that a newcomer has heard of, each after this many rounds of its own.
BEFORE, THEIR_ROUNDS = (0, 1, 4, 16), 200


def _worth(links: list[str]) -> float:
    return sum(1 - DELAYS[link] / REFERENCE_MS for link in links)


BEST = sum(sorted((1 - d / REFERENCE_MS for d in DELAYS.values()), reverse=True)[:SIZE])


def play(device: SuperArms, rounds: int, draw: np.random.Generator, printed: bool = False) -> np.ndarray:
    """Expected reward of each round's super-arm."""
    worths = np.empty(rounds)
    units = draw.random((rounds, SIZE))
    for t in range(rounds):
        chosen = device.choose()
        worths[t] = _worth(chosen)
        delays = {link: DELAYS[link] * (0.5 + units[t, i]) for i, link in enumerate(chosen)}
        reference = max(delays.values()) if printed else REFERENCE_MS
        device.learn({link: max(0.0, 1 - delay / reference) for link, delay in delays.items()})
    return worths


@cache
def _runs(printed: bool) -> np.ndarray:
    """Cumulative regret by round, one row a seed."""
    return np.array(
        [
            np.cumsum(BEST - play(SuperArms(list(DELAYS), SIZE, seed=s), ROUNDS, np.random.default_rng(s), printed))
            for s in range(SEEDS)
        ]
    )


def regrets(printed: bool = False) -> np.ndarray:
    """Mean cumulative regret by round."""
    mean: np.ndarray = _runs(printed).mean(axis=0)
    return mean


def slope() -> Mean:
    """Least-squares slope of regret against ln t over the last nine tenths, one a seed."""
    at = np.log(np.arange(ROUNDS // 10, ROUNDS) + 1.0)
    return mean_of(float(np.polyfit(at, run[ROUNDS // 10 :], 1)[0]) for run in _runs(False))


@cache
def _newcomer(before: int, seed: int) -> np.ndarray:
    """Expected rewards of a newcomer that begins with what so many devices know."""
    reports: list[Known] = []
    for device in range(before):
        one = SuperArms(list(DELAYS), SIZE, seed=1000 * seed + device)
        play(one, THEIR_ROUNDS, np.random.default_rng([seed, device]))
        reports.append(one.own)
    newcomer = SuperArms(list(DELAYS), SIZE, seed=seed)
    newcomer.begin_with(merge(reports))
    return play(newcomer, 2000, np.random.default_rng([seed, 99]))


def rounds_to_best(before: int, span: int = 20) -> Mean:
    """Rounds until the mean of the next ``span`` is within 5 % of the best super-arm's."""
    found = []
    for seed in range(2 * SEEDS + 1):
        means = np.convolve(_newcomer(before, seed), np.ones(span) / span, "valid")
        good = np.flatnonzero(means >= 0.95 * BEST)
        found.append(float(good[0]) if len(good) else float(len(means)))
    return mean_of(found)


def _population(results: Results) -> list[list[str]]:
    lines = []
    for name in ("ms-ucb", "ms-ucb-federated"):
        rows = results.find(SIM, POPULATION, f"ld-mpsp {name}")
        found = [delays(row) * 1e3 for row in rows]
        near = mean_of(
            100 * sum(row["path_mbps"][path] for path in "ace") / sum(row["path_mbps"].values()) for row in rows
        )
        quantiles = (number(mean_of(float(np.quantile(one, q)) for one in found), 0) for q in (0.5, 0.95))
        lines.append([name, *quantiles, number(near, 0)])
    return lines


def show(results: Results) -> Section:
    at = np.unique(np.geomspace(10, ROUNDS, 60).astype(int)) - 1
    left = Panel(
        "Cumulative regret, one device",
        "rounds",
        "regret",
        [
            Curve("fixed reference", list(at + 1.0), list(regrets(False)[at]), svg.ACCENT, bold=True, markers=False),
            Curve("reward as printed", list(at + 1.0), list(regrets(True)[at]), svg.MUTED, dashed=True, markers=False),
        ],
        log_x=True,
        log_y=True,
    )
    curves = []
    for before, colour in zip(BEFORE, svg.PATHS, strict=False):
        mean = np.mean([_newcomer(before, seed) for seed in range(2 * SEEDS + 1)], axis=0) / BEST * 100
        edges = np.unique(np.geomspace(1, len(mean), 25).astype(int))
        means = [float(mean[a - 1 : b].mean()) for a, b in pairwise(edges)]
        label = "alone" if not before else f"after {before} device" + "s" * (before > 1)
        curves.append(Curve(label, list(edges[:-1]), means, colour, bold=not before, markers=False))
    right = Panel("A newcomer's super-arms", "rounds", "% of the best", curves, log_x=True, from_zero=False, rules=[])
    lines = [[str(before), number(rounds_to_best(before), 0)] for before in BEFORE]
    return Section(
        "MS-UCB: which links, alone and federated",
        [
            f"Three of seven links whose mean delays are {', '.join(f'{d:.0f}' for d in DELAYS.values())} ms. Slope of "
            f"regret over the logarithm of time, last nine tenths of {ROUNDS:,} rounds, {SEEDS} draws: "
            f"{console.mean(slope(), 0)}.",
        ],
        [
            draw([left, right], "Regret of MS-UCB over rounds, and what a newcomer gains by federation", height=3.5),
            table(["ten thousand devices", "median, ms", "95 %, ms", "on near links, %"], _population(results)),
            table(["devices heard of, 200 rounds each", "rounds until within 5 % of the best super-arm"], lines),
        ],
        [
            "The reward as printed divides by the slowest link of the chosen super-arm; the fixed reference is "
            f"{REFERENCE_MS:.0f} ms. The bonus √((n+1) ln(t+1)/u) is LLR's.",
            "Ten thousand devices: each downloads 5 MB once, over three of seven links, and begins on a far one; a "
            "round of the path manager lasts 200 ms.",
        ],
    )
