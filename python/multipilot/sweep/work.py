"""One cell. Runs in a worker, which knows nothing of the data set: it hands its rows back."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multipilot._core import SimulationError
from multipilot.simulation import simulate
from multipilot.sweep.cells import SIMULATION, Cell


@dataclass(frozen=True)
class Done:
    """``files`` are what a training leaves besides its rows, by name; ``error`` says why there is nothing."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    error: str = ""


def run(cell: Cell) -> Done:
    """Errors of the run are a result; whatever else goes wrong is the worker's end."""
    try:
        if cell.kind == SIMULATION:
            return Done(simulate(cell.text, threads=1, telemetry=False).row_dicts)
        return _train(cell)
    except (SimulationError, ValueError, ImportError) as error:
        return Done(error=f"{cell.name}: {error}")


def _train(cell: Cell) -> Done:
    from multipilot.learn.cli import finish
    from multipilot.learn.training import Plan, Trainer

    trainer = Trainer.begin(Plan(**json.loads(cell.text)))
    while trainer.round < trainer.plan.rounds:
        trainer.run_round()
    with tempfile.TemporaryDirectory(prefix="multipilot-sweep-") as folder:
        document = finish(trainer, Path(folder))
        files = {file.name: file.read_bytes() for file in Path(folder).iterdir() if file.is_file()}
    files["curve.json"] = json.dumps(document["rows"], indent=1).encode()
    return Done(document["rows"], files)
