"""Telemetry of one run as arrays that a picture can be drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from multipilot.record import Record
from multipilot.report.summary import Variant, competing_connections

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
    if not len(samples):
        return []
    names = dict(zip(transfers["id"].to_pylist(), transfers["connection"].to_pylist(), strict=True))
    column = {name: samples[name].to_numpy() for name in _COLUMNS}
    order = np.lexsort((column["time_s"], column["subflow"], column["transfer"]))
    column = {name: values[order] for name, values in column.items()}
    changes = (np.diff(column["transfer"]) != 0) | (np.diff(column["subflow"]) != 0)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(order)]
    found = []
    for first, end in pairwise(starts):
        part = {name: values[first:end] for name, values in column.items()}
        connection = names.get(int(part["transfer"][0]), "")
        found.append(
            Subflow(
                transfer=int(part["transfer"][0]),
                subflow=int(part["subflow"][0]),
                connection=connection,
                path=str(samples["path"][int(order[first])].as_py()),
                competing=connection in competing,
                time=_float(part["time_s"]),
                cwnd=_float(part["cwnd"]),
                ssthresh=_float(part["ssthresh"]),
                srtt_ms=_float(part["srtt_us"]) / 1000,
                min_rtt_ms=_float(part["min_rtt_us"]) / 1000,
                delivered=running_total(part["delivered_bytes"]),
                lost=running_total(part["lost"]),
                backup=np.asarray(part["backup"], dtype=bool),
            )
        )
    return found


def runs(record: Record, found: Sequence[Variant], seed: int | None) -> dict[str, list[Subflow]]:
    """Of each variant the run with that seed, else its first."""
    competing = competing_connections(record)
    chosen: dict[str, list[Subflow]] = {}
    for variant in found:
        if not variant.rows:
            continue
        index = next((i for i in variant.rows if record.row_dicts[i].get("seed") == seed), variant.rows[0])
        samples = record.samples.filter(pc.equal(record.samples["row"], index))
        transfers = record.transfers.filter(pc.equal(record.transfers["row"], index))
        chosen[variant.name] = subflows(samples, transfers, competing)
    return chosen


def end(chosen: dict[str, list[Subflow]]) -> float:
    """When the last of them ended, s."""
    return max((float(flow.time[-1]) for flows in chosen.values() for flow in flows), default=0.0)


_COUNTERS = ("cwnd", "ssthresh", "srtt_us", "min_rtt_us", "delivered_bytes", "lost")
_COLUMNS = ("time_s", "transfer", "subflow", "backup", *_COUNTERS)


def running_total(counter: npt.NDArray[Any]) -> Array:
    """A counter that never falls: a subflow that is opened anew counts from zero, and what it had before stays."""
    counter = _float(counter)
    steps = np.diff(counter, prepend=0.0)
    return np.cumsum(np.where(steps < 0, counter, steps))


def _float(values: npt.NDArray[Any]) -> Array:
    return np.asarray(values, dtype=np.float64)


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


def while_alive(flow: Subflow, values: Array, bins: Array) -> Array:
    """No line where the subflow was no more."""
    return np.where(bins[:-1] <= flow.time[-1], values, np.nan)


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
