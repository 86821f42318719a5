"""Cloning: how long deliveries take against the bytes that it adds."""

from __future__ import annotations

from multipilot.papers.charts import Curve, Panel, draw
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import RELAY, SIM, WORLDS, Results, Row
from multipilot.report import svg
from multipilot.stats import mean_of
from reproductions.drones.series import extra_bytes, quantile

SCENARIO = "cloning"
LOSS, SIZE = "paths.*.loss", "connections.0.bytes"
LOSSES = ("0", "0.1", "0.2", "0.3", "0.4")
SIZES = {"60kB": "60 kB: short, all cloned", "500kB": "500 kB: cloned as loss asks"}
COLOURS = {"min-rtt": svg.MUTED, "cloning": svg.PATHS[1], "redundant": svg.PATHS[2]}
QUANTILES = (0.5, 0.9, 0.99)


def at(size: str, loss: str) -> dict[str, str]:
    return {SIZE: size, LOSS: loss}


def rows_at(results: Results, scheduler: str, size: str, loss: str, world: str = SIM) -> list[Row]:
    return results.select(world, SCENARIO, at(size, loss), scheduler=scheduler)


def show(results: Results) -> Section:
    panels, lines = [], []
    for size, title in SIZES.items():
        curves = []
        for scheduler, colour in COLOURS.items():
            x, tails = [], []
            for loss in LOSSES:
                for world in (SIM, RELAY):
                    if not (rows := rows_at(results, scheduler, size, loss, world)):
                        continue
                    means = [mean_of(map(quantile(q), rows)) for q in QUANTILES]
                    extra = mean_of(100 * extra_bytes(row) for row in rows)
                    cells = [*(number(mean, 0) for mean in means), number(extra, 0)]
                    lines.append([size, f"{100 * float(loss):.0f} %", scheduler, WORLDS[world], *cells])
                    if world == SIM:
                        x.append(100 * float(loss))
                        tails.append(means)
            if tails:
                curves.append(Curve(f"{scheduler}, 99 %", x, [means[2] for means in tails], colour, bold=True))
                curves.append(Curve(f"{scheduler}, median", x, [means[0] for means in tails], colour, dashed=True))
        panels.append(Panel(title, "loss, %", "delivery, ms", curves, log_y=True))
    lines.sort(key=lambda line: (list(SIZES).index(line[0]), float(line[1].split()[0])))
    head = ["size", "loss", "scheduler", "world", *(f"{q:.0%} ms" for q in QUANTILES), "extra bytes, %"]
    return Section(
        "Packet cloning: delivery against extra bytes, 0 to 40 % loss",
        [
            "Downloads arrive at random, four a second, over three links of 50 Mbit/s (10, 16 and 24 ms) that lose "
            "packets alike and independently. Extra bytes are those that arrived more than "
            "once; lost packets do not count.",
        ],
        [draw(panels, "Delivery delay over loss for three schedulers", height=3.6), table(head, lines, names=4)],
        [
            "Loss is at TCP's level here, as nothing below sends again. All subflows run BBR. Quantiles over a run's "
            "downloads, means over the runs. In the simulator the first round trip has one subflow and cannot be "
            "cloned; the relay's connections are open before a download begins."
        ],
    )
