"""What happens over time: rates, priorities, and how long a change takes to be noticed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.ipc as ipc

from multipilot.papers.results import Results, Row
from multipilot.report.series import running_total

Array = np.ndarray


@dataclass(frozen=True)
class Series:
    """One path of one run, all its subflows: payload acknowledged by each time of a grid, and whether it was backup."""

    time: Array
    delivered: Array
    backup: Array

    def rate(self) -> Array:
        """Mbit/s in each interval of the grid."""
        return np.diff(self.delivered) * 8e-6 / np.diff(self.time)


def paths_of(row: Row, step: float, end: float) -> dict[str, Series]:
    """Empty where the run's tables were not kept."""
    folder: Path | None = row["folder"]
    file = folder / "runs" / f"{row['index']:04}" / "samples.arrow" if folder else None
    if file is None or not file.exists():
        return {}
    with ipc.open_file(file) as reader:
        table = reader.read_all()
    columns = {name: table[name].to_numpy() for name in ("time_s", "transfer", "subflow", "delivered_bytes", "backup")}
    names = np.array(table["path"].to_pylist())
    grid = np.arange(0.0, end + step / 2, step)
    found = {}
    for name in dict.fromkeys(names.tolist()):
        on = names == name
        delivered = np.zeros(len(grid))
        for subflow in np.unique(columns["subflow"][on]):
            mine = on & (columns["subflow"] == subflow)
            time = columns["time_s"][mine]
            total = np.concatenate(([0.0], running_total(columns["delivered_bytes"][mine])))
            delivered += np.interp(grid, np.concatenate(([time[0] - step], time)), total)
        when, state = columns["time_s"][on], columns["backup"][on]
        order = np.argsort(when, kind="stable")
        found[name] = Series(grid, delivered, np.interp(grid, when[order], state[order].astype(float)) > 0.5)
    return found


def changes_per_minute(path: Series) -> float:
    """Changes of priority, to backup and back each counted."""
    seconds = float(path.time[-1] - path.time[0])
    return float(np.count_nonzero(np.diff(path.backup.astype(int)))) * 60 / seconds


def time_to_full(
    path: Series, event: float, settled: tuple[float, float], share: float = 0.9, over: float = 0.5
) -> float:
    """Seconds from ``event`` until the path first carries ``share`` of what it carries when all has settled, as a mean
    over ``over`` seconds. NaN if it never does.
    """
    rate, time = path.rate(), path.time[1:]
    width = max(1, round(over / float(path.time[1] - path.time[0])))
    smooth = np.convolve(rate, np.ones(width) / width)[: len(rate)]
    full = float(rate[(time > settled[0]) & (time <= settled[1])].mean())
    reached = np.flatnonzero((time >= event) & (time <= settled[1]) & (smooth >= share * full))
    # The mean looks back: what is full now was so half its width ago, but not before the event.
    return max(0.0, float(time[reached[0]]) - event) if reached.size and full > 0 else math.nan


def time_to_use(path: Series, event: float, least: float = 1.0) -> float:
    """Seconds from ``event`` until the path carries ``least`` Mbit/s again."""
    used = np.flatnonzero((path.time[1:] > event) & (path.rate() >= least))
    return max(0.0, float(path.time[1:][used[0]]) - event) if used.size else math.nan


def runs_of(results: Results, world: str, scenario: str, variant: str) -> Iterator[Row]:
    yield from sorted(results.find(world, scenario, variant), key=lambda row: int(row["seed"]))
