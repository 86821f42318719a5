"""Twin delayed DDPG, TD3 (Fujimoto, van Hoof and Meger 2018). Against DDPG's overrated values:

1. two critics, and the lower of both in the target: y = r + γ min(Q1', Q2')(s', μ'(s') + ε)
2. ε, clipped noise on the target's action, so that a narrow peak of Q cannot be exploited
3. actor and targets follow at every ``delay``-th step of the critics only
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from multipilot.learn.networks import Network, act, create, toward, value
from multipilot.learn.replay import Batch


@dataclass(frozen=True)
class Settings:
    hidden: tuple[int, ...] = (32, 32)
    actor_rate: float = 5e-4
    critic_rate: float = 1e-3
    gamma: float = 0.95
    tau: float = 0.01
    delay: int = 2
    noise: float = 0.2
    noise_clip: float = 0.5
    #: Above 0 the actor also keeps to the actions of the batch, so much against Q / mean |Q|: TD3+BC (Fujimoto and Gu
    #: 2021), for logs of somebody else's actions.
    cloning: float = 0.0
    #: Part of the lower value in the target; the rest is the mean of both. 1 is TD3.
    lower: float = 1.0


class State(NamedTuple):
    actor: Network
    critics: tuple[Network, Network]
    actor_target: Network
    critics_target: tuple[Network, Network]
    actor_moments: Any
    critics_moments: Any
    steps: jax.Array


def begin(settings: Settings, key: jax.Array, width: int, seen: int) -> State:
    """``width`` numbers go into the actor, ``seen`` into the critics."""
    of_actor, of_one, of_two = jax.random.split(key, 3)
    actor = create(of_actor, (width, *settings.hidden, 1), 3e-3)
    sizes = (seen + 1, *settings.hidden, 1)
    critics = (create(of_one, sizes, 3e-3), create(of_two, sizes, 3e-3))
    return State(
        actor,
        critics,
        actor,
        critics,
        optax.adam(settings.actor_rate).init(actor),
        optax.adam(settings.critic_rate).init(critics),
        jnp.zeros((), jnp.int32),
    )


@partial(jax.jit, static_argnums=0)
def update(settings: Settings, state: State, batches: Batch, key: jax.Array) -> State:
    """One step of gradient a batch."""

    def step(s: State, given: tuple[Batch, jax.Array]) -> tuple[State, None]:
        batch, key = given
        noise = settings.noise * jax.random.normal(key, batch.action.shape)
        noise = jnp.clip(noise, -settings.noise_clip, settings.noise_clip)
        action = jnp.clip(act(s.actor_target, batch.following) + noise, -1, 1)
        one, two = (value(critic, batch.following, action) for critic in s.critics_target)
        estimate = settings.lower * jnp.minimum(one, two) + (1 - settings.lower) * (one + two) / 2
        aim = batch.reward + settings.gamma * estimate

        def critic_loss(critics: tuple[Network, Network]) -> jax.Array:
            each = [((aim - value(critic, batch.observation, batch.action)) ** 2).mean() for critic in critics]
            return each[0] + each[1]

        change, critics_moments = optax.adam(settings.critic_rate).update(
            jax.grad(critic_loss)(s.critics), s.critics_moments
        )
        critics: tuple[Network, Network] = optax.apply_updates(s.critics, change)  # type: ignore[assignment]

        def actor_loss(actor: Network) -> jax.Array:
            action = act(actor, batch.observation)
            good = value(critics[0], batch.observation, action)
            if not settings.cloning:
                return -good.mean()
            scale = jax.lax.stop_gradient(jnp.abs(good).mean())
            return -good.mean() / scale + settings.cloning * ((action - batch.action) ** 2).mean()

        change, actor_moments = optax.adam(settings.actor_rate).update(jax.grad(actor_loss)(s.actor), s.actor_moments)
        actor: Network = optax.apply_updates(s.actor, change)  # type: ignore[assignment]
        followed = (
            actor,
            toward(s.actor_target, actor, settings.tau),
            toward(s.critics_target, critics, settings.tau),
            actor_moments,
        )
        stayed = (s.actor, s.actor_target, s.critics_target, s.actor_moments)
        due = s.steps % settings.delay == 0
        actor, actor_target, critics_target, actor_moments = jax.tree.map(
            lambda new, old: jnp.where(due, new, old), followed, stayed
        )
        return State(actor, critics, actor_target, critics_target, actor_moments, critics_moments, s.steps + 1), None

    keys = jax.random.split(key, batches.reward.shape[0])
    return jax.lax.scan(step, state, (batches, keys))[0]
