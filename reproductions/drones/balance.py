"""Delay balancing beside other schedulers."""

from __future__ import annotations

import numpy as np

from multipilot.papers.page import Section, table
from multipilot.papers.results import SIM, Results, Row
from reproductions.drones.series import delays

SCENARIO = "balance"
SIZE, SIZES = "connections.0.bytes", ("500kB", "1MB")
SCHEDULERS = ("min-rtt", "blest", "ecf", "edpf", "delay-balance")


def rows_at(results: Results, scheduler: str, size: str, world: str = SIM) -> list[Row]:
    return results.select(world, SCENARIO, {SIZE: size}, scheduler=scheduler)


def show(results: Results) -> Section:
    lines = []
    for size in SIZES:
        for scheduler in SCHEDULERS:
            if of := rows_at(results, scheduler, size):
                quantiles = np.quantile(np.concatenate([delays(row) for row in of]), (0.5, 0.95)) * 1e3
                lines.append([size, scheduler, *(f"{q:.0f}" for q in quantiles)])
    return Section(
        "Delay balancing: blocks over two links of unequal delay",
        [
            "Downloads arrive once a second over two links of 20 Mbit/s, 20 and 80 ms there and back, with jitter. "
            "Delay balancing holds a packet for the link that it belongs to; the others send it where there is room."
        ],
        [table("size | scheduler | median, ms | 95 %, ms", lines, names=2)],
        [
            "The paper gives no figure for the balancer alone; this one is ours. Quantiles over the downloads of all "
            "seeds."
        ],
    )
