"""A sample of each experiment, kept as a fingerprint: the same sources give the same rows and values, bit for bit.

``claims.lock`` has one for each experiment: all variants in one cell of its grid, one that feeds a value if there is
such a one, first seed. Where sources that a result may depend on have changed, taking the samples again says whether
the results have.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from random import Random
from typing import Any

from multipilot import console
from multipilot.console import RunFailed
from multipilot.papers.claims import lock
from multipilot.papers.paper import Experiment, Paper
from multipilot.papers.results import OWN, SIM, Results, Row
from multipilot.papers.runs import Asked, Runner

Sample = dict[str, str]
#: Of a row: what it is called, and what is over all seeds.
_NAMES = frozenset({"variant", "cell", "ben", "paper", "world", "scenario", "index", "folder"})
_BETWEEN, _IS = "; ", "="


def key(asked: Asked) -> str:
    """Scenarios that differ, or have changed, have others."""
    return f"{asked.scenario}-{asked.subject}"


def fingerprint(found: Any) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:10]


#: Of a sample that feeds no value of the paper: its rows alone can be compared.
NO_VALUES = fingerprint({})


def take(paper: Paper, runner: Runner, experiment: Experiment, cell: str) -> Sample:
    held = dict(part.split(_IS, 1) for part in cell.split(_BETWEEN) if part)
    with runner.once(experiment, held) as results:
        return {"cell": cell, "rows": _of_rows(results.rows), "values": _of_values(paper, results)}


def take_own(paper: Paper) -> Sample:
    """Of what a paper measures beside its scenarios."""
    results = Results()
    assert paper.own is not None
    paper.own.sample(results)
    return {"values": _of_values(paper, results)}


def kept(paper: Paper, runner: Runner, results: Results) -> dict[str, Sample]:
    """For the lock: of all that is measured by the present sources, and what the lock has of the other scenarios.

    Raises RunFailed where a record is not what the present sources give.
    """
    before = lock.read(paper.claims.folder).get(lock.SAMPLES, {}) if paper.claims.folder else {}
    found, other = {}, []
    with console.progress() as progress:
        for experiment in progress.track(paper.experiments, description="samples"):
            asked = runner.simulation(experiment)
            name = key(asked)
            if rows := runner.kept(asked):
                cells = _drawn(asked, rows)
                found[name] = _telling(paper, runner, experiment, [cell for cell, _ in cells])
                if found[name]["rows"] != dict(cells)[found[name]["cell"]]:
                    other.append(str(asked.folder))
            elif name in before:
                found[name] = before[name]
    if other:
        raise RunFailed(f"{', '.join(other)}: not what these sources give; remove it and measure again")
    if paper.own and results.own is not None:
        found[OWN] = take_own(paper)
    elif OWN in before:
        found[OWN] = before[OWN]
    return found


def confirms(paper: Paper, runner: Runner, experiment: Experiment, record: Asked) -> bool:
    """Whether the present sources give what a record has, in one of its cells."""
    rows = runner.kept(record)
    if not rows:
        return False
    cell, recorded = _drawn(record, rows)[0]
    return take(paper, runner, experiment, cell)["rows"] == recorded


def _telling(paper: Paper, runner: Runner, experiment: Experiment, cells: Sequence[str]) -> Sample:
    """Of the first cell that feeds a value: the same rows alone say nothing of how they are read."""
    tried = (take(paper, runner, experiment, cell) for cell in cells)
    first = next(tried)
    return next((one for one in chain([first], tried) if one["values"] != NO_VALUES), first)


def _drawn(asked: Asked, rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The cheaper half of the cells in the order in which they are tried, and the fingerprints of their first seed's
    rows."""
    seed = min(row["seed"] for row in rows)
    cells: dict[str, list[Row]] = {}
    for row in rows:
        if row["seed"] == seed:
            cells.setdefault(_spell(row.get("cell", {})), []).append(row)
    cheap = sorted(cells, key=lambda cell: (sum(map(_cost, cells[cell])), cell))[: (len(cells) + 1) // 2]
    return [(cell, _of_rows(cells[cell])) for cell in Random(asked.subject).sample(cheap, len(cheap))]


def _spell(cell: Mapping[str, Any]) -> str:
    return _BETWEEN.join(f"{name}{_IS}{value}" for name, value in cell.items())


def _cost(row: Row) -> float:
    """Megabits, nearly: what a run takes grows with its packets."""
    return float(row["elapsed_s"]) * (float(row["goodput_mbps"]) + float(row.get("competing_mbps") or 0.0))


def _of_rows(rows: Sequence[Row]) -> str:
    return fingerprint([{name: value for name, value in row.items() if name not in _NAMES} for row in rows])


def _of_values(paper: Paper, results: Results) -> str:
    """Six digits: libraries of numerics may differ in the last ones."""
    return fingerprint({name: f"{one.mean:.6g}" for name, one in paper.values(results, SIM).items() if one.n})
