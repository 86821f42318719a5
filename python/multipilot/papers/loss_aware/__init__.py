"""Paper *loss-aware*: reinforcing MPTCP with path-aware information (MPTCP-LA; Sensors 19(3), 476, 2019).

plan      what is measured, and which points on the kernel
benefit   the benefit of aggregation, and when it counts as harm
pictures  figures 3 and 4
dynamic   figures 5 and 6, path failure, handover, the threshold
verdict   how often multipath does harm, by controller: without awareness, with it, and once the paths are known
extra     files by size, recorded traces, BALIA
series    rates, priorities and reaction times out of a run's samples
"""

from __future__ import annotations

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
from multipilot.papers.paper import Item, Paper
from multipilot.papers.results import Results


def _summary(results: Results) -> list[str]:
    found = verdict.headline(results)
    if not found:
        return []
    return [
        *found,
        "The paper's finding holds: under BALIA with fixed buffers a lossy path makes the whole connection slower "
        "than the other path alone, and sparing it helps. Two things the paper does not say: most of that harm "
        "comes from data that wait in the lossy subflow's send queue, and with buffers that tune themselves, or "
        "with uncoupled controllers, there is far less of it to mend.",
    ]


PAPER = Paper(
    name="loss-aware",
    title="Path awareness: never slower than the better path",
    source="Sensors 19(3), 476, 2019",
    summary=_summary,
    experiments=EXPERIMENTS,
    points=POINTS,
    items=(
        Item("verdict", "The verdict", (V_WIFI, V_LTE, V_CLEAN, V_BOTH), verdict.show, verdict.rows),
        Item("fig3", "Figure 3", (WIFI, LTE), pictures.show_benefit, pictures.benefit_rows),
        Item("fig4", "Figure 4", (WIFI, LTE), pictures.show_throughput, pictures.throughput_rows),
        Item("fig5", "Figure 5", (dynamic.DYNAMIC,), dynamic.show_average, dynamic.average_rows),
        Item("fig6", "Figure 6", (dynamic.DYNAMIC,), dynamic.show_rates, dynamic.rate_rows),
        Item("failure", "Path failure and return", (dynamic.FAILURE,), dynamic.show_failure, dynamic.failure_rows),
        Item("handover", "Loss against signal", (dynamic.HANDOVER,), dynamic.show_handover, dynamic.handover_rows),
        Item("sizes", "Files by size", ("7-sizes",), extra.show_sizes, extra.size_rows),
        Item(
            "limits", "Threshold and dead beginning", (dynamic.THRESHOLD, dynamic.DEAD), dynamic.show_threshold,
            dynamic.threshold_rows,
        ),
        Item("balia", "BALIA", (WIFI, V_WIFI), extra.show_balia),
        Item("traces", "Recorded traces", ("9-trace",), extra.show_traces, extra.trace_rows),
    ),
    on_traces=on_traces,
)  # fmt: skip
