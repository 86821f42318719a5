"""Monitor interval by monitor interval: an actor beside plain MPCC in topology c, as figures 6 to 8 show it, and
alone on paths within and beyond what training draws from.

Run in the environment of :mod:`multipilot.env`, in this process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import multipilot
from multipilot.env.task import Task
from multipilot.files import replacing
from multipilot.learn.evaluate import Played, hold, of_file, play
from multipilot.papers.provenance import Provenance, commit, of_files, simulator_basis, today
from multipilot.papers.results import OWN, SIM, Results
from multipilot.papers.runs import Runner
from multipilot.papers.sources import ENVIRONMENT
from multipilot.stats import Mean, mean_of

#: Monitor intervals of each subflow, and evaluation seeds.
INTERVALS, SEEDS, QUICK_SEEDS = 100, 12, 4
#: First of the evaluation seeds: neither those by which training chooses an actor (``multipilot.learn.training``), nor
#: those from 3,000,000 on, by which the seed of training was chosen.
SEED = 4_000_000
#: Modules that decide what an actor sees and earns.
PACKAGE = Path(multipilot.__file__).parent
PLAYING = ("env/lanes.py", "env/task.py", "learn/evaluate.py")
#: No actor: both connections are MPCC.
PLAIN = "MPCC"


def _scenario(connections: int, **path: Any) -> dict[str, Any]:
    each = {"rate": "100Mbit", "delay": "20ms", "queue": "400p", **path}
    return {
        "duration": "3600s",
        "paths": {"one": each, "two": each},
        "connections": [{"name": f"c{k}"} for k in range(connections)],
        "variants": [{"controller": "ddpg-mpcc"}],
    }


BESIDE = _scenario(2)
#: As scenarios/ddpg/unseen-paths.toml, less its unlike paths.
CONDITIONS: Mapping[str, dict[str, Any]] = {
    "within: 100 Mbit/s, 40 ms": _scenario(1),
    "slow: 2 Mbit/s": _scenario(1, rate="2Mbit", queue="100p"),
    "fast: 500 Mbit/s": _scenario(1, rate="500Mbit", queue="1bdp"),
    "far: 300 ms": _scenario(1, delay="150ms", queue="1bdp"),
    "shallow: 0.05 bdp of queue": _scenario(1, queue="0.05bdp"),
    "2 % loss": _scenario(1, loss=0.02),
    "8 % loss": _scenario(1, loss=0.08),
}


@dataclass(frozen=True)
class Actor:
    """``file`` is None for plain MPCC."""

    name: str
    made_by: str
    file: Path | None = None
    shipped: bool = False

    @property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8") if self.file else ""

    @property
    def by_hand(self) -> bool:
        return self.made_by.startswith("by hand")

    @property
    def history(self) -> int:
        return int(json.loads(self.text)["history"]) if self.file else 1


@dataclass(frozen=True)
class Course:
    """One connection, interval by interval: rows are evaluation seeds, each the mean over the two subflows.

    Rates in Mbit/s; ``reward`` is U over the utility of full paths, cut off at −1 and 1.
    """

    rate: np.ndarray
    utility: np.ndarray
    reward: np.ndarray

    def late(self, what: str) -> Mean:
        return mean_of(self.late_of(what))

    def late_of(self, what: str) -> list[float]:
        """Second half of the intervals: one value a seed."""
        values: np.ndarray = getattr(self, what)
        return [float(v) for v in values[:, INTERVALS // 2 :].mean(axis=1)]

    def to_json(self) -> dict[str, Any]:
        return {key: np.round(value, 4).tolist() for key, value in vars(self).items()}

    @staticmethod
    def of(found: Mapping[str, Any]) -> Course:
        return Course(**{key: np.array(value) for key, value in found.items()})


@dataclass
class Measured:
    """By the actor's name: (it, the MPCC beside it) in topology c, and rewards a seed under each condition."""

    actors: dict[str, Actor] = field(default_factory=dict)
    beside: dict[str, tuple[Course, Course]] = field(default_factory=dict)
    alone: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    #: Learning curves of the trained actors that the user named.
    training: dict[str, list[dict[str, float]]] = field(default_factory=dict)


def measured(results: Results) -> Measured:
    return results.own if isinstance(results.own, Measured) else Measured()


def who_ships(results: Results) -> str:
    """A sentence on the actor that ships."""
    actor = next((a for a in measured(results).actors.values() if a.shipped), None)
    if actor is None:
        return "The actor that ships was not measured here."
    if actor.by_hand:
        return "The actor that ships is set by hand, not trained."
    return f"The actor that ships is trained ({actor.made_by})."


def actors(data: Path | None) -> list[Actor]:
    """Plain MPCC, the actors that ship, and those in a folder that ``multipilot train`` wrote."""
    found = [Actor(PLAIN, "the controller alone")]
    shipped = Path(__file__).parents[2] / "crates" / "policy" / "actors"
    found += [_actor(file, "as shipped", True) for file in sorted(shipped.glob("*.json"))]
    if data is not None:
        files = [data] if data.is_file() else sorted({*data.glob("actor.json"), *data.glob("*/actor.json")})
        if not files:
            raise ValueError(f"--data {data}: no actor.json there or a folder below; multipilot train writes them")
        found += [_actor(file, file.parent.name, False) for file in files]
    return found


def _actor(file: Path, where: str, shipped: bool) -> Actor:
    made_by = str(json.loads(file.read_text(encoding="utf-8")).get("made_by", "unknown"))
    kind = "set by hand" if made_by.startswith("by hand") else made_by.removeprefix("multipilot train ").split(" --")[0]
    return Actor(f"{kind}, {where}", made_by, file, shipped)


def measure(runner: Runner, results: Results, recall: bool, data: Path | None) -> None:
    """Plays what is missing; a file of ``OUT/intervals`` keeps what was."""
    seeds = QUICK_SEEDS if runner.quick else max(SEEDS, runner.seeds)
    found = Measured()
    for actor in actors(data):
        document = _recalled(actor, seeds, runner.out / "intervals", recall)
        if document is None:
            continue
        found.actors[actor.name] = actor
        results.provenance.setdefault((SIM, OWN), []).append(Provenance(**document["origin"]))
        found.beside[actor.name] = (Course.of(document["tested"]), Course.of(document["rival"]))
        found.alone[actor.name] = document["alone"]
        curve = actor.file.with_name("curve.json") if actor.file and not actor.shipped else None
        if curve is not None and curve.exists():
            found.training[actor.name] = json.loads(curve.read_text(encoding="utf-8"))
    results.own = found


def sample(results: Results) -> None:
    """One seed, under the first of the conditions."""
    found = Measured()
    for actor in actors(None):
        found.actors[actor.name] = actor
        found.beside[actor.name] = _beside(actor, 1)
        name, scenario = next(iter(CONDITIONS.items()))
        found.alone[actor.name] = {name: _alone(actor, scenario, 1)}
    results.own = found


def basis() -> str:
    """The environment's Python turns the simulator's facts into observations and rewards."""
    own = of_files(Path(__file__), *(PACKAGE / name for name in PLAYING))
    return simulator_basis("ddpg-mpcc", ENVIRONMENT) + own[:6]


def _recalled(actor: Actor, seeds: int, folder: Path, recall: bool) -> dict[str, Any] | None:
    asked = json.dumps([basis(), actor.text, seeds, INTERVALS, BESIDE, CONDITIONS], sort_keys=True)
    file = folder / f"{hashlib.sha256(asked.encode()).hexdigest()[:10]}.json"
    if file.exists():
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return document
    if recall:
        return None
    tested, rival = _beside(actor, seeds)
    document = {
        "actor": actor.name,
        "origin": asdict(Provenance(commit(Path(__file__).parent), today(), basis(), seeds)),
        "tested": tested.to_json(),
        "rival": rival.to_json(),
        "alone": {name: _alone(actor, scenario, seeds) for name, scenario in CONDITIONS.items()},
    }
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(file) as fresh:
        fresh.write_text(json.dumps(document), encoding="utf-8")
    return document


def _beside(actor: Actor, seeds: int) -> tuple[Course, Course]:
    # Intervals come in the order of the subflows' own clocks, so that the slowest one says how many are needed.
    steps = 8 * INTERVALS
    while True:
        played = _play(actor, BESIDE, seeds, steps, watched=[1] if actor.file else [0, 1])
        if all(_counts(played, seeds, c).min() >= INTERVALS for c in (0, 1)):
            return _course(played.of(0), seeds), _course(played.of(1), seeds)
        steps *= 2


def _alone(actor: Actor, scenario: dict[str, Any], seeds: int) -> list[float]:
    """Mean reward of each seed over 100 intervals of both subflows."""
    played = _play(actor, scenario, seeds, 2 * INTERVALS, watched=[] if actor.file else [0])
    return [float(played.rewards[played.lane == lane].mean()) for lane in range(seeds)]


def _play(actor: Actor, scenario: dict[str, Any], seeds: int, steps: int, watched: list[int]) -> Played:
    policy = of_file(actor.file) if actor.file else hold
    task = Task(scenario, start=None)
    return play(policy, task, lanes=seeds, steps=steps, seed=SEED, history=actor.history, watched=watched)


def _counts(played: Played, seeds: int, connection: int) -> np.ndarray:
    """Intervals of each lane and subflow of a connection."""
    slots = [connection * 8, connection * 8 + 1]
    return np.array([[((played.lane == lane) & (played.agent == s)).sum() for s in slots] for lane in range(seeds)])


def _course(played: Played, seeds: int) -> Course:
    columns: dict[str, np.ndarray] = {
        "rate": played.fact["rate"] * 8e-6,
        "utility": played.fact["utility"],
        "reward": played.rewards,
    }
    slots = np.unique(played.agent)
    found: dict[str, np.ndarray] = {name: np.zeros((seeds, INTERVALS)) for name in columns}
    for lane in range(seeds):
        for slot in slots:
            mine = np.flatnonzero((played.lane == lane) & (played.agent == slot))[:INTERVALS]
            for name, values in columns.items():
                found[name][lane] += values[mine] / len(slots)
    return Course(**found)
