"""What a record says of each variant, and what a reader must be warned of."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from multipilot.record import Record
from multipilot.stats import Mean, difference, mean_of


@dataclass(frozen=True)
class Variant:
    name: str
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


@dataclass(frozen=True)
class Verdict:
    sentence: str
    best: str | None


def variants(record: Record) -> list[Variant]:
    """One entry a variant, in the record's order."""
    lost = _lost_by_row(record)
    shares = _bytes_by_row(record)
    found = []
    for name in record.variants:
        rows = [index for index, row in enumerate(record.row_dicts) if row["variant"] == name]
        total: Counter[str] = Counter()
        for index in rows:
            total.update(shares.get(index, {}))
        everything = sum(total.values())
        papers = [_number(record.row_dicts[index].get("paper")) for index in rows]
        found.append(
            Variant(
                name=name,
                rows=rows,
                goodput=_mean(record, rows, "goodput_mbps"),
                completion=_mean(record, rows, "completion_s"),
                competing=_mean(record, rows, "competing_mbps"),
                jain=_mean(record, rows, "jain"),
                ben=_mean(record, rows, "ben"),
                paper=next((value for value in papers if not math.isnan(value)), None),
                lost=mean_of(lost.get(index, math.nan) for index in rows),
                fallbacks=sum(bool(record.row_dicts[index].get("fallback")) for index in rows),
                failed=sum(math.isnan(_number(record.row_dicts[index].get("goodput_mbps"))) for index in rows),
                path_share={path: count / everything for path, count in sorted(total.items())} if everything else {},
            )
        )
    return found


def verdict(found: list[Variant]) -> Verdict:
    """Which variant did better, and whether the runs suffice to say so."""
    ranked = sorted((v for v in found if not math.isnan(v.goodput.mean)), key=lambda v: -v.goodput.mean)
    if not ranked:
        return Verdict("No run came to an end.", None)
    best = ranked[0]
    figure = f"{best.name}: {best.goodput.mean:.3g} Mbit/s"
    if len(ranked) == 1:
        return Verdict(f"{figure}.", best.name)
    second = ranked[1]
    gap = difference(best.goodput, second.goodput)
    ratio = (best.goodput.mean / second.goodput.mean - 1) * 100 if second.goodput.mean else math.inf
    if math.isnan(gap.half):
        return Verdict(
            f"{figure}, {ratio:.0f} % more than {second.name}, in one run each: more seeds would tell luck from merit.",
            best.name,
        )
    if gap.low <= 0:
        equals = [v.name for v in ranked[1:] if not difference(best.goodput, v.goodput).low > 0]
        return Verdict(f"{figure}; these runs do not tell it apart from {_listed(equals)}.", best.name)
    low, high = (100 * bound / second.goodput.mean for bound in (gap.low, gap.high))
    return Verdict(
        f"{figure}, {ratio:.0f} % more than {second.name} (95 % interval {low:.0f} to {high:.0f} %).",
        best.name,
    )


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
    """Connections that keep a controller or protocol of their own: there to be shared with, not under test."""
    own = set()
    for position, connection in enumerate(record.scenario_table.get("connections", [])):
        if "controller" in connection or connection.get("protocol") == "tcp":
            own.add(str(connection.get("name", f"connection-{position}")))
    names = {str(name) for name in record.transfers["connection"].unique().to_pylist()}
    return frozenset() if names <= own else frozenset(own)


def warnings(record: Record, found: list[Variant]) -> list[str]:
    """Lines that a reader has to see before the figures, the gravest first."""
    lines = []
    rows = record.row_dicts
    broken = record.transfers.filter(pc.equal(record.transfers["intact"], False))
    if len(broken):
        lines.append(f"{len(broken)} transfer(s) arrived damaged: the hash of the body was wrong.")
    failed = {v.name: (v.failed, len(v.rows)) for v in found if v.failed}
    if failed:
        lines.append(f"{_count(failed)} failed, left out of the means: {_each(failed)}.")
    fallbacks = {v.name: (v.fallbacks, len(v.rows)) for v in found if v.fallbacks}
    if fallbacks:
        lines.append(f"In {_count(fallbacks)} a connection fell back to plain TCP: {_each(fallbacks)}.")
    dropped = sum(int(row.get("samples_dropped") or 0) for row in rows)
    if dropped:
        lines.append(f"{dropped} telemetry samples were lost on the way: the curves over time have gaps.")
    notes: Counter[str] = Counter(str(note) for row in rows for note in row.get("notes") or [])
    notes.update(str(row["error"]) for row in rows if row.get("error"))
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


def _bytes_by_row(record: Record) -> dict[int, Counter[str]]:
    """Payload bytes of each path in each run, connections under test only."""
    own = competing_connections(record)
    found: dict[int, Counter[str]] = {}
    for transfer in record.transfers.select(["row", "connection", "path_bytes"]).to_pylist():
        if transfer["connection"] in own:
            continue
        counts = found.setdefault(transfer["row"], Counter())
        for entry in transfer["path_bytes"] or []:
            counts[entry["path"]] += entry["bytes"]
    return found


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _count(runs: dict[str, tuple[int, int]]) -> str:
    return "1 run" if (total := sum(hit for hit, _ in runs.values())) == 1 else f"{total} runs"


def _each(runs: dict[str, tuple[int, int]]) -> str:
    return ", ".join(f"{name} {hit} of {of}" for name, (hit, of) in runs.items())
