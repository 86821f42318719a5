"""What was experienced, and the noise that explores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from multipilot.env.lanes import Floats


class Batch(NamedTuple):
    """Transitions (s, a, r, s')."""

    observation: Any
    action: Any
    reward: Any
    following: Any


class Replay:
    """The last ``size`` transitions, in a ring."""

    def __init__(self, size: int, width: int) -> None:
        self.size, self.added = size, 0
        self.data = np.zeros((size, 2 * width + 2), np.float32)
        self.width = width

    def __len__(self) -> int:
        return min(self.added, self.size)

    def add(self, batch: Batch) -> None:
        count = len(batch.reward)
        places = (self.added + np.arange(count)) % self.size
        columns = (batch.observation, batch.action[:, None], batch.reward[:, None], batch.following)
        self.data[places] = np.concatenate(columns, axis=1)
        self.added += count

    def sample(self, random: np.random.Generator, times: int, count: int) -> Batch:
        """``times`` batches of ``count``."""
        rows = self.data[random.integers(len(self), size=(times, count))]
        w = self.width
        return Batch(rows[..., :w], rows[..., w], rows[..., w + 1], rows[..., w + 2 :])


class OrnsteinUhlenbeck:
    """Noise with a memory, one process an agent: dx = -θ x dt + σ dW (Uhlenbeck and Ornstein 1930)."""

    def __init__(self, count: int, theta: float = 0.15, sigma: float = 0.2) -> None:
        self.theta, self.sigma = theta, sigma
        self.state = np.zeros(count, np.float32)

    def step(self, random: np.random.Generator, who: np.ndarray[Any, Any]) -> Floats:
        """The noise of these processes, one step on."""
        drawn = random.standard_normal(len(who)).astype(np.float32)
        self.state[who] += -self.theta * self.state[who] + self.sigma * drawn
        moved: Floats = self.state[who]
        return moved

    def reset(self) -> None:
        self.state[:] = 0
