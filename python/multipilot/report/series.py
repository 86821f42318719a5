"""Telemetry of one run as arrays that a picture can be drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Array = npt.NDArray[np.float64]

# More points than this across one picture cannot be told apart.
MOST_POINTS = 240


@dataclass(frozen=True)
class Subflow:
    """Samples of one subflow in order of time."""

    transfer: int
    subflow: int
    connection: str
    path: str
    competing: bool
    time: Array
    cwnd: Array
    ssthresh: Array
    srtt_ms: Array
    min_rtt_ms: Array
    delivered: Array
    lost: Array
    backup: npt.NDArray[np.bool_]


def subflows(samples: pa.Table, transfers: pa.Table, competing: frozenset[str]) -> list[Subflow]:
    """Subflows of one run. ``competing`` names the connections that are not under test."""
    names = dict(zip(transfers["id"].to_pylist(), transfers["connection"].to_pylist(), strict=True))
    found = []
    keys = samples.select(["transfer", "subflow"]).group_by(["transfer", "subflow"]).aggregate([])
    for key in sorted(keys.to_pylist(), key=lambda k: (k["transfer"], k["subflow"])):
        mask = pc.and_(pc.equal(samples["transfer"], key["transfer"]), pc.equal(samples["subflow"], key["subflow"]))
        part = samples.filter(mask).sort_by("time_s")
        connection = names.get(key["transfer"], "")
        column = {name: _numbers(part, name) for name in _NUMBERS}
        found.append(
            Subflow(
                transfer=key["transfer"],
                subflow=key["subflow"],
                connection=connection,
                path=str(part["path"][0].as_py()),
                competing=connection in competing,
                time=column["time_s"],
                cwnd=column["cwnd"],
                ssthresh=column["ssthresh"],
                srtt_ms=column["srtt_us"] / 1000,
                min_rtt_ms=column["min_rtt_us"] / 1000,
                delivered=column["delivered_bytes"],
                lost=column["lost"],
                backup=np.asarray(part["backup"].to_numpy(zero_copy_only=False), dtype=bool),
            )
        )
    return found


_NUMBERS = ("time_s", "cwnd", "ssthresh", "srtt_us", "min_rtt_us", "delivered_bytes", "lost")


def _numbers(table: pa.Table, name: str) -> Array:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def edges(flows: list[Subflow], end: float) -> Array:
    """Edges of equal bins from 0 to ``end``: as fine as the samples are, never finer than a picture shows."""
    steps = [float(np.median(np.diff(flow.time))) for flow in flows if len(flow.time) > 2]
    interval = max([*steps[:32], end / MOST_POINTS, 1e-3])
    count = max(2, int(np.ceil(end / interval)))
    return np.asarray(np.linspace(0.0, end, count + 1), dtype=np.float64)


def throughput(flow: Subflow, bins: Array) -> Array:
    """Mbit/s acknowledged in each bin."""
    total = np.interp(bins, flow.time, flow.delivered, left=0.0)
    return np.asarray(np.diff(total) * 8e-6 / np.diff(bins), dtype=np.float64)


def thin(flow: Subflow, values: Array) -> tuple[Array, Array]:
    """At most 2 × MOST_POINTS points: of each stretch its least and its greatest value, so that no spike is lost."""
    count = len(values)
    if count <= 2 * MOST_POINTS:
        return flow.time, values
    keep: list[Any] = []
    for chunk in np.array_split(np.arange(count), MOST_POINTS):
        low, high = chunk[np.argmin(values[chunk])], chunk[np.argmax(values[chunk])]
        keep.extend(sorted({int(low), int(high)}))
    return flow.time[keep], values[keep]
