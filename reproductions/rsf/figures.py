"""Figures 4 and 8 to 11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from multipilot.papers.charts import Panel, bars_of, curve_of, draw
from multipilot.papers.page import Section
from multipilot.papers.results import SIM, Measure, Results
from multipilot.papers.tables import delivered, read
from multipilot.stats import Mean, mean_of
from reproductions.rsf.printed import BDP, FIGURE_10, JAIN, RIVALS, TABLE, of_all, of_connection, of_path, of_rival


def _at(results: Results, scenario: str, measure: Measure, cell: Mapping[str, str], variant: str, world: str) -> Mean:
    return results.mean(world, scenario, variant, measure, cell)


def show_jain(results: Results) -> Section:
    cell = {"connections.*.bytes": "4MB", **BDP}
    names = [*RIVALS, "rsf-db", "rsf-lb", "reno"]
    bars = bars_of(
        "Jain's index, five connections of 4 MB",
        names,
        partial(_at, results, "2-loss-2-percent", "jain", cell),
        paper=[JAIN.get(v) for v in names],
        low=0.8,
        digits=3,
    )
    return Section(
        "Figure 4: fairness among the connections, scenario 2",
        ["Over five flows a spread of 10 % gives an index of 0.99."],
        [draw([bars], "Jain's index by controller", height=3.2)],
    )


DASHED = ("reno", "tcp")
# Flows by their length, in seconds.
LENGTHS = [(1, 4), (4, 8), (8, 12), (12, 16), (16, 20), (20, 25), (25, 30)]


def _by_length(results: Results, world: str, variant: str, arrivals: str) -> list[Mean]:
    """Mean goodput of the flows of each length; one value a seed."""
    bins: list[list[float]] = [[] for _ in LENGTHS]
    for row in results.find(world, "7-short-flows", variant, {"connections.short.arrivals": arrivals, **BDP}):
        flows = read(row, "transfers")
        if flows is None:
            continue
        length = flows["end_s"].to_numpy() - flows["start_s"].to_numpy()
        rate = flows["bytes"].to_numpy() * 8e-6 / np.where(length > 0, length, np.nan)
        for values, (low, high) in zip(bins, LENGTHS, strict=True):
            chosen = rate[(length >= low) & (length < high)]
            if chosen.size:
                values.append(float(chosen.mean()))
    return [mean_of(values) for values in bins]


def show_short(results: Results) -> Section:
    x = [(low + high) / 2 for low, high in LENGTHS]
    panels = []
    for arrivals, words in (("8/min", "eight arrivals a minute"), ("8/s", "eight arrivals a second")):
        curves = []
        for variant in ("tcp", *RIVALS, "rsf-db", "reno"):
            means = _by_length(results, SIM, variant, arrivals)
            if any(m.n for m in means):
                curves.append(curve_of(variant, x, means, bold=variant == "rsf-db", dashed=variant in DASHED))
        panels.append(Panel(words.capitalize(), "length of the flow, s", "Mbit/s a flow", curves))
    return Section(
        "Figure 8: short flows, scenario 7",
        [
            "The paper's axis of 5 to 9 Mbit/s a flow does not fit eight arrivals a second on 40 Mbit/s: on average "
            "124 flows would share the paths. At eight a minute two do."
        ],
        [draw(panels, "Goodput of a flow by its length", height=3.8)],
        ["The shortest flows are slow start; lengths are drawn uniformly from 1 to 30 s, arrivals are Poisson."],
    )


def over_time(results: Results, world: str, variant: str, seconds: int = 98) -> list[np.ndarray]:
    """Mbit/s acknowledged in each second over all connections, by run. Telemetry ends before the run does."""
    runs = []
    for row in results.find(world, "8-path-failure", variant, BDP):
        samples = read(row)
        if samples is not None and len(samples):
            runs.append(np.diff(delivered(samples, np.arange(seconds + 1.0))) * 8e-6)
    return runs


def between(runs: Sequence[np.ndarray], first: int, last: int) -> Mean:
    """Mbit/s from second ``first`` to second ``last``; one value a run."""
    return mean_of(float(run[first:last].mean()) for run in runs)


def show_failure(results: Results) -> Section:
    curves = []
    for variant in ("tcp", *RIVALS, "rsf-lb", "reno"):
        runs = over_time(results, SIM, variant)
        if runs:
            # Five seconds a point: single seconds are all noise.
            starts = range(0, len(runs[0]) - 4, 5)
            x, means = [start + 2.5 for start in starts], [between(runs, start, start + 5) for start in starts]
            style = {"bold": variant == "rsf-lb", "dashed": variant in DASHED, "markers": False}
            curves.append(curve_of(variant, x, means, **style))
    row = next(r for r in TABLE if r.id == "8")
    names = ["tcp", *RIVALS, "rsf-lb", "reno"]
    paper = [row.paper.get("rsf" if v == "rsf-lb" else v) for v in names]
    bars = bars_of("Mean over 100 s, all five", names, partial(_at, results, row.scenario, of_all, BDP), paper=paper)
    panel = Panel("Throughput over time", "time, s", "Mbit/s, all five", curves, rules=[(50, "path 1 dies")])
    return Section(
        "Figure 9: a path dies, scenario 8",
        ["Half of the paths is gone from 50 s on."],
        [draw([panel, bars], "Throughput over time around a path failure, and means", height=3.8)],
    )


def show_competing(results: Results) -> Section:
    names = ["lia", "olia", "balia", "rsf-db", "rsf-lb", "reno"]
    shown = (("A multipath connection", of_connection, 0), ("A TCP flow beside it", of_rival, 1))
    panels = [
        bars_of(
            f"{title}, Mbit/s",
            names,
            partial(_at, results, "9-competing-tcp", measure, BDP),
            paper=[FIGURE_10[v][place] if v in FIGURE_10 else None for v in names],
        )
        for title, measure, place in shown
    ]
    return Section(
        "Figure 10: competing TCP, scenario 9",
        ["At 2 % random loss the shared path is not full. The next section fills it."],
        [draw(panels, "Multipath and TCP goodput in scenario 9", height=3.2)],
    )


def show_wifi(results: Results) -> Section:
    names = [*RIVALS, "rsf-db", "rsf-lb", "reno", "bbr"]
    panels = []
    for rate, words in (("20Mbit", "20 Mbit/s of IP a path"), ("54Mbit", "54 Mbit/s of IP a path")):
        cell = {"paths.*.rate": rate, **BDP}
        paper = [18.60 if v == "rsf-db" and rate == "20Mbit" else None for v in names]
        mean = partial(_at, results, "w-wifi", of_path, cell)
        panels.append(bars_of(f"Mbit/s on a path: {words}", names, mean, paper=paper, digits=1))
    return Section(
        "Figure 11: Wi-Fi",
        ["The paper has 17.65 to 18.60 Mbit/s a path on 54 Mbit/s of air, which is what 802.11g leaves of it."],
        [draw(panels, "Goodput a path by controller", height=3.2)],
    )
