"""Deep deterministic policy gradient (Lillicrap et al. 2016), the paper's algorithm 1.

One critic Q and one actor μ, each with a target that follows it by Polyak averaging:

    y = r + γ Q'(s', μ'(s')),   L = mean (y - Q(s, a))²,   ∇J = mean ∇_a Q(s, μ(s)) ∇_θ μ(s)

The task has no terminal states: an episode's end only cuts it off.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import optax

from multipilot.learn.networks import Network, act, create, toward, value
from multipilot.learn.replay import Batch


@dataclass(frozen=True)
class Settings:
    """``gamma``: an interval's reward counts so much less than the one before it; ``tau``: Polyak averaging."""

    hidden: tuple[int, ...] = (32, 32)
    actor_rate: float = 5e-4
    critic_rate: float = 1e-3
    gamma: float = 0.95
    tau: float = 0.01


class State(NamedTuple):
    actor: Network
    critic: Network
    actor_target: Network
    critic_target: Network
    actor_moments: Any
    critic_moments: Any


def begin(settings: Settings, key: jax.Array, width: int, seen: int) -> State:
    """``width`` numbers go into the actor, ``seen`` into the critics."""
    of_actor, of_critic = jax.random.split(key)
    actor = create(of_actor, (width, *settings.hidden, 1), 3e-3)
    critic = create(of_critic, (seen + 1, *settings.hidden, 1), 3e-3)
    return State(
        actor,
        critic,
        actor,
        critic,
        optax.adam(settings.actor_rate).init(actor),
        optax.adam(settings.critic_rate).init(critic),
    )


@partial(jax.jit, static_argnums=0)
def update(settings: Settings, state: State, batches: Batch, key: jax.Array) -> State:
    """One step of gradient a batch."""
    del key  # this algorithm draws nothing

    def step(s: State, batch: Batch) -> tuple[State, None]:
        aim = batch.reward + settings.gamma * value(
            s.critic_target, batch.following, act(s.actor_target, batch.following)
        )

        def critic_loss(critic: Network) -> jax.Array:
            return ((aim - value(critic, batch.observation, batch.action)) ** 2).mean()

        change, critic_moments = optax.adam(settings.critic_rate).update(
            jax.grad(critic_loss)(s.critic), s.critic_moments
        )
        critic: Network = optax.apply_updates(s.critic, change)  # type: ignore[assignment]

        def actor_loss(actor: Network) -> jax.Array:
            return -value(critic, batch.observation, act(actor, batch.observation)).mean()

        change, actor_moments = optax.adam(settings.actor_rate).update(jax.grad(actor_loss)(s.actor), s.actor_moments)
        actor: Network = optax.apply_updates(s.actor, change)  # type: ignore[assignment]
        return State(
            actor,
            critic,
            toward(s.actor_target, actor, settings.tau),
            toward(s.critic_target, critic, settings.tau),
            actor_moments,
            critic_moments,
        ), None

    return jax.lax.scan(step, state, batches)[0]
