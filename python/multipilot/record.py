"""What a comparison leaves behind, as Arrow tables: the same for a folder on disk and for a run simulated just now.

A record folder holds ``result.json`` (the document that ``multipilot compare --json`` prints), ``scenario.toml`` (the
scenario as it was run) and ``runs/NNNN/{transfers,samples,decisions,intervals}.arrow``, where NNNN is the index of the
row.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet

from multipilot import toml
from multipilot.files import replacing

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SCHEMA_VERSION = 1
#: A row without these is none of a comparison.
NEEDED = ("variant", "seed", "goodput_mbps")
#: In the notes of a run whose emulated paths did not keep their times.
BUSY = "this machine is too busy"


class RecordError(ValueError):
    """A record folder that is missing, incomplete or of another version; the message says which and how to fix it."""


class RecordNotFoundError(RecordError, FileNotFoundError):
    """There is no record in the folder."""


def disturbed(row: Mapping[str, Any]) -> list[str]:
    """Why a run measured the load of the machine or plain TCP, and not MPTCP; empty where it did not."""
    notes = [str(note) for note in row.get("notes") or [] if BUSY in str(note)]
    return [*notes, "it fell back to plain TCP"] if row.get("fallback") else notes


def drop_disturbed(folder: Path) -> None:
    """Takes disturbed runs out of a record, so that ``multipilot compare`` with this ``--out`` repeats them alone."""
    file = folder / "result.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    kept = [index for index, row in enumerate(document["rows"]) if not disturbed(row)]
    document["rows"] = [document["rows"][index] for index in kept]
    # An index without its run would be another run's: while they move there is no document, and all is repeated.
    file.unlink()
    for new, old in enumerate(kept):
        if new != old:
            shutil.rmtree(_run(folder, new), ignore_errors=True)
            _run(folder, old).rename(_run(folder, new))
    with replacing(file) as fresh:
        fresh.write_text(json.dumps(document), encoding="utf-8")


def _run(folder: Path, index: int) -> Path:
    """Of the tables of a row."""
    return folder / "runs" / f"{index:04}"


@dataclass(frozen=True, repr=False)
class Record:
    """Rows (one a run), transfers, samples, decisions and intervals (each with the index of its row in ``row``).

    Rates are Mbit/s and times seconds, except where a column's name carries another unit (``srtt_us``).
    """

    document: dict[str, Any]
    transfers: pa.Table
    samples: pa.Table
    #: Where connections were started, and what came of it; empty unless a bandit chose and the record is a folder's.
    decisions: pa.Table = field(default_factory=lambda: DECISIONS.empty_table())
    #: What the agents of learned controllers were asked on the kernel; empty elsewhere.
    intervals: pa.Table = field(default_factory=lambda: INTERVALS.empty_table())
    scenario_text: str = ""
    path: Path | None = field(default=None, compare=False)

    @property
    def rows(self) -> pa.Table:
        """One row a run: variant, controller, path_manager, initial_path, scheduler, seed, goodput_mbps, …"""
        schema = _rows_schema(self.row_dicts)
        columns = {field.name: [_plain(row.get(field.name)) for row in self.row_dicts] for field in schema}
        return pa.table(columns, schema=schema)

    @property
    def row_dicts(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.document["rows"]
        return rows

    @property
    def world(self) -> str:
        return str(self.document.get("world", ""))

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
        scenario = self.document.get("scenario", "")
        return str(scenario.get("name", "") if isinstance(scenario, dict) else scenario)

    @property
    def variants(self) -> list[str]:
        """Names of the variants in the order of the record."""
        return list(dict.fromkeys(str(row["variant"]) for row in self.row_dicts))

    @property
    def scenario_table(self) -> dict[str, Any]:
        """The scenario file as it is written, without defaults; empty where the record has none."""
        try:
            table: dict[str, Any] = toml.loads(self.scenario_text)
        except toml.TOMLDecodeError:
            return {}
        return table

    def __repr__(self) -> str:
        seeds = len({row.get("seed") for row in self.row_dicts})
        cells = len({tuple((row.get("cell") or {}).items()) for row in self.row_dicts})
        counts = [(len(self.variants), "variant"), (seeds, "seed"), (len(self.row_dicts), "run")]
        if cells > 1:
            # Each cell of a grid has variants of its own name.
            counts[0] = (len(self.variants) // cells, "variant")
            counts.insert(0, (cells, "cell"))
        said = ", ".join(f"{count} {noun}{'s' * (count != 1)}" for count, noun in counts)
        where = f", {self.path}" if self.path else ""
        return f"<Record {self.scenario or 'without a name'} ({self.world}): {said}{where}>"

    def _repr_html_(self) -> str:
        from multipilot.report import notebook

        return notebook.table(self)

    def plot(self, variant: str | None = None) -> Figure:
        """The report's picture as a Matplotlib figure: all variants, as bars or over the axis of a grid; with a
        variant's name, the subflows of its most usual run over time.
        """
        from multipilot.report import notebook

        return notebook.plot(self, variant)

    def to_pandas(self) -> dict[str, pd.DataFrame]:
        """The tables as pandas frames; needs ``pip install 'multipilot[pandas]'``."""
        return {name: getattr(self, name).to_pandas() for name in ("rows", *TABLES)}

    @classmethod
    def load(cls, folder: str | Path) -> Record:
        """Read a record folder. Runs without telemetry (still under way, or failed) have no transfers and samples."""
        folder = Path(folder)
        document = _read_document(folder)
        parts: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
        for index in range(len(document["rows"])):
            for name, tables in parts.items():
                file = _run(folder, index) / f"{name}.arrow"
                if file.exists():
                    tables.append(with_row(_read_arrow(file), index))
        scenario = folder / "scenario.toml"
        return cls(
            document=document,
            **{name: concat(parts[name], schema) for name, schema in TABLES.items()},
            scenario_text=scenario.read_text(encoding="utf-8", errors="replace") if scenario.exists() else "",
            path=folder,
        )

    def save(self, folder: str | Path) -> Path:
        """Write the record as a folder that ``Record.load`` and ``multipilot report`` read."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name in TABLES:
            for index, table in split_rows(getattr(self, name), len(self.row_dicts)):
                if name in OPTIONAL and not len(table):
                    continue
                file = _run(folder, index) / f"{name}.arrow"
                file.parent.mkdir(parents=True, exist_ok=True)
                with ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)
        (folder / "scenario.toml").write_text(self.scenario_text, encoding="utf-8")
        (folder / "result.json").write_text(json.dumps(self.document, indent=1), encoding="utf-8")
        return folder

    def to_parquet(self, folder: str | Path) -> list[Path]:
        """Write each table as one Parquet file, decisions and intervals only if there are some; returns the paths."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for name in ("rows", *TABLES):
            if name in OPTIONAL and not len(getattr(self, name)):
                continue
            files.append(folder / f"{name}.parquet")
            parquet.write_table(getattr(self, name), files[-1], compression="zstd")
        return files


def with_row(table: pa.Table, index: int) -> pa.Table:
    """The table with its run's index in front."""
    return table.add_column(0, ROW, pa.array([index] * len(table), ROW.type))


def concat(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    if not tables:
        return schema.empty_table()
    return pa.concat_tables(tables, promote_options="permissive")


def split_rows(table: pa.Table, count: int) -> list[tuple[int, pa.Table]]:
    import pyarrow.compute as pc

    return [(index, table.filter(pc.equal(table["row"], index)).drop_columns(["row"])) for index in range(count)]


def _read_document(folder: Path) -> dict[str, Any]:
    file = folder / "result.json"
    if folder.is_file():
        meant = f", {folder.parent}" if folder.name == file.name else " that `multipilot compare --out` wrote"
        raise RecordError(f"{folder}: is a file; give the folder{meant}")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecordNotFoundError(
            f"{folder}: no result.json here; give the folder that `multipilot compare --out` wrote"
        ) from None
    except (OSError, ValueError) as error:
        raise RecordError(f"{file}: {error}; run the comparison again with another --out") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA_VERSION:
        found = document.get("schema") if isinstance(document, dict) else None
        raise RecordError(f"{file}: schema {found!r}, this version reads {SCHEMA_VERSION}; update multipilot")
    rows = document.get("rows")
    if not isinstance(rows, list):
        raise RecordError(f"{file}: no rows; run the comparison again with another --out")
    for number, row in enumerate(rows):
        missing = [key for key in NEEDED if not isinstance(row, dict) or key not in row]
        if missing:
            raise RecordError(f"{file}: row {number} has no {missing[0]}; run the comparison again with another --out")
    return document


def _read_arrow(file: Path) -> pa.Table:
    try:
        with pa.memory_map(str(file)) as source:
            table = ipc.open_file(source).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise RecordError(
            f"{file}: not an Arrow IPC file ({error}); run the comparison again with another --out"
        ) from None
    return _plain_text(table)


def _plain_text(table: pa.Table) -> pa.Table:
    """Dictionary-encoded text as plain text, so that tables of different runs join."""
    for position, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            plain = table.column(position).cast(column.type.value_type)
            table = table.set_column(position, pa.field(column.name, column.type.value_type), plain)
    return table


def _plain(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


def _rows_schema(rows: list[dict[str, Any]]) -> pa.Schema:
    """Numbers stay numbers in a column whose first value is null, and tables without entries stay tables."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.schema(
        [pa.field(name, _kind(name, [row[name] for row in rows if row.get(name) is not None])) for name in names]
    )


def _kind(name: str, values: list[Any]) -> pa.DataType:
    if name in FLOAT_COLUMNS:
        return pa.float64()
    if any(isinstance(value, dict) for value in values):
        inner = [item for value in values for item in value.values()]
        return pa.map_(pa.string(), pa.string() if not inner or isinstance(inner[0], str) else pa.float64())
    if any(isinstance(value, list) for value in values):
        return pa.list_(pa.string())
    if any(isinstance(value, float) for value in values):
        return pa.float64()
    return pa.infer_type(values) if values else pa.null()


FLOAT_COLUMNS = frozenset(
    {
        "goodput_mbps",
        "completion_s",
        "completion_median_s",
        "completion_p95_s",
        "transfer_mbps",
        "competing_mbps",
        "jain",
        "ben",
        "paper",
        "elapsed_s",
    }
)

ROW = pa.field("row", pa.int32())

TRANSFERS = pa.schema(
    [
        ROW,
        ("connection", pa.string()),
        ("id", pa.uint32()),
        ("multipath", pa.bool_()),
        ("fallback", pa.bool_()),
        ("start_s", pa.float64()),
        ("end_s", pa.float64()),
        ("bytes", pa.uint64()),
        ("intact", pa.bool_()),
        ("window_overruns", pa.uint64()),
        ("path_bytes", pa.list_(pa.struct([("path", pa.string()), ("bytes", pa.uint64())]))),
    ]
)

SAMPLES = pa.schema(
    [
        ROW,
        ("time_s", pa.float64()),
        ("transfer", pa.uint32()),
        ("subflow", pa.uint32()),
        ("path", pa.string()),
        ("cwnd", pa.uint32()),
        ("ssthresh", pa.uint32()),
        ("srtt_us", pa.uint32()),
        ("min_rtt_us", pa.uint32()),
        ("delivered_bytes", pa.uint64()),
        ("in_order_bytes", pa.uint64()),
        ("lost", pa.uint32()),
        ("pacing_rate", pa.uint64()),
        ("backup", pa.bool_()),
    ]
)

#: What was known of each path, or what each was ranked by.
VALUES = pa.list_(pa.struct([("name", pa.string()), ("value", pa.float64())]))
#: What a connection was started on, by what was known, and what came of it: alike in every world.
OUTCOME = [
    pa.field("arm", pa.string()),
    pa.field("features", VALUES),
    pa.field("throughput_mbps", pa.float64()),
    pa.field("latency_ms", pa.float64()),
    pa.field("reward", pa.bool_()),
]
#: Of a run, and of a host.
DECISION = [
    pa.field("transfer", pa.uint32()),
    pa.field("time_s", pa.float64()),
    pa.field("policy", pa.string()),
    pa.field("explored", pa.bool_()),
    pa.field("probability", pa.float64()),
    pa.field("scores", VALUES),
    *OUTCOME,
]
DECISIONS: pa.Schema = pa.schema([ROW, *DECISION])

#: One monitor interval of a subflow under a learned controller.
INTERVALS: pa.Schema = pa.schema(
    [
        ROW,
        ("time_s", pa.float64()),
        ("transfer", pa.uint32()),
        ("subflow", pa.uint32()),
        ("path", pa.string()),
        ("serial", pa.uint64()),
        ("rate", pa.uint64()),
        ("mss", pa.uint64()),
        ("delivered", pa.uint64()),
        ("lost", pa.uint64()),
        ("elapsed_us", pa.uint64()),
        ("rtt_us", pa.uint64()),
        ("min_rtt_us", pa.uint64()),
        ("others", pa.uint64()),
        ("answer", pa.uint64()),
        ("delay_us", pa.uint64()),
    ]
)

TABLES = {"transfers": TRANSFERS, "samples": SAMPLES, "decisions": DECISIONS, "intervals": INTERVALS}
#: Without a file where they are empty.
OPTIONAL = ("decisions", "intervals")
