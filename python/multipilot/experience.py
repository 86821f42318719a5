"""What an edge server's devices lived through, as Arrow and Parquet, to train on later.

>>> from multipilot import experience
>>> experience.export("/var/lib/multipilot", "experience.parquet")  # doctest: +SKIP

Columns that a record's ``decisions`` have too (``arm``, ``features``, ``throughput_mbps``, ``latency_ms``, ``reward``)
are of the same type and meaning, so that the same code trains on both.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
import typer

from multipilot.bandit import Judge
from multipilot.console import fail, say
from multipilot.record import VALUES

#: ``user_version`` of the databases that this version reads (``FORMAT`` of the server's store).
FORMAT = 1
#: Outcomes read at a time: between two reads the server may move its write-ahead log into the database.
TOGETHER = 50_000

SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("received", pa.timestamp("ms", "UTC")),
        ("device", pa.string()),
        ("connection", pa.string()),
        ("location", pa.string()),
        ("chosen_by", pa.string()),
        ("arm", pa.string()),
        ("features", VALUES),
        ("throughput_mbps", pa.float64()),
        ("latency_ms", pa.float64()),
        ("reward", pa.bool_()),
    ]
)

QUERY = """SELECT seq, received_ms, device, id, location, chosen_by, path, context, throughput, latency
    FROM outcomes WHERE seq > ? ORDER BY seq LIMIT ?"""


class ExperienceError(ValueError):
    """No experience, or none that this version reads; the message says which and how to mend it."""


def read(
    data: str | os.PathLike[str], throughput_mbps: float | None = None, latency_ms: float | None = None
) -> pa.RecordBatchReader:
    """Every outcome of the server's folder ``data`` (or of an ``experience.db``), in the order of acknowledgement.

    Rewards are judged as the server does: by thresholds, where it has some (``reward.throughput`` and
    ``reward.latency`` of its configuration), else by the running medians of the location. The server may be at work.
    """
    file = Path(data) / "experience.db" if Path(data).is_dir() else Path(data)
    if not file.is_file():
        raise ExperienceError(f"{file}: no such file; give the folder that the server has as `data`")
    [(version,)] = _rows(file, "PRAGMA user_version")
    if version != FORMAT:
        raise ExperienceError(f"{file}: format {version}, this version reads {FORMAT}; update multipilot")
    return pa.RecordBatchReader.from_batches(SCHEMA, _batches(file, throughput_mbps, latency_ms))


def export(
    data: str | os.PathLike[str],
    to: str | os.PathLike[str],
    throughput_mbps: float | None = None,
    latency_ms: float | None = None,
) -> int:
    """Write what :func:`read` gives as one Parquet file, which is replaced as a whole; returns the number of rows."""
    to, count = Path(to), 0
    half = to.with_name(f".{to.name}.{os.getpid()}")
    found = read(data, throughput_mbps, latency_ms)
    try:
        with parquet.ParquetWriter(half, SCHEMA, compression="zstd") as writer:
            for batch in found:
                writer.write_batch(batch)
                count += len(batch)
        half.replace(to)
    finally:
        half.unlink(missing_ok=True)
    return count


def contexts(table: pa.Table, features: Sequence[str]) -> npt.NDArray[np.float64]:
    """The column ``features`` as a bandit takes it: one row a connection, NaN for what was not measured.

    ``table`` is one of :func:`read` or the ``decisions`` of a record. Readings that are not asked for are left out.
    """
    matrix = np.full((len(table), len(features)), np.nan)
    start = 0
    for lists in table["features"].chunks:
        entries = lists.flatten()
        column = pc.index_in(entries.field("name"), pa.array(features, pa.string()))
        known = np.asarray(column.is_valid())
        row = np.asarray(pc.list_parent_indices(lists))[known] + start
        values = entries.field("value").to_numpy(zero_copy_only=False)
        matrix[row, np.asarray(column.fill_null(0))[known]] = values[known]
        start += len(lists)
    return matrix


def _rows(file: Path, query: str, *values: object) -> list[tuple[Any, ...]]:
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            return connection.execute(query, values).fetchall()
    except sqlite3.Error as error:
        raise ExperienceError(f"{file}: {error}; give the database of a server of this version") from None


def _batches(file: Path, throughput_mbps: float | None, latency_ms: float | None) -> Iterator[pa.RecordBatch]:
    judges: dict[str, Judge] = {}
    last = 0
    while found := _rows(file, QUERY, last, TOGETHER):
        rows = []
        for *head, location, chosen_by, path, context, throughput, latency in found:
            judge = judges.setdefault(location, _judge(throughput_mbps, latency_ms))
            # Where no answer ever came, none came in time.
            reward = judge.judge(throughput, math.inf if latency is None else latency)
            features = [{"name": name, "value": value} for name, value in json.loads(context).items()]
            rows.append((*head, location, chosen_by, path, features, throughput, latency, reward))
        arrays = [pa.array(column, field.type) for field, column in zip(SCHEMA, zip(*rows, strict=True), strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
        last = found[-1][0]


def _judge(throughput_mbps: float | None, latency_ms: float | None) -> Judge:
    if throughput_mbps is None and latency_ms is None:
        return Judge()
    return Judge(throughput_mbps or 0.0, math.inf if latency_ms is None else latency_ms)


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help="Write what an edge server was told as one Parquet file, while it works or not.")
def experience(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="the folder that the server has as `data`")],
    parquet_: Annotated[Path, typer.Option("--parquet", metavar="FILE", help="the file to write")],
    throughput: Annotated[
        float | None, typer.Option(help="the server's reward.throughput, Mbit/s [default: running medians]")
    ] = None,
    latency: Annotated[
        float | None, typer.Option(help="the server's reward.latency, ms [default: running medians]")
    ] = None,
) -> None:
    try:
        say(f"{export(data, parquet_, throughput, latency)} outcomes")
    except (ExperienceError, OSError) as error:
        fail(str(error))
    print(parquet_)


def main() -> None:
    app(prog_name="multipilot experience" if Path(sys.argv[0]).name == "multipilot-experience" else None)
