"""The file of an actor (docs/reference/learned-control.md), of whatever trained it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from multipilot.files import replacing

#: Numbers of a monitor interval in an observation.
FEATURES = 3


class Layer(NamedTuple):
    #: One row an input.
    weights: NDArray[Any]
    bias: NDArray[Any]
    #: ``relu`` or ``tanh``; the last layer's is ``tanh``.
    activation: str


def write(layers: Sequence[Layer], path: Path, made_by: str) -> None:
    """Writes the file; never half of it."""
    document = {
        "format": "multipilot-actor",
        "version": 1,
        "made_by": made_by,
        "history": len(layers[0].weights) // FEATURES,
        "layers": [
            {
                "activation": layer.activation,
                "weights": [[float(f"{w:.7g}") for w in row] for row in np.asarray(layer.weights).tolist()],
                "bias": [float(f"{b:.7g}") for b in np.asarray(layer.bias).tolist()],
            }
            for layer in layers
        ],
    }
    with replacing(path) as fresh:
        fresh.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")
