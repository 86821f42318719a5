"""Figures 4 and 8 to 11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from multipilot.papers.charts import COLOURS, NAMES, Bars, Curve, Panel, draw
from multipilot.papers.page import Section
from multipilot.papers.results import KERNEL, SIM, Measure, Results
from multipilot.papers.rsf.printed import BDP, FIGURE_10, JAIN, RIVALS, TABLE, of_all, of_connection, of_path, of_rival
from multipilot.papers.rsf.samples import columns
from multipilot.papers.rsf.sweeps import ALL
from multipilot.papers.rsf.table import line
from multipilot.stats import Mean, mean_of


def show_jain(results: Results) -> Section:
    cell = {"connections.*.bytes": "4MB", **BDP}
    names = [*RIVALS, "rsf-db", "rsf-lb", "reno"]
    means = [results.mean(SIM, "2-loss-2-percent", v, "jain", cell) for v in names]
    kernel = [results.mean(KERNEL, "2-loss-2-percent", v, "jain", cell) for v in names]
    bars = Bars(
        "Jain's index, five connections of 4 MB",
        [NAMES[v].replace(", ", ",\n") for v in names],
        means,
        [COLOURS[v] for v in names],
        [JAIN.get(v) for v in names],
        kernel,
        low=0.8,
        digits=3,
    )
    return Section(
        "fig4",
        "Figure 4: fairness among the connections, scenario 2",
        ["Over five flows a spread of 10 % gives an index of 0.99."],
        [draw([bars], "Jain's index by controller", height=3.2)],
    )


def jain_rows(results: Results) -> list[dict[str, Any]]:
    cell = {"connections.*.bytes": "4MB", **BDP}
    return [
        {"world": w, **line(v, m, JAIN.get(v)), "goodput_mbps": None, "jain": m.mean}
        for w in (SIM, KERNEL)
        for v in ("tcp", *ALL)
        if (m := results.mean(w, "2-loss-2-percent", v, "jain", cell)).n
    ]


# Flows by their length, in seconds.
LENGTHS = [(1, 4), (4, 8), (8, 12), (12, 16), (16, 20), (20, 25), (25, 30)]


def _by_length(results: Results, world: str, variant: str, arrivals: str) -> list[Mean]:
    """Mean goodput of the flows of each length; one value a seed."""
    bins: list[list[float]] = [[] for _ in LENGTHS]
    for row in results.find(world, "7-short-flows", variant, {"connections.short.arrivals": arrivals, **BDP}):
        flows = columns(row, ("start_s", "end_s", "bytes"), table="transfers")
        if not flows:
            continue
        start, end = np.array(flows["start_s"], dtype=float), np.array(flows["end_s"], dtype=float)
        length = end - start
        rate = np.array(flows["bytes"], dtype=float) * 8e-6 / np.where(length > 0, length, np.nan)
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
                curves.append(
                    Curve(
                        NAMES[variant],
                        x,
                        means,
                        COLOURS[variant],
                        bold=variant == "rsf-db",
                        dashed=variant in ("reno", "tcp"),
                    )
                )
        panels.append(Panel(words.capitalize(), "length of the flow, s", "Mbit/s a flow", curves))
    return Section(
        "fig8",
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
        samples = columns(row, ("time_s", "transfer", "subflow", "delivered_bytes"))
        if not samples or not samples["time_s"]:
            continue
        grid = np.arange(seconds + 1)
        total = np.zeros(seconds + 1)
        keys = np.array([f"{t}/{s}" for t, s in zip(samples["transfer"], samples["subflow"], strict=True)])
        time, delivered = np.array(samples["time_s"], dtype=float), np.array(samples["delivered_bytes"], dtype=float)
        for key in np.unique(keys):
            mine = keys == key
            total += np.interp(grid, time[mine], delivered[mine], left=0)
        runs.append(np.diff(total) * 8e-6)
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
            curves.append(
                Curve(
                    NAMES[variant],
                    [start + 2.5 for start in starts],
                    [between(runs, start, start + 5) for start in starts],
                    COLOURS[variant],
                    bold=variant == "rsf-lb",
                    dashed=variant in ("reno", "tcp"),
                    markers=False,
                )
            )
    row = next(r for r in TABLE if r.id == "8")
    names = ["tcp", *RIVALS, "rsf-lb", "reno"]
    bars = Bars(
        "Mean over 100 s, all five",
        [NAMES[v].split(",")[0] for v in names],
        [results.mean(SIM, row.scenario, v, of_all, BDP) for v in names],
        [COLOURS[v] for v in names],
        [row.paper.get("rsf" if v == "rsf-lb" else v) for v in names],
        [results.mean(KERNEL, row.scenario, v, of_all, BDP) for v in names],
    )
    panel = Panel("Throughput over time", "time, s", "Mbit/s, all five", curves, rules=[(50, "path 1 dies")])
    return Section(
        "fig9",
        "Figure 9: a path dies, scenario 8",
        ["Half of the paths is gone from 50 s on."],
        [draw([panel, bars], "Throughput over time around a path failure, and means", height=3.8)],
    )


def show_competing(results: Results) -> Section:
    names = ["lia", "olia", "balia", "rsf-db", "rsf-lb", "reno"]
    panels = []
    for title, measure, place in (("A multipath connection", of_connection, 0), ("A TCP flow beside it", of_rival, 1)):
        panels.append(
            Bars(
                f"{title}, Mbit/s",
                [NAMES[v].split(",")[0] for v in names],
                [results.mean(SIM, "9-competing-tcp", v, measure, BDP) for v in names],
                [COLOURS[v] for v in names],
                [FIGURE_10[v][place] if v in FIGURE_10 else None for v in names],
                [results.mean(KERNEL, "9-competing-tcp", v, measure, BDP) for v in names],
            )
        )
    return Section(
        "fig10",
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
        panels.append(
            Bars(
                f"Mbit/s on a path: {words}",
                [NAMES[v].split(",")[0] for v in names],
                [results.mean(SIM, "w-wifi", v, of_path, cell) for v in names],
                [COLOURS[v] for v in names],
                paper,
                [results.mean(KERNEL, "w-wifi", v, of_path, cell) for v in names],
                digits=1,
            )
        )
    return Section(
        "fig11",
        "Figure 11: Wi-Fi",
        ["The paper has 17.65 to 18.60 Mbit/s a path on 54 Mbit/s of air, which is what 802.11g leaves of it."],
        [draw(panels, "Goodput a path by controller", height=3.2)],
    )


def bar_rows(scenario: str, measure: Measure, cell: Mapping[str, str], results: Results) -> list[dict[str, Any]]:
    return [
        {"world": w, **line(v, m, None, cell)}
        for w in (SIM, KERNEL)
        for v in ("tcp", *ALL)
        if (m := results.mean(w, scenario, v, measure, cell)).n
    ]


def short_rows(results: Results) -> list[dict[str, Any]]:
    return [
        {"world": SIM, **line(v, m, None, {"arrivals": a}), "length_s": (low + high) / 2}
        for a in ("8/min", "8/s")
        for v in ("tcp", *ALL)
        for (low, high), m in zip(LENGTHS, _by_length(results, SIM, v, a), strict=True)
        if m.n
    ]


failure_rows = partial(bar_rows, "8-path-failure", of_all, BDP)
competing_rows = partial(bar_rows, "9-competing-tcp", of_connection, BDP)
wifi_rows = partial(bar_rows, "w-wifi", of_path, {"paths.*.rate": "20Mbit", **BDP})
