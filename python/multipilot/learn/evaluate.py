"""What an actor does on given paths, interval by interval, beside plain MPCC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multipilot import _core
from multipilot.env.lanes import FACTS, Asked, Floats, Lanes
from multipilot.env.task import Task

Policy = Callable[[Floats], Floats]


def hold(observations: Floats) -> Floats:
    """The rate stays."""
    return np.zeros(len(observations), np.float32)


def always_up(observations: Floats) -> Floats:
    """Send more, always: what a model learns from logs without loss."""
    return np.ones(len(observations), np.float32)


def of_file(path: Path) -> Policy:
    """An actor's file, run by the core's own inference."""
    text = path.read_text(encoding="utf-8")
    _core.act(text, b"")

    def policy(observations: Floats) -> Floats:
        return np.frombuffer(_core.act(text, np.ascontiguousarray(observations).tobytes()), np.float32)

    return policy


@dataclass(frozen=True)
class Played:
    """One row an interval: which lane, which agent (connection × 8 + slot), then the columns of ``FACTS``."""

    lane: NDArray[np.int64]
    agent: NDArray[np.int32]
    fact: dict[str, NDArray[np.float64]]
    #: U over the utility of full paths, cut off at ±1.
    rewards: Floats

    def of(self, connection: int) -> Played:
        """The intervals of one connection."""
        mine = self.agent // 8 == connection
        return Played(self.lane[mine], self.agent[mine], {k: v[mine] for k, v in self.fact.items()}, self.rewards[mine])

    @property
    def reward(self) -> float:
        return float(np.mean(self.rewards))

    @property
    def loss(self) -> float:
        """Part of the packets."""
        lost, delivered = self.fact["lost"].sum(), self.fact["delivered"].sum()
        return float(lost / max(lost + delivered, 1))

    def rtt_ratios(self) -> NDArray[np.float64]:
        """Of each interval: round trip over the shortest that its agent saw."""
        who, rtt = self.lane * 1024 + self.agent, self.fact["rtt_us"]
        names, index = np.unique(who, return_inverse=True)
        shortest = np.full(len(names), np.inf)
        np.minimum.at(shortest, index, rtt)
        ratios: NDArray[np.float64] = rtt / shortest[index]
        return ratios

    @property
    def rtt_ratio(self) -> float:
        return float(np.mean(self.rtt_ratios()))


def play(
    policy: Policy,
    task: Task,
    *,
    lanes: int = 8,
    steps: int = 200,
    seed: int = 1,
    history: int = 4,
    watched: Sequence[int] = (),
    threads: int = 1,
) -> Played:
    """``steps`` intervals in each lane, one episode each, of ``seed``."""
    world = Lanes(task, lanes, seed=seed, history=history, steps=steps + 1, watched=watched, threads=threads)
    seen: list[Asked] = []
    asked = world.step()
    for _ in range(steps):
        seen.append(asked)
        asked = world.step(policy(asked.observations))
    facts = {name: np.concatenate([a.fact(name) for a in seen]) for name in FACTS}
    return Played(
        np.tile(np.arange(lanes), steps),
        np.concatenate([a.agents for a in seen]),
        facts,
        np.clip(np.concatenate([a.rewards for a in seen]), -1, 1),
    )
