"""Every policy and baseline living through the same rounds: what each chose, earned and regretted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from multipilot.bandit import PathBandit, policies
from reproductions.bandit.places import FEATURES, PATHS, Floats
from reproductions.bandit.stream import Outcomes
from reproductions.bandit.svm import Svm

BATCH = 50
ARMS = list(PATHS)
#: What a policy knows: the readings of both paths, and the logarithm of the transfer's size.
CONTEXT = [*FEATURES, "transfer.log2_bytes"]
#: The default of the project: not significantly below any other here (claim `fig4-linucb`). The paper found active
#: explorer best.
CHOSEN = "lin-ucb"
BASELINES = ("wifi first", "random", "svm", "oracle")
NAMES = {
    "active-explorer": "active explorer",
    "epsilon-greedy": "epsilon-greedy",
    "bootstrapped-ucb": "bootstrapped UCB",
    "adaptive-greedy": "adaptive greedy",
    "explore-first": "explore first",
    "adaptive-active-greedy": "adaptive active greedy",
    "lin-ucb": "LinUCB",
    "thompson": "Thompson sampling",
    "wifi first": "Wi-Fi first (stock fullmesh)",
    "random": "random",
    "svm": "SVM",
    "oracle": "oracle (knows both)",
}


@dataclass(frozen=True)
class Stream:
    """The rounds of all places in turn, as one central learner sees them."""

    #: Columns as in :data:`CONTEXT`.
    context: Floats
    rewards: npt.NDArray[np.bool_]
    #: Index of the place, and of the round within it.
    place: npt.NDArray[np.intp]
    round: npt.NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.context)

    @classmethod
    def of(cls, outcomes: list[Outcomes]) -> Stream:
        rounds = min(len(o.place) for o in outcomes)
        order = [(p, t) for t in range(rounds) for p in range(len(outcomes))]
        rewards = [o.rewards() for o in outcomes]
        return cls(
            np.array([[*outcomes[p].place.context[t], np.log2(outcomes[p].size[t])] for p, t in order]),
            np.array([rewards[p][t] for p, t in order]),
            np.array([p for p, _ in order]),
            np.array([t for _, t in order]),
        )


def live(stream: Stream, policy: str, seed: int) -> npt.NDArray[np.intp]:
    """The arm of each round."""
    if policy == "wifi first":
        return np.zeros(len(stream), dtype=np.intp)
    if policy == "random":
        return np.random.default_rng(seed).integers(len(ARMS), size=len(stream))
    if policy == "oracle":
        return np.asarray(stream.rewards.argmax(axis=1), dtype=np.intp)
    if policy == "svm":
        return Svm.shipped().decide(stream.context[:, : len(FEATURES)])[0].astype(np.intp)
    if policy not in policies():
        raise ValueError(f"no policy {policy}")
    bandit = PathBandit(policy, arms=ARMS, features=CONTEXT, seed=seed)
    return bandit.play(stream.context, stream.rewards)


@dataclass(frozen=True)
class Life:
    """One policy in several draws of the network: one row a draw."""

    rewards: npt.NDArray[np.bool_]
    regret: npt.NDArray[np.int64]

    @classmethod
    def of(cls, played: Sequence[tuple[Stream, npt.NDArray[np.intp]]]) -> Life:
        """Of the arms that it chose in each stream, all of one length."""
        rewards = np.array([stream.rewards[np.arange(len(stream)), arms] for stream, arms in played])
        best = np.array([stream.rewards.max(axis=1) for stream, _ in played]).astype(int)
        return cls(rewards, np.cumsum(best - rewards, axis=1))

    def cumulative(self) -> Floats:
        """Mean reward of all rounds so far, at the end of each batch of 50: one row a seed."""
        sums = np.cumsum(self.rewards, axis=1)
        ends = np.arange(BATCH, self.rewards.shape[1] + 1, BATCH)
        curve: Floats = sums[:, ends - 1] / ends
        return curve

    def late(self) -> Floats:
        """Mean reward of the second half, one value a seed."""
        mean: Floats = self.rewards[:, self.rewards.shape[1] // 2 :].mean(axis=1)
        return mean
