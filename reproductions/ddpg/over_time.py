"""Goodput of each connection of a run over time, out of its samples."""

from __future__ import annotations

import numpy as np

from multipilot.papers.charts import Curve, Panel
from multipilot.papers.results import KERNEL, SIM, Results, Row
from multipilot.papers.tables import delivered, read
from multipilot.stats import mean_of
from reproductions.ddpg.plan import AGAINST, COLOURS

#: Seconds a point.
STEP = 2.0


def rates(row: Row, step: float = STEP) -> dict[str, np.ndarray]:
    """Mbit/s of payload in each step, by connection; empty where the run's tables were not kept."""
    transfers, samples = read(row, "transfers"), read(row)
    if transfers is None or samples is None:
        return {}
    grid = np.arange(0, float(row["elapsed_s"]) + step / 2, step)
    owner = samples["transfer"].to_numpy()
    found: dict[str, np.ndarray] = {}
    for name, number in zip(transfers["connection"].to_pylist(), transfers["id"].to_pylist(), strict=True):
        rate = np.diff(delivered(samples, grid, owner == number)) * 8e-6 / step
        found[name] = found.get(name, 0.0) + rate
    return found


def panel(results: Results, controller: str, name: str) -> Panel:
    """The controller and the MPCC beside it: means over the simulator's seeds, and the kernel's run dashed."""
    curves = []
    for world in (SIM, KERNEL):
        runs = [found for row in results.find(world, AGAINST, controller) if (found := rates(row))]
        for connection, who, colour in (
            ("tested", name, COLOURS[controller]),
            ("mpcc", "MPCC beside", COLOURS["mpcc"]),
        ):
            series = [run[connection] for run in runs if connection in run]
            if not series:
                continue
            length = min(len(s) for s in series)
            means = [mean_of(float(s[k]) for s in series) for k in range(length)]
            x = [(k + 0.5) * STEP for k in range(length)]
            label = who if world == SIM else f"{who}, kernel"
            curves.append(Curve(label, x, means, colour, bold=world == SIM, dashed=world == KERNEL, markers=False))
    return Panel(f"{name} beside MPCC", "time, s", "Mbit/s, both subflows", curves)
