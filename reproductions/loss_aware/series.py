"""What happens over time: rates, priorities, and how long a change takes to be noticed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from multipilot.papers.results import Results, Row
from multipilot.papers.tables import delivered, read


@dataclass(frozen=True)
class Series:
    """One path of one run, all its subflows: payload bytes acknowledged by each time (s) of an even grid, and whether
    it was backup. Or the whole stream, as the receiver has it in order. All three have the grid's length.
    """

    time: np.ndarray
    delivered: np.ndarray
    backup: np.ndarray

    def rate(self) -> np.ndarray:
        """Mbit/s in each interval of the grid, one value fewer than times."""
        return np.diff(self.delivered) * 8e-6 / np.diff(self.time)


def paths_of(row: Row, step: float, end: float) -> dict[str, Series]:
    """By name, on a grid from 0 to ``end`` s; empty where the run's tables were not kept."""
    table = read(row)
    if table is None:
        return {}
    names = np.array(table["path"].to_pylist())
    grid = np.arange(0.0, end + step / 2, step)
    found = {}
    for name in dict.fromkeys(names.tolist()):
        on = names == name
        when, state = table["time_s"].to_numpy()[on], table["backup"].to_numpy(zero_copy_only=False)[on]
        order = np.argsort(when, kind="stable")
        backup = np.interp(grid, when[order], state[order].astype(float)) > 0.5
        found[name] = Series(grid, delivered(table, grid, on), backup)
    return found


def in_order(row: Row, step: float, end: float) -> Series | None:
    """The stream of the run's first transfer, in order; None where the record does not tell."""
    table = read(row)
    if table is None or "in_order_bytes" not in table.column_names:
        return None
    table = table.filter(pc.and_(pc.equal(table["transfer"], 0), pc.is_valid(table["in_order_bytes"])))
    if not len(table):
        return None
    time, total = table["time_s"].to_numpy(), table["in_order_bytes"].to_numpy().astype(float)
    order = np.argsort(time, kind="stable")
    grid = np.arange(0.0, end + step / 2, step)
    # A sampling time has a row a subflow, all with the same total.
    in_order = np.interp(grid, np.r_[0.0, time[order]], np.r_[0.0, total[order]])
    return Series(grid, in_order, np.zeros(len(grid), dtype=bool))


def changes_per_minute(path: Series) -> float:
    """Changes of priority, to backup and back each counted."""
    seconds = float(path.time[-1] - path.time[0])
    return float(np.count_nonzero(np.diff(path.backup.astype(int)))) * 60 / seconds


@dataclass(frozen=True)
class Recovery:
    """What an event does to a stream or a path: its lowest rate after the event, as a share of what it carries when all
    has settled, and the seconds from the event until the dip has ended; 0 without a dip.
    """

    lowest: float
    seconds: float


def recovery(
    path: Series, event: float, settled: tuple[float, float], share: float = 0.9, over: float = 0.5, within: float = 10
) -> Recovery:
    """By means over ``over`` seconds. A dip is one that begins ``within`` seconds of the event; it has ended where the
    rate stays above for a second. NaN seconds if it never ends.
    """
    rate, time = path.rate(), path.time[1:]
    step = float(path.time[1] - path.time[0])
    width = max(1, round(over / step))
    # Mean over the seconds before each time.
    smooth = np.convolve(rate, np.ones(width) / width)[: len(rate)]
    full = float(rate[(time > settled[0]) & (time <= settled[1])].mean())
    if not full > 0:
        return Recovery(math.nan, math.nan)
    after = (time >= event) & (time <= settled[1])
    lowest = float(smooth[after & (time <= event + within)].min()) / full
    below = np.flatnonzero(after & (smooth < share * full))
    if not below.size or time[below[0]] > event + within:
        return Recovery(lowest, 0.0)
    lasting = max(1, round(1 / step))
    above = smooth >= share * full
    for start in range(int(below[0]), len(time) - lasting + 1):
        if above[start : start + lasting].all():
            return Recovery(lowest, float(time[start]) - event)
    return Recovery(lowest, math.nan)


def time_to_use(path: Series, event: float, least: float = 1.0) -> float:
    """Seconds from ``event`` until the path carries ``least`` Mbit/s again."""
    used = np.flatnonzero((path.time[1:] > event) & (path.rate() >= least))
    return max(0.0, float(path.time[1:][used[0]]) - event) if used.size else math.nan


def runs_of(results: Results, world: str, scenario: str, variant: str) -> Iterator[Row]:
    yield from sorted(results.find(world, scenario, variant), key=lambda row: int(row["seed"]))
