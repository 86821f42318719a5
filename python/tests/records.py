"""Records made of arithmetic, for tests that need one with known contents and no network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from multipilot.record import DECISIONS, SAMPLES, TRANSFERS, Record

SCENARIO = """title = "Wi-Fi and LTE, loss on Wi-Fi"
description = "A download over two paths that differ in rate and delay."
duration = "30s"

[paths.wifi]
rate = "50Mbit"
delay = "5ms"
loss = 0.001

[paths.lte]
rate = "20Mbit"
delay = "37ms"

[[connections]]
name = "download"
paths = ["wifi", "lte"]

[[connections]]
name = "rival"
paths = ["wifi"]
protocol = "tcp"
controller = "cubic"
"""

PATHS = {"wifi": (50.0, 10.0), "lte": (20.0, 74.0)}


def sawtooth(
    row: int,
    transfer: int,
    subflow: int,
    path: str,
    rate: float,
    rtt: float,
    rng: np.random.Generator,
    seconds: float = 30,
) -> list[dict[str, Any]]:
    """An additive-increase sawtooth whose delivered bytes are exactly the integral of window / RTT."""
    bdp = rate * 1e6 * rtt / 1e3 / 8 / 1448
    window, lost, delivered = bdp / 2, 0, 0.0
    samples = []
    for step in range(int(seconds * 10) + 1):
        samples.append(
            {
                "row": row,
                "time_s": step / 10,
                "transfer": transfer,
                "subflow": subflow,
                "path": path,
                "cwnd": int(window),
                "ssthresh": int(bdp * 0.7),
                "srtt_us": int(1e3 * max(rtt, rtt * window / bdp)),
                "min_rtt_us": int(rtt * 1e3),
                "delivered_bytes": int(delivered),
                "lost": lost,
                "pacing_rate": int(window * 1448 / rtt * 1e3),
                "backup": path == "lte" and 12 < step / 10 < 15,
            }
        )
        delivered += 0.1 * min(rate, window * 1448 * 8 / rtt / 1e3) * 1e6 / 8
        window += 0.02 * bdp
        if window > bdp * rng.uniform(1.1, 1.5):
            window, lost = window / 2, lost + int(rng.integers(1, 9))
    return samples


def make(
    variants: dict[str, float],
    seeds: int = 5,
    competing: bool = True,
    fallback: bool = False,
    seconds: float = 30,
    decided: Sequence[int] = (),
) -> Record:
    """``variants``: name to the share of the links' rate that it gets; ``decided``: rows in which a bandit chose."""
    rows: list[dict[str, Any]] = []
    transfers: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    for name, share in variants.items():
        for seed in range(1, seeds + 1):
            rng = np.random.default_rng([seed, len(name)])
            row, carried = len(rows), []
            for subflow, (path, (rate, rtt)) in enumerate(PATHS.items()):
                part = sawtooth(row, 0, subflow, path, rate * share * rng.uniform(0.92, 1.06), rtt, rng, seconds)
                carried.append({"path": path, "bytes": part[-1]["delivered_bytes"]})
                samples += part
            total = sum(entry["bytes"] for entry in carried)
            transfers.append(_transfer(row, 0, "download", True, fallback and seed == 1, seconds, total, carried))
            if competing:
                samples += sawtooth(row, 1, 0, "wifi", 50 * (1 - share), 10.0, rng, seconds)
                rest = samples[-1]["delivered_bytes"]
                transfers.append(
                    _transfer(row, 1, "rival", False, False, seconds, rest, [{"path": "wifi", "bytes": rest}])
                )
            rows.append(
                {
                    "variant": name,
                    "controller": name.split("+")[0],
                    "path_manager": "fullmesh",
                    "initial_path": "first",
                    "scheduler": "default",
                    "seed": seed,
                    "goodput_mbps": total * 8e-6 / seconds,
                    "completion_s": None,
                    "fallback": fallback and seed == 1,
                    "jain": None,
                    "ben": 0.7 + 0.2 * share,
                    "paper": None,
                    "competing_mbps": samples[-1]["delivered_bytes"] * 8e-6 / seconds if competing else None,
                    "path_mbps": {entry["path"]: entry["bytes"] * 8e-6 / seconds for entry in carried},
                    "window_overruns": 0,
                    "unfinished": 0,
                    "cell": {},
                    "notes": ["the peer did not answer MP_CAPABLE"] if fallback and seed == 1 else [],
                }
            )
    return Record(
        document={
            "schema": 1,
            "scenario": "wifi-lte",
            "world": "kernel",
            "multipilot": "0.1.0",
            "kernel": "6.18.5",
            "rows": rows,
            "failed": [],
        },
        transfers=pa.Table.from_pylist(transfers, schema=TRANSFERS),
        samples=pa.Table.from_pylist(samples, schema=SAMPLES),
        decisions=pa.Table.from_pylist([_decision(row) for row in decided], schema=DECISIONS),
        scenario_text=SCENARIO,
    )


def _decision(row: int) -> dict[str, Any]:
    return {
        "row": row,
        "transfer": 0,
        "time_s": 0.0,
        "policy": "active-explorer",
        "arm": "lte",
        "explored": False,
        "probability": 0.9,
        "features": [{"name": "wifi.rtt_ms", "value": 10.0 + row}, {"name": "lte.cqi", "value": None}],
        "scores": [{"name": path, "value": 0.5} for path in PATHS],
        "throughput_mbps": 12.0,
        "latency_ms": None,
        "reward": False,
    }


def _transfer(
    row: int,
    id_: int,
    connection: str,
    multipath: bool,
    fallback: bool,
    end: float,
    total: int,
    carried: list[dict[str, Any]],
) -> dict[str, Any]:
    assert not math.isnan(end)
    return {
        "row": row,
        "connection": connection,
        "id": id_,
        "multipath": multipath,
        "fallback": fallback,
        "start_s": 0.0,
        "end_s": end,
        "bytes": total,
        "intact": None,
        "window_overruns": 0,
        "path_bytes": carried,
    }


def write(folder: Path, **kwargs: Any) -> Path:
    return make(**kwargs).save(folder)
