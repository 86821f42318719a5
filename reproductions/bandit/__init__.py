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

from multipilot.papers.claims import load
from multipilot.papers.paper import Item, Own, Paper
from reproductions.bandit import figures, worlds
from reproductions.bandit.measure import basis, measure, sample
from reproductions.bandit.values import values

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
        Item("fig2", (), figures.show_places),
        Item("fig4", (), figures.show_rewards),
        Item("regret", (), figures.show_regret),
        Item("fig5", (), figures.show_over_time),
        Item("fig6", (), figures.show_distributions),
        Item("fig7", (), figures.show_systems),
        Item("sizes", (), figures.show_sizes),
        Item("worlds", _WORLDS, worlds.show),
    ),
    own=Own(measure, sample, basis),
)
