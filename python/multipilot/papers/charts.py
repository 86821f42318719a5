"""Line charts and bars for papers, in the report's style: ours in full colour, the paper's as hollow marks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from multipilot.papers.results import KERNEL, SIM, WORLDS
from multipilot.report import svg
from multipilot.stats import Mean

#: Name and colour of a variant.
VARIANTS = {
    "tcp": ("TCP, one path", svg.MUTED),
    "lia": ("LIA", svg.PATHS[0]),
    "olia": ("OLIA", svg.PATHS[3]),
    "balia": ("BALIA", svg.PATHS[2]),
    "rsf-db": ("RSF-DB", svg.PATHS[1]),
    "rsf-lb": ("RSF-LB", svg.PATHS[4]),
    "reno": ("Reno, uncoupled", svg.INK),
    "linux-reno": ("Linux' Reno, uncoupled", svg.INK),
    "cubic": ("CUBIC, uncoupled", svg.PATHS[5]),
    "bbr": ("BBR, uncoupled", svg.PATHS[7]),
    "wvegas": ("wVegas", svg.PATHS[6]),
    "ld-mpsp": ("LD-MPSP", svg.PATHS[6]),
    "dalia": ("DALIA (reconstruction)", svg.BAR),
}
NAMES = {variant: name for variant, (name, _) in VARIANTS.items()}
COLOURS = {variant: colour for variant, (_, colour) in VARIANTS.items()}


def short(name: str) -> str:
    """A variant's name without the remark behind its comma."""
    return NAMES[name].split(",")[0]


@dataclass(frozen=True)
class Curve:
    """Means over x with their intervals; ``marks`` are single points of another source (kernel, paper)."""

    label: str
    x: Sequence[float]
    y: Sequence[Mean | float]
    colour: str
    bold: bool = False
    dashed: bool = False
    markers: bool = True


@dataclass(frozen=True)
class Mark:
    x: float
    y: Mean | float
    colour: str
    #: ``kernel`` (filled square) or ``paper`` (hollow diamond).
    kind: str


@dataclass(frozen=True)
class Panel:
    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    marks: Sequence[Mark] = ()
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = True
    #: Vertical lines with a word each, at x.
    rules: Sequence[tuple[float, str]] = field(default_factory=tuple)


@dataclass(frozen=True)
class Bars:
    """One bar a value: groups side by side, ``paper`` as a hollow diamond over its bar, ``kernel`` as a square."""

    title: str
    names: Sequence[str]
    values: Sequence[Mean]
    colours: Sequence[str]
    paper: Sequence[float | None] = ()
    kernel: Sequence[Mean | None] = ()
    low: float = 0.0
    digits: int = 2


def bars_of(
    title: str,
    names: Sequence[str],
    mean: Callable[[str, str], Mean],
    label: Callable[[str], str] = short,
    colours: Mapping[str, str] = COLOURS,
    **style: Any,
) -> Bars:
    """A bar for each variant; ``mean`` takes a variant and a world."""
    sim, kernel = ([mean(name, world) for name in names] for world in (SIM, KERNEL))
    return Bars(title, [label(name) for name in names], sim, [colours[name] for name in names], kernel=kernel, **style)


def curve_of(name: str, x: Sequence[float], y: Sequence[Mean | float], **style: Any) -> Curve:
    """A variant under its name and in its colour."""
    return Curve(NAMES[name], x, y, COLOURS[name], **style)


def _split(values: Sequence[Mean | float]) -> tuple[np.ndarray, np.ndarray]:
    centre = [v.mean if isinstance(v, Mean) else float(v) for v in values]
    half = [0.0 if not isinstance(v, Mean) or math.isnan(v.half) else v.half for v in values]
    return np.array(centre), np.array(half)


def key(kind: str) -> Line2D:
    """Of a legend: what points of the kernel or of the paper look like."""
    shape, fill, word = {"kernel": ("s", svg.MUTED, WORLDS[KERNEL]), "paper": ("D", "none", "the paper")}[kind]
    return Line2D([], [], ls="", marker=shape, mfc=fill, mec=svg.MUTED, ms=6, label=word)


class Picture(Protocol):
    """Anything else that can draw itself."""

    @property
    def title(self) -> str: ...

    def paint(self, axes: Axes) -> None: ...


def draw(panels: Sequence[Panel | Bars | Picture], label: str, height: float = 3.3) -> str:
    """The panels side by side as an inline SVG; ``label`` says it to those who cannot see it; empty without panels."""
    if not panels:
        return ""
    with svg.style():
        figure = Figure(figsize=(5.3 * max(len(panels), 1.35), height), layout="constrained")
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            axes.set_title(panel.title)
            if isinstance(panel, Panel):
                _lines(axes, panel)
            elif isinstance(panel, Bars):
                _bars(axes, panel)
            else:
                panel.paint(axes)
        return svg.inline(figure, label)


def _beside(axes: Axes, text: str, at: tuple[float, float], points: tuple[float, float], **style: Any) -> None:
    """A word, so many points from a place."""
    axes.annotate(text, at, xytext=points, textcoords="offset points", fontsize=8.5, **style)


def _lines(axes: Axes, panel: Panel) -> None:
    for curve in panel.curves:
        y, half = _split(curve.y)
        x = np.asarray(curve.x, dtype=float)
        width = 2.4 if curve.bold else 1.3
        style = (0, (4, 2)) if curve.dashed else "-"
        marker = "o" if curve.markers else ""
        axes.plot(x, y, color=curve.colour, lw=width, ls=style, marker=marker, ms=4, mew=0, label=curve.label, zorder=3)
        if half.any():
            axes.fill_between(x, y - half, y + half, color=curve.colour, alpha=0.15, lw=0, zorder=2)
    for mark in panel.marks:
        (centre,), (half,) = _split([mark.y])
        if mark.kind == "paper":
            axes.plot(mark.x, centre, "D", ms=7, mfc="none", mec=mark.colour, mew=1.4, zorder=5)
        else:
            axes.errorbar(mark.x, centre, yerr=half or None, fmt="s", ms=6, color=mark.colour, capsize=3, zorder=5)
    for at, word in panel.rules:
        axes.axvline(at, color=svg.MUTED, lw=1, ls=(0, (2, 3)))
        _beside(axes, word, (at, 0), (4, 6), xycoords=("data", "axes fraction"), color=svg.MUTED)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    elif panel.from_zero:
        # A wide band of few runs must not squeeze the curves.
        highest = [v for curve in panel.curves for v in _split(curve.y)[0] if not math.isnan(v)]
        highest += [float(v) for mark in panel.marks for v in _split([mark.y])[0]]
        axes.set_ylim(0, 1.35 * max(highest, default=1.0))
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    handles, _ = axes.get_legend_handles_labels()
    handles += [key(kind) for kind in ("kernel", "paper") if any(mark.kind == kind for mark in panel.marks)]
    if handles:
        axes.legend(handles=handles, ncols=2 if len(handles) > 4 else 1)


def _bars(axes: Axes, panel: Bars) -> None:
    values, halves = _split(panel.values)
    spots = range(len(values))
    heights = np.nan_to_num(values) - panel.low
    axes.bar(spots, heights, bottom=panel.low, width=0.62, color=list(panel.colours), lw=0, zorder=2)
    top = panel.low
    for spot, value, half in zip(spots, values, halves, strict=True):
        if math.isnan(value):
            axes.text(spot, panel.low, "not\nmeasured", ha="center", va="bottom", color=svg.MUTED, fontsize=8)
            continue
        if half:
            axes.errorbar(spot, value, yerr=half, color=svg.INK, lw=1.2, capsize=3, zorder=4)
        top = max(top, value + half)
        text = f"{value:.{panel.digits}f}"
        _beside(axes, text, (spot, value + half), (0, 3), ha="center", color=svg.INK)
    paper = {spot: value for spot, value in enumerate(panel.paper) if value is not None}
    kernel = {spot: mean.mean for spot, mean in enumerate(panel.kernel) if mean is not None and mean.n}
    handles = []
    styles: tuple[tuple[str, dict[int, float], float, dict[str, Any]], ...] = (
        ("paper", paper, 0.2, {"marker": "D", "ms": 7, "mfc": "none", "mew": 1.3}),
        ("kernel", kernel, -0.2, {"marker": "s", "ms": 6}),
    )
    for kind, marks, shift, style in styles:
        if marks:
            axes.plot([spot + shift for spot in marks], [*marks.values()], ls="", color=svg.INK, zorder=5, **style)
            handles.append(key(kind))
    top = max([top, *paper.values(), *kernel.values()])
    axes.set_xticks(spots, list(panel.names))
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    axes.set_ylim(panel.low, panel.low + ((top - panel.low) or 1.0) * 1.15)
    if handles:
        axes.legend(handles=handles, ncols=2, loc="upper left")
