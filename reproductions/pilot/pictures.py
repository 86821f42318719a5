"""One picture of all cells: a dot each, sorted, with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from multipilot.report import svg
from multipilot.stats import Mean
from reproductions.pilot.judge import BETTER, FAIR, GREEDY, HARMS, LEVEL, SPARE, UNDECIDED, WORSE, YIELDS

COLOURS: Mapping[str, str] = {
    BETTER: svg.PATHS[2],
    LEVEL: svg.INK,
    WORSE: svg.PATHS[1],
    UNDECIDED: svg.MUTED,
    FAIR: svg.INK,
    HARMS: svg.PATHS[1],
    GREEDY: svg.PATHS[4],
    YIELDS: svg.PATHS[3],
    SPARE: svg.PATHS[2],
}
#: What lies beyond is drawn at the edge.
LOWEST, HIGHEST = 0.2, 5.0


@dataclass(frozen=True)
class Dots:
    """Ratios in ascending order on a logarithmic scale, so that twice and half are equally far from 1."""

    title: str
    #: Ratio and verdict.
    dots: Sequence[tuple[Mean, str]]
    y_label: str
    #: Between these a value is as it should be.
    band: tuple[float, float]

    def paint(self, axes: Axes) -> None:
        ranked = sorted((d for d in self.dots if not math.isnan(d[0].mean)), key=lambda d: d[0].mean)
        axes.axhspan(*self.band, color=svg.GRID, lw=0, zorder=0)
        axes.axhline(1, color=svg.MUTED, lw=1, ls=(0, (4, 3)), zorder=1)
        for spot, (ratio, verdict) in enumerate(ranked):
            middle, low, high = np.clip([ratio.mean, ratio.low, ratio.high], LOWEST, HIGHEST)
            axes.plot([spot, spot], [low, high], color=COLOURS[verdict], lw=1.1, alpha=0.6, zorder=2)
            axes.plot(spot, middle, "o", ms=4, mfc=COLOURS[verdict], mec="none", zorder=3)
        axes.set_yscale("log")
        axes.set_ylim(LOWEST, HIGHEST)
        ticks = (0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0)
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_yticks([], minor=True)
        axes.set_xticks([])
        axes.set_xlabel("cells, in ascending order")
        axes.set_ylabel(self.y_label)
        found = {verdict for _, verdict in ranked}
        shown = [v for v in COLOURS if v in found]
        handles = [Line2D([], [], ls="", marker="o", ms=5, mew=0, color=COLOURS[v], label=v) for v in shown]
        if handles:
            axes.legend(handles=handles, ncols=2, loc="upper left")
