"""The path manager of Zhao et al. (ICNC 2019): a support vector machine predicts the ratio of the paths' throughputs.

Both paths are used where the ratio is near enough to 1, else the better one alone.

The model that ships was trained by ``python -m reproductions.bandit.svm`` (needs ``pip install
'multipilot[svm]'``) on rounds that no figure uses, and is evaluated here without scikit-learn.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from reproductions.bandit.places import FEATURES, Floats, generate
from reproductions.bandit.stream import simulate

FILE = "svm.json"
#: Use both paths where the slower one is predicted to have this share of the faster one's throughput.
BOTH_FROM = 0.25
#: Rounds a place, and the generator's seed, of the training.
ROUNDS, SEED = 24, 77


@dataclass(frozen=True)
class Svm:
    """Support vector regression of ln(LTE / Wi-Fi), radial kernel, on standardised features, missing ones at 0."""

    mean: Floats
    scale: Floats
    vectors: Floats
    weights: Floats
    bias: float
    gamma: float

    @classmethod
    def shipped(cls) -> Svm:
        text = resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
        table: dict[str, Any] = json.loads(text)
        arrays = {key: np.asarray(table[key], dtype=float) for key in ("mean", "scale", "vectors", "weights")}
        return cls(**arrays, bias=float(table["bias"]), gamma=float(table["gamma"]))

    def log_ratio(self, context: Floats) -> Floats:
        """Predicted ln of LTE's throughput over Wi-Fi's."""
        z = standardised(context, self.mean, self.scale)
        distance = ((z[:, None, :] - self.vectors[None, :, :]) ** 2).sum(axis=2)
        found: Floats = np.exp(-self.gamma * distance) @ self.weights + self.bias
        return found

    def decide(self, context: Floats) -> tuple[np.ndarray, np.ndarray]:
        """The better path of each context, and whether both are used."""
        ratio = self.log_ratio(context)
        return (ratio > 0).astype(int), np.exp(-np.abs(ratio)) >= BOTH_FROM


def standardised(context: Floats, mean: Floats, scale: Floats) -> Floats:
    z: Floats = np.nan_to_num((context - mean) / scale, nan=0.0)
    return z


def train() -> dict[str, Any]:
    try:
        from sklearn.svm import SVR
    except ImportError:
        raise SystemExit("scikit-learn is missing: pip install 'multipilot[svm]'") from None
    outcomes = [simulate(place, seed=SEED) for place in generate(ROUNDS, seed=SEED, leaving=0)]
    context = np.concatenate([o.place.context for o in outcomes])
    single = np.concatenate([o.mbps("single") for o in outcomes])
    with np.errstate(all="ignore"):
        known = np.isfinite(context).any(axis=0)
        mean = np.where(known, np.nanmean(np.where(known, context, 0.0), axis=0), 0.0)
        scale = np.where(known, np.nanstd(np.where(known, context, 0.0), axis=0), 1.0)
    scale[scale == 0] = 1.0
    target = np.log(single[:, 1] / single[:, 0])
    machine = SVR(C=1.0, epsilon=0.3, gamma=1 / (2 * len(FEATURES))).fit(standardised(context, mean, scale), target)
    return {
        "trained_on": f"{len(target)} rounds of generated places, seed {SEED}",
        "features": FEATURES,
        "mean": np.round(mean, 5).tolist(),
        "scale": np.round(scale, 5).tolist(),
        "vectors": np.round(machine.support_vectors_, 3).tolist(),
        "weights": np.round(machine.dual_coef_[0], 5).tolist(),
        "bias": float(machine.intercept_[0]),
        "gamma": float(machine._gamma),
    }


if __name__ == "__main__":
    file = Path(__file__).with_name(FILE)
    file.write_text(json.dumps(train()) + "\n", encoding="utf-8")
    print(file)
