"""What the sections share: figures over a swept value, the closed form of MPCC's rate."""

from __future__ import annotations

from collections.abc import Sequence

from multipilot.papers.charts import Curve, Mark
from multipilot.papers.results import KERNEL, SIM, Measure, Results, Row
from reproductions.ddpg.plan import BOLD, COLOURS, CONTROLLERS, DASHED, NAMES

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


def label(controller: str) -> str:
    return NAMES[controller].replace(", uncoupled", "")


def broken(controller: str) -> str:
    """For a narrow bar."""
    return label(controller).replace("-", "-\n")
