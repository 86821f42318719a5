"""Cloning: how long deliveries take against the bytes that it adds."""

from __future__ import annotations

import numpy as np

from multipilot.papers.charts import Curve, Panel, draw
from multipilot.papers.drones.series import delays, extra_bytes
from multipilot.papers.page import Section, table
from multipilot.papers.results import SIM, Results, Row
from multipilot.report import svg

SCENARIO = "cloning"
LOSS, SIZE = "paths.*.loss", "connections.0.bytes"
SIZES = {"60kB": "60 kB: short, all cloned", "500kB": "500 kB: cloned as loss asks"}
COLOURS = {"min-rtt": svg.MUTED, "cloning": svg.PATHS[1], "redundant": svg.PATHS[2]}
QUANTILES = (0.5, 0.9, 0.99)


def _cells(results: Results, scheduler: str, size: str, world: str = SIM) -> list[tuple[float, list[Row]]]:
    """Rows by loss."""
    found: dict[float, list[Row]] = {}
    for row in results.rows:
        if (row["world"], row["scenario"], row["scheduler"]) == (world, SCENARIO, scheduler):
            cell = row["cell"]
            if cell[SIZE] == size:
                found.setdefault(float(cell[LOSS]), []).append(row)
    return sorted(found.items())


def rows_at(results: Results, scheduler: str, size: str, loss: float, world: str = SIM) -> list[Row]:
    return dict(_cells(results, scheduler, size, world)).get(loss, [])


def _quantiles(rows: list[Row]) -> list[float]:
    """Milliseconds, over all transfers of all seeds."""
    all_delays = np.concatenate([delays(row) for row in rows])
    return [float(q) * 1e3 for q in np.quantile(all_delays, QUANTILES)] if len(all_delays) else [np.nan] * 3


def _extra(rows: list[Row]) -> float:
    return float(np.mean([extra_bytes(row) for row in rows]))


def show(results: Results) -> Section:
    panels, lines = [], []
    for size, title in SIZES.items():
        curves = []
        for scheduler, colour in COLOURS.items():
            cells = _cells(results, scheduler, size)
            if not cells:
                continue
            tails = [_quantiles(rows) for _, rows in cells]
            x = [loss * 100 for loss, _ in cells]
            curves.append(Curve(f"{scheduler}, 99 %", x, [q[2] for q in tails], colour, bold=True))
            curves.append(Curve(f"{scheduler}, median", x, [q[0] for q in tails], colour, dashed=True))
            for (loss, rows), quantiles in zip(cells, tails, strict=True):
                lines.append(
                    [size, f"{loss * 100:.0f} %", scheduler, *(f"{q:.0f}" for q in quantiles), f"{_extra(rows):+.0%}"]
                )
        panels.append(Panel(title, "loss, %", "delivery, ms", curves, log_y=True))
    lines.sort(key=lambda line: (list(SIZES).index(line[0]), float(line[1].split()[0])))
    head = ["size", "loss", "scheduler", *(f"{q:.0%} ms" for q in QUANTILES), "extra bytes"]
    return Section(
        "cloning",
        "Packet cloning: delivery against extra bytes, 0 to 40 % loss",
        [
            "Downloads arrive at random, four a second, over three links of 50 Mbit/s (10, 16 and 24 ms) that lose "
            "packets "
            "alike and independently. Extra bytes are what arrived more than once; what was lost on the way is not in "
            "them.",
        ],
        [draw(panels, "Delivery delay over loss for three schedulers", height=3.6), table(head, lines, names=3)],
        [
            "Loss is at TCP's level here, as nothing below sends again. All subflows run BBR. The first round trip has "
            "one subflow and cannot be cloned."
        ],
    )
