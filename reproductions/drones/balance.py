"""Delay balancing beside other schedulers."""

from __future__ import annotations

from multipilot.papers.page import Section, number, table
from multipilot.papers.results import RELAY, SIM, WORLDS, Results, Row
from multipilot.stats import mean_of
from reproductions.drones.series import quantile

SCENARIO = "balance"
SIZE, SIZES = "connections.0.bytes", ("500kB", "1MB")
SCHEDULERS = ("min-rtt", "blest", "ecf", "edpf", "delay-balance")


def rows_at(results: Results, scheduler: str, size: str, world: str = SIM) -> list[Row]:
    return results.select(world, SCENARIO, {SIZE: size}, scheduler=scheduler)


def show(results: Results) -> Section:
    lines = [
        [size, scheduler, WORLDS[world], *(number(mean_of(map(quantile(q), rows)), 0) for q in (0.5, 0.95))]
        for size in SIZES
        for scheduler in SCHEDULERS
        for world in (SIM, RELAY)
        if (rows := rows_at(results, scheduler, size, world))
    ]
    return Section(
        "Delay balancing: blocks over two links of unequal delay",
        [
            "Downloads arrive at random, one a second in the mean, over two links of 20 Mbit/s, 20 and 80 ms there and "
            "back, with jitter. Delay balancing holds a packet for the link that it belongs to. BLEST and ECF may wait "
            "for the link of lower RTT too; lowest RTT and EDPF send where there is room."
        ],
        [table("size | scheduler | world | median, ms | 95 %, ms", lines, names=3)],
        [
            "The paper gives no figure for the balancer alone; this one is ours. Quantiles over a run's downloads, "
            "means over the runs."
        ],
    )
