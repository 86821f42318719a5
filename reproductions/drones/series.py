"""Rates over time and sums over transfers, out of a run's tables."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa

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


def utility(row: Row, flows: int) -> float | None:
    """Mean log goodput (Mbit/s) of the downloads that ended, times those that are under way at once."""
    table = _table(row, "transfers")
    rows = zip(table["start_s"].to_pylist(), table["end_s"].to_pylist(), table["bytes"].to_pylist(), strict=True)
    logs = [math.log(size * 8e-6 / (end - start)) for start, end, size in rows if end is not None and size]
    return flows * sum(logs) / len(logs) if logs else None


def delays(row: Row) -> np.ndarray:
    """Seconds of each transfer that ended, in ascending order."""
    table = _table(row, "transfers")
    pairs = zip(table["start_s"].to_pylist(), table["end_s"].to_pylist(), strict=True)
    return np.sort([end - start for start, end in pairs if end is not None])


def quantile(q: float) -> Callable[[Row], float]:
    """Of a run's transfers, ms."""

    def read(row: Row) -> float:
        found = delays(row)
        return float(np.quantile(found, q)) * 1e3 if len(found) else math.nan

    return read


def extra_bytes(row: Row) -> float:
    """What arrived more than once, over what was wanted, of transfers that ended."""
    table = _table(row, "transfers")
    wanted, arrived = 0, 0
    for end, size, paths in zip(
        table["end_s"].to_pylist(), table["bytes"].to_pylist(), table["path_bytes"].to_pylist(), strict=True
    ):
        if end is not None:
            wanted += size
            arrived += sum(p["bytes"] for p in paths)
    return arrived / wanted - 1 if wanted else math.nan
