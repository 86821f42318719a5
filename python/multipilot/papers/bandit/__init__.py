"""Paper *bandit*: a contextual bandit chooses the path that connections start on (Alzadjali, Esposito, Deogun, 2020).

places    twenty places, generated
measured  places out of measurements that the user has
stream    what each choice would have brought, simulated
policies  every policy living through the same rounds
svm       the support vector machine of Zhao et al.
measure   all of that together
figures   figures 2 to 7, regret
sizes     gain by transfer size
worlds    three places as scenarios, in both worlds
"""

from __future__ import annotations

from multipilot.papers.bandit import figures, sizes, worlds
from multipilot.papers.bandit.measure import SIZE_LABELS, measure, measured
from multipilot.papers.bandit.stream import SIZES
from multipilot.papers.paper import Item, Paper
from multipilot.papers.results import Results

_WORLDS = tuple(worlds.CHOSEN)


def _summary(results: Results) -> list[str]:
    found = measured(results)
    if found is None:
        return []
    gains = {name: sizes.saved(found, size) for name, size in zip(SIZE_LABELS, SIZES, strict=True)}
    best = max(gains, key=lambda name: gains[name])
    last = SIZE_LABELS[-1]
    short = SIZES[:2]
    share = sum(sizes.saved(found, size) for size in short) / sum(sizes.possible(found, size) for size in short)
    return [
        f"Learning which path to start on changes the mean completion time of {best} transfers by "
        f"{-100 * gains[best]:+.0f} % against starting on Wi-Fi always, and of {last} transfers by "
        f"{-100 * gains[last]:+.0f} %. The paper's gain of up to 30 % in aggregate throughput is not there on these "
        "places: even hindsight would not bring it.",
        f"Of what hindsight would save on transfers of up to 256 kB, the bandit saves {100 * share:.0f} % once it has "
        "learnt. It also loses some; the section on transfer sizes says how many, the last one what the same bandit "
        "does as a path manager, in the simulator and on the kernel.",
    ]


PAPER = Paper(
    name="bandit",
    title="A contextual bandit chooses the path that connections start on",
    source="Alzadjali, Esposito, Deogun: bi-armed bandit for MPTCP path management",
    summary=_summary,
    experiments=worlds.EXPERIMENTS,
    points=worlds.POINTS,
    items=(
        Item("fig2", "Figures 2 and 3: the places", (), figures.show_places, figures.place_rows),
        Item("fig4", "Figure 4: reward of each policy", (), figures.show_rewards, figures.reward_rows),
        Item("regret", "Regret", (), figures.show_regret, figures.regret_rows),
        Item("fig5", "Figure 5: throughput over time", (), figures.show_over_time),
        Item("fig6", "Figure 6: throughput at 12 places", (), figures.show_distributions, figures.gain_rows),
        Item("fig7", "Figure 7: five systems", (), figures.show_systems, figures.system_rows),
        Item("sizes", "Completion time by transfer size", (), figures.show_sizes, figures.size_rows),
        Item("worlds", "Three places in both worlds", _WORLDS, worlds.show, worlds.rows),
    ),
    measure=measure,
)
