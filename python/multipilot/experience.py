"""Outcomes of connections, as Arrow and Parquet, to train on later: an edge server's devices, or a host's own.

>>> from multipilot import experience
>>> experience.export("/var/lib/multipilot", "experience.parquet")  # doctest: +SKIP
>>> table = experience.load("experience.parquet", "record/")  # doctest: +SKIP

Wherever it comes from (``experience.db`` of a server; the streams that the daemon and ``multipilot run --initial-path
lin-ucb`` write; the ``decisions`` of a record), the columns of ``OUTCOME`` are of the same type and meaning, so
that the same code trains on all of it.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet
import typer

from multipilot.bandit import Judge
from multipilot.console import fail, run, say
from multipilot.record import DECISION, OUTCOME, Record, RecordError

#: ``user_version`` of the databases that this version reads (``FORMAT`` of the server's store).
FORMAT = 1
#: Of a server, and of a host (``crates/record/src/experience.rs``).
DATABASE, STREAMS = "experience.db", "experience"
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
        *OUTCOME,
    ]
)
#: Of a host that chose for itself.
HOST = pa.schema([("ended", pa.timestamp("ms", "UTC")), ("chosen_by", pa.string()), *DECISION])

QUERY = """SELECT seq, received_ms, device, id, location, chosen_by, path, context, throughput, latency
    FROM outcomes WHERE seq > ? ORDER BY seq LIMIT ?"""


class ExperienceError(ValueError):
    """No experience, or none that this version reads; the message says which and how to fix it."""


def read(
    data: str | os.PathLike[str], throughput_mbps: float | None = None, latency_ms: float | None = None
) -> pa.RecordBatchReader:
    """Every outcome of a server's folder ``data`` (or of an ``experience.db``), in the order of acknowledgement; or of
    the folder in which a host keeps what it learnt, in the order of ending. Whoever writes it may be at work.

    A server's rewards are judged as the server does: by thresholds, where it has some (``reward.throughput`` and
    ``reward.latency`` of its configuration), else by the running medians of the location. A host's are those that it
    learnt from.
    """
    place = Path(data)
    own = place if place.name == STREAMS else place / STREAMS
    file = place / DATABASE if place.is_dir() else place
    if own.is_dir() and file.is_file():
        raise ExperienceError(f"{place}: of a server and of a host; give {file} or {own}")
    if own.is_dir():
        if throughput_mbps is not None or latency_ms is not None:
            raise ExperienceError(f"{own}: a host's rewards are those that it learnt from; give no thresholds")
        return pa.RecordBatchReader.from_batches(HOST, _streams(own))
    if not file.is_file():
        raise ExperienceError(
            f"{file}: no such file, nor {own}; give the folder that the server has as `data`, or the daemon as "
            "`bandit.memory`, or ~/.local/state/multipilot"
        )
    [(version,)] = _rows(file, "PRAGMA user_version")
    if version != FORMAT:
        raise ExperienceError(f"{file}: format {version}, this version reads {FORMAT}; update multipilot")
    return pa.RecordBatchReader.from_batches(SCHEMA, _batches(file, throughput_mbps, latency_ms))


def load(*places: str | os.PathLike[str]) -> pa.Table:
    """The columns of ``OUTCOME`` of all these: places that :func:`read` takes, Parquet files, and records."""
    names = [field.name for field in OUTCOME]
    tables = []
    for place in map(Path, places):
        if (place / "result.json").is_file():
            table = Record.load(place).decisions
        elif place.suffix == ".parquet":
            table = parquet.read_table(place)
        else:
            table = read(place).read_all()
        if not set(names) <= set(table.column_names):
            raise ExperienceError(f"{place}: no experience; it lacks {', '.join(set(names) - set(table.column_names))}")
        tables.append(table.select(names).cast(pa.schema(OUTCOME)))
    return pa.concat_tables(tables) if tables else pa.schema(OUTCOME).empty_table()


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
        with parquet.ParquetWriter(half, found.schema, compression="zstd") as writer:
            for batch in found:
                writer.write_batch(batch)
                count += len(batch)
        half.replace(to)
    finally:
        half.unlink(missing_ok=True)
    return count


def contexts(table: pa.Table, features: Sequence[str]) -> npt.NDArray[np.float64]:
    """The column ``features`` as a bandit takes it: one row a connection, NaN for what was not measured.

    ``table`` has the columns of ``OUTCOME``. Readings that are not asked for are left out.
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


def rounds(
    table: pa.Table, arms: Sequence[str], features: Sequence[str]
) -> tuple[npt.NDArray[np.float64], list[int], list[bool]]:
    """What a bandit over these is fitted on: contexts, arms and rewards. Connections over other arms, and those that
    had not ended with their run, are left out.
    """
    table = table.filter(pc.and_(pc.is_in(table["arm"], pa.array(arms, pa.string())), pc.is_valid(table["reward"])))
    chosen = [arms.index(arm) for arm in table["arm"].to_pylist()]
    return contexts(table, features), chosen, table["reward"].to_pylist()


def _streams(folder: Path) -> Iterator[pa.RecordBatch]:
    """As far as each goes: its writer may be at work, or have been cut off in the middle of a line."""
    for file in sorted(folder.glob("*.arrows")):
        try:
            source = file.open("rb")
        except FileNotFoundError:
            continue  # cleared away for newer ones
        with source:
            try:
                for batch in ipc.open_stream(source):
                    yield batch.cast(HOST)
            except (pa.ArrowInvalid, OSError):
                continue


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


@app.command(help="Write the outcomes that an edge server, or the bandit of this host, has kept as one Parquet file.")
def experience(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="folder `data` of a server, or of the bandit of a host")],
    parquet_: Annotated[Path, typer.Option("--parquet", metavar="FILE", help="Parquet file to write")],
    throughput: Annotated[
        float | None, typer.Option(help="reward.throughput of the server, Mbit/s [default: running medians]")
    ] = None,
    latency: Annotated[
        float | None, typer.Option(help="reward.latency of the server, ms [default: running medians]")
    ] = None,
) -> None:
    try:
        say(f"{export(data, parquet_, throughput, latency)} outcomes")
    except (ExperienceError, RecordError, OSError) as error:
        fail(str(error))
    print(parquet_)


def main() -> None:
    run(app, "experience")
