"""Everything that the figures stand on: rounds simulated, policies that lived through them, systems compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from multipilot.bandit import policies
from multipilot.papers.provenance import Provenance, of_files, simulator_basis
from multipilot.papers.results import OWN, SIM, Results
from multipilot.papers.runs import Runner
from reproductions.bandit import stream
from reproductions.bandit.measured import load_tests
from reproductions.bandit.places import FEATURES, Floats, generate
from reproductions.bandit.policies import BASELINES, CHOSEN, Life, Stream, live
from reproductions.bandit.stream import SIZES, Outcomes, load_or_simulate, simulate
from reproductions.bandit.svm import Svm

ROUNDS, QUICK_ROUNDS, SAMPLE_ROUNDS = 120, 24, 16
SEEDS, QUICK_SEEDS = 10, 2


@dataclass(frozen=True)
class System:
    """A path manager and a congestion controller, as figure 7 compares them."""

    name: str
    policy: str
    controller: str


#: Rounds within the Wi-Fi's coverage, and out of it.
KINDS = ("ordinary", "leaving")
SYSTEMS = (
    System("bandit, Reno", CHOSEN, "reno"),
    System("bandit, coupled (LIA)", CHOSEN, "lia"),
    System("SVM, Reno", "svm", "reno"),
    System("fullmesh, Reno", "wifi first", "reno"),
    System("fullmesh, coupled (LIA)", "wifi first", "lia"),
)


@dataclass(frozen=True)
class Draw:
    """One draw of the network, and the arms that each policy chose in it."""

    outcomes: list[Outcomes]
    stream: Stream
    arms: dict[str, npt.NDArray[np.intp]]

    @property
    def real(self) -> frozenset[str]:
        """What of the places is measured and not generated; empty: nothing."""
        return frozenset().union(*(o.place.real for o in self.outcomes))

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

    @cached_property
    def leaving(self) -> np.ndarray:
        """Rounds out of the Wi-Fi's coverage."""
        return self._gather([o.place.leaving for o in self.outcomes])

    def kind(self, name: str) -> np.ndarray:
        """Rounds of the second half: ``ordinary`` or ``leaving``."""
        chosen: np.ndarray = self.late & (self.leaving if name == "leaving" else ~self.leaving)
        return chosen

    def saved(self, policy: str, chosen: np.ndarray) -> float:
        """Share of the mean completion time of these rounds that a policy saves against Wi-Fi first."""
        return 1 - float(self.of(policy)[0][chosen].mean() / self.of("wifi first")[0][chosen].mean())

    def mbps(self, policy: str, place: int, chosen: np.ndarray) -> Floats:
        """Throughput of these rounds at a place."""
        own = chosen & (self.stream.place == place)
        rate: Floats = self.size[own] * 8e-6 / self.of(policy)[0][own]
        return rate

    def _gather(self, tables: list[np.ndarray]) -> np.ndarray:
        pairs = zip(self.stream.place, self.stream.round, strict=True)
        return np.array([tables[p][t] for p, t in pairs])

    def completion(self, manager: str = "fullmesh", controller: str = "reno") -> Floats:
        return self._gather([o.completion_s[manager, controller] for o in self.outcomes])

    def latency(self, manager: str = "fullmesh", controller: str = "reno") -> Floats:
        return self._gather([o.latency_ms[manager, controller] for o in self.outcomes])

    def of(self, policy: str, controller: str = "reno") -> tuple[Floats, Floats]:
        """Completion (s) and latency (ms) of each round under a policy."""
        rounds = np.arange(len(self.stream))
        if policy in ("single", "ndiffports", "backup"):
            return self.completion(policy)[:, 0], self.latency(policy)[:, 0]
        arms = self.completion("fullmesh", controller).argmin(axis=1) if policy == "fastest" else self.arms[policy]
        completion = self.completion("fullmesh", controller)[rounds, arms]
        latency = self.latency("fullmesh", controller)[rounds, arms]
        if policy == "svm":
            alone = ~Svm.shipped().decide(self.stream.context[:, : len(FEATURES)])[1]
            completion = np.where(alone, self.completion("single")[rounds, arms], completion)
            latency = np.where(alone, self.latency("single")[rounds, arms], latency)
        return completion, latency


@dataclass(frozen=True)
class Measured:
    """Ten draws of the network, each of which every policy lives through once. Pictures show the first."""

    draws: list[Draw]
    lives: dict[str, Life]


def measure(runner: Runner, results: Results, recall: bool, data: Path | None) -> None:
    """Simulates what is missing of the rounds and lets every policy live through them."""
    rounds = QUICK_ROUNDS if runner.quick else ROUNDS
    seeds = range(1, 1 + min(runner.seeds, QUICK_SEEDS if runner.quick else SEEDS))
    draws: list[Draw] = []
    origins: list[Provenance] = []
    for seed in seeds:
        places = generate(rounds, seed) if data is None else load_tests(data, rounds, seed)
        found = [load_or_simulate(place, runner.out / "rounds", seed, recall) for place in places]
        outcomes = [o for o in found if o is not None]
        if len(outcomes) < len(places):
            return
        draws.append(_draw(outcomes, seed))
        origins += [replace(o.origin, seeds=len(seeds)) for o in outcomes if o.origin]
    results.provenance[SIM, OWN] = origins
    results.own = _lived(draws)


def _draw(outcomes: list[Outcomes], seed: int) -> Draw:
    stream = Stream.of(outcomes)
    return Draw(outcomes, stream, {name: live(stream, name, seed) for name in (*policies(), *BASELINES)})


def _lived(draws: list[Draw]) -> Measured:
    names = draws[0].arms
    return Measured(draws, {name: Life.of([(draw.stream, draw.arms[name]) for draw in draws]) for name in names})


def sample(results: Results) -> None:
    """A few rounds of a few places."""
    places = generate(SAMPLE_ROUNDS, 1)
    chosen = [*places[:3], next(place for place in places if place.leaving.any())]
    results.own = _lived([_draw([simulate(place) for place in chosen], 1)])


def basis() -> str:
    folder = Path(__file__).parent
    own = of_files(*(folder / name for name in ("measure.py", "places.py", "policies.py", "svm.py", "svm.json")))
    return f"{stream.basis()}{simulator_basis(*policies())}{own}"


def measured(results: Results) -> Measured | None:
    own = results.own
    return own if isinstance(own, Measured) else None


def label(size: int) -> str:
    return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size // 1000} kB"


SIZE_LABELS = [label(size) for size in SIZES]
