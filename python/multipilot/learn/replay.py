"""What was experienced, and the noise that explores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from multipilot.env.lanes import Asked, Floats

#: Numbers that critics alone see.
HIDDEN = 4
#: A step is at most this part of the rate (crates/policy/src/actor).
LARGEST_STEP = 0.1


class Batch(NamedTuple):
    """Transitions (s, a, r, s')."""

    observation: Any
    action: Any
    reward: Any
    following: Any


def taken(before: NDArray[np.float64], after: NDArray[np.float64]) -> Floats:
    """The actions that led from these rates to those, whoever took them."""
    change = after / np.maximum(before, 1) - 1
    return np.clip(change / LARGEST_STEP, -1, 1).astype(np.float32)


def hidden(asked: Asked) -> Floats:
    """What an actor cannot know, but a critic may while training (asymmetric actor-critic, Pinto et al. 2017): how full
    the path is, how full all of them are, packets an interval, and the utility at stake."""
    x = asked.fact("rate")
    own = x / np.maximum(asked.fact("capacity"), 1)
    everything = asked.fact("best") ** (1 / 0.9) * 1e6 / 8
    both = (x + asked.fact("others")) / np.maximum(everything, 1)
    packets = np.log10(np.maximum(asked.fact("delivered") + asked.fact("lost"), 1)) / 4
    columns = (own / 2, both / 2, packets, np.log10(asked.fact("best")) / 3)
    return np.clip(np.stack(columns, axis=1), 0, 1).astype(np.float32)


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
