"""Figures 3, 5, 6 and 7: throughput over one axis of a scenario's grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multipilot.papers.charts import COLOURS, Curve, Mark, Panel, curve_of, draw
from multipilot.papers.page import Section
from multipilot.papers.results import KERNEL, SIM, Measure, Results
from multipilot.stats import Mean
from reproductions.rsf.printed import BDP, RIVALS, TABLE, of_all, of_connection

ALL = (*RIVALS, "rsf-db", "rsf-lb", "reno", "cubic", "bbr")


@dataclass(frozen=True)
class Sweep:
    """A figure that draws throughput over one axis of a scenario's grid."""

    name: str
    title: str
    scenario: str
    axis: str
    #: Values as the grid writes them, and as the axis shows them.
    values: Sequence[tuple[str, float]]
    x_label: str
    rsf: str
    measure: Measure
    y_label: str
    #: Row of table 2 whose values the paper gives at one point of the axis, and that point.
    paper_at: tuple[str, str]

    def series(self, results: Results, world: str, variant: str) -> list[Mean]:
        return [
            results.mean(world, self.scenario, variant, self.measure, {self.axis: v, **BDP}) for v, _ in self.values
        ]


SWEEPS = (
    Sweep(
        "fig3",
        "Figure 3: file size, scenario 2",
        "2-loss-2-percent",
        "connections.*.bytes",
        [("2MB", 2), ("4MB", 4), ("6MB", 6), ("8MB", 8)],
        "file size, MB",
        "rsf-db",
        of_connection,
        "Mbit/s a connection",
        ("2", "4MB"),
    ),
    Sweep(
        "fig5",
        "Figure 5: bandwidth of the second path, scenario 4",
        "4-bandwidth",
        "paths.two.rate",
        [("10Mbit", 10), ("20Mbit", 20), ("40Mbit", 40), ("60Mbit", 60), ("80Mbit", 80)],
        "rate of the second path, Mbit/s",
        "rsf-db",
        of_all,
        "Mbit/s, all five",
        ("4", "80Mbit"),
    ),
    Sweep(
        "fig6",
        "Figure 6: delay of the second path, scenario 5",
        "5-delay",
        "paths.two.downlink.delay",
        [("20ms", 20), ("40ms", 40), ("60ms", 60), ("80ms", 80), ("100ms", 100)],
        "delay of the second path, ms a round trip",
        "rsf-db",
        of_connection,
        "Mbit/s a connection",
        ("5", "20ms"),
    ),
    Sweep(
        "fig7",
        "Figure 7: loss of the second path, scenario 6",
        "6-loss",
        "paths.two.loss",
        [("0", 0.0), ("0.01", 1.0), ("0.02", 2.0), ("0.03", 3.0), ("0.04", 4.0), ("0.05", 5.0)],
        "loss of the second path, %",
        "rsf-lb",
        of_connection,
        "Mbit/s a connection",
        ("6", "0"),
    ),
)


def show_sweep(sweep: Sweep, results: Results) -> Section:
    x = [shown for _, shown in sweep.values]
    found = {v: sweep.series(results, SIM, v) for v in (*ALL, "tcp")}
    row = next(r for r in TABLE if r.id == sweep.paper_at[0])
    at = dict(sweep.values)[sweep.paper_at[1]]
    marks = [
        Mark(at, value, COLOURS[row.rsf if v == "rsf" else v], "paper") for v, value in row.paper.items() if v != "tcp"
    ]
    for variant in ALL:
        for value, (mean) in zip(x, sweep.series(results, KERNEL, variant), strict=True):
            if mean.n:
                marks.append(Mark(value, mean, COLOURS[variant], "kernel"))
    bold = {"rsf-db", "rsf-lb"}

    def curves(variants: Sequence[str]) -> list[Curve]:
        return [
            curve_of(v, x, found[v], bold=v in bold, dashed=v == "reno") for v in variants if any(m.n for m in found[v])
        ]

    built_in = {COLOURS[v] for v in ("lia", sweep.rsf, "reno", "cubic", "bbr")}
    kernel_left = [m for m in marks if m.kind == "paper" or m.colour not in (COLOURS["cubic"], COLOURS["bbr"])]
    panels = [
        Panel(
            "As the paper compares",
            sweep.x_label,
            sweep.y_label,
            curves((*RIVALS, "rsf-db", "rsf-lb", "reno")),
            kernel_left,
        ),
        Panel(
            "With what the kernel has built in",
            sweep.x_label,
            sweep.y_label,
            curves(("lia", sweep.rsf, "reno", "cubic", "bbr")),
            [m for m in marks if m.kind == "kernel" and m.colour in built_in],
        ),
    ]
    return Section(sweep.title, [], [draw(panels, sweep.title, height=4.0)])
