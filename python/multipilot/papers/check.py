"""``multipilot paper NAME --check``: what is older than the code, and what a refresh costs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from multipilot.papers.claims import lock
from multipilot.papers.cost import spell
from multipilot.papers.paper import Experiment, Paper, Point
from multipilot.papers.results import KERNEL, SIM, WORLDS
from multipilot.papers.runs import Asked, Runner


def basis(runner: Runner, world: str) -> str:
    """What decides a paper's values in a world: its sources and all scenario files."""
    found = hashlib.sha256(runner.sources[world].encode())
    for file in sorted(runner.scenarios.glob("*.toml")):
        found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:12]


def stale_claims(paper: Paper, runner: Runner) -> list[str]:
    """A line for each world of the lock that is behind, or that has claims without a verdict."""
    if not paper.claims.all or paper.claims.folder is None:
        return [f"paper {paper.name} has no claims yet"]
    kept = lock.read(paper.claims.folder)
    lines = []
    for world, name in WORLDS.items():
        wanted = [c.id for c in paper.claims.all if world in c.worlds]
        entries = kept.get(world, {})
        missing = [one for one in wanted if one not in entries]
        unmeasured = [one for one in wanted if one in entries and not entries[one]["n"] and not _excused(entries[one])]
        now = basis(runner, world)
        old = [one for one in wanted if one in entries and entries[one].get("basis", now) != now]
        if missing:
            lines.append(f"{lock.NAME}, {name}: no verdict on {len(missing)} of {len(wanted)} claims ({missing[0]}, …)")
        if unmeasured:
            lines.append(f"{lock.NAME}, {name}: {len(unmeasured)} of {len(wanted)} claims not measured")
        if old:
            commits = ", ".join(sorted({str(entries[one]["commit"]) for one in old}))
            lines.append(f"{lock.NAME}, {name}: {len(old)} of {len(wanted)} claims are of older sources ({commits})")
    return lines


def _excused(entry: lock.Entry) -> bool:
    return bool(entry["verdict"] == "not testable")


def stale_records(
    runner: Runner, worlds: Sequence[str], experiments: Sequence[Experiment], points: Sequence[Point]
) -> list[str]:
    """A line for each record that is missing or of older sources, and the cost of all in the end."""
    lines = []
    if SIM in worlds:
        costs = {e.key: runner.cost(e) for e in experiments}
        left = [e for e in experiments if costs[e.key].runs]
        lines += [f"simulator: {e.key}: {_state(runner.simulation(e))}, {costs[e.key].runs:,} runs" for e in left]
        if left:
            runs, seconds = sum(costs[e.key].runs for e in left), sum(costs[e.key].seconds for e in left)
            lines.append(f"simulator: {runs:,} runs to do, {spell(seconds)} of simulated time")
    if KERNEL in worlds:
        asked = [(point, runner.point(point)) for point in points]
        left_points = [(point, one) for point, one in asked if not one.done]
        lines += [f"kernel: {point.name}: {_state(one)}, {point.runs} runs" for point, one in left_points]
        if left_points:
            runs = sum(point.runs for point, _ in left_points)
            seconds = sum(runner.longest(point) for point, _ in left_points)
            lines.append(f"kernel: {runs} runs to do, at most {spell(seconds)} of real time")
    return lines


def _state(asked: Asked) -> str:
    older = asked.older()
    if older is None:
        return "not measured"
    return f"stale, measured {older.date} at {older.commit or 'an unknown commit'} in {spell(older.seconds)}"
