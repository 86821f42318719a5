"""Twin-average DDPG: TD3 with the mean of the two critics in the target, where TD3 has the lower one.

TD3's minimum rates actions too low where the critics differ by chance. The average keeps DDPG's expectation with less
variance; ``lower`` goes from the average (0) to TD3 (1). Like DDPG it adds no noise to the target's action, and its
actor
learns at every step.
"""

from __future__ import annotations

from dataclasses import dataclass

from multipilot.learn import td3
from multipilot.learn.td3 import State, begin, update

__all__ = ["Settings", "State", "begin", "update"]


@dataclass(frozen=True)
class Settings(td3.Settings):
    delay: int = 1
    noise: float = 0.0
    lower: float = 0.0
