"""Distributions for papers: box plots side by side, and one variant's values over another's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from multipilot.papers.charts import key
from multipilot.report import svg


@dataclass(frozen=True)
class Series:
    label: str
    colour: str
    #: One list of values a group.
    values: Sequence[Sequence[float]]
    #: One list of single values a group, drawn as squares: of the kernel.
    kernel: Sequence[Sequence[float]] = ()


@dataclass(frozen=True)
class Boxes:
    """Box plots: the box holds the middle half, the line is the median, whiskers reach 1.5 boxes, dots lie beyond."""

    title: str
    groups: Sequence[str]
    series: Sequence[Series]
    x_label: str
    y_label: str
    #: A line across, such as zero.
    rule: float | None = None
    from_zero: bool = False

    def paint(self, axes: Axes) -> None:
        width = 0.7 / len(self.series)
        for index, series in enumerate(self.series):
            shift = (index - (len(self.series) - 1) / 2) * width
            for group, values in enumerate(series.values):
                if values:
                    axes.boxplot(
                        list(values),
                        positions=[group + shift],
                        widths=width * 0.8,
                        patch_artist=True,
                        boxprops={"facecolor": series.colour, "edgecolor": series.colour, "alpha": 0.75},
                        medianprops={"color": svg.INK, "lw": 1.6},
                        whiskerprops={"color": series.colour},
                        capprops={"color": series.colour},
                        flierprops={"marker": "o", "ms": 2.5, "mfc": series.colour, "mec": "none"},
                        manage_ticks=False,
                    )
            for group, values in enumerate(series.kernel):
                spots = [group + shift] * len(values)
                axes.plot(spots, list(values), "s", ms=6, mfc=series.colour, mec=svg.INK, mew=1.2, zorder=6)
        if self.rule is not None:
            axes.axhline(self.rule, color=svg.MUTED, lw=1, ls=(0, (4, 3)), zorder=1)
        axes.set_xticks(range(len(self.groups)), list(self.groups))
        axes.set_xlim(-0.6, len(self.groups) - 0.4)
        axes.grid(axis="x", visible=False)
        if self.from_zero:
            axes.set_ylim(bottom=0)
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        handles: list[Patch | Line2D] = [Patch(color=s.colour, label=s.label, alpha=0.75) for s in self.series]
        if any(values for s in self.series for values in s.kernel):
            handles.append(key("kernel"))
        axes.legend(handles=handles, ncols=len(handles))


@dataclass(frozen=True)
class Cloud:
    label: str
    colour: str
    points: Sequence[tuple[float, float]]
    kernel: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Scatter:
    """Values of one variant over those of another, with the line on which they are equal."""

    title: str
    clouds: Sequence[Cloud]
    x_label: str
    y_label: str

    def paint(self, axes: Axes) -> None:
        every = [v for c in self.clouds for p in (*c.points, *c.kernel) for v in p if not math.isnan(v)]
        top = 1.06 * max(every, default=1.0)
        axes.plot([0, top], [0, top], color=svg.MUTED, lw=1, ls=(0, (4, 3)), zorder=1)
        for cloud in self.clouds:
            if cloud.points:
                axes.plot(*zip(*cloud.points, strict=True), "o", ms=4, mfc=cloud.colour, mec="none", alpha=0.8,
                          label=cloud.label, zorder=3)  # fmt: skip
            if cloud.kernel:
                axes.plot(*zip(*cloud.kernel, strict=True), "s", ms=6, mfc=cloud.colour, mec=svg.INK, mew=1.2, zorder=5)
        axes.set(xlim=(0, top), ylim=(0, top), aspect="equal", xlabel=self.x_label, ylabel=self.y_label)
        handles, _ = axes.get_legend_handles_labels()
        if any(cloud.kernel for cloud in self.clouds):
            handles.append(key("kernel"))
        if handles:
            axes.legend(handles=handles)
