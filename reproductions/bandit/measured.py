"""Places out of measurements that the user has: radio-and-bandwidth tests of 2022.

The tests (github.com/mobilebandwidth, Apache-2.0: ``4G.csv.gz``, ``wifi4.csv.gz`` …) were not simultaneous, and hold
one bandwidth each and no round-trip time, DNS time, loss or CQI. Wi-Fi and LTE tests of one city are paired at random,
the twenty cities with the most tests are the places, and what the tests do not hold comes from the generator's models
given their bandwidth; :attr:`Place.real` says which columns are real.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np

from reproductions.bandit.places import FEATURES, PATHS, PLACES, Place, readings

#: How Android says that it does not know.
UNKNOWN = 2147483647
WIFI = {"signal_dbm": "wifi_rssi", "link_speed_mbps": "wifi_linkSpeed"}
LTE = {
    "signal_dbm": "cell_dbm",
    "signal_level": "cell_asuLevel",
    "rsrq_db": "cell_rsrq",
    "snr_db": "cell_rssnr",
}
#: A value of ssRsrp with which most series of 5G begin.
PLACEHOLDER = -44.0
REAL = frozenset({"capacity", *(f"wifi.{name}" for name in WIFI), *(f"lte.{name}" for name in LTE)})


def value(cell: str, placeholder: float | None = None) -> float:
    """Mean of a ``;`` series; NaN where it holds no number. Sentinels, placeholders and words are left out."""
    found = []
    for part in cell.split(";"):
        try:
            number = float(part)
        except ValueError:  # "Added in API level 26", or nothing
            continue
        if math.isfinite(number) and number != UNKNOWN and number != placeholder:
            found.append(number)
    return sum(found) / len(found) if found else math.nan


def _rows(file: Path, text: TextIO) -> Iterator[dict[str, str]]:
    try:
        yield from csv.DictReader(text)
    except (EOFError, zlib.error, csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: {error}; unpack the data again") from error


def _tests(folder: Path, names: tuple[str, ...], columns: dict[str, str]) -> Iterator[tuple[str, float, list[float]]]:
    """City, bandwidth and readings of each test of these files."""
    for name in names:
        file = folder / name
        if not file.exists():
            continue
        with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
            for row in _rows(file, text):
                bandwidth = value(row.get("bandwidth_Mbps") or "")
                placeholder = PLACEHOLDER if "cell_ssRsrp" in row else None
                told = [value(row.get(column) or "", placeholder) for column in columns.values()]
                # Some modems report a received power above that of the sender.
                told = [math.nan if n == "signal_dbm" and v > 0 else v for n, v in zip(columns, told, strict=True)]
                if bandwidth > 0:
                    yield row.get("user_city_id") or "", bandwidth, told


def load_tests(folder: Path, rounds: int, seed: int = 1) -> list[Place]:
    """The twenty cities with the most tests of both kinds, ``rounds`` pairs each."""
    by_city: dict[str, tuple[list[tuple[float, list[float]]], list[tuple[float, list[float]]]]] = defaultdict(
        lambda: ([], [])
    )
    for city, bandwidth, told in _tests(folder, ("wifi4.csv.gz", "wifi5.csv.gz", "wifi6.csv.gz"), WIFI):
        by_city[city][0].append((bandwidth, told))
    for city, bandwidth, told in _tests(folder, ("4G.csv.gz",), LTE):
        by_city[city][1].append((bandwidth, told))
    # A city needs tests of both kinds.
    pairs = {city: min(map(len, kinds)) for city, kinds in by_city.items() if city and all(kinds)}
    cities = sorted(pairs, key=lambda city: (-pairs[city], city))[:PLACES]
    if not cities:
        raise ValueError(f"{folder}: no tests here; expected wifi4.csv.gz, wifi5.csv.gz, wifi6.csv.gz and 4G.csv.gz")
    rng = np.random.default_rng(seed)
    return [_paired(city, by_city[city][0], by_city[city][1], rounds, rng) for city in cities]


def _paired(
    city: str,
    wifi: list[tuple[float, list[float]]],
    lte: list[tuple[float, list[float]]],
    rounds: int,
    rng: np.random.Generator,
) -> Place:
    drawn = [[kind[i] for i in rng.integers(len(kind), size=rounds)] for kind in (wifi, lte)]
    # A test at hundreds of Mbit/s takes long to simulate and decides nothing: a short flow never sees so much.
    capacity = np.clip(np.array([[bandwidth for bandwidth, _ in tests] for tests in drawn]).T, 0.3, 100.0)
    quality = np.log(capacity / np.median(capacity, axis=0))
    rtt = np.array([28.0, 48.0]) * np.exp(-0.25 * quality + 0.15 * rng.normal(size=quality.shape))
    loss = np.clip(np.array([0.004, 0.001]) * np.exp(-quality), 0.0, 0.08)
    context = readings(capacity, rtt, loss, quality, rng)
    for path, columns, tests in zip(PATHS, (WIFI, LTE), drawn, strict=True):
        for index, name in enumerate(columns):
            context[:, FEATURES.index(f"{path}.{name}")] = [told[index] for _, told in tests]
    return Place(city, capacity, rtt, loss, context, REAL)
