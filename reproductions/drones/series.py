"""Rates over time and sums over transfers, out of a run's tables."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multipilot.papers.results import Row
from multipilot.papers.tables import delivered, read


def _table(row: Row, name: str) -> pa.Table:
    found = read(row, name)
    if found is None:
        raise ValueError(f"run {row['index']} of {row['folder']} has no table {name}")
    return found


def rate_over_time(row: Row, transfer: int | None = None) -> np.ndarray:
    """Gbit/s by second, acknowledged payload: of one transfer, or of all together."""
    samples = _table(row, "samples")
    mine = None if transfer is None else samples["transfer"].to_numpy() == transfer
    # The last sample comes before the end.
    grid = np.arange(0.0, float(row["elapsed_s"]) + 0.5, 1.0)
    rate: np.ndarray = np.diff(delivered(samples, grid, mine))[:-1] * 8e-9
    return rate


def _ended(row: Row) -> pa.Table:
    """The transfers that ended."""
    table = _table(row, "transfers")
    return table.filter(pc.is_valid(table["end_s"]))


def _took(ended: pa.Table) -> np.ndarray:
    """Seconds of each."""
    seconds: np.ndarray = ended["end_s"].to_numpy() - ended["start_s"].to_numpy()
    return seconds


def utility(row: Row, flows: int) -> float | None:
    """Mean log goodput (Mbit/s) of the downloads that ended, times those that are under way at once."""
    ended = _ended(row)
    mbps = ended["bytes"].to_numpy() * 8e-6 / _took(ended)
    logs = np.log(mbps[mbps > 0])
    return flows * float(logs.mean()) if len(logs) else None


def delays(row: Row) -> np.ndarray:
    """Seconds of each transfer that ended, in ascending order."""
    return np.sort(_took(_ended(row)))


def quantile(q: float) -> Callable[[Row], float]:
    """Of a run's transfers, ms."""

    def read(row: Row) -> float:
        found = delays(row)
        return float(np.quantile(found, q)) * 1e3 if len(found) else math.nan

    return read


def extra_bytes(row: Row) -> float:
    """What arrived more than once, over what was wanted, of transfers that ended."""
    ended = _ended(row)
    wanted = pc.sum(ended["bytes"]).as_py()
    arrived = pc.sum(pc.struct_field(pc.list_flatten(ended["path_bytes"]), "bytes")).as_py()
    return float(arrived / wanted - 1) if wanted else math.nan


def gbps(row: Row) -> float:
    return float(row["goodput_mbps"]) / 1e3
