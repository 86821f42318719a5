"""Paper *loss-aware*: reinforcing MPTCP with path-aware information (MPTCP-LA; Sensors 19(3), 476, 2019).

plan      what is measured, and which points on the kernel
benefit   the benefit of aggregation, and when it counts as harm
pictures  figures 3 and 4
dynamic   figures 5 and 6, path failure, handover, the threshold
verdict   how often multipath does harm, by controller: without awareness, with it, and once the paths are known
extra     files by size, recorded traces
series    rates, priorities and reaction times out of a run's samples
values    the values that claims.toml is about
"""

from __future__ import annotations

from pathlib import Path

from multipilot.papers.claims import load
from multipilot.papers.paper import Item, Paper
from reproductions.loss_aware import dynamic, extra, pictures, plan, verdict
from reproductions.loss_aware.values import values

PAPER = Paper(
    name="loss-aware",
    title="Path management that watches for loss",
    source="Sensors 19(3), 476, 2019",
    claims=load(Path(__file__).with_name("claims.toml")),
    values=values,
    experiments=plan.EXPERIMENTS,
    points=plan.POINTS,
    items=(
        Item("fig3", (plan.WIFI, plan.LTE), pictures.show_benefit),
        Item("fig4", (plan.WIFI, plan.LTE), pictures.show_throughput),
        Item("fig5", (dynamic.DYNAMIC,), dynamic.show_average),
        Item("fig6", (dynamic.DYNAMIC,), dynamic.show_rates),
        Item("verdict", (plan.V_WIFI, plan.V_LTE, plan.V_CLEAN, plan.V_BOTH), verdict.show),
        Item("failure", (dynamic.FAILURE,), dynamic.show_failure),
        Item("handover", (dynamic.HANDOVER,), dynamic.show_handover),
        Item("sizes", ("7-sizes",), extra.show_sizes),
        Item("limits", (dynamic.THRESHOLD, dynamic.DEAD), dynamic.show_threshold),
        Item("traces", ("9-trace",), extra.show_traces),
    ),
    on_traces=plan.on_traces,
)
