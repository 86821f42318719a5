"""Makes contextualbandits.json: mean rewards of the policies of the package ``contextualbandits`` on the test's stream.

It needs ``pip install contextualbandits==0.3.30 scikit-learn`` (builds for a minute), and the tests do not need it. The
package decides on batches of 50 between refits, as its models do not change within them.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from contextualbandits import online
from sklearn.linear_model import SGDClassifier
from stream import BATCH, ROUNDS, SEEDS, stream


def oracle(seed: int) -> SGDClassifier:
    return SGDClassifier(loss="log_loss", alpha=0.01, average=True, random_state=seed)


def policies(seed: int) -> dict[str, object]:
    common = {"base_algorithm": oracle(seed), "nchoices": 2, "random_state": seed}
    greedy = {"window_size": 500, "decay": 0.9998, "decay_type": "percentile", "initial_thr": 0.75}
    return {
        "epsilon-greedy": online.EpsilonGreedy(explore_prob=0.2, decay=0.9999, **common),
        "bootstrapped-ucb": online.BootstrappedUCB(nsamples=10, percentile=80, beta_prior=((2, 4), 2), **common),
        "adaptive-greedy": online.AdaptiveGreedy(percentile=35, active_choice=None, **greedy, **common),
        "explore-first": online.ExploreFirst(explore_rounds=500, prob_active_choice=0.0, **common),
        "adaptive-active-greedy": online.AdaptiveGreedy(percentile=30, active_choice="weighted", **greedy, **common),
        "active-explorer": online.ActiveExplorer(explore_prob=0.15, decay=0.9997, active_choice="weighted", **common),
    }


def mean_reward(policy: object, seed: int) -> float:
    x, rewards = stream(seed)
    chosen = np.random.default_rng(seed).integers(2, size=ROUNDS)
    for start in range(BATCH, ROUNDS, BATCH):
        seen = np.arange(start)
        policy.fit(x[:start], chosen[:start], rewards[seen, chosen[:start]].astype(float))
        chosen[start : start + BATCH] = policy.predict(x[start : start + BATCH]).astype(int)
    return float(rewards[np.arange(ROUNDS), chosen].mean())


if __name__ == "__main__":
    found: dict[str, list[float]] = {}
    for seed in range(1, SEEDS + 1):
        for name, policy in policies(seed).items():
            found.setdefault(name, []).append(round(mean_reward(policy, seed), 6))
        print(seed, {name: round(float(np.mean(v)), 4) for name, v in found.items()}, file=sys.stderr)
        document = {
            "packages": {name: version(name) for name in ("contextualbandits", "scikit-learn", "numpy")},
            "mean_reward": found,
        }
        Path(__file__).with_name("contextualbandits.json").write_text(json.dumps(document, indent=1) + "\n")
