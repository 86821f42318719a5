"""The picture that opens a page: how far each claim's effect is from its bounds, and from the printed value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from multipilot.papers.charts import draw
from multipilot.papers.claims.claim import THEORY, Claim, Claims
from multipilot.papers.claims.judge import Judgement
from multipilot.papers.claims.predicate import Check
from multipilot.papers.claims.table import NAMES
from multipilot.papers.results import KERNEL, RELAY, SIM
from multipilot.report import svg

#: Shape, colour and height beside the line.
_MARKS = {SIM: ("o", svg.PATHS[0], -0.14), KERNEL: ("s", svg.PATHS[1], 0.14), RELAY: ("^", svg.PATHS[2], 0.14)}
#: Margins beyond are drawn at the edge.
_FARTHEST = 30.0
Line = tuple[Claim, Sequence[Judgement]]


def picture(claims: Claims, judged: Sequence[Judgement]) -> str:
    """Empty where nothing was measured. Stale verdicts, and what is computed, are left out."""
    lines: list[Line] = []
    for claim in claims.all:
        mine = [
            j for j in judged if j.claim is claim and j.world != THEORY and _is_sure(j.check) and j.n and not j.stale
        ]
        if mine:
            lines.append((claim, mine))
    if not lines:
        return ""
    panels: list[Margins | Printed] = [Margins("Margin of each verdict", lines)]
    if printed := [line for line in lines if "of" in line[0].test]:
        panels.append(Printed("Measured over printed values", printed))
    said = "How far the effect of each claim is from its bounds, and from the value that the paper prints"
    return draw(panels, said, height=1.0 + 0.26 * len(lines))


def _is_sure(check: Check | None) -> bool:
    return check is not None and check.effect.n > 0 and not math.isnan(check.effect.mean)


def margin(check: Check) -> float:
    """From the mean to the nearer bound, in half widths of the 95 % interval: above 1 the whole interval meets the
    condition, below -1 it misses it. A count without an interval is at the edge.
    """
    half = check.effect.half
    if math.isnan(half):
        return 0.0
    if half == 0:
        return math.copysign(_FARTHEST, check.room)
    return max(-_FARTHEST, min(_FARTHEST, check.room / half))


@dataclass(frozen=True)
class Margins:
    title: str
    lines: Sequence[Line]

    def paint(self, axes: Axes) -> None:
        axes.axvspan(-1, 1, color=svg.GRID, lw=0)
        for y, (_, judged) in enumerate(self.lines):
            for one in judged:
                if one.check:
                    shape, colour, shift = _MARKS[one.world]
                    axes.plot(margin(one.check), y + shift, shape, color=colour, ms=5)
        _name(axes, self.lines)
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(-1.4 * _FARTHEST, 1.4 * _FARTHEST)
        axes.set_xticks([-30, -10, -3, -1, 0, 1, 3, 10, 30], ["−30", "−10", "−3", "−1", "0", "1", "3", "10", "30"])
        axes.set_xlabel("contradicted \u2190  half widths of the interval  \u2192 holds (grey: undecided)")
        _legend(axes, self.lines)


@dataclass(frozen=True)
class Printed:
    """Effects over the middle of what the claim allows, for the claims that name a value: 1 is the paper's."""

    title: str
    lines: Sequence[Line]

    def paint(self, axes: Axes) -> None:
        for y, (claim, judged) in enumerate(self.lines):
            centre = float(claim.test["of"])
            check = next(j.check for j in judged if j.check)
            axes.barh(y, (check.high - check.low) / centre, left=check.low / centre, height=0.62, color=svg.GRID, lw=0)
            for one in judged:
                mean = one.effect
                if mean is None or not mean.n:
                    continue
                half = None if math.isnan(mean.half) else mean.half / centre
                shape, colour, shift = _MARKS[one.world]
                at = mean.mean / centre
                axes.errorbar(at, y + shift, xerr=half, fmt=shape, color=colour, ms=5, capsize=2, lw=1.2)
        axes.axvline(1, color=svg.MUTED, lw=1, ls=(0, (4, 3)))
        _name(axes, self.lines)
        axes.set_xlim(left=0)
        axes.set_xlabel("ours over the printed value (grey: what counts as the same)")


def _name(axes: Axes, lines: Sequence[Line]) -> None:
    axes.set_yticks(range(len(lines)), [claim.id for claim, _ in lines])
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def _legend(axes: Axes, lines: Sequence[Line]) -> None:
    """Above the axes: within them it would hide marks where there are few."""
    axes.legend(
        handles=[
            Line2D([], [], ls="", marker=shape, color=colour, label=NAMES[world])
            for world, (shape, colour, _) in _MARKS.items()
            if any(one.world == world for _, judged in lines for one in judged)
        ],
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=3,
    )
