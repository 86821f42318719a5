"""The values that ``claims.toml`` is about, by name. Every name is there in every world, measured or not.

    late.POLICY        mean reward in the second half of the rounds
    gain.WHAT          throughput of the bandit over that of Wi-Fi first, less 1, second half; WHAT: best, median or
                       worst of the places
    ahead.least        share of the rounds in which the bandit is ahead by 2 %, at the place where that is least
    saved.SIZE         share of the mean completion time that the bandit saves; hindsight.SIZE: that could be saved
    pictures.WHAT      figure 7: share of the pictures in which a bandit system is first; WHAT: fast, latency, both
    place.NAME.MANAGER ms of completion at one of the three places of the scenarios

Each of the bandit's lives gives one number: they differ in what the policies draw, and share one draw of the network.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from multipilot.bandit import policies
from multipilot.papers.bandit import worlds
from multipilot.papers.bandit.figures import SHOWN
from multipilot.papers.bandit.measure import SIZE_LABELS, SYSTEMS, Measured, measured
from multipilot.papers.bandit.policies import BASELINES, CHOSEN, FIXED, Life
from multipilot.papers.bandit.stream import SIZES
from multipilot.papers.claims.quantity import MISSING, Values, constant
from multipilot.papers.results import SIM, Results
from multipilot.stats import Mean, mean_of

GAINS: dict[str, Callable[[list[float]], float]] = {
    "best": max,
    "median": lambda gains: float(np.median(gains)),
    "worst": min,
}
FIRSTS = ("fast", "latency", "both")


def values(results: Results, world: str) -> Values:
    m = measured(results) if world == SIM else None
    found: dict[str, Mean] = {
        f"late.{name}": _late(m.lives[name]) if m else MISSING for name in (*policies(), *BASELINES)
    }
    seeds = range(len(m.lives[CHOSEN].arms)) if m else range(0)
    gains = [_gains(m, seed) for seed in seeds] if m else []
    for name, of in GAINS.items():
        found[f"gain.{name}"] = mean_of(of(one) for one in gains)
    found["ahead.least"] = mean_of(_ahead(m, seed) for seed in seeds) if m else MISSING
    for label, size in zip(SIZE_LABELS, SIZES, strict=True):
        found[f"saved.{label}"] = mean_of(_saved(m, CHOSEN, size, seed) for seed in seeds) if m else MISSING
        found[f"hindsight.{label}"] = constant(_saved(m, "fastest", size, 0)) if m else MISSING
    pictures = [_firsts(m, seed) for seed in seeds] if m else []
    for index, name in enumerate(FIRSTS):
        found[f"pictures.{name}"] = mean_of(one[index] for one in pictures)
    for name in worlds.CHOSEN:
        for manager in worlds.VARIANTS:
            found[f"place.{name}.{manager}"] = worlds.completion_ms(results, world, name, manager)
    return found


def _late(life: Life) -> Mean:
    """What draws nothing has one life, and no doubt of it."""
    late = life.late()
    return constant(float(late[0])) if life.name in FIXED else mean_of(float(v) for v in late)


def _by_place(m: Measured, policy: str, seed: int) -> list[np.ndarray]:
    rate = m.size * 8e-6 / m.of(policy, seed=seed)[0]
    return [rate[(m.stream.place == place) & m.late] for place in range(len(m.outcomes))]


def _gains(m: Measured, seed: int) -> list[float]:
    pairs = zip(_by_place(m, CHOSEN, seed), _by_place(m, "wifi first", 0), strict=True)
    return [float(bandit.mean() / stock.mean() - 1) for bandit, stock in pairs]


def _ahead(m: Measured, seed: int) -> float:
    pairs = zip(_by_place(m, CHOSEN, seed), _by_place(m, "wifi first", 0), strict=True)
    return min(float(np.mean(bandit > 1.02 * stock)) for bandit, stock in pairs)


def _saved(m: Measured, policy: str, size: int, seed: int) -> float:
    chosen = (m.size == size) & m.late
    return 1 - float(m.of(policy, seed=seed)[0][chosen].mean() / m.of("wifi first")[0][chosen].mean())


def _firsts(m: Measured, seed: int) -> tuple[float, float, float]:
    fast, quick = [], []
    outcomes = [(s.name.startswith("bandit"), *m.of(s.policy, s.controller, seed)) for s in SYSTEMS]
    for place in range(min(SHOWN, len(m.outcomes))):
        for upload in (False, True):
            chosen = (m.stream.place == place) & (m.upload == upload) & m.late
            rates = [(float((m.size[chosen] / completion[chosen]).mean()), own) for own, completion, _ in outcomes]
            delays = [(float(latency[chosen].mean()), own) for own, _, latency in outcomes]
            fast.append(max(rates)[1])
            quick.append(min(delays)[1])
    both = np.logical_and(fast, quick)
    return float(np.mean(fast)), float(np.mean(quick)), float(both.mean())
