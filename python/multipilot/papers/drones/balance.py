"""Delay balancing beside other schedulers."""

from __future__ import annotations

from typing import Any

import numpy as np

from multipilot.papers.drones.series import delays
from multipilot.papers.page import Section, table
from multipilot.papers.results import SIM, Results, Row

SCENARIO = "balance"
SIZE, SIZES = "connections.0.bytes", ("500kB", "1MB")
SCHEDULERS = ("min-rtt", "blest", "ecf", "edpf", "delay-balance")


def rows_at(results: Results, scheduler: str, size: str, world: str = SIM) -> list[Row]:
    return [
        row
        for row in results.rows
        if (row["world"], row["scenario"], row["scheduler"]) == (world, SCENARIO, scheduler)
        and row["cell"][SIZE] == size
    ]


def rows(results: Results) -> list[dict[str, Any]]:
    found = []
    for size in SIZES:
        for scheduler in SCHEDULERS:
            of = rows_at(results, scheduler, size)
            if of:
                median, late = np.quantile(np.concatenate([delays(row) for row in of]), (0.5, 0.95)) * 1e3
                found.append({"size": size, "scheduler": scheduler, "p50_ms": float(median), "p95_ms": float(late)})
    return found


def show(results: Results) -> Section:
    lines = [[r["size"], r["scheduler"], f"{r['p50_ms']:.0f}", f"{r['p95_ms']:.0f}"] for r in rows(results)]
    return Section(
        "balance",
        "Delay balancing: blocks over two links of unequal delay",
        [
            "Downloads arrive once a second over two links of 20 Mbit/s, 20 and 80 ms there and back, with jitter. "
            "Delay balancing holds a packet for the link that it belongs to; the others send it where there is room."
        ],
        [table(["size", "scheduler", "median, ms", "95 %, ms"], lines, names=2)],
        [
            "The paper gives no figure for the balancer alone; this one is ours. Quantiles over the downloads of all "
            "seeds."
        ],
    )
