"""One device's MS-UCB, with links by name. What decides is the code of the path manager ``ms-ucb``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from multipilot import _core

#: By link: how often it was seen, and its mean reward (0 to 1).
Known = dict[str, tuple[float, float]]


class SuperArms:
    """Which ``size`` of ``links`` a connection should use. The past counts whole unless ``discount`` (a factor a
    round) or ``window`` (rounds) is given.
    """

    def __init__(
        self,
        links: Sequence[str],
        size: int,
        *,
        seed: int = 1,
        discount: float | None = None,
        window: int | None = None,
    ) -> None:
        self.links = list(links)
        self._bandit = _core.MsUcb(len(self.links), size, seed, discount, window)
        #: What this device has seen itself: what it tells others.
        self.own: Known = {}

    def choose(self) -> list[str]:
        return [self.links[i] for i in self._bandit.choose()]

    def learn(self, rewards: Mapping[str, float]) -> None:
        """What came of a round, of the links that were used."""
        for link, reward in rewards.items():
            count, mean = self.own.get(link, (0.0, 0.0))
            self.own[link] = (count + 1, mean + (reward - mean) / (count + 1))
        self._bandit.update([(self.links.index(link), reward) for link, reward in rewards.items()])

    def index(self, link: str) -> float:
        return self._bandit.index(self.links.index(link))

    def begin_with(self, known: Known) -> None:
        """What others know, for a connection that has seen nothing itself."""
        self._bandit.take_over([known.get(link, (0.0, 0.0)) for link in self.links])


def merge(users: Iterable[Known], trim: float | None = None) -> Known:
    """What one learner who had seen all of it would know. With ``trim`` (0 to ½) users may lie: the outermost share of
    means at either end is left out, and a count weighs no more than twice the link's median.
    """
    reports = list(users)
    links = sorted({link for report in reports for link in report})
    columns = [[report.get(link, (0.0, 0.0)) for link in links] for report in reports]
    merged = _core.merge_arms(columns) if trim is None else _core.merge_arms_trimmed(columns, trim)
    return {link: arm for link, arm in zip(links, merged, strict=False) if arm[0] > 0}
