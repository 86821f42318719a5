"""Monitor intervals of kernel runs as transitions: what ``multipilot train --records`` learns from.

Observations and rewards are the core's own, so that an actor meets on the kernel what it learnt from. The utility is
computed from two intervals in a row, as it is for plain MPCC in the simulator: a record has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from multipilot import _core
from multipilot.env.lanes import FACTS, FEATURES, Asked
from multipilot.learn.replay import Batch, hidden, taken
from multipilot.record import Record, RecordError

#: Columns that the core needs of an interval, after its time in microseconds.
RECORDED = ("rate", "mss", "delivered", "lost", "elapsed_us", "rtt_us", "min_rtt_us", "others")


def transitions(folder: Path, history: int) -> Iterator[Batch]:
    """Those of each subflow in a record. Between two intervals of which one is missing there is none."""
    record = Record.load(folder)
    if not len(record.intervals):
        raise RecordError(f"{folder}: no intervals; compare ddpg-mpcc with --world kernel")
    for rows, asked in subflows(record, history):
        seen = np.concatenate([asked.observations, hidden(asked)], axis=1)
        rates, serial = asked.fact("rate"), rows["serial"].astype(np.int64)
        follows = np.diff(serial) == 1
        actions, rewards = taken(rates[:-1], rates[1:]), np.clip(asked.rewards, -1, 1)
        yield Batch(seen[:-1][follows], actions[follows], rewards[1:][follows], seen[1:][follows])


def subflows(record: Record, history: int) -> Iterator[tuple[dict[str, Any], Asked]]:
    """The columns of each subflow's intervals, and what the core makes of them."""
    table = {name: record.intervals[name].to_numpy() for name in record.intervals.column_names}
    transfers = record.transfers.select(["row", "id", "connection"]).to_pylist()
    connections = {(t["row"], t["id"]): t["connection"] for t in transfers}
    keys = np.stack([table["row"], table["transfer"], table["subflow"]], axis=1)
    for key in np.unique(keys, axis=0):
        rows = {name: column[(keys == key).all(axis=1)] for name, column in table.items()}
        row, transfer, _ = (int(part) for part in key)
        yield rows, _asked(record, row, connections[row, transfer], rows, history)


def _asked(record: Record, row: int, connection: str, rows: dict[str, Any], history: int) -> Asked:
    run = record.row_dicts[row]
    # Before the clock of the run began there is little.
    times = np.rint(np.maximum(rows["time_s"], 0) * 1e6)
    words = np.stack([times, *(rows[name] for name in RECORDED)], axis=1).astype(np.uint64)
    seen, rewards, facts = _core.replay(
        {"kind": "toml", "value": record.scenario_text},
        list((run.get("cell") or {}).items()),
        run["variant"],
        connection,
        str(rows["path"][0]),
        history,
        words.tobytes(),
    )
    count = len(words)
    asked = Asked(
        np.frombuffer(seen, np.float32).reshape(count, FEATURES * history),
        np.frombuffer(rewards, np.float32),
        np.zeros(count, np.int32),
        np.arange(count) == 0,
        np.frombuffer(facts, np.float64).reshape(count, len(FACTS)),
    )
    if not (asked.fact("capacity") > 0).all():
        where = f"{record.path}: path {rows['path'][0]}"
        raise RecordError(f"{where} has no constant rate, which the reward needs; leave this record out")
    return asked
