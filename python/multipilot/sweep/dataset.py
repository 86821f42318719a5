"""The data set: ``OUT/simulation/SCENARIO/KEY.parquet`` and ``OUT/training/…``, one file a cell, so that appending is
atomic and what is done is what is there. Any reader of Parquet takes the folder as one table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from multipilot.files import replacing
from multipilot.record import SAMPLES, SCHEMA_VERSION, TRANSFERS, Record, RecordError
from multipilot.sweep.cells import SIMULATION, TRAINING, Cell
from multipilot.sweep.work import Done

_OF_EVERY = [
    ("key", pa.string()),
    ("scenario", pa.string()),
    ("settings", pa.string()),
    ("seed", pa.int64()),
]
#: Columns are fixed, so that files of many sweeps read as one table. ``settings`` and ``cell`` are JSON.
SIMULATIONS = pa.schema(
    [
        *_OF_EVERY,
        ("variant", pa.string()),
        ("controller", pa.string()),
        ("path_manager", pa.string()),
        ("initial_path", pa.string()),
        ("scheduler", pa.string()),
        ("cell", pa.string()),
        ("goodput_mbps", pa.float64()),
        ("competing_mbps", pa.float64()),
        ("transfer_mbps", pa.float64()),
        ("completion_s", pa.float64()),
        ("completion_median_s", pa.float64()),
        ("completion_p95_s", pa.float64()),
        ("jain", pa.float64()),
        ("transfers", pa.int64()),
        ("unfinished", pa.int64()),
        ("elapsed_s", pa.float64()),
        ("path_mbps", pa.string()),
    ]
)
TRAININGS = pa.schema(
    [
        *_OF_EVERY,
        ("round", pa.int64()),
        ("steps", pa.int64()),
        ("training_reward", pa.float64()),
        ("reward", pa.float64()),
        ("loss", pa.float64()),
        ("rtt_ratio", pa.float64()),
        ("actor", pa.string()),
    ]
)


def file_of(out: Path, cell: Cell) -> Path:
    return out / cell.kind / cell.scenario / f"{cell.key}.parquet"


def is_done(out: Path, cell: Cell) -> bool:
    return file_of(out, cell).exists()


def append(out: Path, cell: Cell, done: Done) -> None:
    """All of a cell or nothing: its file appears under its name when it is complete."""
    target = file_of(out, cell)
    target.parent.mkdir(parents=True, exist_ok=True)
    common = {
        "key": cell.key,
        "scenario": cell.scenario,
        "settings": json.dumps(dict(cell.settings)),
        "seed": cell.seed,
    }
    if done.files:
        common["actor"] = str(_keep(out, cell, done.files))
    schema = SIMULATIONS if cell.kind == SIMULATION else TRAININGS
    rows = [{**row, **common} for row in done.rows]
    table = pa.table({name: [_plain(row.get(name)) for row in rows] for name in schema.names}, schema=schema)
    with replacing(target) as fresh:
        parquet.write_table(table, fresh)


def _keep(out: Path, cell: Cell, files: dict[str, bytes]) -> Path:
    """Actor and curve, in a folder as ``multipilot train`` writes it."""
    folder = out / "actors" / f"{cell.scenario}-{cell.seed}-{cell.key}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder / "actor.json"


def rows(out: Path, cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """Those of these cells that are done, in their order."""
    files = (file_of(out, cell) for cell in cells)
    return _read(file for file in files if file.exists())


def is_one(folder: Path) -> bool:
    return any((folder / kind).is_dir() for kind in (SIMULATION, TRAINING))


def record(out: Path) -> Record:
    """All simulations of a data set as one record: scenarios and choices of the sweep are axes of its grid."""
    found = _read((out / SIMULATION).rglob("*.parquet"))
    if not found:
        raise RecordError(f"{out}: no simulation has ended here; `python -m multipilot.learn.curve` draws trainings")
    several = len({row["scenario"] for row in found}) > 1
    for row in found:
        axes = {"scenario": row["scenario"]} if several else {}
        axes |= {key: value for key, value in row["settings"].items() if key != "controller"}
        # As compare names the variants of a cell, which the report takes apart again.
        row["variant"] += "".join(f" {key}={value}" for key, value in axes.items())
        row["cell"] = {**(row["cell"] or {}), **axes}
    found.sort(key=lambda row: (row["variant"], row["seed"]))
    document = {"schema": SCHEMA_VERSION, "scenario": out.name, "title": f"Sweep {out.name}", "world": "sim"}
    empty = (TRANSFERS.empty_table(), SAMPLES.empty_table())
    return Record({**document, "rows": found}, *empty, path=out)


def _read(files: Iterable[Path]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for file in files:
        try:
            found += parquet.ParquetFile(file).read().to_pylist()
        except (pa.ArrowInvalid, OSError) as error:
            said = str(error).splitlines()[0]
            raise RecordError(
                f"{file}: not a Parquet file ({said}); delete it, and the same sweep runs it again"
            ) from None
    for row in found:
        for name in ("settings", "cell", "path_mbps"):
            if row.get(name) is not None:
                row[name] = json.loads(row[name])
    return found


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else value
