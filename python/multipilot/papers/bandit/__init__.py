"""Paper *bandit*: a contextual bandit chooses the path that connections start on (Alzadjali, Esposito, Deogun, 2020).

places    twenty places, generated
measured  places out of measurements that the user has
stream    what each choice would have brought, simulated
policies  every policy living through the same rounds
svm       the support vector machine of Zhao et al.
measure   all of that together
figures   figures 2 to 7, regret
sizes     gain by transfer size
worlds    four places as scenarios, in both worlds
values    the values that claims.toml is about
"""

from __future__ import annotations

from pathlib import Path

from multipilot.papers.bandit import figures, worlds
from multipilot.papers.bandit.measure import measure
from multipilot.papers.bandit.values import values
from multipilot.papers.claims import load
from multipilot.papers.paper import Item, Paper

_WORLDS = tuple(worlds.CHOSEN)


PAPER = Paper(
    name="bandit",
    title="A contextual bandit chooses the path that connections start on",
    source="Alzadjali, Esposito, Deogun: bi-armed bandit for MPTCP path management",
    claims=load(Path(__file__).with_name("claims.toml")),
    values=values,
    experiments=worlds.EXPERIMENTS,
    points=worlds.POINTS,
    items=(
        Item("fig2", "Figures 2 and 3: the places", (), figures.show_places),
        Item("fig4", "Figure 4: reward of each policy", (), figures.show_rewards),
        Item("regret", "Regret", (), figures.show_regret),
        Item("fig5", "Figure 5: throughput over time", (), figures.show_over_time),
        Item("fig6", "Figure 6: throughput at 12 places", (), figures.show_distributions),
        Item("fig7", "Figure 7: five systems", (), figures.show_systems),
        Item("sizes", "Completion time by transfer size", (), figures.show_sizes),
        Item("worlds", "Four places in both worlds", _WORLDS, worlds.show),
    ),
    measure=measure,
)
