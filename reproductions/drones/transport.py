"""Figures 8 and 10 with transport: beams by four allocations, and what MPTCP makes of them."""

from __future__ import annotations

import numpy as np

from multipilot.papers.charts import Curve, Panel, draw
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import SIM, Results, Row, ratio
from multipilot.report import svg
from multipilot.stats import Mean, mean_of
from reproductions.drones.series import gbps as goodput
from reproductions.drones.series import rate_over_time

SCENARIO, COUNTS = "throughput", "devices"
COUNT = "radio.devices.drone.count"
#: Devices in the file.
TEN = 10
#: Name and colour of a case of the scenario.
CASES = {
    "ms-ucb": ("the whole system: all links, MS-UCB, balancing, cloning", svg.PATHS[3]),
    "lia-ms-ucb": ("all links, MS-UCB, LIA", svg.PATHS[5]),
    "all": ("all links, LD-MPSP's controller alone", svg.PATHS[4]),
    "ours": ("algorithm 1, LD-MPSP's controller alone", svg.ACCENT),
    "greedy": ("algorithm 1, LIA", svg.PATHS[1]),
    "hekaton": ("HEKATON (abstraction), LIA", svg.PATHS[2]),
    "bush": ("BUSH (abstraction), LIA", svg.PATHS[0]),
    "802.11ad": ("802.11ad MU-MIMO, LIA", svg.MUTED),
}
NAMES = {case: name for case, (name, _) in CASES.items()}
TINTS = {case: tint for case, (_, tint) in CASES.items()}
#: Figure 10 with transport: the paper's systems, and the greedy beams that the whole system has.
COUNTED = ("ms-ucb", "greedy", "hekaton", "bush", "802.11ad")


def _rows(results: Results, case: str, count: int = TEN, world: str = SIM) -> list[Row]:
    if count == TEN:
        return results.select(world, SCENARIO, {"case": case})
    return results.select(world, COUNTS, {"case": case, COUNT: str(count)})


def gbps(results: Results, case: str, count: int = TEN, world: str = SIM) -> Mean:
    """Of all devices together."""
    return mean_of(map(goodput, _rows(results, case, count, world)))


def show(results: Results) -> Section:
    curves, lines = [], []
    base = gbps(results, "802.11ad")
    for case, name in NAMES.items():
        rows = _rows(results, case)
        if not rows:
            continue
        rates = [rate_over_time(row) for row in rows]
        rate = np.mean(rates, axis=0)
        time = np.arange(1.0, len(rate) + 1)
        curves.append(Curve(name, list(time), list(rate), TINTS[case], bold=case == "ms-ucb", markers=False))
        mean = gbps(results, case)
        spread = mean_of(float(np.std(one[5:])) for one in rates)
        lines.append([name, number(mean, 1), number(ratio(mean, base)), number(spread, 1)])
    panel = Panel("All ten devices together, payload", "s", "Gbit/s", curves)
    return Section(
        "Figure 8: throughput over 30 s",
        [
            "Ten devices on an ellipse at 15 m/s among five access points of four chains, one download each over its "
            "two best links, or over all five. The round trip of each link is drawn between 10 and 40 ms every two "
            "seconds; passers-by cost 20 dB.",
        ],
        [
            draw([panel], f"Goodput of ten devices over time for {len(curves)} combinations", height=3.6),
            table(["beams and controller", "mean, Gbit/s", "× 802.11ad", "spread over time"], lines),
        ],
        [
            "The paper draws its whole system (MS-UCB) against BUSH, HEKATON and 802.11ad. Here the share of the beams "
            "and that of the controller stand apart. With MS-UCB a device holds all access points and has three carry "
            "data, by the delays that it saw. A link in backup takes no airtime of its access point. "
            "Runs differ in their draws of passers-by and delays.",
        ],
    )


def by_devices(results: Results, counts: tuple[int, ...]) -> Panel:
    curves = [
        Curve(
            NAMES[case],
            [float(n) for n in counts],
            [gbps(results, case, n) for n in counts],
            TINTS[case],
            bold=case == "ms-ucb",
        )
        for case in COUNTED
    ]
    return Panel("Goodput, all devices together", "devices", "Gbit/s", curves)
