"""Paper *ddpg*: deep reinforcement learning on top of MPCC (Pokhrel et al., Future Internet 16(2), 37, 2024).

plan        what is measured, and which points on the kernel
sections    what the sections share; the closed form of MPCC's rate
topologies  figures 4 and 5 and the sweep of rates: one connection beside single-path ones
contention  figures 6 to 8: two connections on both paths
over_time   goodput of each connection over time
intervals   what they stand on: an actor and MPCC, interval by interval
tolerance   how much random loss MPCC bears
below       where DDPG-MPCC carries less than MPCC
beyond      shared bottleneck, varying capacity, short flows, unseen paths
learning    where an actor earns more than MPCC
values      the values that claims.toml is about
"""

from __future__ import annotations

from pathlib import Path

from multipilot.papers.claims import load
from multipilot.papers.paper import Item, Own, Paper
from reproductions.ddpg import below, beyond, contention, intervals, learning, plan, tolerance, topologies
from reproductions.ddpg.values import values

PAPER = Paper(
    name="ddpg",
    title="MPCC and a learned actor on top of it",
    source="Future Internet 16(2), 37, 2024",
    claims=load(Path(__file__).with_name("claims.toml")),
    values=values,
    experiments=plan.EXPERIMENTS,
    points=plan.POINTS,
    items=(
        Item("tolerance", (plan.ALONE, plan.LARGE), tolerance.show),
        Item("fig4", (plan.BUFFERS,), topologies.show_buffers),
        Item("fig5", (plan.LOSS,), topologies.show_loss),
        Item("bandwidth", (plan.RATES,), topologies.show_rates),
        Item("below", below.SCENARIOS, below.show),
        Item("fig6", (), contention.show_rate),
        Item("fig7", (), contention.show_utility),
        Item("fig8", (), contention.show_reward),
        Item("pairs", (plan.AGAINST, plan.OWN), contention.show_pairs),
        Item("bottleneck", (plan.SHARED,), beyond.show_shared),
        Item("capacity", (plan.VARYING,), beyond.show_varying),
        Item("short", (plan.SHORT,), beyond.show_short),
        Item("unseen", (plan.UNSEEN,), beyond.show_unseen),
        Item("learning", (), learning.show),
    ),
    on_traces=plan.on_traces,
    own=Own(intervals.measure, intervals.sample, intervals.basis),
)
