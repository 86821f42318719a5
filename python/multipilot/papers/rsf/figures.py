"""Figures 3 to 11."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.ipc as ipc

from multipilot.papers.charts import COLOURS, NAMES, Bars, Curve, Mark, Panel, draw
from multipilot.papers.page import Section
from multipilot.papers.results import KERNEL, SIM, Measure, Results
from multipilot.papers.rsf.claims import BDP, FIGURE_10, JAIN, RIVALS, TABLE, of_all, of_connection, of_path, of_rival
from multipilot.papers.rsf.table import line
from multipilot.stats import Mean, mean_of

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
    says: Callable[[dict[str, list[Mean]]], str]

    def series(self, results: Results, world: str, variant: str) -> list[Mean]:
        return [
            results.mean(world, self.scenario, variant, self.measure, {self.axis: v, **BDP}) for v, _ in self.values
        ]


def _span(means: Sequence[Mean]) -> str:
    known = [m.mean for m in means if m.n]
    return f"{known[0]:.2f} to {known[-1]:.2f}" if known else "(not measured)"


def _gain(found: dict[str, list[Mean]], rsf: str) -> str:
    gains = [
        r.mean / max(found[v][i].mean for v in RIVALS)
        for i, r in enumerate(found[rsf])
        if r.n and all(found[v][i].n for v in RIVALS)
    ]
    return f"{min(gains):.2f} to {max(gains):.2f}" if gains else "(not measured)"


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
        lambda f: (
            f"RSF-DB has {_gain(f, 'rsf-db')} times the best of LIA, OLIA and BALIA over the sizes: the "
            "paper's factor of two. Its absolute values are above Reno's law for these paths, ours are at it, and "
            "uncoupled Reno has what RSF has."
        ),
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
        lambda f: (
            "The paper sees RSF rise with bandwidth. It cannot: at 4 % loss no window of Reno's kind fills "
            f"even 10 Mbit/s. RSF-DB goes from {_span(f['rsf-db'])}, LIA from {_span(f['lia'])}; only BBR (right) uses "
            f"what is there ({_span(f['bbr'])})."
        ),
    ),
    Sweep(
        "fig6",
        "Figure 6: delay of the second path, scenario 5",
        "5-delay",
        "paths.two.down.delay",
        [("20ms", 20), ("40ms", 40), ("60ms", 60), ("80ms", 80), ("100ms", 100)],
        "delay of the second path, ms a round trip",
        "rsf-db",
        of_connection,
        "Mbit/s a connection",
        ("5", "20ms"),
        lambda f: (
            f"All fall with delay, as in the paper. RSF-DB goes from {_span(f['rsf-db'])}, "
            f"{_gain(f, 'rsf-db')} times the best of the coupled rules. RSF-LB stays low: at 20 ms and 3 % Reno loses "
            "ten packets a second, and RSF-LB holds four."
        ),
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
        lambda f: (
            "With a loss-free second path all come near its capacity; with 1 % of loss it is far from full. RSF-LB has "
            f"{_gain(f, 'rsf-lb')} times the best of the coupled rules, least at 0 %, and follows Reno: two losses a "
            "second, half its target, are not reached."
        ),
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
            Curve(NAMES[v], x, found[v], COLOURS[v], bold=v in bold, dashed=v == "reno")
            for v in variants
            if any(m.n for m in found[v])
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
    return Section(sweep.name, sweep.title, [sweep.says(found)], [draw(panels, sweep.title, height=4.0)])


def sweep_rows(sweep: Sweep, results: Results) -> list[dict[str, Any]]:
    return [
        {"world": world, **line(variant, mean, None, {sweep.axis: value})}
        for world in (SIM, KERNEL)
        for variant in ("tcp", *ALL)
        for (value, _), mean in zip(sweep.values, sweep.series(results, world, variant), strict=True)
        if mean.n
    ]


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
        [
            "The paper's 0.995 to 0.999 lie within noise: over five flows a spread of 10 % gives 0.99. The "
            "intervals over seeds say the same of ours, which no controller leads."
        ],
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
        flows = _arrow(row, "transfers")
        if flows is None:
            continue
        start, end = np.array(flows["start_s"], dtype=float), np.array(flows["end_s"], dtype=float)
        length = end - start
        rate = np.array(flows["bytes"], dtype=float) * 8e-6 / np.where(length > 0, length, np.nan)
        for values, (low, high) in zip(bins, LENGTHS, strict=True):
            chosen = rate[(length >= low) & (length < high)]
            if chosen.size:
                values.append(float(chosen.mean()))
    return [mean_of(values) for values in bins]


def _arrow(row: Mapping[str, Any], name: str) -> dict[str, list[Any]] | None:
    folder: Path | None = row["folder"]
    file = folder / "runs" / f"{row['index']:04}" / f"{name}.arrow" if folder else None
    if file is None or not file.exists():
        return None
    with ipc.open_file(file) as reader:
        table = reader.read_all()
    # A flow that the run's end cut off has no length to speak of.
    wanted = {
        "transfers": ["connection", "start_s", "end_s", "bytes"],
        "samples": ["time_s", "transfer", "subflow", "path", "delivered_bytes"],
    }[name]
    return {c: table[c].to_pylist() for c in wanted}


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
            "The paper's axis of 5 to 9 Mbit/s a flow does not fit eight arrivals a second on 40 Mbit/s. At eight a "
            "minute flows have the paths nearly to themselves and stand in the ratio of scenario 2; at eight a "
            "second 124 of them share paths that are full, and the controllers come close together."
        ],
        [draw(panels, "Goodput of a flow by its length", height=3.8)],
        ["The shortest flows are slow start; lengths are drawn uniformly from 1 to 30 s, arrivals are Poisson."],
    )


def _over_time(results: Results, variant: str, seconds: int = 98) -> list[Mean]:
    """Mbit/s acknowledged in each second over all connections; one value a seed. Telemetry ends before the run does."""
    runs = []
    for row in results.find(SIM, "8-path-failure", variant, BDP):
        samples = _arrow(row, "samples")
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
    if not runs:
        return []
    return [mean_of(values) for values in np.array(runs).T]


def _late(seconds: list[Mean]) -> float:
    """Mbit/s from ten seconds after the failure on."""
    return float(np.mean([m.mean for m in seconds[60:95]])) if seconds else float("nan")


def _after_failure(lia: float, rsf: float, kernel: str) -> str:
    if np.isnan([lia, rsf]).any():
        return "Not measured."
    said = f"From ten seconds after the failure on, RSF-LB has {rsf:.2f} and LIA {lia:.2f} Mbit/s. "
    if lia < 0.8 * rsf:
        return said + (
            "On one path a coupled rule should be Reno; these stay below, for the dead subflow's last window goes on "
            f"counting in their coupling.{kernel} That is the sluggishness the paper sees, and it comes from the "
            "coupling's bookkeeping: uncoupled Reno is as quick as RSF."
        )
    return said + (
        "On one path a coupled rule is Reno, and so is RSF: the paper's claim that RSF-LB finds the failure sooner "
        "does not show. Its lead is that of uncoupled windows before the failure."
    )


def show_failure(results: Results) -> Section:
    curves = []
    for variant in ("tcp", *RIVALS, "rsf-lb", "reno"):
        means = _over_time(results, variant)
        if means:
            # Five seconds a point: single seconds are all noise.
            merged = [mean_of(m.mean for m in means[i : i + 5]) for i in range(0, len(means) - 4, 5)]
            x = [i * 5 + 2.5 for i in range(len(merged))]
            flat = [m.mean for m in merged]
            curves.append(
                Curve(
                    NAMES[variant],
                    x,
                    flat,
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
    lia, rsf = (results.mean(KERNEL, row.scenario, v, of_all, BDP) for v in ("lia", "rsf-lb"))
    kernel = f" So it is in the kernel, too: {lia.mean:.2f} and {rsf.mean:.2f} over the whole run." if rsf.n else ""
    after = {v: _late(_over_time(results, v)) for v in ("lia", "rsf-lb")}
    return Section(
        "fig9",
        "Figure 9: a path dies, scenario 8",
        [
            "All drop at 50 s, when half of their paths is gone. "
            + _after_failure(after["lia"], after["rsf-lb"], kernel)
        ],
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
    tcp = [m.mean for v in names if (m := results.mean(SIM, "9-competing-tcp", v, of_rival, BDP)).n]
    span = f"{min(tcp):.2f} to {max(tcp):.2f}" if tcp else "not measured"
    return Section(
        "fig10",
        "Figure 10: competing TCP, scenario 9",
        [
            f"TCP has {span} Mbit/s whatever runs beside it (paper: 0.23 to 0.25), for at 2 % random loss the shared "
            "path is not full and there is nothing to take. The paper reads this as friendliness. The next section "
            "fills the path."
        ],
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
        [
            "The paper has 17.65 to 18.60 Mbit/s a path on 54 Mbit/s of air, which is what 802.11g leaves of it. On "
            "paths of 20 Mbit/s of IP ours agree and hardly differ: five connections fill them under any rule."
        ],
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
