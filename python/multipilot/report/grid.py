"""A scenario's grid as lines: the figure that decides over the longest axis, a panel for each combination of others."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from multipilot.report import svg
from multipilot.report.figures import short, valued
from multipilot.report.summary import Goal, Variant, goal
from multipilot.stats import Mean

# More panels than this are a wall; the table below the picture has every cell.
MOST_PANELS = 12
# Width of a panel in inches, with another one beside it and without.
BESIDE, ALONE = 5.1, 10.6
# From this ratio on, equal steps of an axis are ratios.
LOGARITHMIC = 20

_UNIT = {"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True)
class Grid:
    """Means by place: a panel for each value of the other axes, a line for each choice."""

    key: str
    #: As written, in order of size.
    ticks: list[str]
    panels: dict[str, dict[str, list[Mean | None]]]
    choices: list[str]
    #: What is drawn.
    goal: Goal

    @property
    def top(self) -> float:
        """Upper end of the vertical axis, common to all panels."""
        means = [m for lines in self.panels.values() for line in lines.values() for m in line if m]
        ends = [m.mean if math.isnan(m.half) else m.high for m in means if not math.isnan(m.mean)]
        return 1.05 * max(ends, default=1.0) or 1.0


def number(text: str) -> float | None:
    """``50Mbit``, ``20ms``, ``0.01``, ``1.5bdp`` as a number; only the order and the ratio of such values count."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e-?\d+)?)\s*([numkKMGT]?)(i?)(bit|B|s|p|bdp|min|h|%)?", text.strip())
    if not match:
        return None
    if match[4] in ("min", "h"):
        return float(match[1]) * {"min": 60, "h": 3600}[match[4]]
    return float(match[1]) * _UNIT[match[2].replace("K", "k")]


def of(found: Sequence[Variant]) -> Grid | None:
    """The grid to draw; ``None`` where no axis has three numbers or more."""
    placed = [variant for variant in found if variant.place and variant.rows]
    values: dict[str, dict[str, None]] = {}
    for variant in placed:
        for key, value in variant.place.items():
            values.setdefault(key, {})[value] = None
    # By size, however the file lists them.
    order = {v.cell: [number(t) or 0.0 for t in v.place.values()] for v in placed}
    placed.sort(key=lambda variant: order[variant.cell])
    lengths = {k: len(v) for k, v in values.items() if len(v) >= 3 and all(number(text) is not None for text in v)}
    if not lengths:
        return None
    key = max(lengths, key=lambda name: lengths[name])
    ticks = sorted(values[key], key=lambda text: number(text) or 0.0)
    choices = list(dict.fromkeys(variant.choice for variant in placed))
    by = goal(placed)
    panels: dict[str, dict[str, list[Mean | None]]] = {}
    for variant in placed:
        others = ", ".join(f"{k.split('.')[-1]} {v}" for k, v in variant.place.items() if k != key)
        lines = panels.setdefault(others, {choice: [None] * len(ticks) for choice in choices})
        lines[variant.choice][ticks.index(variant.place[key])] = by.of(variant)
    return Grid(key, ticks, panels, choices, by)


def colours(choices: Sequence[str]) -> dict[str, str]:
    return {choice: svg.PATHS[index % len(svg.PATHS)] for index, choice in enumerate(choices)}


def figure(grid: Grid, columns: int = 2, top: float | None = None, width: float = BESIDE) -> Figure:
    """Lines with bands of 95 %; the axis is logarithmic where its ends are far apart. ``width``: of a panel, inches."""
    panels = list(grid.panels.items())[:MOST_PANELS]
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    at = np.array([number(tick) or 0.0 for tick in grid.ticks])
    colour = colours(grid.choices)
    with svg.style():
        drawn = svg.Picture(figsize=(width * columns, 0.5 + 2.6 * rows), layout="constrained")
        axes = drawn.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
        for empty in axes[len(panels) :]:
            empty.set_visible(False)
        for place, (axis, (title, lines)) in enumerate(zip(axes, panels, strict=False)):
            axis.set_title(title or grid.goal.label)
            for index, (choice, means) in enumerate(lines.items()):
                middle = np.array([math.nan if m is None else m.mean for m in means])
                half = np.array([math.nan if m is None else m.half for m in means])
                style = "-" if index < len(svg.PATHS) else (0, (4, 2))
                axis.plot(at, middle, color=colour[choice], ls=style, lw=1.7, marker="o", ms=3.5, mew=0, label=choice)
                axis.fill_between(at, middle - half, middle + half, color=colour[choice], alpha=0.18, lw=0)
                for where, tick, mean in zip(at, grid.ticks, means, strict=True):
                    if mean is not None and not math.isnan(mean.mean):
                        # Larger than the mark, and unseen: for the pointer.
                        (spot,) = axis.plot([where], [mean.mean], "o", ms=11, mew=0, alpha=0, color=colour[choice])
                        svg.tip(spot, f"{choice}, {grid.key} {tick}: {valued(mean)}, {grid.goal.unit}")
            if at[0] > 0 and at[-1] / at[0] > LOGARITHMIC:
                axis.set_xscale("log")
            elif at[0] == 0 and at[-1] / at[1] > LOGARITHMIC:
                axis.set_xscale("symlog", linthresh=at[1])
            axis.set_xticks(at, grid.ticks)
            axis.xaxis.set_minor_locator(NullLocator())
            axis.tick_params(axis="x", length=0, rotation=30 if len("".join(grid.ticks)) > 40 else 0)
            axis.set_ylim(0, top or grid.top)
            axis.yaxis.set_major_locator(MaxNLocator(5))
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
            if place + columns < len(panels):
                axis.tick_params(labelbottom=False)
            else:
                axis.tick_params(labelbottom=True)
                axis.set_xlabel(grid.key)
        if any(grid.panels):
            drawn.supylabel(grid.goal.label, fontsize=8.5, color=svg.MUTED)
        return drawn


def picture(grid: Grid) -> str:
    """One panel a row on a phone, two beside each other on a desk: the page's style sheet chooses. A panel that has no
    other beside it is as wide as two, and scrolls on a phone."""
    said = f"{grid.goal.title} of {', '.join(grid.choices)} over {grid.key}"
    keys = "".join(
        f'<li><i style="background:var(--path-{index % len(svg.PATHS)})"></i>{name}</li>'
        for index, name in enumerate(map(escape, grid.choices))
    )
    singles = []
    kind, width = ("card scroll", ALONE) if len(grid.panels) == 1 else ("card", BESIDE)
    for name, lines in list(grid.panels.items())[:MOST_PANELS]:
        one = Grid(grid.key, grid.ticks, {name: lines}, grid.choices, grid.goal)
        drawn = svg.inline(figure(one, top=grid.top, width=width), f"{said}. {name}")
        singles.append(f'<figure class="{kind}">{drawn}</figure>')
    more = len(grid.panels) - MOST_PANELS
    note = f'<p class="note">{more} more panels are left out; the table has every cell.</p>' if more > 0 else ""
    return f'<ul class="legend">{keys}</ul><div class="grid">{"".join(singles)}</div>{note}'
