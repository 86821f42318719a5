"""What the tables of a run hold: rows over time, read once for all papers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc

from multipilot.papers.results import Row
from multipilot.report.series import running_total


def read(row: Row, name: str = "samples") -> pa.Table | None:
    """None where the run's tables were not kept."""
    folder: Path | None = row["folder"]
    file = folder / "runs" / f"{row['index']:04}" / f"{name}.arrow" if folder else None
    if file is None or not file.exists():
        return None
    with ipc.open_file(file) as reader:
        return reader.read_all()


def on_path(row: Row, path: str) -> pa.Table | None:
    """The samples of one path."""
    samples = read(row)
    return None if samples is None else samples.filter(pc.equal(samples["path"], path))


def delivered(samples: pa.Table, grid: np.ndarray, chosen: np.ndarray | None = None) -> np.ndarray:
    """Payload bytes acknowledged by each time of an even grid, of all subflows together, or of the chosen rows."""
    time, total = samples["time_s"].to_numpy(), samples["delivered_bytes"].to_numpy()
    flow = samples["transfer"].to_numpy().astype(np.int64) << 32 | samples["subflow"].to_numpy()
    wanted = np.ones(len(flow), dtype=bool) if chosen is None else chosen
    found = np.zeros(len(grid))
    for one in np.unique(flow[wanted]):
        mine = wanted & (flow == one)
        start = time[mine][0] - (grid[1] - grid[0])
        found += np.interp(grid, np.r_[start, time[mine]], np.r_[0.0, running_total(total[mine])])
    return found


def round_trip(row: Row) -> float | None:
    """Mean smoothed round trip of the subflows that carry data, ms."""
    samples = read(row)
    if samples is None:
        return None
    srtt = samples["srtt_us"].to_numpy()
    known = (srtt > 0) & ~samples["backup"].to_numpy(zero_copy_only=False)
    return float(srtt[known].mean()) / 1e3 if known.any() else None
