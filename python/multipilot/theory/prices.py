"""Windows against prices: a controller's mean window, and a loss probability that each link sets by its excess of load.

    dw_i/dt = λ_i · [ I_i(w) − p_i · D_i(w) ],      λ_i = w_i/τ_i
    dp_i/dt = (1/m_i) · (λ_i − θ_i)⁺_{p_i}

With the rule of LD-MPSP that is eqs 25 and 26 of paper *drones*:
dw/dt = ((τ* − q)/τ*)/RTT − 2w²p/(3 RTT). The paper prints 1_q(θ) for the served rate, which would let an idle link's
price grow; here an idle link's price falls, and (x)⁺_p keeps it from going below zero. At rest λ = θ and
p = 3·((τ* − q)/τ*)/(2w²).

Units: windows in packets, rates in packets/s, times in seconds; prices are loss probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .fluid import Trajectory, integrate, positive_part
from .game import Array
from .rules import LdMpsp, Rule, State


@dataclass(frozen=True)
class WindowPrices:
    """One connection, a link a subflow. State: K windows, then K prices. ``queue`` is held: the delay it sees."""

    rule: Rule
    rtt: Array
    queue: Array
    capacity: Array
    #: m_i: how slowly a link's price moves, packets.
    inertia: Array

    def rhs(self, state: Array) -> Array:
        windows, prices = np.split(np.maximum(state, 0), 2)
        windows = np.maximum(windows, 1e-9)
        rates = windows / self.rtt
        seen = State(windows, self.rtt, prices, self.queue)
        change = rates * (self.rule.increase(seen) - prices * self.rule.decrease(seen))
        return np.concatenate([change, positive_part((rates - self.capacity) / self.inertia, prices)])

    def run(self, windows: ArrayLike, prices: ArrayLike, duration: float, points: int = 400) -> Trajectory:
        return integrate(self.rhs, np.concatenate([windows, prices]), duration, points)


def low_delay_equilibrium(rule: LdMpsp, rtt: Array, queue: Array, capacity: Array) -> tuple[Array, Array]:
    """Windows and prices at rest: w = θ·RTT and p = 3((τ* − q)/τ*)/(2w²), where the queue is below its target."""
    windows = capacity * rtt
    return windows, 1.5 * (1 - queue / rule.target) / windows**2
