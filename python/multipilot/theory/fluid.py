"""Fluid models: differential equations for rates, windows, prices and queues, integrated by SciPy.

Two systems, both open to any rule:

:class:`PrimalDual`, rates against prices (paper *rsf* eq. 4, after Peng et al., IEEE/ACM ToN 24(1), 2016):

    dλ_i/dt = k_i(λ) · (φ_i(λ) − p_i)⁺_{λ_i},     dp_i/dt = γ_i · (λ_i − θ_i(λ))⁺_{p_i}

:class:`WindowFluid`, windows of a congestion controller over links with queues. A controller gives its mean increase
per acknowledged packet and its mean decrease per loss, as in :mod:`multipilot.theory.rules`:

    dw_i/dt = λ_i · [ (1 − l_i) · I_i(w) − l_i · D_i(w) ],    λ_i = w_i/τ_i
    dq_k/dt = (y_k − C_k)/C_k, held to 0 ≤ q_k ≤ B_k;         y_k = Σ of λ_i over link k

(x)⁺_y is x, or max(x, 0) where y = 0: nothing falls below zero.

Units: rates and capacities in packets/s, windows in packets, times (delays, queues) in seconds, losses probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp

from .game import Array, RentSeekingGame
from .rules import FLOOR, Rule, State


def positive_part(change: Array, state: Array) -> Array:
    """(x)⁺_y: ``change``, but never downwards from zero."""
    return np.where(state > 0, change, np.maximum(change, 0))


@dataclass(frozen=True)
class Trajectory:
    """``state[j, t]`` is variable j at ``time[t]`` seconds."""

    time: Array
    state: Array

    @property
    def end(self) -> Array:
        return self.state[:, -1]


def integrate(
    rhs: Callable[[Array], Array],
    start: ArrayLike,
    duration: float,
    points: int = 400,
    method: Literal["RK45", "LSODA"] = "RK45",
) -> Trajectory:
    """An autonomous system dy/dt = rhs(y) from ``start`` for ``duration`` seconds, at ``points`` times.

    The default is explicit: where (x)⁺_y jumps at zero, the Jacobian of an implicit method is of no use.
    """
    solved = solve_ivp(
        lambda _, y: rhs(y),
        (0.0, float(duration)),
        np.asarray(start, dtype=np.float64),
        method=method,
        t_eval=np.linspace(0, duration, points),
        rtol=1e-7,
        atol=1e-9,
    )
    if not solved.success:
        raise ArithmeticError(f"the fluid system could not be integrated: {solved.message}")
    return Trajectory(solved.t, solved.y)


@dataclass(frozen=True)
class PrimalDual:
    """Eq. 4. State: K rates, then K prices. All functions take the K rates and give K values.

    ``throughput`` is θ. With constant θ, k_i a function of λ_i alone and φ the rent-seeking demand, the system has the
    Lyapunov function of :mod:`multipilot.theory.lyapunov`; with a θ that follows the rates it may not.
    """

    gain: Callable[[Array], Array]
    demand: Callable[[Array], Array]
    price_gain: Array
    throughput: Callable[[Array], Array]

    @classmethod
    def rent_seeking(
        cls,
        throughput: ArrayLike | Callable[[Array], Array],
        gain: Callable[[Array], Array] | None = None,
        price_gain: ArrayLike = 1.0,
    ) -> PrimalDual:
        """φ_i = ∂/∂λ_i (λ_i/Σλ) = λ_{−i}/(Σλ)²; a constant ``throughput`` makes the theorem's system."""
        follows: Callable[[Array], Array]
        if callable(throughput):
            follows = throughput
        else:
            fixed: Array = np.asarray(throughput, dtype=float)

            def follows(_: Array) -> Array:
                return fixed

        return cls(gain or (lambda rates: rates), rent_demand, np.asarray(price_gain, dtype=float), follows)

    def rhs(self, state: Array) -> Array:
        rates, prices = np.maximum(np.split(state, 2), 0)
        return np.concatenate(
            [
                self.gain(rates) * positive_part(self.demand(rates) - prices, rates),
                self.price_gain * positive_part(rates - self.throughput(rates), prices),
            ]
        )

    def run(self, rates: ArrayLike, prices: ArrayLike, duration: float, points: int = 400) -> Trajectory:
        return integrate(self.rhs, np.concatenate([rates, prices]), duration, points)


def rent_demand(rates: Array) -> Array:
    """φ_i(λ) = λ_{−i}/(Σλ)²: the price that a bid of λ_i is worth at the margin, s/packet."""
    return RentSeekingGame.symmetric(rates.size, 1.0).pseudo_gradient(rates)[:, 0] + 1.0


@dataclass(frozen=True)
class Network:
    """Subflow i has propagation RTT ``rtt[i]`` (s), random loss ``loss[i]``, and crosses link k where ``route[k, i]``.

    ``capacity[k]`` in packets/s and ``buffer[k]`` in seconds of queueing at that capacity. A queue q drops a share
    (q/B)^sharpness of its packets, as the tail of an M/M/1/B queue does: a mean queue is never quite full.
    """

    rtt: Array
    loss: Array
    route: Array
    capacity: Array
    buffer: Array
    #: How close to full a queue is before it drops; a drop-tail queue is the limit ∞.
    sharpness: float = 16.0

    @classmethod
    def separate(
        cls, rtt: ArrayLike, loss: ArrayLike, capacity: ArrayLike = np.inf, buffer: ArrayLike = 0.1
    ) -> Network:
        """One link a subflow; without a capacity, links that never queue."""
        rtt = np.atleast_1d(np.asarray(rtt, dtype=float))
        loss, capacity, buffer = (
            np.broadcast_to(np.asarray(v, dtype=float), rtt.shape) for v in (loss, capacity, buffer)
        )
        return cls(rtt, loss, np.eye(rtt.size), capacity, buffer)

    def delay(self, queues: Array) -> Array:
        """Queueing delay of each subflow, s."""
        found: Array = self.route.T @ queues
        return found

    def loss_at(self, queues: Array) -> Array:
        """Random and overflow loss of each subflow."""
        overflow = np.minimum((queues / self.buffer) ** self.sharpness, 0.999)
        found: Array = 1 - (1 - self.loss) * np.exp(self.route.T @ np.log1p(-overflow))
        return found


@dataclass(frozen=True)
class WindowFluid:
    """A controller's mean windows over a network. State: a window a subflow, then a queue a link.

    ``owner[i]`` says which connection subflow i belongs to (all one by default); coupling stays within it.
    ``rules`` is one rule for all, or one a connection: a competing TCP is a connection of one subflow under Reno.
    """

    rules: Rule | tuple[Rule, ...]
    network: Network
    owner: Array | None = None

    def _connections(self) -> list[tuple[Rule, NDArray[np.intp]]]:
        size = self.network.rtt.size
        owner = np.zeros(size, dtype=int) if self.owner is None else np.asarray(self.owner)
        rules = self.rules if isinstance(self.rules, tuple) else (self.rules,) * int(owner.max() + 1)
        return [(rule, np.flatnonzero(owner == n)) for n, rule in enumerate(rules)]

    def rhs(self, state: Array) -> Array:
        size = self.network.rtt.size
        windows = np.maximum(state[:size], FLOOR)
        queues = np.clip(state[size:], 0, self.network.buffer)
        delay = self.network.delay(queues)
        rtt = self.network.rtt + delay
        rates = windows / rtt
        arrival = self.network.route @ rates
        loss = self.network.loss_at(queues)
        change = np.empty(size)
        for rule, mine in self._connections():
            seen = State(windows[mine], rtt[mine], loss[mine], delay[mine])
            change[mine] = rates[mine] * ((1 - loss[mine]) * rule.increase(seen) - loss[mine] * rule.decrease(seen))
        change = np.where(state[:size] > FLOOR, change, np.maximum(change, 0))
        with np.errstate(invalid="ignore"):
            growth = np.where(np.isinf(self.network.capacity), 0.0, arrival / self.network.capacity - 1)
        growth = np.where(
            state[size:] >= self.network.buffer, np.minimum(growth, 0), positive_part(growth, state[size:])
        )
        return np.concatenate([change, growth])

    def run(self, windows: ArrayLike, duration: float, points: int = 400) -> Trajectory:
        """From ``windows`` and empty queues."""
        start = np.concatenate([windows, np.zeros(self.network.capacity.size)])
        return integrate(self.rhs, start, duration, points, method="LSODA")

    def rates(self, trajectory: Trajectory) -> Array:
        """λ_i = w_i/τ_i in packets/s at each time."""
        size = self.network.rtt.size
        queues = np.clip(trajectory.state[size:], 0, self.network.buffer[:, None])
        found: Array = trajectory.state[:size] / (self.network.rtt[:, None] + self.network.route.T @ queues)
        return found
