"""The pictures of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from multipilot.report import series, svg
from multipilot.report.series import Array, Subflow
from multipilot.report.summary import GOODPUT, Variant, goal
from multipilot.stats import Mean

# Beyond this many subflows of one run, single curves are a haze: the sum of each path says more.
MOST_CURVES = 24


@dataclass(frozen=True)
class Limits:
    """Upper ends of the axes, common to all variants so that the eye can compare them."""

    throughput: float
    cwnd: float
    rtt: float
    lost: float
    end: float


def colours(paths: Sequence[str]) -> dict[str, str]:
    return {path: svg.PATHS[index % len(svg.PATHS)] for index, path in enumerate(paths)}


def bars(
    found: Sequence[Variant], best: frozenset[str], values: dict[str, list[float]], paths: Sequence[str]
) -> list[str]:
    """A bar per variant, a picture each for the figure that decides and for the others: they stack on a phone."""
    described = ", ".join(f"{v.name} {v.goodput.mean:.3g} Mbit/s" for v in found)
    drawn = []
    for panel in _panels(found, best, values, paths):
        with svg.style():
            figure = _drawn(found, best, [panel], 4.6)
            drawn.append(f"<figure>{svg.inline(figure, f'{panel[0]} of each variant. Goodput: {described}')}</figure>")
    return drawn


def bars_figure(
    found: Sequence[Variant], best: frozenset[str], values: dict[str, list[float]], paths: Sequence[str]
) -> Figure:
    """The same in one figure."""
    with svg.style():
        return _drawn(found, best, _panels(found, best, values, paths), 10.8)


Drawn = tuple[str, float, Callable[[Axes], None]]


def _panels(
    found: Sequence[Variant], best: frozenset[str], values: dict[str, list[float]], paths: Sequence[str]
) -> list[Drawn]:
    """Title, width and contents."""
    by = goal(found)
    panels: list[Drawn] = [(by.label, 2.2, lambda axes: _means(axes, found, [by.of(v) for v in found], best, values))]
    if by.shorter:
        panels.append((GOODPUT.label, 1.3, lambda axes: _means(axes, found, [v.goodput for v in found], best)))
    if any(not math.isnan(v.competing.mean) for v in found):
        panels.append(
            ("Competing flows, Mbit/s", 1.3, lambda axes: _means(axes, found, [v.competing for v in found], best))
        )
    if len(paths) > 1 and any(v.path_share for v in found):
        panels.append(("Bytes by path, %", 1.3, lambda axes: _shares(axes, found, paths)))
    return panels


def _drawn(found: Sequence[Variant], best: frozenset[str], panels: Sequence[Drawn], width: float) -> Figure:
    figure = svg.Picture(figsize=(width, 0.62 + 0.36 * len(found)), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True, width_ratios=[width for _, width, _ in panels])
    for axes, (title, _, draw) in zip(grid[0], panels, strict=True):
        axes.set_title(title)
        draw(axes)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="x", length=0)
        axes.spines["bottom"].set_visible(False)
    first: Axes = grid[0][0]
    first.set_yticks(range(len(found)), [v.name for v in found])
    first.set_ylim(len(found) - 0.45, -0.55)
    for label, variant in zip(first.get_yticklabels(), found, strict=True):
        label.set(color=svg.INK, fontsize=9.5, fontweight="bold" if variant.name in best else "normal")
    return figure


def _means(
    axes: Axes,
    found: Sequence[Variant],
    means: Sequence[Mean],
    best: frozenset[str],
    runs: dict[str, list[float]] | None = None,
) -> None:
    top = (
        max((m.mean + (0 if math.isnan(m.half) else m.half) for m in means if not math.isnan(m.mean)), default=1.0)
        or 1.0
    )
    for position, (variant, mean) in enumerate(zip(found, means, strict=True)):
        if math.isnan(mean.mean):
            axes.text(top * 0.01, position, "no value", va="center", color=svg.MUTED, fontsize=8.5, style="italic")
            continue
        colour = svg.ACCENT if variant.name in best else svg.BAR
        (bar,) = axes.barh(position, mean.mean, height=0.64, color=colour, linewidth=0)
        said = f"{variant.name}. {axes.get_title('left')}: {valued(mean)}"
        svg.tip(bar, said)
        dots = (runs or {}).get(variant.name, [])
        if len(dots) > 1:
            spread = (
                np.linspace(-0.2, 0.2, len(dots))
                if len(dots) < 60
                else np.tile(np.linspace(-0.2, 0.2, 21), 99)[: len(dots)]
            )
            (marks,) = axes.plot(dots, position + spread, "o", ms=3, color=svg.INK, alpha=0.3, mew=0)
            svg.tip(marks, said)
        edge = mean.mean
        if not math.isnan(mean.half):
            axes.errorbar(mean.mean, position, xerr=mean.half, color=svg.INK, lw=1.3, capsize=3, capthick=1.3)
            edge = max(edge, mean.high, *dots) if dots else max(edge, mean.high)
        axes.annotate(
            short(mean.mean),
            (edge, position),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=svg.INK,
        )
    farthest = max([top, *(value for dots in (runs or {}).values() for value in dots)])
    axes.set_xlim(0, farthest * 1.16)
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _shares(axes: Axes, found: Sequence[Variant], paths: Sequence[str]) -> None:
    colour = colours(paths)
    for position, variant in enumerate(found):
        left = 0.0
        for path in paths:
            share = 100 * variant.path_share.get(path, 0.0)
            (bar,) = axes.barh(position, share, left=left, height=0.64, color=colour[path], linewidth=0)
            svg.tip(bar, f"{variant.name}. {path}: {share:.1f} % of the bytes")
            if share >= 12:
                axes.text(
                    left + share / 2,
                    position,
                    f"{share:.0f}",
                    ha="center",
                    va="center",
                    fontsize=8.5,
                    color=svg.SURFACE,
                )
            left += share
    axes.set_xlim(0, 100)
    axes.xaxis.set_major_locator(MaxNLocator(4))


def limits(runs: Sequence[list[Subflow]], end: float) -> Limits:
    throughput, cwnd, rtt, lost = 0.1, 1.0, 1.0, 1.0
    for flows in runs:
        if not flows:
            continue
        bins = series.edges(flows, end)
        totals = _path_totals([flow for flow in flows if not flow.competing] or flows, bins)
        throughput = max(throughput, *(float(total.max()) for total in totals.values()))
        cwnd = max(cwnd, *(_usual_top(flow.cwnd) for flow in flows))
        rtt = max(rtt, *(_usual_top(flow.srtt_ms) for flow in flows))
        lost = max(lost, *(float(total.max()) for total in _path_lost(flows, bins).values()))
    return Limits(throughput * 1.08, cwnd * 1.08, rtt * 1.08, lost * 1.08, end)


def _usual_top(values: Array) -> float:
    """The greatest value, unless it is a spike beside which all else would lie flat on the axis."""
    return float(min(values.max(), 3 * np.percentile(values, 98)))


def timeline(name: str, flows: list[Subflow], paths: Sequence[str], top: Limits) -> str:
    """One run over time, as a picture of the page."""
    drawn = timeline_figure(flows, paths, top)
    return svg.inline(drawn, f"{name}: throughput, congestion window, RTT and loss of each subflow over time")


def timeline_figure(flows: list[Subflow], paths: Sequence[str], top: Limits) -> Figure:
    """What each subflow carried, its window, its round trip and its losses."""
    colour = colours(paths)
    tested = [flow for flow in flows if not flow.competing]
    curves = flows if len(flows) <= MOST_CURVES else []
    several = len(tested) > len({flow.path for flow in tested})
    bins = series.edges(flows, top.end)
    middle = (bins[:-1] + bins[1:]) / 2
    with svg.style():
        # Margins by hand: finding them costs as much as drawing, and they are the same for every variant.
        figure = svg.Picture(figsize=(5.1, 5.9))
        figure.subplots_adjust(left=0.088, right=0.985, top=0.965, bottom=0.072, hspace=0.36)
        rate, window, delay, loss = figure.subplots(4, 1, sharex=True, height_ratios=[1.5, 1.1, 1.1, 0.8])
        for flow in curves:
            look: dict[str, Any] = {"color": colour[flow.path], "ls": ":" if flow.competing else "-"}
            look |= {"lw": 0.8, "alpha": 0.55} if several else {"lw": 1.5}
            rate.plot(middle, series.while_alive(flow, series.throughput(flow, bins), bins), **look)
            window.plot(*series.thin(flow, flow.cwnd), **look)
            delay.plot(*series.thin(flow, flow.srtt_ms), **look)
        if not curves:
            _haze(window, [(f, f.cwnd) for f in tested], colour, bins)
            _haze(delay, [(f, f.srtt_ms) for f in tested], colour, bins)
        if several:
            for path, total in _path_totals(tested, bins).items():
                rate.plot(middle, total, color=colour[path], lw=1.7)
        for path, floor in _base_rtt(flows).items():
            delay.axhline(floor, color=colour[path], lw=0.8, ls=(0, (1, 2)))
        for path, total in _path_lost(flows, bins).items():
            loss.plot(bins, total, color=colour[path], lw=1.5, drawstyle="steps-post")
        for flow in curves:
            _mark_backup(rate, flow, colour[flow.path])
        for axes, title, upper in (
            (rate, "Throughput, Mbit/s" + (" (thick: sum of each path)" if several else ""), top.throughput),
            (window, "Congestion window, packets", top.cwnd),
            (delay, "Smoothed RTT, ms (dotted: minimum)", top.rtt),
            (loss, "Packets marked lost, so far", top.lost),
        ):
            axes.set_title(title, fontsize=8.8)
            axes.set_ylim(0, upper)
            axes.yaxis.set_major_locator(MaxNLocator(4))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
            axes.tick_params(axis="x", length=0)
        loss.set_xlim(0, top.end)
        loss.set_xlabel("time, s")
        return figure


def _path_totals(flows: Sequence[Subflow], bins: Array) -> dict[str, Array]:
    totals: dict[str, Array] = {}
    for flow in flows:
        part = series.throughput(flow, bins)
        totals[flow.path] = totals[flow.path] + part if flow.path in totals else part
    return totals


def _path_lost(flows: Sequence[Subflow], bins: Array) -> dict[str, Array]:
    totals: dict[str, Array] = {}
    for flow in flows:
        part = np.floor(np.interp(bins, flow.time, flow.lost, left=0.0))
        totals[flow.path] = totals[flow.path] + part if flow.path in totals else part
    return totals


def _base_rtt(flows: Sequence[Subflow]) -> dict[str, float]:
    floors: dict[str, float] = {}
    for flow in flows:
        known = flow.min_rtt_ms[(flow.min_rtt_ms > 0) & (flow.min_rtt_ms < 1e6)]
        if len(known):
            floors[flow.path] = min(floors.get(flow.path, math.inf), float(known.min()))
    return floors


def _haze(axes: Axes, curves: Sequence[tuple[Subflow, Array]], colour: dict[str, str], bins: Array) -> None:
    """Median and middle half over the subflows of each path, in place of too many single curves."""
    for path in dict.fromkeys(flow.path for flow, _ in curves):
        stack = np.array(
            [
                np.interp(bins, flow.time, values, left=np.nan, right=np.nan)
                for flow, values in curves
                if flow.path == path
            ]
        )
        seen = ~np.all(np.isnan(stack), axis=0)
        low, median, high = np.nanpercentile(stack[:, seen], [25, 50, 75], axis=0)
        axes.fill_between(bins[seen], low, high, color=colour[path], alpha=0.25, lw=0)
        axes.plot(bins[seen], median, color=colour[path])


def _mark_backup(axes: Axes, flow: Subflow, colour: str) -> None:
    """A bar under the curves while the subflow was in backup mode."""
    if flow.backup.any():
        axes.fill_between(
            flow.time,
            0,
            0.03,
            where=flow.backup.tolist(),
            color=colour,
            alpha=0.8,
            lw=0,
            transform=axes.get_xaxis_transform(),
        )


def valued(mean: Mean) -> str:
    """A mean and its interval, for people."""
    half = "" if math.isnan(mean.half) else f" ± {short(mean.half)} (95 %)"
    return f"{short(mean.mean)}{half}, {mean.n} {'run' if mean.n == 1 else 'runs'}"


def short(value: float) -> str:
    """Three figures, without noise."""
    if value == 0:
        return "0"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.3g}k" if abs(value) < 1e6 else f"{value / 1e6:.3g}M"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
