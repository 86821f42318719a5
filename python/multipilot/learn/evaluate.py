"""What an actor does on given paths, interval by interval, beside plain MPCC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multipilot import _core
from multipilot.env.lanes import Asked, Floats, Lanes
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

    @property
    def rtt_ratio(self) -> float:
        """Mean round trip over the shortest that the lane's agent saw."""
        ratios = []
        for who in np.unique(self.lane * 1024 + self.agent):
            rtt = self.fact["rtt_us"][self.lane * 1024 + self.agent == who]
            ratios.append(rtt.mean() / rtt.min())
        return float(np.mean(ratios))


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
    facts = {name: np.concatenate([a.fact(name) for a in seen]) for name in _NAMES}
    return Played(
        np.tile(np.arange(lanes), steps),
        np.concatenate([a.agents for a in seen]),
        facts,
        np.clip(np.concatenate([a.rewards for a in seen]), -1, 1),
    )


_NAMES = ("time_s", "rate", "delivered", "lost", "elapsed_us", "rtt_us", "utility", "best", "path", "asked")
