"""The loop: collect, learn, evaluate, save. A round is one episode in every lane, and a checkpoint lies between rounds.

What a round does depends on the checkpoint before it alone, so that a run that was stopped and resumed ends as one
that was
not, bit by bit, and a killed one loses the round under way.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np

from multipilot.env.lanes import Floats, Lanes
from multipilot.env.task import BASE, Task
from multipilot.learn import ddpg, td3, twin_average
from multipilot.learn.evaluate import play
from multipilot.learn.networks import act
from multipilot.learn.replay import Batch, OrnsteinUhlenbeck, Replay

ALGORITHMS: dict[str, ModuleType] = {"ddpg": ddpg, "td3": td3, "twin-average": twin_average}

#: Conditions that training draws from.
TRAINING = Task(
    {**BASE, "segment_train": 1},
    rate_mbps=(5, 100),
    rtt_ms=(15, 100),
    queue_bdp=(0.3, 3),
    loss=(0.0, 0.05),
)
CHECKPOINT, CURVE, ACTOR = "checkpoint.pickle", "curve.json", "actor.json"


@dataclass(frozen=True)
class Plan:
    """What a run of training is. Rewards are U over the utility of full paths, cut off at -1, for a queue
    that fills within an interval costs a hundred times what it could ever earn; a round trip that falls earns
    nothing."""

    algorithm: str = "ddpg"
    seed: int = 1
    rounds: int = 120
    #: Episodes at once, and questions an episode.
    lanes: int = 8
    steps: int = 400
    history: int = 4
    batch: int = 256
    #: Gradient steps for each question of every lane.
    updates: int = 1
    buffer: int = 400_000
    #: Rounds with random actions, before the actor acts.
    warm_up: int = 2
    #: Rounds between evaluations.
    every: int = 5
    threads: int = 1
    task: Task = field(default_factory=lambda: TRAINING)
    #: For a test of tests: rewards in random order, from which nothing can be learnt.
    shuffle: bool = False

    def settings(self) -> Any:
        return ALGORITHMS[self.algorithm].Settings()

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

    @classmethod
    def begin(cls, plan: Plan) -> Trainer:
        width = 3 * plan.history
        key = jax.random.key(plan.seed)
        return cls(
            plan,
            ALGORITHMS[plan.algorithm].begin(plan.settings(), key, width),
            Replay(plan.buffer, width),
            OrnsteinUhlenbeck(plan.lanes * AGENTS),
            np.random.default_rng(plan.seed),
        )

    @classmethod
    def resume(cls, plan: Plan, folder: Path) -> Trainer:
        """From the folder's checkpoint; ValueError where it belongs to another plan."""
        file = folder / CHECKPOINT
        with file.open("rb") as stream:
            saved = pickle.load(stream)
        if saved["stamp"] != plan.stamp():
            raise ValueError(f"{file} is of other settings: give those it began with, or another --out")
        trainer = cls.begin(plan)
        trainer.state = jax.tree.map(jax.numpy.asarray, saved["state"])
        trainer.replay.added = saved["added"]
        trainer.replay.data[: len(saved["data"])] = saved["data"]
        trainer.random.bit_generator.state = saved["random"]
        trainer.round, trainer.curve = saved["round"], saved["curve"]
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
        }
        half = folder / (CHECKPOINT + ".half")
        with half.open("wb") as stream:
            pickle.dump(saved, stream, protocol=5)
        half.replace(folder / CHECKPOINT)
        (folder / CURVE).write_text(json.dumps(self.curve, indent=1), encoding="utf-8")

    def actor(self) -> Callable[[Floats], Floats]:
        """The policy as it stands, without noise."""
        network = self.state.actor

        def policy(observations: Floats) -> Floats:
            return np.asarray(_act(network, observations))

        return policy

    def run_round(self) -> None:
        plan = self.plan
        algorithm, settings = ALGORITHMS[plan.algorithm], plan.settings()
        lanes = self._lanes()
        self.noise.reset()
        before = _Before(plan.lanes * AGENTS, lanes.width)
        asked = lanes.step()
        rewards = []
        waiting: list[Batch] = []
        for step in range(plan.steps):
            who = np.arange(plan.lanes) * AGENTS + asked.agents % AGENTS
            reward = np.clip(asked.rewards, -1, 1)
            waiting.append(before.transitions(who, asked.observations, reward))
            rewards.append(reward)
            if self.round < plan.warm_up:
                actions = self.random.uniform(-1, 1, plan.lanes).astype(np.float32)
            else:
                actions = np.asarray(_act(self.state.actor, asked.observations))
                actions = np.clip(actions + self.noise.step(self.random, who), -1, 1)
            before.keep(who, asked.observations, actions)
            if step + 1 < plan.steps:
                asked = lanes.step(actions)
            if len(waiting) == LEARN_EVERY or step + 1 == plan.steps:
                self._remember(waiting)
                waiting = []
                if self.round >= plan.warm_up:
                    key = jax.random.key(self.random.integers(1 << 31))
                    batches = self.replay.sample(self.random, plan.updates * LEARN_EVERY, plan.batch)
                    self.state = algorithm.update(settings, self.state, batches, key)
        self.round += 1
        entry: dict[str, float] = {"round": self.round, "steps": self.round * plan.steps * plan.lanes}
        entry["training_reward"] = float(np.mean(rewards))
        if self.round % plan.every == 0 or self.round == plan.rounds:
            entry.update(self.evaluate())
        self.curve.append(entry)

    def evaluate(self) -> dict[str, float]:
        """On episodes that training never sees: the reward without noise, the same ones each time."""
        played = play(self.actor(), self.plan.task, lanes=8, steps=200, seed=10**6, history=self.plan.history)
        return {"reward": played.reward, "loss": played.loss, "rtt_ratio": played.rtt_ratio}

    def _lanes(self) -> Lanes:
        plan = self.plan
        # Every fifth episode begins as a deployed one does, so that the end of slow start is known too.
        task = replace(plan.task, start=None) if self.round % 5 == 4 else plan.task
        lanes = Lanes(
            task,
            plan.lanes,
            seed=plan.seed,
            history=plan.history,
            steps=plan.steps,
            agents=AGENTS,
            threads=plan.threads,
        )
        lanes.restart(plan.seed, self.round)
        return lanes

    def _remember(self, waiting: list[Batch]) -> None:
        batch = Batch(*(np.concatenate(parts) for parts in zip(*waiting, strict=True)))
        if not len(batch.reward):
            return
        if self.plan.shuffle:
            batch = batch._replace(reward=self.random.permutation(batch.reward))
        self.replay.add(batch)


#: Subflows of a lane that learn, at most.
AGENTS = 8
#: Questions of every lane between two calls of the algorithm.
LEARN_EVERY = 8

_act = jax.jit(act)


class _Before:
    """What each agent saw and did when it was asked last."""

    def __init__(self, agents: int, width: int) -> None:
        self.observation = np.zeros((agents, width), np.float32)
        self.action = np.zeros(agents, np.float32)
        self.known = np.zeros(agents, bool)

    def transitions(self, who: np.ndarray[Any, Any], observations: Floats, rewards: Floats) -> Batch:
        """Those of the agents that ask now, and did before."""
        known = self.known[who]
        old = who[known]
        return Batch(self.observation[old], self.action[old], rewards[known], observations[known])

    def keep(self, who: np.ndarray[Any, Any], observations: Floats, actions: Floats) -> None:
        self.observation[who], self.action[who], self.known[who] = observations, actions, True
