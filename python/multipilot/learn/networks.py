"""Multi-layer perceptrons."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from multipilot.learn.actor import FEATURES, Layer, write

#: Layers of (weights, one row an input; bias).
Network = list[tuple[jax.Array, jax.Array]]

#: Observations vary by hundredths about these values: networks see (x - CENTRE) * SCALE, and an actor's file has that
#: folded into its first layer. Then the same for what critics alone see (``training.hidden``).
CENTRE, SCALE = (0.5, 0.95, 0.0), (16.0, 8.0, 16.0)
HIDDEN_CENTRE, HIDDEN_SCALE = (0.4, 0.4, 0.5, 0.5), (8.0, 8.0, 4.0, 4.0)


def create(key: jax.Array, sizes: tuple[int, ...], last: float) -> Network:
    """Uniform in ±1/sqrt(inputs), the last layer in ±``last`` (Lillicrap et al. 2016, section 7)."""
    layers = []
    for index, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        key, sub = jax.random.split(key)
        bound = last if index == len(sizes) - 2 else inputs**-0.5
        layers.append((jax.random.uniform(sub, (inputs, outputs), minval=-bound, maxval=bound), jnp.zeros(outputs)))
    return layers


def _even(x: jax.Array, behind: int) -> jax.Array:
    """To the order of 1; the last ``behind`` numbers are what critics alone see."""
    times = (x.shape[-1] - behind) // FEATURES
    centre, scale = CENTRE * times + HIDDEN_CENTRE[:behind], SCALE * times + HIDDEN_SCALE[:behind]
    return (x - jnp.array(centre)) * jnp.array(scale)


def _forward(network: Network, x: jax.Array) -> jax.Array:
    for weights, bias in network[:-1]:
        x = jax.nn.relu(x @ weights + bias)
    weights, bias = network[-1]
    return x @ weights + bias


def act(actor: Network, observation: jax.Array) -> jax.Array:
    """μ(s), within -1 … 1. What a critic sees beyond the actor's inputs stands behind them."""
    return jnp.tanh(_forward(actor, _even(observation[..., : actor[0][0].shape[0]], 0)))[..., 0]


def value(critic: Network, observation: jax.Array, action: jax.Array) -> jax.Array:
    """Q(s, a)."""
    return _forward(critic, jnp.concatenate([_even(observation, len(HIDDEN_CENTRE)), action[..., None]], axis=-1))[
        ..., 0
    ]


def toward(target: Any, online: Any, tau: float) -> Any:
    """Polyak averaging: θ' ← τ θ + (1 - τ) θ'."""
    return jax.tree.map(lambda t, o: (1 - tau) * t + tau * o, target, online)


def export(actor: Network, path: Path, made_by: str) -> None:
    """Writes the actor as a file that multipilot runs."""
    weights, bias = (np.asarray(part, float) for part in actor[0])
    times = len(weights) // FEATURES
    scaled = weights * np.array(SCALE * times)[:, None]
    folded = [(scaled, bias - np.array(CENTRE * times) @ scaled), *actor[1:]]
    last = len(folded) - 1
    layers = [
        Layer(np.asarray(weights), np.asarray(bias), "tanh" if index == last else "relu")
        for index, (weights, bias) in enumerate(folded)
    ]
    write(layers, path, made_by)
