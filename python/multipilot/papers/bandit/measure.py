"""Everything that the figures stand on: rounds simulated, policies that lived through them, systems compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from multipilot.bandit import policies
from multipilot.papers.bandit.measured import load_table, load_tests
from multipilot.papers.bandit.places import Floats, Place, generate
from multipilot.papers.bandit.policies import BASELINES, CHOSEN, Life, Stream
from multipilot.papers.bandit.stream import SIZES, Outcomes, load_or_simulate
from multipilot.papers.bandit.svm import Svm
from multipilot.papers.results import OWN, SIM, Results
from multipilot.papers.runs import Runner

ROUNDS, QUICK_ROUNDS = 120, 24
SEEDS, QUICK_SEEDS = 10, 2
#: Its many oracles cost as much as all other policies together.
SLOW = {"bootstrapped-ucb": 3}


@dataclass(frozen=True)
class System:
    """A path manager and a congestion controller, as figure 7 compares them."""

    name: str
    policy: str
    controller: str


SYSTEMS = (
    System("bandit, Reno", CHOSEN, "reno"),
    System("bandit, coupled (LIA)", CHOSEN, "lia"),
    System("SVM, Reno", "svm", "reno"),
    System("fullmesh, Reno", "wifi first", "reno"),
    System("fullmesh, coupled (LIA)", "wifi first", "lia"),
)


@dataclass(frozen=True)
class Measured:
    outcomes: list[Outcomes]
    stream: Stream
    lives: dict[str, Life]
    #: What of the places is measured and not generated; empty: nothing.
    real: frozenset[str]

    @cached_property
    def late(self) -> np.ndarray:
        """Rounds of the second half of the stream: what the policies do once they have learnt."""
        return np.arange(len(self.stream)) >= len(self.stream) // 2

    @cached_property
    def size(self) -> np.ndarray:
        return self._gather([o.size for o in self.outcomes])

    @cached_property
    def upload(self) -> np.ndarray:
        return self._gather([o.upload for o in self.outcomes])

    def _gather(self, tables: list[np.ndarray]) -> np.ndarray:
        pairs = zip(self.stream.place, self.stream.round, strict=True)
        return np.array([tables[p][t] for p, t in pairs])

    def completion(self, manager: str = "fullmesh", controller: str = "reno") -> Floats:
        return self._gather([o.completion_s[manager, controller] for o in self.outcomes])

    def latency(self, manager: str = "fullmesh", controller: str = "reno") -> Floats:
        return self._gather([o.latency_ms[manager, controller] for o in self.outcomes])

    def of(self, policy: str, controller: str = "reno", seed: int = 0) -> tuple[Floats, Floats]:
        """Completion (s) and latency (ms) of each round under a policy (of its lives, the one with this seed)."""
        rounds = np.arange(len(self.stream))
        if policy in ("single", "ndiffports", "backup"):
            return self.completion(policy)[:, 0], self.latency(policy)[:, 0]
        if policy == "fastest":
            arms = self.completion("fullmesh", controller).argmin(axis=1)
        else:
            life = self.lives[policy]
            arms = life.arms[seed % len(life.arms)]
        completion = self.completion("fullmesh", controller)[rounds, arms]
        latency = self.latency("fullmesh", controller)[rounds, arms]
        if policy == "svm":
            alone = ~Svm.shipped().decide(self.stream.context)[1]
            completion = np.where(alone, self.completion("single")[rounds, arms], completion)
            latency = np.where(alone, self.latency("single")[rounds, arms], latency)
        return completion, latency


def measure(runner: Runner, results: Results, recall: bool, data: Path | None) -> None:
    """Simulates what is missing of the rounds and lets every policy live through them."""
    rounds = QUICK_ROUNDS if runner.quick else ROUNDS
    places = _places(data, rounds)
    found = [load_or_simulate(place, runner.out / "rounds", recall=recall) for place in places]
    outcomes = [o for o in found if o is not None]
    if len(outcomes) < len(places):
        return
    stream = Stream.of(outcomes)
    seeds = min(runner.seeds, QUICK_SEEDS if runner.quick else SEEDS)
    names = [*policies(), *BASELINES]
    lives = {name: Life.of(stream, name, min(seeds, SLOW.get(name, seeds))) for name in names}
    results.provenance[SIM, OWN] = [replace(o.origin, seeds=seeds) for o in outcomes if o.origin]
    results.own = Measured(outcomes, stream, lives, frozenset().union(*(p.real for p in places)))


def _places(data: Path | None, rounds: int) -> list[Place]:
    if data is None:
        return generate(rounds)
    return load_tests(data, rounds) if data.is_dir() else load_table(data)


def measured(results: Results) -> Measured | None:
    own = results.own
    return own if isinstance(own, Measured) else None


def label(size: int) -> str:
    return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size // 1000} kB"


SIZE_LABELS = [label(size) for size in SIZES]
