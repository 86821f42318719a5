"""How long the queues get while pilot is alone: the smoothed round trip over the path's own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from multipilot.papers.page import Section, number, table
from multipilot.papers.results import SIM, Cell, Results, Row
from multipilot.papers.tables import read
from multipilot.stats import Mean, mean_of
from reproductions.pilot.alone import SHORT
from reproductions.pilot.cells import words
from reproductions.pilot.plan import DELAY

CONTROLLERS = ("pilot", "bbr", "linux-reno", "cubic")
#: Round trips without any queue, ms, as the scenario has them.
BASE_MS = {"one": 10.0, "two": 74.0}
#: Start-up is over by then, s.
SETTLED = 5.0


@dataclass(frozen=True)
class Waiting:
    """Of one cell and controller: ms of queueing delay by path, and goodput."""

    cell: Cell
    controller: str
    delay_ms: dict[str, Mean]
    goodput: Mean


def queueing_ms(time: np.ndarray, srtt_us: np.ndarray, base_ms: float) -> float:
    """The median over time once start-up is over; NaN without samples."""
    settled = srtt_us[(time >= SETTLED) & (srtt_us > 0)]
    return float(np.median(settled)) / 1000 - base_ms if settled.size else math.nan


def _of_run(row: Row) -> dict[str, float]:
    samples = read(row)
    if samples is None:
        return {}
    time, srtt = samples["time_s"].to_numpy(), samples["srtt_us"].to_numpy()
    paths = np.array(samples["path"].to_pylist())
    return {name: queueing_ms(time[paths == name], srtt[paths == name], base) for name, base in BASE_MS.items()}


def waiting(results: Results) -> Iterator[Waiting]:
    for cell, variants in results.cells(SIM, DELAY).items():
        for controller in CONTROLLERS:
            rows = variants.get(controller, [])
            runs = [_of_run(row) for row in rows]
            delays = {name: mean_of(run.get(name, math.nan) for run in runs) for name in BASE_MS}
            if any(mean.n for mean in delays.values()):
                yield Waiting(cell, controller, delays, mean_of(float(row["goodput_mbps"]) for row in rows))


def show(results: Results) -> Section:
    found = {(one.cell, one.controller): one for one in waiting(results)}
    lines = []
    for cell in dict.fromkeys(cell for cell, _ in found):
        for path, base in BASE_MS.items():
            means = [found[cell, c].delay_ms[path] for c in CONTROLLERS if (cell, c) in found]
            lines.append([words(cell), f"{base:g} ms", *(number(mean, 1) for mean in means)])
    head = ["queues", "path", *(f"{SHORT[c]},<br>ms" for c in CONTROLLERS)]
    return Section(
        "Alone: how long the queues get",
        [
            "50 + 50 Mbit/s without loss. Queueing delay is the median smoothed round trip of a run, without its first "
            f"{SETTLED:g} s, less the path's own." + ("" if lines else " Not measured."),
        ],
        [table(head, lines, names=2)],
        ["Mean over the seeds, simulator."] if lines else [],
    )
