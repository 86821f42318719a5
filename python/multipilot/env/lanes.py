"""Many simulations side by side in the native core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from multipilot import _core
from multipilot.env.task import Task

Floats = NDArray[np.float32]

#: Columns of :attr:`Asked.facts`.
FACTS = (
    "time_s",
    "rate",
    "delivered",
    "lost",
    "elapsed_us",
    "rtt_us",
    "utility",
    "best",
    "path",
    "asked",
    "others",
    "capacity",
)
FEATURES = 3


class Asked(NamedTuple):
    """What each lane has to say: one row a lane.

    ``rewards`` are U of the interval just past over the utility of full paths
    without loss; a round trip that falls earns nothing in it, and below it is not cut off. ``agents`` says
    which subflow asks (connection × 8 + slot). ``fresh``: an episode has begun with this question.
    """

    observations: Floats
    rewards: Floats
    agents: NDArray[np.int32]
    fresh: NDArray[np.bool_]
    facts: NDArray[np.float64]

    def fact(self, name: str) -> NDArray[np.float64]:
        """Rates in bytes/s, the rest as its name says.

        ``best`` is the utility that ``rewards`` are scaled by, ``others`` the rates of the siblings as the controller
        knew them, ``capacity`` what the path carried as the episode began (0 where a trace decides): for critics and
        judges, an actor sees neither.
        """
        column: NDArray[np.float64] = self.facts[:, FACTS.index(name)]
        return column


class Lanes:
    """``count`` simulations, each stopped where one of its subflows asks for a rate.

    Subflows ask in the order of their own clocks, as they do when an actor is deployed: two questions in a row are
    rarely of the same subflow. The connections ``watched`` (by the order in which they start) run plain MPCC, and their
    intervals are reported without being asked about. The same seed gives the same bits on any number of threads.
    """

    def __init__(
        self,
        task: Task,
        count: int = 16,
        *,
        seed: int = 1,
        history: int = 4,
        steps: int = 400,
        agents: int = 8,
        watched: Sequence[int] = (),
        threads: int = 1,
    ) -> None:
        for name, value in (("count", count), ("history", history), ("steps", steps), ("agents", agents)):
            if value < 1:
                raise ValueError(f"{name}: {value}; give 1 or more")
        self.count, self.threads, self.width = count, threads, FEATURES * history
        self._core = _core.Lanes(
            task.given(), task.wishes(), task.varied(), count, seed, history, steps, agents, list(watched)
        )

    def restart(self, seed: int, episode: int) -> None:
        """Begins the episode of that number in every lane with the next :meth:`step`."""
        self._core.restart(seed, episode)

    def restart_each(self, seeds: Sequence[int]) -> None:
        """Begins anew in every lane: lane k goes on as the only lane of ``Lanes(task, 1, seed=seeds[k])`` does."""
        if len(seeds) != self.count:
            raise ValueError(f"seeds: {len(seeds)} for {self.count} lanes; give one each")
        self._core.restart_each(list(seeds))

    def step(self, actions: Floats | None = None) -> Asked:
        """Answers the open questions (there are none at first) and goes on to the next ones."""
        given = b"" if actions is None else np.ascontiguousarray(actions, np.float32).tobytes()
        observations, rewards, agents, fresh, facts = self._core.step(given, self.threads)
        return Asked(
            np.frombuffer(observations, np.float32).reshape(self.count, self.width),
            np.frombuffer(rewards, np.float32),
            np.frombuffer(agents, np.int32),
            np.frombuffer(fresh, np.bool_),
            np.frombuffer(facts, np.float64).reshape(self.count, -1),
        )
