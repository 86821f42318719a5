"""The loop: collect, learn, evaluate, save. A round is one episode in every lane, and a checkpoint lies between rounds.

What a round does depends on the checkpoint before it alone, so that a run that was stopped and resumed ends as one that
was not, bit by bit, and a killed one loses the round under way.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from multipilot.env.lanes import Floats, Lanes
from multipilot.env.task import BASE, Task
from multipilot.files import replacing
from multipilot.learn import ddpg, logs, td3, twin_average
from multipilot.learn.evaluate import Played, Policy, hold, play
from multipilot.learn.networks import Network, act
from multipilot.learn.replay import HIDDEN, Batch, OrnsteinUhlenbeck, Replay, hidden, taken

ALGORITHMS: dict[str, ModuleType] = {"ddpg": ddpg, "td3": td3, "twin-average": twin_average}

#: Conditions that training draws from.
TRAINING = Task(
    {**BASE, "segment_train": 1},
    rate_mbps=(5, 100),
    rtt_ms=(15, 100),
    queue_bdp=(0.3, 3),
    loss=(0.0, 0.05),
)


def conditions(loss: float, lossy: float, jitter_ms: float, beta: int | None = None) -> Task:
    """As ``TRAINING`` with other loss and jitter, and another weight of loss in the utility, thousandths."""
    jitter = (0.0, jitter_ms) if jitter_ms else None
    weighed = {} if beta is None else {"variants": [{"controller": "ddpg-mpcc", "parameters": {"beta": beta}}]}
    scenario = {**BASE, "segment_train": 1, **weighed}
    return replace(TRAINING, scenario=scenario, loss=(0.0, loss), lossy=lossy, jitter_ms=jitter)


CHECKPOINT, CURVE, ACTOR = "checkpoint.pickle", "curve.json", "actor.json"


@dataclass(frozen=True)
class Plan:
    """What a run of training is. Rewards are U over the utility of full paths, cut off at -1, for a queue
    that fills within an interval costs a hundred times what it could ever earn; a round trip that falls earns
    nothing."""

    algorithm: str = "td3"
    seed: int = 1
    rounds: int = 28
    #: Episodes at once, and questions an episode.
    lanes: int = 16
    steps: int = 400
    history: int = 4
    batch: int = 128
    #: Gradient steps for each question of every lane.
    updates: int = 4
    buffer: int = 400_000
    #: Rounds with random actions, before the actor acts.
    warm_up: int = 2
    #: Rounds of logs of plain MPCC, before anything acts: as many as ``rounds`` is offline training.
    logs: int = 0
    #: Records of kernel runs: the rounds of logs learn from these, in place of simulated MPCC.
    records: tuple[str, ...] = ()
    #: Rounds between evaluations.
    every: int = 4
    #: In one of so many rounds two connections share the paths, both steered by the actor; 0: never.
    competing: int = 0
    threads: int = 1
    task: Task = field(default_factory=lambda: TRAINING)
    #: For a test of tests: rewards in random order, from which nothing can be learnt.
    shuffle: bool = False

    def settings(self, logged: bool = False) -> Any:
        """The algorithm's; while there are only logs TD3 keeps close to what was done in them."""
        settings = ALGORITHMS[self.algorithm].Settings()
        return replace(settings, cloning=CLONING) if logged and hasattr(settings, "cloning") else settings

    def stamp(self) -> str:
        """What a checkpoint must agree on to go on from; the number of rounds and threads may change."""
        same = replace(self, rounds=0, threads=0)
        return json.dumps({**asdict(same), "settings": asdict(self.settings())}, sort_keys=True, default=str)


@dataclass
class Trainer:
    """One run under way; ``state`` is the algorithm's."""

    plan: Plan
    state: Any
    replay: Replay
    noise: OrnsteinUhlenbeck
    random: np.random.Generator
    round: int = 0
    curve: list[dict[str, float]] = field(default_factory=list)
    #: The actor that was best when evaluated: what is exported. Later is not always better.
    best: Network | None = None

    @classmethod
    def begin(cls, plan: Plan) -> Trainer:
        trainer = cls._empty(plan)
        for folder in plan.records:
            for batch in logs.transitions(Path(folder), plan.history):
                trainer.replay.add(batch)
        return trainer

    @classmethod
    def _empty(cls, plan: Plan) -> Trainer:
        width = 3 * plan.history
        key = jax.random.key(plan.seed)
        return cls(
            plan,
            ALGORITHMS[plan.algorithm].begin(plan.settings(), key, width, width + HIDDEN),
            Replay(plan.buffer, width + HIDDEN),
            OrnsteinUhlenbeck(plan.lanes * AGENTS),
            np.random.default_rng(plan.seed),
        )

    @classmethod
    def resume(cls, plan: Plan, folder: Path) -> Trainer:
        """From the folder's checkpoint; ValueError where it belongs to another plan."""
        file = folder / CHECKPOINT
        try:
            with file.open("rb") as stream:
                saved = pickle.load(stream)
        except (EOFError, pickle.UnpicklingError) as error:
            raise ValueError(f"{file}: {error}; begin again with another --out") from error
        if saved["stamp"] != plan.stamp():
            raise ValueError(f"{file} is of other settings: give those it began with, or another --out")
        trainer = cls._empty(plan)
        trainer.state = jax.tree.map(jax.numpy.asarray, saved["state"])
        trainer.replay.added = saved["added"]
        trainer.replay.data[: len(saved["data"])] = saved["data"]
        trainer.random.bit_generator.state = saved["random"]
        trainer.round, trainer.curve, trainer.best = saved["round"], saved["curve"], saved["best"]
        return trainer

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        saved = {
            "stamp": self.plan.stamp(),
            "state": jax.tree.map(np.asarray, self.state),
            "added": self.replay.added,
            "data": self.replay.data[: len(self.replay)],
            "random": self.random.bit_generator.state,
            "round": self.round,
            "curve": self.curve,
            "best": jax.tree.map(np.asarray, self.best),
        }
        with replacing(folder / CHECKPOINT) as fresh, fresh.open("wb") as stream:
            pickle.dump(saved, stream, protocol=5)
        (folder / CURVE).write_text(json.dumps(self.curve, indent=1), encoding="utf-8")

    def actor(self) -> Policy:
        """The policy as it stands, without noise."""
        network = self.state.actor

        def policy(observations: Floats) -> Floats:
            return np.asarray(_act(network, observations))

        return policy

    def run_round(self) -> None:
        plan = self.plan
        logged = self.round < plan.logs
        rewards = self._study() if logged and plan.records else self._collect(logged)
        self.round += 1
        entry: dict[str, float] = {"round": self.round, "steps": self.round * plan.steps * plan.lanes}
        entry["training_reward"] = float(np.mean(rewards))
        if self.round % plan.every == 0 or self.round == plan.rounds:
            entry.update(self.evaluate())
            if merit(entry) >= max((merit(e) for e in self.curve if "reward" in e), default=-np.inf):
                self.best = self.state.actor
        self.curve.append(entry)

    def _collect(self, logged: bool) -> Any:
        """Plays an episode in every lane and learns meanwhile; the rewards."""
        plan = self.plan
        lanes = self._lanes(logged)
        self.noise.reset()
        before = _Before(plan.lanes * AGENTS, lanes.width + HIDDEN)
        asked = lanes.step()
        rewards = []
        waiting: list[Batch] = []
        for step in range(plan.steps):
            who = np.arange(plan.lanes) * AGENTS + asked.agents % AGENTS
            reward = np.clip(asked.rewards, -1, 1)
            seen = np.concatenate([asked.observations, hidden(asked)], axis=1)
            rates = asked.fact("rate")
            waiting.append(before.transitions(who, seen, reward, rates if logged else None))
            rewards.append(reward)
            before.keep(who, seen, self._act(who, asked.observations, logged), rates)
            if step + 1 < plan.steps:
                asked = lanes.step(before.action[who])
            if len(waiting) == LEARN_EVERY or step + 1 == plan.steps:
                self._remember(waiting)
                waiting = []
                if logged or self.round >= plan.logs + plan.warm_up:
                    self._learn(logged)
        return rewards

    def _study(self) -> Any:
        """Learns from the records as often as from an episode; their rewards."""
        for _ in range(-(-self.plan.steps // LEARN_EVERY)):
            self._learn(logged=True)
        return self.replay.data[: len(self.replay), self.replay.width + 1]

    def _learn(self, logged: bool) -> None:
        plan = self.plan
        key = jax.random.key(self.random.integers(1 << 31))
        batches = self.replay.sample(self.random, plan.updates * LEARN_EVERY, plan.batch)
        if plan.shuffle:
            batches = batches._replace(reward=self.random.permuted(batches.reward))
        self.state = ALGORITHMS[plan.algorithm].update(plan.settings(logged), self.state, batches, key)

    def _act(self, who: NDArray[np.int64], observations: Floats, logged: bool) -> Floats:
        """Actions that explore; at first random ones, and none where MPCC acts."""
        if logged:
            return np.zeros(len(who), np.float32)
        if self.round < self.plan.logs + self.plan.warm_up:
            return self.random.uniform(-1, 1, len(who)).astype(np.float32)
        actions = np.asarray(_act(self.state.actor, observations)) + self.noise.step(self.random, who)
        return np.clip(actions, -1, 1).astype(np.float32)

    def evaluate(self) -> dict[str, float]:
        """The reward without noise, on episodes that training never sees, the same ones each time.

        ``competing``: of two such connections on the same paths."""
        played = self._play(self.actor())
        found = {"reward": played.reward, "loss": played.loss, "rtt_ratio": played.rtt_ratio}
        if self.plan.competing:
            found["competing"] = self._play(self.actor(), connections=2).reward
        return found

    def levels(self) -> dict[str, float]:
        """What plain MPCC has there, and the rate that slow start ends with."""
        return {"MPCC": self._play(hold, watched=[0]).reward, "held": self._play(hold).reward}

    def _play(self, policy: Policy, watched: Sequence[int] = (), connections: int = 1) -> Played:
        task = _shared(replace(self.plan.task, start=None), connections)
        history = self.plan.history
        return play(policy, task, lanes=16, steps=200 * connections, seed=VALIDATION, history=history, watched=watched)

    def _lanes(self, logged: bool) -> Lanes:
        plan = self.plan
        # Every fifth episode begins as a deployed one does, so that the end of slow start is known too.
        task = replace(plan.task, start=None) if self.round % 5 == 4 else plan.task
        connections = 2 if plan.competing and self.round % plan.competing == plan.competing - 1 else 1
        lanes = Lanes(
            _shared(task, connections),
            plan.lanes,
            seed=plan.seed,
            history=plan.history,
            steps=plan.steps,
            watched=range(connections) if logged else (),
            threads=plan.threads,
        )
        lanes.restart(plan.seed, self.round)
        return lanes

    def _remember(self, waiting: list[Batch]) -> None:
        batch = Batch(*(np.concatenate(parts) for parts in zip(*waiting, strict=True)))
        if not len(batch.reward):
            return
        self.replay.add(batch)


def merit(entry: Mapping[str, float]) -> float:
    """What the best actor is chosen by."""
    return entry["reward"] + entry.get("competing", 0.0)


def _shared(task: Task, connections: int) -> Task:
    """The task with so many connections on its paths."""
    if connections == 1:
        return task
    if not isinstance(task.scenario, Mapping):
        raise ValueError("competing connections need a scenario given as a dict; competing=0 goes without them")
    return replace(task, scenario={**task.scenario, "connections": [{"count": connections}]})


#: Seed of the episodes that the best actor is chosen by.
VALIDATION = 1_000_000
#: Numbers of agents in a lane: two connections of eight slots.
AGENTS = 16
#: Weight of the action in a log against Q, as TD3+BC has it: 1 / its alpha of 2.5 (Fujimoto and Gu 2021).
CLONING = 0.4
#: Questions of every lane between two calls of the algorithm.
LEARN_EVERY = 8

_act = jax.jit(act)


class _Before:
    """What each agent saw and did when it was asked last, and at which rate it sent."""

    def __init__(self, agents: int, width: int) -> None:
        self.observation = np.zeros((agents, width), np.float32)
        self.action = np.zeros(agents, np.float32)
        self.rate = np.zeros(agents)
        self.known = np.zeros(agents, bool)

    def transitions(
        self, who: NDArray[np.int64], observations: Floats, rewards: Floats, rates: NDArray[np.float64] | None
    ) -> Batch:
        """Those of the agents that ask now, and did before. ``rates``: somebody else acted, and this came of it."""
        known = self.known[who]
        old = who[known]
        actions = self.action[old] if rates is None else taken(self.rate[old], rates[known])
        return Batch(self.observation[old], actions, rewards[known], observations[known])

    def keep(self, who: NDArray[np.int64], observations: Floats, actions: Floats, rates: NDArray[np.float64]) -> None:
        self.observation[who], self.action[who], self.rate[who] = observations, actions, rates
        self.known[who] = True
