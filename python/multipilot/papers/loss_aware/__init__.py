"""Paper *loss-aware*: reinforcing MPTCP with path-aware information (MPTCP-LA; Sensors 19(3), 476, 2019).

plan      what is measured, and which points on the kernel
benefit   the benefit of aggregation, and when it counts as harm
pictures  figures 3 and 4
dynamic   figures 5 and 6, path failure, handover, the threshold
verdict   how often multipath does harm, by controller: without awareness, with it, and once the paths are known
extra     files by size, recorded traces, BALIA
series    rates, priorities and reaction times out of a run's samples
values    the values that claims.toml is about
"""

from __future__ import annotations

from pathlib import Path

from multipilot.papers.claims import load
from multipilot.papers.loss_aware import dynamic, extra, pictures, verdict
from multipilot.papers.loss_aware.plan import (
    EXPERIMENTS,
    LTE,
    POINTS,
    V_BOTH,
    V_CLEAN,
    V_LTE,
    V_WIFI,
    WIFI,
    on_traces,
)
from multipilot.papers.loss_aware.values import values
from multipilot.papers.paper import Item, Paper

PAPER = Paper(
    name="loss-aware",
    title="Path awareness: never slower than the better path",
    source="Sensors 19(3), 476, 2019",
    claims=load(Path(__file__).with_name("claims.toml")),
    values=values,
    experiments=EXPERIMENTS,
    points=POINTS,
    items=(
        Item("fig3", "Figure 3", (WIFI, LTE), pictures.show_benefit),
        Item("fig4", "Figure 4", (WIFI, LTE), pictures.show_throughput),
        Item("fig5", "Figure 5", (dynamic.DYNAMIC,), dynamic.show_average),
        Item("fig6", "Figure 6", (dynamic.DYNAMIC,), dynamic.show_rates),
        Item("verdict", "The verdict", (V_WIFI, V_LTE, V_CLEAN, V_BOTH), verdict.show),
        Item("failure", "Path failure and return", (dynamic.FAILURE,), dynamic.show_failure),
        Item("handover", "Loss against signal", (dynamic.HANDOVER,), dynamic.show_handover),
        Item("sizes", "Files by size", ("7-sizes",), extra.show_sizes),
        Item(
            "limits", "Threshold and dead beginning", (dynamic.THRESHOLD, dynamic.DEAD), dynamic.show_threshold,
        ),
        Item("balia", "BALIA", (WIFI, V_WIFI), extra.show_balia),
        Item("traces", "Recorded traces", ("9-trace",), extra.show_traces),
    ),
    on_traces=on_traces,
)  # fmt: skip
