"""Columns out of the tables of one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.ipc as ipc

from multipilot.papers.results import Row


def columns(row: Row, names: Sequence[str], path: str = "", table: str = "samples") -> dict[str, list[Any]]:
    """Of one path, or of all. Empty where the run's tables were not kept."""
    folder: Path | None = row["folder"]
    file = folder / "runs" / f"{row['index']:04}" / f"{table}.arrow" if folder else None
    if file is None or not file.exists():
        return {}
    with ipc.open_file(file) as reader:
        found = reader.read_all()
    kept = {name: found[name].to_pylist() for name in names}
    if not path:
        return kept
    mine = [one == path for one in found["path"].to_pylist()]
    return {name: [v for v, keep in zip(values, mine, strict=True) if keep] for name, values in kept.items()}
