"""The values that ``claims.toml`` is about, by name. Every name is there in every world, measured or not.

    late.POLICY        mean reward in the second half of the rounds
    gain.KIND.WHAT     throughput of the bandit over that of Wi-Fi first, less 1, second half; KIND: ordinary or
                       leaving (out of the Wi-Fi's coverage); WHAT: best, median or worst of the places
    paper.WHAT         the same of the paper's policy (active explorer), ordinary
    saved.KIND         share of the mean completion time that the bandit saves; hindsight.KIND: that could be saved
    reward.misled      of the rounds in which LTE ends sooner, the share in which Wi-Fi alone is rewarded
    ahead.paper        share of the rounds in which the paper's policy is ahead by 2 %, mean over the places
    saved.SIZE         the same of ordinary rounds with this size; hindsight.SIZE: that could be saved
    pictures.WHAT      figure 7: share of the pictures in which a bandit system is first; WHAT: fast, latency, both, and
                       near: of a latency within 10 % of the lowest
    place.NAME.MANAGER ms of completion at one of the four places of the scenarios

Each draw of the network gives one number: the places, their rounds and what the policies draw.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from multipilot.bandit import policies
from multipilot.papers.claims.quantity import MISSING, Values
from multipilot.papers.results import SIM, Results
from multipilot.stats import Mean, mean_of
from reproductions.bandit import worlds
from reproductions.bandit.figures import SHOWN, leads, system_points
from reproductions.bandit.measure import KINDS, SIZE_LABELS, Draw, measured
from reproductions.bandit.policies import BASELINES, CHOSEN
from reproductions.bandit.stream import SIZES

GAINS: dict[str, Callable[[list[float]], float]] = {
    "best": max,
    "median": lambda gains: float(np.median(gains)),
    "worst": min,
}
FIRSTS = ("fast", "latency", "both", "near")
#: The policy with which the paper measures.
THEIRS = "active-explorer"


def values(results: Results, world: str) -> Values:
    m = measured(results) if world == SIM else None
    draws = m.draws if m else []
    found: dict[str, Mean] = {
        f"late.{name}": mean_of(float(v) for v in m.lives[name].late()) if m else MISSING
        for name in (*policies(), *BASELINES)
    }
    for kind in KINDS:
        gains = [_gains(d, kind, CHOSEN) for d in draws]
        for name, of in GAINS.items():
            found[f"gain.{kind}.{name}"] = mean_of(of(one) for one in gains if one)
        chosen = [(d, d.kind(kind)) for d in draws if d.kind(kind).any()]
        found[f"saved.{kind}"] = mean_of(d.saved(CHOSEN, rounds) for d, rounds in chosen)
        found[f"hindsight.{kind}"] = mean_of(d.saved("fastest", rounds) for d, rounds in chosen)
    theirs = [_gains(d, "ordinary", THEIRS) for d in draws]
    found |= {f"paper.{name}": mean_of(of(one) for one in theirs if one) for name, of in GAINS.items()}
    for label, size in zip(SIZE_LABELS, SIZES, strict=True):
        found[f"saved.{label}"] = mean_of(d.saved(CHOSEN, (d.size == size) & d.kind("ordinary")) for d in draws)
        found[f"hindsight.{label}"] = mean_of(d.saved("fastest", (d.size == size) & d.kind("ordinary")) for d in draws)
    found["reward.misled"] = mean_of(_misled(d) for d in draws)
    found["ahead.paper"] = mean_of(_ahead(d) for d in draws)
    pictures = [_firsts(d) for d in draws]
    for index, name in enumerate(FIRSTS):
        found[f"pictures.{name}"] = mean_of(one[index] for one in pictures)
    for name in worlds.CHOSEN:
        for manager in worlds.VARIANTS:
            found[f"place.{name}.{manager}"] = worlds.completion_ms(results, world, name, manager)
    return found


def _gains(draw: Draw, kind: str, policy: str) -> list[float]:
    chosen = draw.kind(kind)
    pairs = ([draw.mbps(who, place, chosen) for who in (policy, "wifi first")] for place in range(len(draw.outcomes)))
    return [float(bandit.mean() / stock.mean() - 1) for bandit, stock in pairs if len(stock)]


def _ahead(draw: Draw) -> float:
    pairs = ([draw.mbps(who, p, draw.late) for who in (THEIRS, "wifi first")] for p in range(len(draw.outcomes)))
    return float(np.mean([np.mean(bandit > 1.02 * stock) for bandit, stock in pairs]))


def _misled(draw: Draw) -> float:
    """Of the rounds in which LTE ends sooner, the share in which Wi-Fi alone is rewarded."""
    completion = draw.completion()
    sooner = completion[:, 1] < completion[:, 0]
    wifi, lte = draw.stream.rewards.T
    return float((wifi & ~lte)[sooner].mean())


def _firsts(draw: Draw) -> tuple[float, float, float, float]:
    """In the order of :data:`FIRSTS`."""
    found = []
    for place in range(min(SHOWN, len(draw.outcomes))):
        for upload in (False, True):
            fast, latency, near = leads(system_points(draw, place, upload))
            found.append((fast, latency, fast and latency, near))
    first, quick, both, near = np.mean(found, axis=0)
    return float(first), float(quick), float(both), float(near)
