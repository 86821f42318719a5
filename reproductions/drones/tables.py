"""Tables 1 and 3: what is calibrated, what is predicted, and the paper's arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import zip_longest

from multipilot.papers.charts import COLOURS, Curve, Mark, Panel, draw
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import SIM, Results
from multipilot.stats import Mean, mean_of
from reproductions.drones import air
from reproductions.drones.series import gbps

BEST, MOBILE, HANDOFF = "best", "mobile", "handoff"
PHYS = ("edmg-sc", "edmg-ofdm")
#: One stream in four bonded channels at the fastest rate, Gbit/s.
RAW = {"edmg-sc": 32.34, "edmg-ofdm": 37.92}
#: The handoff time that mobile.toml is run with, calibrated on the paper's row of TCP over single carrier.
CALIBRATED = "800ms"
CALIBRATED_S = float(CALIBRATED.removesuffix("ms")) / 1e3


@dataclass(frozen=True)
class Row:
    name: str
    scenario: str
    variant: str
    #: Gbit/s, single carrier and OFDM; nothing for a control of ours.
    paper: tuple[float, ...] = ()
    how: str = "predicted"
    cell: str = ""
    scheduler: str = "default"


ROWS = (
    Row("max TCP", BEST, "tcp", (28.96, 30.95)),
    Row("max MPTCP (2 paths)", BEST, "lia", (41.32, 42.13)),
    Row("max LD-MPSP", BEST, "ld-mpsp", (56.20, 61.01), scheduler="ld-mpsp"),
    Row("max LD-MPSP, controller alone", BEST, "ld-mpsp"),
    Row("mobile TCP", HANDOFF, "tcp", (9.6, 9.25), "SC calibrated", CALIBRATED),
    Row("mobile MPTCP", MOBILE, "lia", (16.36, 16.15)),
    Row("mobile LD-MPSP", MOBILE, "ld-mpsp", (37.16, 36.95), scheduler="ld-mpsp"),
    Row("LD-MPSP with cloning alone", MOBILE, "ld-mpsp", scheduler="cloning"),
    Row("LD-MPSP alone", MOBILE, "ld-mpsp"),
    Row("LIA with cloning", MOBILE, "lia", scheduler="cloning"),
)


def measured(results: Results, row: Row, phy: str, world: str = SIM) -> Mean:
    """Gbit/s."""
    cell = {"radio.phy": phy} | ({"radio.handoff": row.cell} if row.cell else {})
    runs = results.find(world, row.scenario, row.variant, cell)
    return mean_of(gbps(run) for run in runs if run["scheduler"] == row.scheduler)


def _off(value: Mean, paper: float) -> str:
    return "–" if math.isnan(value.mean) else f"{round((value.mean / paper - 1) * 100):+d} %"


def most(phy: str) -> str:
    """Gbit/s of IP that the links of the mobile rows carry without transport."""
    return next(f"{c.gbps:.1f}" for c in air.cells(MOBILE) if c.values["radio.phy"] == phy)


def show(results: Results) -> Section:
    lines = []
    for row in ROWS:
        line = [row.name]
        for phy, paper in zip_longest(PHYS, row.paper):
            ours = measured(results, row, phy)
            printed = (f"{paper:.2f}", f"{paper / RAW[phy] * 100:.0f} %", _off(ours, paper)) if paper else ("", "", "")
            line += [*printed[:2], f"<b>{number(ours)}</b>", printed[2]]
        lines.append([*line, row.how if row.paper else "control"])
    head = ["Gbit/s", *(f"{phy.removeprefix('edmg-').upper()} {c}" for phy in PHYS for c in HEAD), "how"]
    return Section(
        "Tables 1 and 3: throughput with four bonded channels",
        [
            "A metre from the access point, or past five of them at 10 m/s. One number is calibrated: the handoff "
            f"time, {CALIBRATED_S * 1e3:.0f} ms, on mobile TCP over single carrier. All else follows from the tables "
            "of rates and SNRs, the frame times, the places and the controllers.",
        ],
        [table(head, lines, style="wide")],
        [
            "MPTCP is LIA: the paper does not say which coupled controller it ran.",
            "The paper's arithmetic: four bonded channels carry 32.34 (SC) and 37.92 (OFDM) Gbit/s in one stream. Its "
            "TCP rows are 89.5 and 81.6 % of that; its best multipath rows are 97 and 98.6 % of twice the TCP row, "
            "which is two access points on disjoint bonds. The share column is the paper's row over one stream's raw "
            "rate.",
            "Here access to the channel, preambles, block acks, the acknowledgements' airtime, headers, beam training "
            "and slow start take from the raw rate. The paper names no cause for the difference between its PHYs.",
            "Mobile rows: a change of access point costs one radio the calibrated time.",
            f"Without any transport the links of the mobile rows carry {most('edmg-sc')} (SC) and "
            f"{most('edmg-ofdm')} Gbit/s (OFDM) of IP packets in the mean, handoffs counted.",
        ],
    )


HEAD = ("paper", "share", "ours", "off")


def show_handoff(results: Results) -> Section:
    curves = []
    for phy, colour in zip(PHYS, (COLOURS["lia"], COLOURS["rsf-db"]), strict=True):
        times = {str(r["cell"]["radio.handoff"]) for r in results.rows if r["scenario"] == HANDOFF}
        ms = sorted(float(time.removesuffix("ms")) for time in times)
        cells = [{"radio.phy": phy, "radio.handoff": f"{time:g}ms"} for time in ms]
        curves.append(Curve(phy, ms, [results.mean(SIM, HANDOFF, "tcp", gbps, c) for c in cells], colour, bold=True))
    marks = [
        Mark(CALIBRATED_S * 1e3, 9.6, COLOURS["lia"], "paper"),
        Mark(CALIBRATED_S * 1e3, 9.25, COLOURS["rsf-db"], "paper"),
    ]
    panel = Panel("Mobile TCP over one path", "handoff, ms", "Gbit/s", curves, marks)
    return Section(
        "The one calibration: how long a handoff takes",
        [
            "A device on one access point at a time is cut off at each change. The diamonds are the paper's rows, at "
            "the handoff time that the other rows are predicted with.",
        ],
        [draw([panel], "Goodput of mobile TCP over the handoff time", height=3.3)],
    )
