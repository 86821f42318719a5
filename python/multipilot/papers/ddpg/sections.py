"""What the sections share: figures over a swept value, the closed form of MPCC's rate, rows for ``--json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multipilot.papers.charts import Curve, Mark
from multipilot.papers.ddpg.plan import BOLD, COLOURS, CONTROLLERS, DASHED, NAMES, RIVAL_OF, RIVALS
from multipilot.papers.results import KERNEL, SIM, Measure, Results, Row
from multipilot.papers.rsf.table import line
from multipilot.stats import Mean

#: MPCC's constants, rates in Mbit/s (Gilad et al., CoNEXT 2020; ours in controllers/mpcc.h).
ALPHA, BETA = 0.9, 11.35
#: Share of a full packet's bytes on a link that is payload: 1420 of 1500.
PAYLOAD = 1420 / 1500

Values = Sequence[tuple[str, float]]


def resting_rate(loss: float, alpha: float = ALPHA, beta: float = BETA) -> float:
    """X*(L) = (α/(βL))^(1/(1−α)): where d/dX (X^α − βLX) is 0. Of the whole connection, in the utility's unit."""
    return (alpha / (beta * loss)) ** (1 / (1 - alpha)) if loss else float("inf")


def resting_goodput(loss: float, capacity: float) -> float:
    """What arrives of it, Mbit/s of payload; ``capacity`` is that of the connection's paths together."""
    return min(resting_rate(loss), capacity) * (1 - loss) * PAYLOAD


def of_rivals(row: Row) -> float | None:
    """Mean over the single-path connections."""
    theirs = row.get("competing_mbps")
    rivals = max(1, sum(key.startswith("connections.rival") for key in row.get("cell", {})))
    return None if theirs is None else float(theirs) / rivals


def on_path(name: str) -> Measure:
    def read(row: Row) -> float | None:
        value: float | None = row["path_mbps"].get(name)
        return value

    return read


def curves(
    results: Results,
    scenario: str,
    measure: Measure,
    axis: str,
    values: Values,
    controllers: Sequence[str] = CONTROLLERS,
) -> tuple[list[Curve], list[Mark]]:
    """One curve a controller over the axis, with the kernel's points."""
    drawn, marks = [], []
    for controller in controllers:
        found = [(x, results.mean(SIM, scenario, controller, measure, {axis: v})) for v, x in values]
        known = [(x, m) for x, m in found if m.n]
        if known:
            x, y = zip(*known, strict=True)
            style = {"bold": controller in BOLD, "dashed": controller in DASHED}
            drawn.append(Curve(NAMES[controller].split(",")[0], x, y, COLOURS[controller], **style))
        for value, at in values:
            mean = results.mean(KERNEL, scenario, controller, measure, {axis: value})
            if mean.n:
                marks.append(Mark(at, mean, COLOURS[controller], "kernel"))
    return drawn, marks


def swept_rows(
    results: Results, scenario: str, axis: str, values: Values, controllers: Sequence[str] = CONTROLLERS
) -> list[dict[str, Any]]:
    found = []
    for world in (SIM, KERNEL):
        for controller in controllers:
            for value, _ in values:
                found += row(results, world, scenario, controller, {axis: value})
    return found


def row(
    results: Results, world: str, scenario: str, controller: str, cell: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """The figures of one cell, if it was measured."""
    mean = results.mean(world, scenario, controller, "goodput_mbps", cell)
    if not mean.n:
        return []
    entry = {"world": world, "scenario": scenario, **line(controller, mean, None, cell)}
    theirs = results.mean(world, scenario, controller, of_rivals, cell)
    if theirs.n:
        entry["competing_mbps"] = theirs.mean
    if scenario in RIVALS:
        entry["rival"] = RIVAL_OF[controller]
    return [entry]


def say(mean: Mean, digits: int = 1) -> str:
    """A value for a sentence."""
    return f"{mean.mean:.{digits}f}" if mean.n else "(not measured)"


def label(controller: str) -> str:
    return NAMES[controller].replace(", uncoupled", "")
