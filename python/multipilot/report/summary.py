"""What a record says of each variant, and what a reader must be warned of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from multipilot.record import Record
from multipilot.stats import Mean, difference, mean_of

#: In the names of single-path baselines, as ``multipilot compare --ben`` and ``demo`` have them.
ALONE = " [tcp on "


@dataclass(frozen=True)
class Variant:
    """All runs of one variant in one cell of the scenario's grid (``cell`` is empty without a grid)."""

    name: str
    cell: str
    rows: list[int]
    goodput: Mean
    completion: Mean
    competing: Mean
    jain: Mean
    ben: Mean
    paper: float | None
    lost: Mean
    fallbacks: int
    failed: int
    path_share: dict[str, float]
    #: Dotted key and value of each axis of the grid.
    place: dict[str, str]

    @property
    def choice(self) -> str:
        """The name without its cell."""
        rest = self.name
        for key, value in reversed(self.place.items()):
            parts = key.split(".")
            labels = [f" {'.'.join(parts[first:])}={value}" for first in range(len(parts))]
            rest = rest.removesuffix(next((label for label in [*labels, f" {value}"] if rest.endswith(label)), ""))
        return rest


@dataclass(frozen=True)
class Goal:
    """The figure that decides."""

    title: str
    unit: str
    #: Of a record's rows.
    column: str
    shorter: bool

    @property
    def label(self) -> str:
        return f"{self.title}, {self.unit}"

    def of(self, variant: Variant) -> Mean:
        return variant.completion if self.shorter else variant.goodput

    def gap(self, better: Variant, other: Variant) -> tuple[Mean, float]:
        """By how much one is ahead, and the mean that this is a share of."""
        most, least = (other, better) if self.shorter else (better, other)
        return difference(self.of(most), self.of(least)), self.of(least).mean


COMPLETION = Goal("Completion", "s", "completion_s", True)
GOODPUT = Goal("Goodput", "Mbit/s", "goodput_mbps", False)


def goal(found: Sequence[Variant]) -> Goal:
    """As in the table of ``multipilot compare``: completion where transfers have a size, else goodput."""
    return COMPLETION if any(v.completion.n for v in found) else GOODPUT


@dataclass(frozen=True)
class Verdict:
    sentence: str
    best: frozenset[str]


def variants(record: Record) -> list[Variant]:
    """One entry a variant, in the record's order."""
    lost = _lost_by_row(record)
    failures = Counter(str(failure["variant"]) for failure in record.document.get("failed") or [])
    by_name: dict[str, list[int]] = {name: [] for name in [*record.variants, *failures]}
    for index, row in enumerate(record.row_dicts):
        by_name[str(row["variant"])].append(index)
    found = []
    for name, rows in by_name.items():
        cell = (record.row_dicts[rows[0]].get("cell") or {}) if rows else {}
        carried: Counter[str] = Counter()
        for index in rows:
            carried.update(record.row_dicts[index].get("path_mbps") or {})
        everything = sum(carried.values())
        papers = [_number(record.row_dicts[index].get("paper")) for index in rows]
        found.append(
            Variant(
                name=name,
                cell=", ".join(f"{key.split('.')[-1]} {value}" for key, value in cell.items()),
                rows=rows,
                goodput=_mean(record, rows, "goodput_mbps"),
                completion=_mean(record, rows, "completion_s"),
                competing=_mean(record, rows, "competing_mbps"),
                jain=_mean(record, rows, "jain"),
                ben=_mean(record, rows, "ben"),
                paper=next((value for value in papers if not math.isnan(value)), None),
                lost=mean_of(lost.get(index, math.nan) for index in rows),
                fallbacks=sum(bool(record.row_dicts[index].get("fallback")) for index in rows),
                failed=failures[name],
                path_share={path: rate / everything for path, rate in carried.items()} if everything else {},
                place={key: str(value) for key, value in cell.items()},
            )
        )
    return found


def verdicts(found: list[Variant]) -> dict[str, tuple[Verdict, bool]]:
    """Of each cell, and whether its best is clearly so."""
    cells = list(dict.fromkeys(variant.cell for variant in found))
    return {cell: _verdict([variant for variant in found if variant.cell == cell]) for cell in cells}


def verdict(found: list[Variant]) -> Verdict:
    """Which variant did better, and whether the runs suffice to say so."""
    each = verdicts(found)
    cells = list(each)
    if len(cells) == 1:
        return each[cells[0]][0]
    wins: Counter[str] = Counter()
    for cell, (_, clear) in each.items():
        if clear:
            wins.update(v.choice for v in found if v.cell == cell and v.name in each[cell][0].best)
    best = frozenset(name for one, _ in each.values() for name in one.best)
    listed = ", ".join(f"{name} in {count}" for name, count in wins.most_common())
    open_ = len(cells) - sum(wins.values())
    parts = [f"Of {len(cells)} cells, clearly best: {listed}" if listed else f"{len(cells)} cells"]
    if open_:
        parts.append(f"{open_} where these runs do not tell the best from the second")
    return Verdict("; ".join(parts) + ".", best)


def _verdict(found: list[Variant]) -> tuple[Verdict, bool]:
    """Of one cell, and whether the best is clearly so. As in the command's table no fallback and no path alone wins."""
    by = goal(found)
    tested = [v for v in found if ALONE not in v.name]
    counted = [v for v in tested if by.of(v).n and by.of(v).n == len(v.rows) and not v.fallbacks]
    ranked = sorted(counted, key=lambda v: by.of(v).mean * (1 if by.shorter else -1))
    if not ranked:
        return Verdict("No variant has a result that counts.", frozenset()), False
    best = ranked[0]
    names = frozenset({best.name})
    figure = f"{best.name}: {by.of(best).mean:.3g} {by.unit}"
    if len(ranked) == 1:
        return Verdict(f"{figure}.", names), True
    second = ranked[1]
    gap, base = by.gap(best, second)
    more = "faster" if by.shorter else "more"
    ratio = f"{gap.mean / base * 100:.0f} % {more}" if base else f"infinitely {more}"
    if math.isnan(gap.half):
        single = f"{figure}, {ratio} than {second.name}, in one run each: more seeds would tell luck from merit."
        return Verdict(single, names), False
    if gap.low <= 0:
        equals = [v.name for v in ranked[1:] if not by.gap(best, v)[0].low > 0]
        return Verdict(f"{figure}; these runs do not tell it apart from {_listed(equals)}.", names), False
    if not base:
        return Verdict(f"{figure}, the others nothing.", names), True
    low, high = (100 * bound / base for bound in (gap.low, gap.high))
    return Verdict(f"{figure}, {ratio} than {second.name} (95 % interval {low:.0f} to {high:.0f} %).", names), True


def representative_seed(record: Record, found: list[Variant]) -> int | None:
    """The seed whose runs lie nearest to every variant's median goodput, so that the pictures show a usual run."""
    distance: dict[int, list[float]] = {}
    for variant in found:
        goodputs = {index: _number(record.row_dicts[index].get("goodput_mbps")) for index in variant.rows}
        known = [value for value in goodputs.values() if not math.isnan(value)]
        if not known:
            continue
        median = float(np.median(known))
        for index, value in goodputs.items():
            seed = record.row_dicts[index].get("seed")
            if seed is not None and not math.isnan(value):
                distance.setdefault(int(seed), []).append(abs(value - median) / (median or 1.0))
    if not distance:
        return None
    most = max(len(values) for values in distance.values())
    complete = {seed: sum(values) for seed, values in distance.items() if len(values) == most}
    return min(complete, key=lambda seed: (complete[seed], seed))


def competing_connections(record: Record) -> frozenset[str]:
    """Connections that make choices of their own: there to be shared with, not under test."""
    own, all_ = set(), set()
    for position, connection in enumerate(record.scenario_table.get("connections", [])):
        name = str(connection.get("name", f"connection-{position}"))
        all_.add(name)
        if (
            connection.get("protocol") == "tcp"
            or {"controller", "path_manager", "initial_path", "scheduler"} & connection.keys()
        ):
            own.add(name)
    return frozenset() if own == all_ else frozenset(own)


def paths(record: Record, found: list[Variant]) -> list[str]:
    """In the scenario's order, then whatever else the telemetry names."""
    named = list(record.scenario_table.get("paths", {}))
    seen = [str(path) for path in record.samples["path"].unique().to_pylist() if path is not None]
    carried = [path for variant in found for path in variant.path_share]
    return [*(p for p in named if p in {*seen, *carried}), *sorted({*seen, *carried} - set(named))]


def singles(record: Record, found: list[Variant]) -> dict[str, list[float]]:
    """Of each run of each variant the figure that decides."""
    column = goal(found).column
    of = {v.name: [_number(record.row_dicts[index].get(column)) for index in v.rows] for v in found}
    return {name: [value for value in values if not math.isnan(value)] for name, values in of.items()}


def warnings(record: Record, found: list[Variant]) -> list[str]:
    """Lines that a reader has to see before the figures, the gravest first."""
    lines = []
    rows = record.row_dicts
    broken = record.transfers.filter(pc.equal(record.transfers["intact"], False))
    if len(broken):
        lines.append(f"{len(broken)} transfer(s) arrived damaged: the hash of the body was wrong.")
    failed = {v.name: (v.failed, v.failed + len(v.rows)) for v in found if v.failed}
    if failed:
        lines.append(f"{_count(failed)} failed, left out of the means: {_each(failed)}.")
    fallbacks = {v.name: (v.fallbacks, len(v.rows)) for v in found if v.fallbacks}
    if fallbacks:
        lines.append(f"In {_count(fallbacks)} a connection fell back to plain TCP: {_each(fallbacks)}.")
    unfinished = sum(int(row.get("unfinished") or 0) for row in rows)
    if unfinished:
        lines.append(f"{unfinished} transfer(s) did not end within their run and have no completion time.")
    silent = len(rows) - len(record.samples["row"].unique())
    if 0 < silent < len(rows):
        lines.append(f"{silent} of {len(rows)} runs left no telemetry: the curves over time show the others.")
    notes: Counter[str] = Counter(str(note) for row in rows for note in row.get("notes") or [])
    notes.update(str(failure.get("error")) for failure in record.document.get("failed") or [])
    lines += [f"{note} ({count} runs)" if count > 1 else note for note, count in notes.items()]
    lines += [str(note) for note in record.document.get("notes") or []]
    return lines


def _mean(record: Record, rows: list[int], name: str) -> Mean:
    return mean_of(_number(record.row_dicts[index].get(name)) for index in rows)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


def _lost_by_row(record: Record) -> dict[int, float]:
    """Packets marked lost in each run."""
    if not len(record.samples):
        return {}
    last = record.samples.group_by(["row", "transfer", "subflow"]).aggregate([("lost", "max")])
    total = last.group_by("row").aggregate([("lost_max", "sum")])
    return dict(zip(total["row"].to_pylist(), total["lost_max_sum"].to_pylist(), strict=True))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _count(runs: dict[str, tuple[int, int]]) -> str:
    return "1 run" if (total := sum(hit for hit, _ in runs.values())) == 1 else f"{total} runs"


def _each(runs: dict[str, tuple[int, int]]) -> str:
    return ", ".join(f"{name} {hit} of {of}" for name, (hit, of) in runs.items())
