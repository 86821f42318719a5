"""Rates over time and sums over transfers, out of a run's tables."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from multipilot.papers.results import Row


def _table(row: Row, name: str) -> pa.Table:
    file: Path = row["folder"] / "runs" / f"{row['index']:04}" / name
    with ipc.open_file(file) as reader:
        return reader.read_all()


def rate_over_time(row: Row, transfer: int | None = None) -> np.ndarray:
    """Gbit/s by second, acknowledged payload: of one transfer, or of all together."""
    samples = _table(row, "samples.arrow")
    owner = samples["transfer"].to_numpy()
    mine = np.ones(len(owner), bool) if transfer is None else owner == transfer
    time, total = samples["time_s"].to_numpy()[mine], samples["delivered_bytes"].to_numpy()[mine].astype(float)
    flow = owner[mine].astype(np.int64) << 32 | samples["subflow"].to_numpy()[mine]
    grid = np.arange(0.0, float(row["elapsed_s"]) + 0.5, 1.0)
    delivered = np.zeros_like(grid)
    for one in np.unique(flow):
        delivered += np.interp(grid, np.r_[0.0, time[flow == one]], np.r_[0.0, total[flow == one]])
    # The last sample comes before the end.
    rate: np.ndarray = np.diff(delivered)[:-1] * 8e-9
    return rate


def utility(row: Row, flows: int) -> float | None:
    """Mean log goodput (Mbit/s) of the downloads that ended, times those that are under way at once."""
    table = _table(row, "transfers.arrow")
    rows = zip(table["start_s"].to_pylist(), table["end_s"].to_pylist(), table["bytes"].to_pylist(), strict=True)
    logs = [math.log(size * 8e-6 / (end - start)) for start, end, size in rows if end is not None and size]
    return flows * sum(logs) / len(logs) if logs else None


def delays(row: Row) -> np.ndarray:
    """Seconds of each transfer that ended, in ascending order."""
    table = _table(row, "transfers.arrow")
    pairs = zip(table["start_s"].to_pylist(), table["end_s"].to_pylist(), strict=True)
    return np.sort([end - start for start, end in pairs if end is not None])


def extra_bytes(row: Row) -> float:
    """What arrived more than once, over what was wanted, of transfers that ended."""
    table = _table(row, "transfers.arrow")
    wanted, arrived = 0, 0
    for end, size, paths in zip(
        table["end_s"].to_pylist(), table["bytes"].to_pylist(), table["path_bytes"].to_pylist(), strict=True
    ):
        if end is not None:
            wanted += size
            arrived += sum(p["bytes"] for p in paths)
    return arrived / wanted - 1 if wanted else math.nan
