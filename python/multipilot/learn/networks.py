"""Multi-layer perceptrons, and the file of an actor (docs/learning.md)."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

#: Layers of (weights, one row an input; bias).
Network = list[tuple[jax.Array, jax.Array]]

FEATURES = 3


def create(key: jax.Array, sizes: tuple[int, ...], last: float) -> Network:
    """Uniform in ±1/sqrt(inputs), the last layer in ±``last`` (Lillicrap et al. 2016, section 7)."""
    layers = []
    for index, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        key, sub = jax.random.split(key)
        bound = last if index == len(sizes) - 2 else inputs**-0.5
        layers.append((jax.random.uniform(sub, (inputs, outputs), minval=-bound, maxval=bound), jnp.zeros(outputs)))
    return layers


def _forward(network: Network, x: jax.Array) -> jax.Array:
    for weights, bias in network[:-1]:
        x = jax.nn.relu(x @ weights + bias)
    weights, bias = network[-1]
    return x @ weights + bias


def act(actor: Network, observation: jax.Array) -> jax.Array:
    """μ(s), within -1 … 1."""
    return jnp.tanh(_forward(actor, observation))[..., 0]


def value(critic: Network, observation: jax.Array, action: jax.Array) -> jax.Array:
    """Q(s, a)."""
    return _forward(critic, jnp.concatenate([observation, action[..., None]], axis=-1))[..., 0]


def toward(target: Any, online: Any, tau: float) -> Any:
    """Polyak averaging: θ' ← τ θ + (1 - τ) θ'."""
    return jax.tree.map(lambda t, o: (1 - tau) * t + tau * o, target, online)


def export(actor: Network, path: Path, made_by: str) -> None:
    """Writes the actor as a file that multipilot runs; never half of it."""
    layers = [
        {
            "activation": "tanh" if index == len(actor) - 1 else "relu",
            "weights": [[float(f"{w:.7g}") for w in row] for row in np.asarray(weights).tolist()],
            "bias": [float(f"{b:.7g}") for b in np.asarray(bias).tolist()],
        }
        for index, (weights, bias) in enumerate(actor)
    ]
    document = {
        "format": "multipilot-actor",
        "version": 1,
        "made_by": made_by,
        "history": actor[0][0].shape[0] // FEATURES,
        "layers": layers,
    }
    half = path.with_name(path.name + ".half")
    half.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")
    half.replace(path)
