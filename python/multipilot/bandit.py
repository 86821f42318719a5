"""Contextual bandits over paths: the policies that choose where a connection starts, to train and to ask from Python.

>>> from multipilot.bandit import PathBandit
>>> bandit = PathBandit("epsilon-greedy", arms=["wifi", "lte"], features=["wifi.rtt_ms"], seed=1)
>>> choice = bandit.decide([12.0])
>>> bandit.partial_fit([[12.0]], [choice.arm], [True]).predict([[12.0]]) in ([0], [1])
True

What decides is the code of the path manager ``bandit``; a saved model is the file that the core reads. NaN in a
context stands for a value that is missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from multipilot import _core
from multipilot._core import Judge, context_names, policies

__all__ = ["Choice", "Judge", "PathBandit", "context_names", "policies"]

Contexts = npt.ArrayLike


@dataclass(frozen=True)
class Choice:
    """``probability`` is how likely the arm was, given ``scores``: what off-policy evaluation divides by."""

    arm: int
    #: Chosen in order to learn, not for the best score.
    explored: bool
    probability: float
    scores: tuple[float, ...]


class PathBandit:
    """One of :func:`policies` over named arms and features.

    ``settings`` lay over the policy's published defaults, for instance ``{"refit_every": 0}``, ``{"policy":
    {"epsilon": 0.1}}`` or ``{"sgd": {"lambda": 0.001}}``; :attr:`settings` shows them all. The same calls with the same
    seed give the same decisions on every machine.
    """

    def __init__(
        self,
        policy: str = "lin-ucb",
        *,
        arms: Sequence[str],
        features: Sequence[str],
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._bandit = _core.Bandit(policy, json.dumps(dict(settings or {})), list(arms), list(features), seed)

    @classmethod
    def _of(cls, bandit: _core.Bandit) -> PathBandit:
        made = cls.__new__(cls)
        made._bandit = bandit
        return made

    @property
    def arms(self) -> list[str]:
        return self._bandit.arms

    @property
    def features(self) -> list[str]:
        return self._bandit.features

    @property
    def rounds(self) -> int:
        """Decisions so far."""
        return self._bandit.rounds

    @property
    def settings(self) -> dict[str, Any]:
        """Every hyperparameter."""
        settings: dict[str, Any] = json.loads(self._bandit.settings)
        return settings

    def counts(self, arm: int) -> tuple[int, int]:
        """Rewards and failures seen of an arm."""
        return self._bandit.counts(arm)

    def decide(self, context: Sequence[float], available: Sequence[bool] = ()) -> Choice:
        """Choose an arm, exploring as the policy does; ``available`` marks the arms that there are (default: all)."""
        arm, explored, probability, scores = self._bandit.decide(list(context), list(available))
        return Choice(arm, explored, probability, tuple(scores))

    def update(self, context: Sequence[float], arm: int, reward: bool) -> None:
        """Tell what came of a choice."""
        self._bandit.update(list(context), arm, bool(reward))

    def partial_fit(self, contexts: Contexts, arms: Sequence[int], rewards: Sequence[bool]) -> PathBandit:
        """Learn from further outcomes, in order."""
        self._bandit.learn_all(_rows(contexts), [int(a) for a in arms], [bool(r) for r in rewards])
        return self

    def fit(self, contexts: Contexts, arms: Sequence[int], rewards: Sequence[bool]) -> PathBandit:
        """Learn from further outcomes and train all oracles anew on what is remembered."""
        self.partial_fit(contexts, arms, rewards)
        self._bandit.refit()
        return self

    def play(self, contexts: Contexts, rewards: npt.ArrayLike) -> npt.NDArray[np.intp]:
        """Live through a stream in which each arm's reward is known; returns the arm of each round.

        Only the chosen arm's reward is learnt from.
        """
        table = np.asarray(rewards, dtype=bool).tolist()
        return np.asarray(self._bandit.play(_rows(contexts), table), dtype=np.intp)

    def predict(self, contexts: Contexts) -> npt.NDArray[np.intp]:
        """The arm with the best prediction for each context, without exploring."""
        return np.asarray([self._bandit.best(row) for row in _rows(contexts)], dtype=np.intp)

    def predict_proba(self, contexts: Contexts) -> npt.NDArray[np.float64]:
        """P(reward | context, arm): one row a context, one column an arm."""
        return np.asarray([self._bandit.predict(row) for row in _rows(contexts)])

    def decision_probabilities(self, contexts: Contexts, available: Sequence[bool] = ()) -> npt.NDArray[np.float64]:
        """How likely :meth:`decide` would choose each arm now; changes nothing."""
        return np.asarray([self._bandit.probabilities(row, list(available)) for row in _rows(contexts)])

    def child(self, seed: int = 0) -> PathBandit:
        """A bandit for one place that begins with what this one knows and is held near it."""
        return self._of(self._bandit.child(seed))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Replace the file as a whole: a crash leaves the old one or the new."""
        self._bandit.save(Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PathBandit:
        """Read what :meth:`save` wrote; it goes on exactly where the saved one was."""
        return cls._of(_core.Bandit.load(Path(path)))


def _rows(contexts: Contexts) -> list[list[float]]:
    table = np.asarray(contexts, dtype=float)
    if table.ndim != 2:
        raise ValueError(f"contexts of {table.ndim} dimensions; give one row a context")
    rows: list[list[float]] = table.tolist()
    return rows
