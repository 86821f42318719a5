"""Cloning: how long deliveries take against the bytes that it adds."""

from __future__ import annotations

import numpy as np

from multipilot.papers.charts import Curve, Panel, draw
from multipilot.papers.page import Section, table
from multipilot.papers.results import SIM, Results, Row
from multipilot.report import svg
from reproductions.drones.series import delays, extra_bytes

SCENARIO = "cloning"
LOSS, SIZE = "paths.*.loss", "connections.0.bytes"
LOSSES = ("0", "0.1", "0.2", "0.3", "0.4")
SIZES = {"60kB": "60 kB: short, all cloned", "500kB": "500 kB: cloned as loss asks"}
COLOURS = {"min-rtt": svg.MUTED, "cloning": svg.PATHS[1], "redundant": svg.PATHS[2]}
QUANTILES = (0.5, 0.9, 0.99)


def rows_at(results: Results, scheduler: str, size: str, loss: str, world: str = SIM) -> list[Row]:
    return results.select(world, SCENARIO, {SIZE: size, LOSS: loss}, scheduler=scheduler)


def _quantiles(rows: list[Row]) -> list[float]:
    """Milliseconds, over all transfers of all seeds."""
    all_delays = np.concatenate([delays(row) for row in rows])
    return [float(q) * 1e3 for q in np.quantile(all_delays, QUANTILES)] if len(all_delays) else [np.nan] * 3


def show(results: Results) -> Section:
    panels, lines = [], []
    for size, title in SIZES.items():
        curves = []
        for scheduler, colour in COLOURS.items():
            cells = {loss: rows for loss in LOSSES if (rows := rows_at(results, scheduler, size, loss))}
            if not cells:
                continue
            tails = [_quantiles(rows) for rows in cells.values()]
            x = [100 * float(loss) for loss in cells]
            curves.append(Curve(f"{scheduler}, 99 %", x, [q[2] for q in tails], colour, bold=True))
            curves.append(Curve(f"{scheduler}, median", x, [q[0] for q in tails], colour, dashed=True))
            for percent, rows, quantiles in zip(x, cells.values(), tails, strict=True):
                extra = float(np.mean([extra_bytes(row) for row in rows]))
                lines.append([size, f"{percent:.0f} %", scheduler, *(f"{q:.0f}" for q in quantiles), f"{extra:+.0%}"])
        panels.append(Panel(title, "loss, %", "delivery, ms", curves, log_y=True))
    lines.sort(key=lambda line: (list(SIZES).index(line[0]), float(line[1].split()[0])))
    head = ["size", "loss", "scheduler", *(f"{q:.0%} ms" for q in QUANTILES), "extra bytes"]
    return Section(
        "Packet cloning: delivery against extra bytes, 0 to 40 % loss",
        [
            "Downloads arrive at random, four a second, over three links of 50 Mbit/s (10, 16 and 24 ms) that lose "
            "packets alike and independently. Extra bytes are those that arrived more than "
            "once; lost packets do not count.",
        ],
        [draw(panels, "Delivery delay over loss for three schedulers", height=3.6), table(head, lines, names=3)],
        [
            "Loss is at TCP's level here, as nothing below sends again. All subflows run BBR. The first round trip has "
            "one subflow and cannot be cloned."
        ],
    )
