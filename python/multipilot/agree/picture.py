"""Simulator against kernel or relay: each cell's ratio with its interval, and both means on equal axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from multipilot.agree.judge import TOLERANCE, Judged, Verdict, Whole
from multipilot.report import svg

LOOK: dict[Verdict, dict[str, Any]] = {
    Verdict.AGREES: {"color": svg.PATHS[0], "marker": "o"},
    Verdict.OFF: {"color": svg.PATHS[4], "marker": "D"},
    Verdict.UNDECIDED: {"color": svg.MUTED, "marker": "o", "mfc": svg.SURFACE},
}
# Differences beyond this are drawn at the edge, with their figure.
EDGE = 40.0


def draw(whole: Whole) -> str:
    """The whole drawing as a stand-alone SVG."""
    measured = whole.measured
    with svg.style():
        figure = Figure(figsize=(11, max(4.2, 1.0 + 0.235 * len(measured))), layout="constrained")
        gaps, means = figure.subplots(1, 2, width_ratios=[1.5, 1])
        _gaps(gaps, measured, whole.world)
        _means(means, measured, whole.world)
        counts = ", ".join(f"{whole.count(verdict)} {verdict.value}" for verdict in Verdict)
        return svg.standalone(figure, f"Simulator against {whole.world} over {len(measured)} scenarios: {counts}")


def _gaps(axes: Axes, measured: list[Judged], world: str) -> None:
    axes.axvspan(-100 * TOLERANCE, 100 * TOLERANCE, color=svg.PATHS[0], alpha=0.08, lw=0)
    axes.axvline(0, color=svg.MUTED, lw=0.9)
    for row, judged in enumerate(measured):
        gap, look = judged.gap, LOOK[judged.verdict]
        middle = 100 * gap.mean
        shown = float(np.clip(middle, -EDGE, EDGE))
        half = 0.0 if math.isnan(gap.half) else 100 * gap.half
        axes.plot(np.clip([middle - half, middle + half], -EDGE, EDGE), [row, row], color=look["color"], lw=1.4)
        axes.plot([shown], [row], ms=5, ls="", **look)
        if shown != middle:
            side = -1 if middle > 0 else 1
            axes.annotate(
                f"{middle:+.0f} %",
                (shown, row),
                xytext=(8 * side, 0),
                textcoords="offset points",
                ha="right" if side < 0 else "left",
                va="center",
                fontsize=8,
                color=look["color"],
            )
    axes.set_title(f"Simulator − {world}, % of the {world}'s goodput, 95 % interval")
    axes.set_yticks(range(len(measured)), [judged.cell.label for judged in measured])
    for label in axes.get_yticklabels():
        label.set(color=svg.INK, fontsize=8.3)
    axes.set_ylim(len(measured) - 0.4, -0.6)
    axes.set_xlim(-EDGE, EDGE)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.0f}" if value else "0"))
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="x", length=0)


def _means(axes: Axes, measured: list[Judged], world: str) -> None:
    values = [v for judged in measured for v in (judged.sim.mean, judged.real.mean) if v > 0]
    low, high = (min(values) * 0.8, max(values) * 1.25) if values else (1.0, 100.0)
    line = np.array([low, high])
    axes.fill_between(line, line * (1 - TOLERANCE), line * (1 + TOLERANCE), color=svg.PATHS[0], alpha=0.08, lw=0)
    axes.plot(line, line, color=svg.MUTED, lw=0.9)
    for verdict in Verdict:
        chosen = [judged for judged in measured if judged.verdict is verdict]
        if chosen:
            x, y = [j.real.mean for j in chosen], [j.sim.mean for j in chosen]
            axes.plot(x, y, ls="", ms=5.5, label=verdict.value, **LOOK[verdict])
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), box_aspect=1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    axes.set_xlabel(f"{world}, Mbit/s")
    axes.set_ylabel("simulator, Mbit/s")
    axes.set_anchor("N")
    axes.set_title("Goodput in both worlds (band: ± 15 %)")
    if measured:
        axes.legend(loc="upper left")
