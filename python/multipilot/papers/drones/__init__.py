"""Paper *drones*: multipath TCP over 802.11ay (Drones 7(1), 30, 2023): its radio, and LD-MPSP in theory.

air     what the radio alone says
beams   figures 7, 9 and 10
theory  LD-MPSP's fluid
"""

from __future__ import annotations

from multipilot.papers.drones import beams, theory
from multipilot.papers.paper import Item, Paper
from multipilot.papers.results import Results


def _summary(_: Results) -> list[str]:
    return [
        "What the radio of the paper yields, from published tables of rates, SNRs and frame times alone: nothing here "
        "is "
        "calibrated. HEKATON and BUSH are abstractions of published descriptions.",
        "This page has figures 7, 9 and 10 and the theory of LD-MPSP. The tables and the figures with transport (5, 8, "
        "11 "
        "and 12) are not here.",
    ]


PAPER = Paper(
    name="drones",
    title="802.11ay for drones: beams, energy and low delay",
    source="Drones 7(1), 30, 2023",
    summary=_summary,
    experiments=(),
    points=(),
    items=(
        Item("fig7", "Figure 7", (), beams.overhead, beams.overhead_rows),
        Item("fig9", "Figure 9", (), beams.energy, beams.energy_rows),
        Item("fig10", "Figure 10", (), beams.aggregate, beams.aggregate_rows),
        Item("theory", "Theory", (), theory.show),
    ),
)
